# SPDX-License-Identifier: Apache-2.0
"""Reads the lens's log files: docs/lens-format.md says what they hold, lens/format.hpp how.

:func:`records` is a pure function of bytes; it serves a file that is still growing as well as a
whole one, which :func:`read` gives as a :class:`Capture`.
"""

from __future__ import annotations

import gzip
import mmap
import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from denizen.errors import DenizenError
from denizen.lens.record import (
    ApiCall,
    ApiCount,
    ApiName,
    Channel,
    ChannelClosed,
    Doorbell,
    End,
    Engine,
    Header,
    Instruction,
    KernelCall,
    Lost,
    Memory,
    Note,
    Overhead,
    Page,
    Process,
    Pushbuffer,
    Record,
    Release,
    Thread,
)

MAGIC = b"DNZLENS\n"
VERSION = 1
HEADER_BYTES = 256
NONE = 0xFFFF_FFFF  # no such channel, GPU, token

_HEADER = struct.Struct("<8sIIIIQQ3II32s32s")
_RECORD = struct.Struct("<IHH")


Buffer = bytes | bytearray | memoryview | mmap.mmap


class LensError(DenizenError):
    """A capture could not be made or read; the message says why and what to do."""


# By denizen::lens::Aperture.
APERTURES = {1: "system", 2: "device"}

# By denizen::lens::Kind: what follows a record's header, without what has no fixed length.
BODIES = {
    1: struct.Struct("<II"),
    2: struct.Struct("<II16s"),
    3: struct.Struct("<IIQQII"),
    4: struct.Struct("<8IQQIIQ"),
    5: struct.Struct("<IIQ"),
    6: struct.Struct("<4I"),
    7: struct.Struct("<QQ8IQIIQQ"),
    8: struct.Struct("<QQ4I"),
    9: struct.Struct("<QQII16s"),
    10: struct.Struct("<4Q"),
    11: struct.Struct("<II"),
    12: struct.Struct("<QQQ4I"),
    13: struct.Struct("<IIQ"),
    14: struct.Struct("<QII"),
    15: struct.Struct("<12Q"),
    16: struct.Struct("<2Q"),
    17: struct.Struct("<Ii4QII"),
    18: struct.Struct("<QQQII"),
    19: struct.Struct("<QQQII"),
}


def header(data: Buffer, name: str) -> tuple[Header, int]:
    """The file's header and where its first record is. LensError if it is no log of ours."""
    start = bytes(data[:HEADER_BYTES])
    if start[:8] != MAGIC[: len(start[:8])] or not start:
        raise LensError(f"{name} is no capture of the lens: it begins with {start[:8]!r}")
    if len(start) < HEADER_BYTES:
        raise LensError(f"{name} ends within its header ({len(start)} of {HEADER_BYTES} bytes)")
    _, version, first, mode, pid, monotonic, realtime, *rest = _HEADER.unpack_from(start)
    major, minor, patch, forced, driver, process = rest
    if version != VERSION:
        raise LensError(
            f"{name} is of log version {version}, this is a reader of version {VERSION}: "
            "use the denizen that wrote it"
        )
    modes = {1: "count", 2: "full"}
    if mode not in modes or first < HEADER_BYTES or first % 8:
        raise LensError(f"{name}: its header is damaged (mode {mode}, records from byte {first})")
    version_text = _text(driver) or f"{major}.{minor}.{patch}"
    return (
        Header(modes[mode], pid, monotonic, realtime, version_text, bool(forced), _text(process)),
        first,
    )


def records(data: Buffer, at: int = 0) -> Iterator[tuple[Record, int]]:
    """The records from byte ``at`` on, each with the place after it; stops at one that is cut off.

    Kinds that are not known are skipped. LensError if the bytes are no records.
    """
    size = len(data)
    while at + _RECORD.size <= size:  # ends: a record is at least its header
        length, kind, flags = _RECORD.unpack_from(data, at)
        body = BODIES.get(kind)
        least = _RECORD.size + (body.size if body else 0)
        if length % 8 or length < least:
            raise LensError(f"the record at byte {at} is damaged (kind {kind}, {length} bytes)")
        if at + length > size:
            return
        if body is not None:
            values = body.unpack_from(data, at + _RECORD.size)
            yield _record(kind, flags, values, data, slice(at + least, at + length)), at + length
        at += length


def _record(kind: int, flags: int, v: tuple[Any, ...], data: Buffer, span: slice) -> Record:
    """A record of its header's and its body's fields; ``span``: the rest of it in ``data``."""
    at, end = span.start, span.stop

    def rest(length: int) -> bytes:
        return bytes(data[at : _within(at, length, end)])

    match kind:
        case 1:
            parts = rest(v[0]).split(b"\0")
            return Process([part.decode(errors="replace") for part in parts[:-1] or parts])
        case 2:
            return Thread(v[0], _text(v[2]))
        case 3:
            return Page(*v)
        case 4:
            return Channel._make((*v, bool(flags & 1)))
        case 5:
            return ChannelClosed(v[0], v[2])
        case 6:
            return Engine(*v[:3])
        case 7:
            _within(at, 8 * v[8], end)
            entries = np.frombuffer(data, np.dtype("<u8"), v[8], at)
            return Doorbell._make((*v, entries, flags))
        case 8:
            if v[4] % 4:
                raise LensError(f"the pushbuffer record before byte {end} has {v[4]} bytes")
            _within(at, v[4], end)
            words = np.frombuffer(data, np.dtype("<u4"), v[4] // 4, at)
            return Pushbuffer._make((*v, words, flags))
        case 9:
            return Instruction._make((*v[:5], bool(flags & 1)))
        case 10:
            return Lost(*v)
        case 11:
            return ApiName(v[0], rest(v[1]).decode(errors="replace"))
        case 12:
            return ApiCall(*v)
        case 13:
            return ApiCount(v[0], v[2])
        case 14:
            return Note(v[0], rest(v[1]).decode(errors="replace"))
        case 15:
            return End(*v)
        case 16:
            return Overhead(*v)
        case 18:
            return Memory(v[0], v[1], v[2], APERTURES.get(v[3], "unknown"), v[4], bool(flags & 1))
        case 19:
            return Release(*v)
        case _:
            first = rest(v[6])
            at += -(-v[6] // 8) * 8
            return KernelCall(v[0], v[1], v[2:6], first, rest(v[7]))


def _within(at: int, length: int, end: int) -> int:
    if at + length > end:
        raise LensError(f"the record before byte {end} is damaged: {length} bytes do not fit in it")
    return at + length


def _text(raw: bytes) -> str:
    return raw.split(b"\0", maxsplit=1)[0].decode(errors="replace")


@dataclass(slots=True)
class Submission:
    """One doorbell, and what the entries that it announced point to.

    ``segments``: of each entry its words (dtype uint32), None where they were not recorded; empty
    in ``count`` mode.
    """

    doorbell: Doorbell
    segments: list[NDArray[np.uint32] | None] = field(default_factory=list)


@dataclass(slots=True)
class Capture:
    """A whole log file. ``complete`` is false where its process was killed: ``end`` is None."""

    path: str
    header: Header
    arguments: list[str] = field(default_factory=list)
    threads: dict[int, str] = field(default_factory=dict)
    channels: dict[int, Channel] = field(default_factory=dict)
    engines: dict[int, list[int]] = field(default_factory=dict)  # classes made on each channel
    names: dict[int, str] = field(default_factory=dict)
    submissions: list[Submission] = field(default_factory=list)
    calls: dict[int, ApiCall] = field(default_factory=dict)
    counts: dict[int, int] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)
    memories: list[Memory] = field(default_factory=list)  # as they were mapped and unmapped
    releases: list[Release] = field(default_factory=list)
    instructions: list[Instruction] = field(default_factory=list)
    lost: list[Lost] = field(default_factory=list)
    overhead: Overhead | None = None
    end: End | None = None

    @property
    def complete(self) -> bool:
        return self.end is not None

    def api(self, number: int) -> str:
        """The name of an API number; ``?`` where nothing is known."""
        if number == 0:
            return "?"
        return self.names.get(number, f"API {number >> 24}:{number & 0xFF_FFFF}")

    def add(self, record: Record) -> None:
        """Take in the next record."""
        match record:
            case Doorbell():
                self.submissions.append(Submission(record))
            case Process(arguments):
                self.arguments = arguments
            case Thread(tid, name):
                self.threads[tid] = name
            case Channel():
                self.channels[record.channel] = record
            case Engine(channel, class_id):
                self.engines.setdefault(channel, []).append(class_id)
            case ApiName(api, name):
                self.names[api] = name
            case ApiCall():
                self.calls[record.call] = record
            case ApiCount(api, calls):
                self.counts[api] = calls
            case Note():
                self.notes.append(record)
            case Instruction():
                self.instructions.append(record)
            case Lost():
                self.lost.append(record)
            case End():
                self.end = record
            case Memory():
                self.memories.append(record)
            case Release():
                self.releases.append(record)
            case Overhead():
                self.overhead = record
            case _:
                pass


def read(path: str | os.PathLike[str]) -> Capture:
    """The capture in file ``path``, which may be compressed by gzip.

    A file whose last record is cut off, or that has no ``end`` record, is read as far as it goes.

    Raises:
        LensError: there is no such file, it is no capture, or it is damaged.
    """
    name = os.fspath(path)
    try:
        with open(name, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            data: mmap.mmap | bytes
            if file.read(2) == b"\x1f\x8b":
                file.seek(0)
                data = gzip.decompress(file.read())
            elif size:
                # Mapped: a full capture may be larger than memory, and only views of it are kept.
                data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            else:
                data = b""
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise LensError(f"{name}: {error}; expected a whole .lens.gz") from error
    except OSError as error:
        why = f"{error.strerror or error}; expected a capture, as denizen lens writes it"
        raise LensError(f"{name}: {why}") from error
    except ValueError as error:
        raise LensError(f"{name}: {error}") from error
    top, first = header(data, name)
    capture = Capture(name, top)
    pieces: dict[int, list[Pushbuffer]] = {}
    try:
        for record, _ in records(data, first):
            if isinstance(record, Pushbuffer):
                pieces.setdefault(record.doorbell, []).append(record)
            else:
                capture.add(record)
    except LensError as error:
        raise LensError(f"{name}: {error}") from error
    capture.submissions.sort(key=lambda s: s.doorbell.sequence)
    if top.mode == "full":
        for submission in capture.submissions:
            submission.segments = _segments(
                submission.doorbell, pieces.get(submission.doorbell.sequence, [])
            )
    return capture


def _segments(doorbell: Doorbell, pieces: list[Pushbuffer]) -> list[NDArray[np.uint32] | None]:
    """The contents of each entry, of pieces that must follow each other without a gap."""
    of: list[list[NDArray[np.uint32]]] = [[] for _ in range(doorbell.entries)]
    have = [0] * doorbell.entries
    for piece in pieces:
        if piece.entry < doorbell.entries and piece.offset == have[piece.entry]:
            of[piece.entry].append(piece.data)
            have[piece.entry] += piece.length
    return [
        None if not parts else parts[0] if len(parts) == 1 else np.concatenate(parts)
        for parts in of
    ]
