# SPDX-License-Identifier: Apache-2.0
"""I/Q as WAV files with two channels, I on the left and Q on the right, as receivers' programs
record it: 8 and 16 bits, 32-bit floats; RF64 and BW64 over 4 GiB (EBU Tech 3306, ITU-R BS.2088).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from denizen.errors import unreadable
from denizen.files import WholeFile
from denizen.iq.format import FORMATS, DataError, Format
from denizen.iq.raw import PIECE
from denizen.iq.stream import Sink, Source

__all__ = ["SUFFIXES", "Wav", "create"]

SUFFIXES = (".wav", ".rf64", ".bw64")
_PCM, _FLOAT, _EXTENSIBLE = 1, 3, 0xFFFE
_FORMATS = {(_PCM, 8): "u8", (_PCM, 16): "i16", (_FLOAT, 32): "f32"}
_HEAD = 64  # bytes of a chunk that are read: the longest has 40 that matter
_UNKNOWN = 0xFFFFFFFF  # a length that stands elsewhere, or that nobody filled in


class Wav(Source):
    """The samples of a WAV file, which says format and rate.

    Raises DataError for what is no such file, for other channels or bits, and if it holds less than
    it says. A length of zero or of all ones, which a recorder that was stopped leaves, means all
    that is there.
    """

    def __init__(self, path: str, expected: str) -> None:
        try:
            self._file: BinaryIO = open(path, "rb")  # noqa: SIM115  (closed by close())
        except OSError as error:
            raise unreadable(path, error, expected) from error
        try:
            form, rate, self._left = _header(path, self._file)
        except struct.error:
            self._file.close()
            raise DataError(
                f"{path}: the WAV file ends within its header: it is cut short"
            ) from None
        except DataError:
            self._file.close()
            raise
        super().__init__(path, FORMATS[form], rate, expected)

    def pieces(self) -> Iterator[bytes]:
        if self._left == 0:
            raise DataError(f"{self.name}: there is no data")
        while self._left > 0:
            piece = self._file.read(min(PIECE, self._left))
            if not piece:
                raise DataError(f"{self.name}: the file became shorter while it was read")
            self._left -= len(piece)
            yield piece

    def close(self) -> None:
        self._file.close()


def _header(path: str, file: BinaryIO) -> tuple[str, int, int]:
    """Format, rate and bytes of data, at whose begin the file is afterwards."""
    magic, _, kind = struct.unpack("<4sI4s", file.read(12))
    if magic not in (b"RIFF", b"RF64", b"BW64") or kind != b"WAVE":
        raise DataError(f"{path}: this is no WAV file; expected two channels, I and Q")
    large = 0
    found: tuple[str, int] | None = None
    while True:  # ends with the data or the file
        chunk, length = struct.unpack("<4sI", file.read(8))
        if chunk == b"data":
            break
        end = file.tell() + length + length % 2
        body = file.read(min(length, _HEAD)) if chunk in (b"ds64", b"fmt ") else b""
        if chunk == b"ds64":
            (large,) = struct.unpack_from("<Q", body, 8)
        elif chunk == b"fmt ":
            found = _format(path, body)
        file.seek(end)
    if found is None:
        raise DataError(f'{path}: this WAV file has no chunk "fmt " before its data')
    at = file.tell()
    there = Path(path).stat().st_size - at
    said = large if length == _UNKNOWN and large else length
    if said in (0, _UNKNOWN):
        said = there
    if said > there:
        raise DataError(
            f"{path}: the WAV file says {said:,} bytes of data, but {there:,} are there: it is cut "
            "short; copy it again"
        )
    size = FORMATS[found[0]].size
    if said % size:
        raise DataError(f"{path}: {said:,} bytes of data are no whole number of I/Q pairs")
    return *found, said


def _format(path: str, body: bytes) -> tuple[str, int]:
    tag, channels, rate, _, _, bits = struct.unpack_from("<HHIIHH", body)
    if tag == _EXTENSIBLE:
        (tag,) = struct.unpack_from("<H", body, 24)
    if channels != 2:
        raise DataError(f"{path}: {channels} channel(s); expected two, I left and Q right")
    if (tag, bits) not in _FORMATS:
        raise DataError(
            f"{path}: {bits} bits of format {tag}; expected 8 or 16 bits of PCM (1) or 32 of "
            "float (3): convert it"
        )
    return _FORMATS[tag, bits], int(rate)


def header(form: Format, rate: int, length: int) -> bytes:
    """What stands before ``length`` bytes of data: 82 bytes, of RF64 if it is over 4 GiB."""
    tag = next(tag for (tag, _), key in _FORMATS.items() if key == form.key)
    total = length + length % 2 + 74  # what follows the first eight bytes
    small = total < _UNKNOWN
    # Room for the long lengths, or a chunk of nothing in their place.
    long = struct.pack("<QQQI", total, length, length // form.size, 0)
    return b"".join(
        (
            struct.pack("<4sI4s", b"RIFF" if small else b"RF64", min(total, _UNKNOWN), b"WAVE"),
            struct.pack("<4sI", b"JUNK" if small else b"ds64", len(long)),
            bytes(len(long)) if small else long,
            struct.pack("<4sI", b"fmt ", 18),
            struct.pack("<HHI", tag, 2, rate),
            struct.pack("<IHHH", rate * form.size, form.size, form.size * 4, 0),
            struct.pack("<4sI", b"data", length if small else _UNKNOWN),
        )
    )


def create(path: str, form: Format, rate: int) -> Sink:
    """A WAV file; RIFF becomes RF64 if it grows over 4 GiB."""
    try:
        file = WholeFile(path)
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}") from error
    written = 0

    def put(piece: bytes) -> None:
        nonlocal written
        written += len(piece)
        file.write(piece)

    def close() -> None:
        if written % 2:
            file.write(b"\0")
        file.seek(0)
        file.write(header(form, rate, written))
        file.close()

    file.write(header(form, rate, 0))
    return Sink(path, form, put, close, file.discard)
