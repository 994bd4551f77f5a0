# SPDX-License-Identifier: Apache-2.0
"""denizen: actors that live in a resident program on the GPU, or on CPU threads.

    import denizen

    Tick = denizen.message("Tick", [("n", "u4")])
    Ask = denizen.message("Ask")
    Total = denizen.message("Total", [("sum", "u8")])

    counting = denizen.Program(
        '''
        struct Counter {
            uint64_t sum = 0;
            void on(const Tick& m, auto&) { sum += m.n; }
            void on(const Ask&, auto& ctx) { ctx.reply(Total{sum}); }
        };
        ''',
        actors=["Counter"],
        messages=[Tick, Ask, Total],
    )

    with denizen.Runtime(counting) as rt:
        (counter,) = rt.spawn("Counter")
        rt.send(counter, Tick(n=5))
        print(rt.ask(counter, Ask())["sum"])

docs/tutorial.md goes on from here.
"""

from __future__ import annotations

import logging as _logging

from denizen import _core
from denizen.arena import Arena, ArenaFault, ArenaLeak, ArenaStats, FaultKind
from denizen.buffer import Buffer
from denizen.device import gpu_problem
from denizen.errors import (
    ArgumentError,
    ClosedError,
    CompileError,
    DeadError,
    DeadlineError,
    DenizenError,
    DeviceError,
    ExhaustedError,
    FailedError,
    MessageError,
    MissingPackageError,
    NoActorError,
    RingFullError,
    SnapshotError,
    StaleBufferError,
    StuckError,
    TooLargeError,
    from_code,
)
from denizen.life import DOWN, HOST, ActorStatus, DeadLetter
from denizen.message import ADDRESS, BUFFER, MessageType, message
from denizen.program import Program, get_include
from denizen.runtime import Received, Runtime

_core._error = from_code
# Silent until somebody sets a level and a handler (docs/observe.md).
_logging.getLogger("denizen").addHandler(_logging.NullHandler())

__version__ = "0.2.0"

__all__ = [
    "ADDRESS",
    "BUFFER",
    "DOWN",
    "HOST",
    "ActorStatus",
    "Arena",
    "ArenaFault",
    "ArenaLeak",
    "ArenaStats",
    "ArgumentError",
    "Buffer",
    "ClosedError",
    "CompileError",
    "DeadError",
    "DeadLetter",
    "DeadlineError",
    "DenizenError",
    "DeviceError",
    "ExhaustedError",
    "FailedError",
    "FaultKind",
    "MessageError",
    "MessageType",
    "MissingPackageError",
    "NoActorError",
    "Program",
    "Received",
    "RingFullError",
    "Runtime",
    "SnapshotError",
    "StaleBufferError",
    "StuckError",
    "TooLargeError",
    "get_include",
    "gpu_problem",
    "message",
]
