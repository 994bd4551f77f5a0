# SPDX-License-Identifier: Apache-2.0
"""denizen: actors that live in a resident program on the GPU, or on CPU threads.

    import denizen
    import numpy as np

    @denizen.message
    class Tick:
        n: np.uint32

    @denizen.message
    class Ask:
        pass

    @denizen.message
    class Total:
        sum: np.uint64

    @denizen.actor
    class Counter:
        sum: np.uint64 = 0

        def on_tick(self, m: Tick):
            self.sum += m.n

        def on_ask(self, m: Ask, ctx):
            ctx.reply(Total(self.sum))

    with denizen.Runtime(Counter) as rt:
        (counter,) = rt.spawn(Counter)
        rt.send(counter, Tick(5))
        print(rt.ask(counter, Ask())["sum"])

docs/tutorial.md goes on from here.
"""

from __future__ import annotations

import logging as _logging
from typing import TYPE_CHECKING as _TYPE_CHECKING

from denizen import _core
from denizen.actor import ActorType, actor
from denizen.arena import Arena, ArenaFault, ArenaLeak, ArenaStats, FaultKind
from denizen.buffer import Buffer
from denizen.compilers import get_include
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
    HostLostError,
    MessageError,
    MissingPackageError,
    NoActorError,
    NoFitError,
    RingFullError,
    SnapshotError,
    StaleBufferError,
    StuckError,
    TooLargeError,
    from_code,
)
from denizen.fields import record
from denizen.life import DOWN, HOST, NOWHERE, TASK_FAILED, ActorStatus, DeadLetter, ListedActor
from denizen.message import ADDRESS, BUFFER, MessageType, message
from denizen.messaging import Received
from denizen.program import Program
from denizen.runtime import Runtime
from denizen.task_type import task

if _TYPE_CHECKING:
    from denizen import infer as infer
    from denizen.cluster import Cluster, RayPlacement
else:

    def __getattr__(name: str) -> object:
        """Imported when they are used: a cluster brings sockets and JSON, infer its importers."""
        if name in ("Cluster", "RayPlacement"):
            from denizen import cluster  # noqa: PLC0415

            return getattr(cluster, name)
        if name == "infer":
            import denizen.infer  # noqa: PLC0415

            return denizen.infer
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


_core._error = from_code
# Silent until somebody sets a level and a handler (docs/observe.md).
_logging.getLogger("denizen").addHandler(_logging.NullHandler())

__version__ = "0.2.0"

__all__ = [
    "ADDRESS",
    "BUFFER",
    "DOWN",
    "HOST",
    "NOWHERE",
    "TASK_FAILED",
    "ActorStatus",
    "ActorType",
    "Arena",
    "ArenaFault",
    "ArenaLeak",
    "ArenaStats",
    "ArgumentError",
    "Buffer",
    "ClosedError",
    "Cluster",
    "CompileError",
    "DeadError",
    "DeadLetter",
    "DeadlineError",
    "DenizenError",
    "DeviceError",
    "ExhaustedError",
    "FailedError",
    "FaultKind",
    "HostLostError",
    "ListedActor",
    "MessageError",
    "MessageType",
    "MissingPackageError",
    "NoActorError",
    "NoFitError",
    "Program",
    "RayPlacement",
    "Received",
    "RingFullError",
    "Runtime",
    "SnapshotError",
    "StaleBufferError",
    "StuckError",
    "TooLargeError",
    "actor",
    "get_include",
    "gpu_problem",
    "message",
    "record",
    "task",
]
