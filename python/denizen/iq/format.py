# SPDX-License-Identifier: Apache-2.0
"""How a sample is kept: as unsigned bytes, 16-bit integers or 32-bit floats, I and Q in turn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from denizen.errors import DataError

__all__ = ["FORMATS", "DataError", "Format"]


@dataclass(frozen=True, slots=True)
class Format:
    """I and Q in turn, each of ``dtype``: ``zero`` is no signal, ``full`` beside it full scale."""

    key: str
    name: str
    dtype: str
    zero: float
    full: float

    @property
    def size(self) -> int:
        """Bytes of a sample, I and Q."""
        return 2 * np.dtype(self.dtype).itemsize

    def samples(self, data: bytes) -> NDArray[np.complex64]:
        """Whole samples as complex numbers, full scale being 1."""
        parts = np.frombuffer(data, self.dtype).astype(np.float32)
        if self.zero:
            parts -= np.float32(self.zero)
        if self.full != 1:
            parts *= np.float32(1 / self.full)
        return parts.view(np.complex64)

    def bytes(self, samples: NDArray[np.complex64]) -> bytes:
        """The other way round; what is beyond full scale is clipped, but not of floats."""
        parts = np.ascontiguousarray(samples).view(np.float32)
        parts = parts * np.float32(self.full) + np.float32(self.zero)
        if np.dtype(self.dtype).kind != "f":
            limits = np.iinfo(self.dtype)
            parts = np.clip(np.rint(parts), limits.min, limits.max)
        out: bytes = parts.astype(self.dtype).tobytes()
        return out


FORMATS = {
    one.key: one
    for one in (
        Format("u8", "unsigned 8-bit", "u1", 127.5, 127.5),
        Format("i16", "signed 16-bit", "<i2", 0.0, 32768.0),
        Format("f32", "32-bit floating-point", "<f4", 0.0, 1.0),
    )
}
