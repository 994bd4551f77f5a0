# SPDX-License-Identifier: Apache-2.0
"""The stream a channel reads: GPFIFO entries, and the method headers of the pushbuffers they name.

Pure functions of recorded words, for any words whatever: each step consumes at least one. Formats:
NVIDIA's open-gpu-doc, classes/host/clc76f.h, and manuals/ampere/ga100/dev_ram.ref.txt and
dev_pbdma.ref.txt; extended segments: class header clc86f.h of open-gpu-kernel-modules.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint32]


class Control(IntEnum):
    """What an entry of length 0 does."""

    NOP = 0
    ILLEGAL = 1
    GP_CRC = 2
    PB_CRC = 3
    SET_PB_SEGMENT_EXTENDED_BASE = 4


@dataclass(frozen=True, slots=True)
class Entry:
    """One GPFIFO entry.

    ``address``: virtual, bits 39:0 (a channel's extended base holds those above); ``words``: length
    of the pushbuffer segment, 0 for a control entry, whose ``control`` says what it does (a number
    that has no name stays a number) with ``operand``.
    """

    raw: int
    address: int
    words: int
    subroutine: bool
    sync: bool  # waits until the segment before has been read
    conditional: bool
    control: Control | int | None
    operand: int

    @property
    def bytes(self) -> int:
        return 4 * self.words

    @property
    def extended_base(self) -> int | None:
        """Bits 56:40 of the addresses that follow on this channel, where this entry sets them."""
        if self.control != Control.SET_PB_SEGMENT_EXTENDED_BASE:
            return None
        return (self.operand >> 8 & 0x1FFFF) << 40


def entry(raw: int) -> Entry:
    """Decode the eight bytes of a GPFIFO entry."""
    low, high = raw & 0xFFFF_FFFF, raw >> 32 & 0xFFFF_FFFF
    words = high >> 10 & 0x1F_FFFF
    control: Control | int | None = None
    if words == 0:
        code = high & 0xFF
        control = Control(code) if code in Control._value2member_map_ else code
    return Entry(
        raw=raw,
        address=low & 0xFFFF_FFFC | (high & 0xFF) << 32,
        words=words,
        subroutine=bool(high >> 9 & 1),
        sync=bool(high >> 31),
        conditional=bool(low & 1),
        control=control,
        operand=low,
    )


class Kind(IntEnum):
    """How a packet's words follow its header."""

    INC = 1  # to one method after another
    NON_INC = 3  # all to the same
    IMMEDIATE = 4  # 13 bits inside the header
    ONE_INC = 5  # the first to the method, the others to the next
    SUBDEVICE = 8  # a mask of subdevices is set, stored or used; no engine sees it
    END_SEGMENT = 7  # the rest of the segment is not read
    INVALID = 6  # no header: the channel would fail here


@dataclass(frozen=True, slots=True)
class Packet:
    """A header with its data, or the part of it that lies in one segment.

    ``at``: index of the header in its segment, -1 where the data goes on from the segment before.
    ``method``: byte offset that ``data``'s first word goes to. ``missing``: words the header counts
    that the segment does not hold.
    """

    at: int
    kind: Kind
    subchannel: int
    method: int
    data: Words
    missing: int = 0

    def methods(self) -> Iterator[tuple[int, int]]:
        """Each write: byte offset of the method, value."""
        offset = self.method
        for value in self.data.tolist():
            yield offset, value
            if self.kind == Kind.INC or (self.kind == Kind.ONE_INC and offset == self.method):
                offset = offset + 4 & 0x3FFC


@dataclass(slots=True)
class _Open:
    """A header, or what is left of one whose data the segment before did not hold."""

    kind: Kind
    subchannel: int
    method: int
    words: int


class Reader:
    """Reads a channel's segments in turn. A packet may begin in one and end in the next."""

    def __init__(self) -> None:
        self._open: _Open | None = None

    def lost(self) -> None:
        """A segment was not recorded: an open packet ends."""
        self._open = None

    def read(self, segment: Words) -> Iterator[Packet]:
        """The packets of ``segment``, dtype uint32, shape (n,). Use it up before the next call."""
        words = np.ascontiguousarray(segment, dtype=np.uint32)
        n, at = len(words), 0
        if self._open is not None:
            going, self._open = self._open, None
            yield self._packet(-1, going, words)
            at = min(going.words, n)
        while at < n:  # ends: `at` grows with every turn
            header = int(words[at])
            op = header >> 29
            subchannel, method = header >> 13 & 7, (header & 0xFFF) << 2
            count = header >> 16 & 0x1FFF
            if header == 0:  # no operation
                at += 1
                continue
            if op in (0, 2):
                # The formats of Fermi's days: address in bytes, and under op 0 the subdevice masks.
                tertiary = header >> 16 & 3
                if op == 0 and tertiary != 0:
                    yield Packet(at, Kind.SUBDEVICE, 0, 0, words[at : at + 1])
                    at += 1
                    continue
                if tertiary != 0:
                    yield Packet(at, Kind.INVALID, 0, 0, words[at:])
                    return
                kind = Kind.INC if op == 0 else Kind.NON_INC
                method, count = header & 0x1FFC, header >> 18 & 0x7FF
            elif op == 4:
                data = np.array([count], np.uint32)
                yield Packet(at, Kind.IMMEDIATE, subchannel, method, data)
                at += 1
                continue
            elif op == 7:
                yield Packet(at, Kind.END_SEGMENT, 0, 0, words[at + 1 :])
                return
            elif op == 6:
                yield Packet(at, Kind.INVALID, 0, 0, words[at:])
                return
            else:
                kind = Kind(op)
            yield self._packet(at, _Open(kind, subchannel, method, count), words[at + 1 :])
            at += 1 + count

    def _packet(self, at: int, open_: _Open, rest: Words) -> Packet:
        """The packet of a header and its words in ``rest``, which may hold only the first."""
        kind, method = open_.kind, open_.method
        data = rest[: open_.words]
        missing = open_.words - len(data)
        if missing:
            after, then = method, kind
            if kind == Kind.INC:
                after = method + 4 * len(data) & 0x3FFC
            elif kind == Kind.ONE_INC and len(data):
                after, then = method + 4 & 0x3FFC, Kind.NON_INC
            self._open = _Open(then, open_.subchannel, after, missing)
        return Packet(at, kind, open_.subchannel, method, data, missing)
