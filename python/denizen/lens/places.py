# SPDX-License-Identifier: Apache-2.0
"""Where what the GPU reads lies: the rings of its channels and the pushbuffers that they name."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import Counter

from denizen.lens.log import Capture
from denizen.lens.pushbuffer import Entry, entry
from denizen.lens.record import Doorbell, Memory

UNKNOWN = "unknown"


class Places:
    """The mappings of a capture, looked up by address and time."""

    def __init__(self, capture: Capture) -> None:
        self._events = sorted(capture.memories, key=lambda memory: memory.time_ns)
        self._next = 0
        self._bases: dict[int, int] = {}  # by channel
        self._starts: list[int] = []
        self._by_start: dict[int, Memory] = {}

    def aperture(self, address: int, time_ns: int) -> str:
        """Where ``address`` lies at ``time_ns`` of a record: system, device or unknown."""
        self._go_to(time_ns)
        at = bisect_right(self._starts, address) - 1
        if at < 0:
            return UNKNOWN
        memory = self._by_start[self._starts[at]]
        return memory.aperture if address < memory.address + memory.bytes else UNKNOWN

    def segments(self, bell: Doorbell) -> list[tuple[Entry, str | None]]:
        """Each entry and its pushbuffer segment's aperture; None for a control entry.

        A channel's doorbells must be given in order, since its entries set the addresses' base.
        """
        found: list[tuple[Entry, str | None]] = []
        for raw in bell.entry.tolist():
            one = entry(raw)
            if (base := one.extended_base) is not None:
                self._bases[bell.channel] = base
            address = self._bases.get(bell.channel, 0) | one.address
            where = self.aperture(address, bell.time_ns) if one.words else None
            found.append((one, where))
        return found

    def _go_to(self, time_ns: int) -> None:
        """Apply what was mapped and unmapped by then; from the start where time goes back."""
        if self._next and time_ns < self._events[self._next - 1].time_ns:
            self._next, self._starts, self._by_start = 0, [], {}
        while self._next < len(self._events) and self._events[self._next].time_ns <= time_ns:
            memory = self._events[self._next]
            self._next += 1
            if memory.gone:
                if self._by_start.pop(memory.address, None) is not None:
                    self._starts.remove(memory.address)
            else:
                if memory.address not in self._by_start:
                    insort(self._starts, memory.address)
                self._by_start[memory.address] = memory


def summary(capture: Capture) -> str:
    """In a line: the apertures of GPFIFOs and USERDs by channels, of pushbuffers by bytes.

    Empty where the log has no mappings (one of an older denizen, or of no doorbells).
    """
    if not capture.memories or not capture.submissions:
        return ""
    places = Places(capture)
    rings: Counter[str] = Counter()
    userds: Counter[str] = Counter()
    pushed: Counter[str] = Counter()
    seen: set[int] = set()
    for submission in capture.submissions:
        bell = submission.doorbell
        channel = capture.channels.get(bell.channel)
        if channel is not None and bell.channel not in seen:
            seen.add(bell.channel)
            rings[places.aperture(channel.gpfifo, bell.time_ns)] += 1
            userds[places.aperture(channel.userd, bell.time_ns)] += 1
        for one, where in places.segments(bell):
            if where is not None:
                pushed[where] += one.bytes
    parts = [
        f"{what} in {_share(counts, unit)}"
        for what, counts, unit in (
            ("GPFIFO", rings, "channels"), ("USERD", userds, "channels"),
            ("pushbuffer", pushed, "bytes"),
        )
    ]  # fmt: skip
    return "; ".join(parts)


def _share(counts: Counter[str], unit: str) -> str:
    """``system memory (12 channels)``, the most first."""
    return ", ".join(f"{where} memory ({n:,} {unit})" for where, n in counts.most_common()) or "-"
