# SPDX-License-Identifier: Apache-2.0
"""The arena of the interpreter: blocks of memory, by their addresses."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from denizen.handlers import ops, views

_BYTES = 64 << 20  # as Options::arena_bytes


class Blocks:
    """What handlers have allocated."""

    def __init__(self) -> None:
        self._all: dict[int, NDArray[np.uint8]] = {}
        self._room = _BYTES

    def allocate(self, count: int, dtype: np.dtype[Any]) -> views.Cells:
        """Empty if there is no room."""
        size = ops.index(count) * dtype.itemsize
        if not 0 <= size <= self._room:
            return views.Cells(np.zeros(0, dtype))
        block = np.zeros(max(size, 16), np.uint8)
        self._all[block.ctypes.data] = block
        self._room -= block.size
        return views.Cells(block[:size].view(dtype))

    def array(self, address: int, count: int, dtype: np.dtype[Any]) -> views.Cells:
        """A view of a live block. Raises IndexError for what is none, where a device has what lies
        there."""
        at, size = int(address), max(ops.index(count), 0) * dtype.itemsize
        if at == 0:
            return views.Cells(np.zeros(0, dtype))
        for begin, block in self._all.items():
            if begin <= at and at + size <= begin + block.size:
                return views.Cells(block[at - begin : at - begin + size].view(dtype))
        raise IndexError(f"{size} bytes at {at:#x} are not in a block that ctx.allocate gave")

    def free(self, block: views.Cells | int) -> None:
        """What is no live block is refused, as on a device."""
        at = block.address if isinstance(block, views.Cells) else int(block)
        found = self._all.pop(at, None)
        if found is not None:
            self._room += found.size


class HasBlocks(Protocol):
    blocks: Blocks


class Calls:
    """What a ctx has of the arena of its runtime, whether a handler's or a task's."""

    _runtime: HasBlocks

    def allocate(self, count: int, dtype: np.dtype[Any]) -> views.Cells:
        return self._runtime.blocks.allocate(count, dtype)

    def array(self, address: int, count: int, dtype: np.dtype[Any]) -> views.Cells:
        return self._runtime.blocks.array(address, count, dtype)

    def address(self, block: views.Cells) -> int:
        return block.address

    def free(self, block: views.Cells | int) -> None:
        self._runtime.blocks.free(block)
