# SPDX-License-Identifier: Apache-2.0
"""How a program is started: what it is made of, its options, and the code that it begins with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from denizen import _core
from denizen.actor import ActorType
from denizen.device import Device, capability, opened_ahead
from denizen.errors import ArgumentError, NoFitError
from denizen.program import Program
from denizen.quick import Exchange, start_of


def program_of(given: Program | ActorType | Sequence[ActorType]) -> Program:
    """Of an actor type, or of several: the program of these."""
    if isinstance(given, Program):
        return given
    if isinstance(given, ActorType | type | str):
        actors = [given]
    elif isinstance(given, Sequence) and len(given) > 0:
        actors = list(given)
    else:
        what = "an empty list" if isinstance(given, Sequence) else repr(given)
        raise ArgumentError(f"{what} is no program: give a denizen.Program, an actor or several")
    return Program(actors=actors, name=" and ".join(getattr(a, "name", str(a)) for a in actors))


_SIZES = (
    "host_ring_slots",
    "inbox_slots",
    "local_slots",
    "near_slots",
    "urgent_slots",
    "outbox_slots",
    "egress_slots",
    "stash_slots",
    "watch_slots",
    "spawn_room",
    "timer_slots",
    "task_slots",
    "subscriptions",
    "dead_letter_slots",
    "trace_slots",
    "asks",
    "max_actors",
    "state_bytes",
    "arena_bytes",
    "buffers",
    "pool_bytes",
)


def options_of(
    given: Mapping[str, int | str | None], sizes: dict[str, int]
) -> dict[str, int | str]:
    """Checks what only this side knows: names, and that nothing is cut off on its way to C++."""
    for name in sizes:
        if name not in _SIZES:
            raise ArgumentError(f'no option is called "{name}"; sizes are {", ".join(_SIZES)}')
    options = {k: v for k, v in {**given, **sizes}.items() if v is not None}
    for name, value in options.items():
        least = 1 if name in given else 0
        most = 2**48 if name in ("state_bytes", "arena_bytes", "pool_bytes") else 2**32 - 1
        if not isinstance(value, int | np.integer) or not least <= value <= most:
            raise ArgumentError(f"{name} = {value!r}; use a whole number from {least} to {most}")
    return {name: int(value) for name, value in options.items()}


def started(
    program: Program, where: Device, options: dict[str, int | str], quick: bool
) -> tuple[_core.Runtime, Exchange | None]:
    """The program, running; with what will give it other code, if it started quickly."""
    on_gpu = where.on_gpu

    def run(image: _core.Image) -> _core.Runtime:
        return _core.Runtime(image, on_gpu, where.first, options)

    with opened_ahead(where, mapped=options.get("mapped") != 0):
        if not quick:
            image = program.compile_gpu(capability(where)) if on_gpu else program.compile_cpu()
            return run(image), None
        image, background = start_of(program, capability(where))
        if background is None:
            return run(image), None
        try:
            core = run(image)
        except NoFitError:
            # The quick code leaves room for any code. The optimised code may do with less.
            return run(program.compile_gpu(capability(where))), None
        return core, Exchange(core, program, background)
