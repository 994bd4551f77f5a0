# SPDX-License-Identifier: Apache-2.0
"""Reads raw I/Q in pieces from a file or from stdin, and refuses what is none.

The format has no header, so a wrong file would decode to nothing without a word: what can be told
from its name, its first bytes, its length and its first values is checked instead.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from denizen.apps.flights.load import DataError

__all__ = ["FORMATS", "DataError", "Format", "blocks", "pieces"]

PIECE = 1 << 18  # bytes read at once


@dataclass(frozen=True, slots=True)
class Format:
    """I and Q in turn, each of ``dtype``: ``zero`` is no signal, ``full`` beside it full scale."""

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
        parts = samples.view(np.float32) * np.float32(self.full) + np.float32(self.zero)
        if np.dtype(self.dtype).kind != "f":
            limits = np.iinfo(self.dtype)
            parts = np.clip(np.rint(parts), limits.min, limits.max)
        out: bytes = parts.astype(self.dtype).tobytes()
        return out


FORMATS = {
    "u8": Format("unsigned 8-bit", "u1", 127.5, 127.5),
    "i16": Format("signed 16-bit", "<i2", 0.0, 32768.0),
    "f32": Format("32-bit floating-point", "<f4", 0.0, 1.0),
}
_MAGIC = {
    b"RIFF": "a WAV file", b"fLaC": "a FLAC file", b"\x1f\x8b": "compressed (gzip)",
    b"\xfd7zXZ": "compressed (xz)", b"BZh": "compressed (bzip2)", b"PK\x03\x04": "a ZIP archive",
    b"\x28\xb5\x2f\xfd": "compressed (zstd)", b"\x7fELF": "a program", b"%PDF": "a PDF",
    b"\x89PNG": "an image",
}  # fmt: skip
_CHECKED = 4096  # bytes whose mean must be that of a signal around 127.5


def _check_first(name: str, piece: bytes, form: Format, expected: str) -> None:
    if not piece:
        raise DataError(f"{name}: there is no data")
    for magic, what in _MAGIC.items():
        if piece.startswith(magic):
            raise DataError(f"{name}: this is {what}; expected {expected}")
    if len(piece) < _CHECKED:
        return
    octets = np.frombuffer(piece, dtype=np.uint8)
    if octets.max() < 128 and len(set(piece) & set(b"\n \t,;0123456789")) > 3:
        raise DataError(f"{name}: this is text; expected {expected}")
    if form.dtype == "u1" and not 112 <= (mean := float(octets.mean())) <= 143:
        raise DataError(
            f"{name}: the mean of its bytes is {mean:.1f}, not about 127.5; expected {expected}"
        )


@contextlib.contextmanager
def _opened(path: str, form: Format, expected: str) -> Iterator[BinaryIO]:
    if path == "-":
        yield sys.stdin.buffer
        return
    if Path(path).suffix in {".sigmf-meta", ".sigmf"}:
        raise DataError(
            f"{path}: this is SigMF's description or archive; give the .sigmf-data file; "
            f"expected {expected}"
        )
    try:
        file = open(path, "rb", buffering=0)  # noqa: SIM115  (closed below)
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}") from error
    with file:
        info = os.fstat(file.fileno())
        if stat.S_ISDIR(info.st_mode):
            raise DataError(f"{path}: this is a folder; expected {expected}")
        if stat.S_ISREG(info.st_mode) and info.st_size % form.size:
            raise DataError(
                f"{path}: {info.st_size:,} bytes are no whole number of I/Q pairs: the file is "
                f"cut short, or not {expected}"
            )
        yield file


def pieces(path: str, form: Format, expected: str) -> Iterator[bytes]:
    """The bytes of file ``path``, or of stdin for "-", as they come: a pipe is not waited for until
    it fills a piece, and may end within a sample. ``expected`` ends a sentence about what to give.

    Raises DataError, before the first piece, for what is no I/Q of this format, and at the end of a
    stream that was cut within a pair.
    """
    name = "stdin" if path == "-" else path
    with _opened(path, form, expected) as file:
        total = 0
        head = b""
        try:
            while piece := os.read(file.fileno(), PIECE):
                if total < _CHECKED:
                    head += piece
                    total += len(piece)
                    if total < _CHECKED:
                        continue
                    _check_first(name, head, form, expected)
                    yield head
                    continue
                total += len(piece)
                yield piece
        except OSError as error:
            raise DataError(f"{name}: {error.strerror}") from error
        if total < _CHECKED:
            _check_first(name, head, form, expected)
            yield head
        if rest := total % form.size:
            lacks = "after an I without its Q" if 2 * rest == form.size else "within a sample"
            raise DataError(f"{name}: the stream ended {lacks}")


def blocks(path: str, form: Format, expected: str) -> Iterator[NDArray[np.complex64]]:
    """The samples of file ``path``, or of stdin for "-", in blocks as they come.

    Raises DataError as :func:`pieces` does, and where a floating-point value is none.
    """
    name = "stdin" if path == "-" else path
    rest = b""
    total = 0
    for piece in pieces(path, form, expected):
        data = rest + piece
        whole = len(data) // form.size * form.size
        rest = data[whole:]
        block = form.samples(data[:whole])
        if np.dtype(form.dtype).kind == "f":
            _check_floats(name, block, total, expected)
        total += len(block)
        if len(block):
            yield block


def _check_floats(name: str, block: NDArray[Any], begin: int, expected: str) -> None:
    parts = block.view(np.float32)
    sane = np.abs(parts) < 1e6  # also false for what is not a number
    if not sane.all():
        first = int(np.argmin(sane))
        raise DataError(
            f"{name}: sample {begin + first // 2:,} is {parts[first]:g}; expected {expected}"
        )
