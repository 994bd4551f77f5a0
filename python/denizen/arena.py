# SPDX-License-Identifier: Apache-2.0
"""Arenas: memory from which kernels allocate on the device."""

from __future__ import annotations

import enum
from typing import NamedTuple

from denizen import _core
from denizen.device import parse_device
from denizen.errors import ArgumentError, DeviceError
from denizen.shown import Shown
from denizen.values import whole


class ArenaStats(NamedTuple):
    """What an arena holds; sizes in bytes."""

    bytes: int
    #: In pages that serve no size.
    free_bytes: int
    #: In live blocks, as rounded up to their sizes.
    live_bytes: int
    live_blocks: int
    #: Requests that found no room.
    failed: int
    #: Calls of deallocate() with what was no live block.
    refused: int
    #: Pages that one size gave back, for any other.
    moved: int


class FaultKind(enum.Enum):
    """What a guarded arena found."""

    DOUBLE_FREE = 1
    FOREIGN = 2
    OVERRUN = 3


class ArenaFault(NamedTuple):
    """One misuse of a guarded arena."""

    kind: FaultKind
    #: Of the allocation, where that is known, else 0.
    tag: int
    #: That was given to deallocate().
    address: int


class ArenaLeak(NamedTuple):
    """The live blocks of one tag; ``bytes`` as they were asked for."""

    tag: int
    blocks: int
    bytes: int


class Arena(Shown):
    """Memory from which kernels and handlers allocate blocks of 16 bytes up to all of it.

    In CUDA C++, with `denizen.get_include()` as include folder and `#include
    <denizen/memory/arena/ref.hpp>`, a kernel takes a `denizen::ArenaRef` by value, for which
    `numpy.uint64(arena.ref)` is the argument: `void* p = arena.allocate(bytes)`, null if there is
    no room, and `arena.deallocate(p)`.

    Args:
        nbytes: rounded down to 32 KiB, at least 512 KiB; 1.7 % more is taken beside it.
        device: "auto" (the first GPU, else the CPU), "cpu", "gpu" or "gpu:N".
        guarded: 40 bytes more for each block, by which faults() and leaks() tell who misused it.

    Raises ArgumentError, ExhaustedError where there is not as much memory, DeviceError.
    """

    def __init__(self, nbytes: int, device: str = "auto", *, guarded: bool = False) -> None:
        where = parse_device(device)
        if where.nodes != 1 or where.threads is not None:
            raise ArgumentError(f'an arena lies on one device, not on "{device}"')
        if where.on_gpu and _core.gpu_count() <= where.first:
            raise DeviceError(
                f'there is no GPU {where.first}: {_core.gpu_problem()}; use device="cpu"'
            )
        nbytes = whole("nbytes", nbytes, 2**63 - 1)
        self.on_gpu = where.on_gpu
        self._nbytes, self._where = nbytes, f"gpu:{where.first}" if where.on_gpu else "the CPU"
        self._core = _core.Arena(where.on_gpu, where.first, nbytes, guarded)

    def _facts(self) -> list[tuple[str, str]]:
        return [
            ("of", f"{self._nbytes:,} bytes"),
            ("on", self._where),
        ]

    @property
    def ref(self) -> int:
        """What a kernel's parameter of type denizen::ArenaRef holds; valid as long as the arena."""
        return self._core.ref

    def stats(self) -> ArenaStats:
        """At about this moment, if the arena is in use. Reads all of its bookkeeping."""
        return ArenaStats(*self._core.stats())

    def reset(self) -> None:
        """Make everything free again, and all counts 0. Nobody may be using it."""
        self._core.reset()

    def faults(self) -> list[ArenaFault]:
        """The first 64 misuses, while nobody is using it. ArgumentError if it is not guarded."""
        return [ArenaFault(FaultKind(kind), tag, at) for kind, tag, at in self._core.faults()]

    def leaks(self) -> list[ArenaLeak]:
        """The live blocks by tag, most bytes first, while nobody is using it.

        ArgumentError if the arena is not guarded.
        """
        return [ArenaLeak(*leak) for leak in self._core.leaks()]

    def allocate(self, nbytes: int, tag: int = 0) -> int | None:
        """The address of a block of an arena on the CPU, None if there is no room."""
        self._on_cpu()
        return self._core.allocate(nbytes, tag) or None

    def deallocate(self, address: int) -> None:
        """Free a block of an arena on the CPU."""
        self._on_cpu()
        self._core.deallocate(address)

    def _on_cpu(self) -> None:
        if self.on_gpu:
            raise ArgumentError("an arena on a GPU is used by its kernels; the CPU has no reach")
