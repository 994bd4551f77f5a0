# SPDX-License-Identifier: Apache-2.0
"""A rank as handlers and tasks know it: by the place of what its device knows of it."""

from __future__ import annotations

from typing import Any

from denizen import _core, tasks
from denizen.buffer import Buffer, around
from denizen.errors import ArgumentError
from denizen.handlers.interpreter.context import missing_ranks
from denizen.runtime import Runtime


def buffer(rank: _core.Group, ordinal: int, owner: Any, runtime: Runtime) -> Buffer:
    """See Group.buffer(); ``ordinal``: the rank's GPU."""
    if isinstance(runtime, tasks.Runtime):
        raise ArgumentError(
            "a program of tasks alone has no buffers; give its tasks Group.address(runtime), in a "
            "field of type np.uint64"
        )
    core = runtime._native("buffers")
    nodes = int(runtime.description["nodes"])
    _check(rank, ordinal, runtime.gpu, nodes)
    place = None if runtime.gpu is None else ordinal
    return around(core, rank.address, rank.reference_bytes, place, owner)


def address(rank: _core.Group, ordinal: int, runtime: tasks.Runtime) -> int:
    """See Group.address()."""
    if not isinstance(runtime, tasks.Runtime):
        raise ArgumentError(
            "a program of actors takes Group.buffer(runtime), in a field of type denizen.BUFFER"
        )
    where = runtime.where
    if where.interpreted:
        raise missing_ranks()
    _check(rank, ordinal, where.first if where.on_gpu else None, 1)
    return rank.address


def _check(rank: _core.Group, ordinal: int, first: int | None, nodes: int) -> None:
    """Whether a program on so many GPUs, or on CPU threads, reaches the rank."""
    if (first is not None) != rank.on_gpu:
        where = ("CPU threads", "GPUs")
        raise ArgumentError(
            f"the group's ranks are {where[rank.on_gpu]} and the program runs on "
            f"{where[first is not None]}; start both on the same"
        )
    if first is not None and not first <= ordinal < first + nodes:
        last = first + nodes - 1
        on = f"GPU {first}" if nodes == 1 else f"GPUs {first} to {last}"
        raise ArgumentError(
            f"rank {rank.rank} is GPU {ordinal} and the program runs on {on}; start it with "
            f'device="gpu:{ordinal}"'
        )
