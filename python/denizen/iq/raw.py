# SPDX-License-Identifier: Apache-2.0
"""Raw I/Q in pieces from a file or from stdin, and what is none is refused.

The format has no header, so a wrong file would decode to nothing without a word: what can be told
from its first bytes, its length and its first values is checked instead.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from typing import BinaryIO

import numpy as np

from denizen.errors import unreadable
from denizen.iq.format import DataError, Format
from denizen.iq.stream import Source

PIECE = 1 << 18  # bytes read at once
_MAGIC = {
    b"RIFF": "a WAV file", b"RF64": "a WAV file", b"BW64": "a WAV file", b"fLaC": "a FLAC file",
    b"\x1f\x8b": "compressed (gzip)", b"\xfd7zXZ": "compressed (xz)",
    b"BZh": "compressed (bzip2)", b"PK\x03\x04": "a ZIP archive",
    b"\x28\xb5\x2f\xfd": "compressed (zstd)", b"\x7fELF": "a program", b"%PDF": "a PDF",
    b"\x89PNG": "an image",
}  # fmt: skip
_CHECKED = 4096  # bytes whose mean must be that of a signal around 127.5


def check_first(name: str, piece: bytes, form: Format, expected: str) -> None:
    """Raise DataError if the first bytes of a stream show that it is something else."""
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


class Raw(Source):
    """The bytes of file ``path``, or of stdin for "-". A pipe is not waited for until it fills a
    piece.

    Raises DataError, before the first piece, for what is no I/Q of this format, and at the end of a
    stream that was cut within a pair.
    """

    def __init__(self, path: str, form: Format, rate: int | None, expected: str) -> None:
        super().__init__("stdin" if path == "-" else path, form, rate, expected)
        self._file: BinaryIO = sys.stdin.buffer if path == "-" else self._opened(path)

    def _opened(self, path: str) -> BinaryIO:
        try:
            file = open(path, "rb", buffering=0)  # noqa: SIM115  (closed by close())
        except OSError as error:
            raise unreadable(path, error, self.expected) from error
        info = os.fstat(file.fileno())
        if stat.S_ISREG(info.st_mode) and info.st_size % self.form.size:
            file.close()
            raise DataError(
                f"{path}: {info.st_size:,} bytes are no whole number of I/Q pairs: the file is "
                f"cut short, or not {self.expected}"
            )
        return file

    def pieces(self) -> Iterator[bytes]:
        total = 0
        head = b""
        try:
            while piece := os.read(self._file.fileno(), PIECE):
                total += len(piece)
                if total - len(piece) < _CHECKED:
                    head += piece
                    if total < _CHECKED:
                        continue
                    check_first(self.name, head, self.form, self.expected)
                    piece = head
                yield piece
        except OSError as error:
            raise DataError(f"{self.name}: {error.strerror}") from error
        if total < _CHECKED:
            check_first(self.name, head, self.form, self.expected)
            yield head
        if rest := total % self.form.size:
            lacks = "after an I without its Q" if 2 * rest == self.form.size else "within a sample"
            raise DataError(f"{self.name}: the stream ended {lacks}")

    def close(self) -> None:
        if self._file is not sys.stdin.buffer:
            self._file.close()
