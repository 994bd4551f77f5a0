# SPDX-License-Identifier: Apache-2.0
"""What each call of the CUDA API submitted: the figures of every view of a capture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from denizen.lens.classes import engine_of
from denizen.lens.decode import Stream
from denizen.lens.log import Capture, Submission
from denizen.lens.operation import Decoded
from denizen.lens.record import Doorbell

NO_CALL = "(no API call)"  # rung by a thread of the driver's own, or before attribution began


def decoded(capture: Capture) -> Iterator[tuple[Submission, Decoded | None]]:
    """Each submission with what it makes the GPU do; None in ``count`` mode.

    In the order of the doorbells, which a channel's state needs.
    """
    streams: dict[int, Stream] = {}
    for submission in capture.submissions:
        number = submission.doorbell.channel
        if capture.header.mode != "full":
            yield submission, None
            continue
        if (stream := streams.get(number)) is None:
            channel = capture.channels.get(number)
            stream = streams[number] = Stream(
                channel.class_id if channel else 0, capture.engines.get(number)
            )
        yield submission, stream.submission(submission.doorbell.entry.tolist(), submission.segments)


def channel_engines(capture: Capture, number: int) -> set[str]:
    """The engines that a channel can reach: of the objects made on it."""
    return {engine_of(class_id) for class_id in capture.engines.get(number, ())}


def api_of(capture: Capture, doorbell: Doorbell) -> str:
    """The outermost API call that rang, by name."""
    return capture.api(doorbell.api) if doorbell.api else NO_CALL


@dataclass(slots=True)
class Cost:
    """What one API function submitted in a whole capture.

    ``called``: how often it was called at all, nested calls included; None where CUPTI did not
    count. ``rang``: calls that rang a doorbell (0 where calls are not numbered). ``engines``: those
    of what was submitted; in ``count`` mode those that its channels can reach.
    """

    api: str
    called: int | None = None
    rang: int = 0
    doorbells: int = 0
    entries: int = 0
    bytes: int = 0
    engines: set[str] = field(default_factory=set)
    operations: Counter[str] = field(default_factory=Counter)

    @property
    def per_call(self) -> int:
        """By what bytes and doorbells are divided for a mean: calls that rang, else doorbells."""
        return self.rang or self.doorbells

    @property
    def bytes_per_call(self) -> float:
        return self.bytes / self.per_call if self.per_call else 0.0

    @property
    def doorbells_per_call(self) -> float:
        return self.doorbells / self.per_call if self.per_call else 0.0


@dataclass(slots=True)
class Summary:
    """Costs by API, the dearest in bytes first, and the totals as the library counted them."""

    costs: list[Cost]
    doorbells: int
    entries: int
    bytes: int
    unknown: Counter[str]
    problems: int


class Costs:
    """Adds up doorbells as they come: for the live table, and for a whole capture."""

    def __init__(self, capture: Capture) -> None:
        self._capture = capture
        self._by_api: dict[int, Cost] = {}
        self._calls: dict[int, set[int]] = {}

    def add(self, doorbell: Doorbell, found: Decoded | None = None) -> None:
        cost = self._by_api.get(doorbell.api)
        if cost is None:
            cost = self._by_api[doorbell.api] = Cost("")
        cost.doorbells += 1
        cost.entries += doorbell.entries
        cost.bytes += doorbell.bytes
        if doorbell.call:
            self._calls.setdefault(doorbell.api, set()).add(doorbell.call)
        if found is None:
            cost.engines |= channel_engines(self._capture, doorbell.channel)
        else:
            cost.engines |= found.engines
            cost.operations.update(operation.kind for operation in found.operations)

    def rows(self) -> list[Cost]:
        """The costs so far, the dearest first. Functions of one name are one row."""
        merged: dict[str, Cost] = {}
        for api, cost in self._by_api.items():
            name = self._capture.api(api) if api else NO_CALL
            row = merged.setdefault(name, Cost(name))
            row.rang += len(self._calls.get(api, ()))
            row.doorbells += cost.doorbells
            row.entries += cost.entries
            row.bytes += cost.bytes
            row.engines |= cost.engines
            row.operations.update(cost.operations)
            if (called := self._capture.counts.get(api)) is not None:
                row.called = (row.called or 0) + called
        return sorted(merged.values(), key=lambda c: (-c.bytes, c.api))


def summarize(
    capture: Capture, of: Iterable[tuple[Submission, Decoded | None]] | None = None
) -> Summary:
    """The costs of a capture. ``of``: what :func:`decoded` gave, if it is at hand."""
    costs, unknown, problems = Costs(capture), Counter[str](), 0
    for submission, found in decoded(capture) if of is None else of:
        costs.add(submission.doorbell, found)
        if found is not None:
            unknown.update(found.unknown)
            problems += len(found.problems)
    end = capture.end
    bells = [submission.doorbell for submission in capture.submissions]
    return Summary(
        costs=costs.rows(),
        doorbells=end.doorbells if end else len(bells),
        entries=end.entries if end else sum(bell.entries for bell in bells),
        bytes=end.bytes if end else sum(bell.bytes for bell in bells),
        unknown=unknown,
        problems=problems,
    )


HEADER = ("API", "called", "rang", "doorbells", "entries", "bytes", "bytes / call", "engines")
RIGHT = (1, 2, 3, 4, 5, 6)


def cells(cost: Cost) -> tuple[str, ...]:
    """A row of the table under HEADER."""
    return (
        cost.api,
        "-" if cost.called is None else f"{cost.called:,}",
        f"{cost.rang:,}" if cost.rang else "-",
        f"{cost.doorbells:,}",
        f"{cost.entries:,}",
        f"{cost.bytes:,}",
        f"{cost.bytes_per_call:,.0f}",
        " ".join(sorted(cost.engines)) or "-",
    )


def title(capture: Capture) -> str:
    """What a capture is of, in one line."""
    h = capture.header
    command = " ".join(capture.arguments) or h.process
    if len(command) > 60:
        command = command[:59] + "…"
    return f"{command} (process {h.pid}, driver {h.driver}, mode {h.mode})"


def warnings(capture: Capture, summary: Summary | None = None) -> list[str]:
    """What a reader must know before trusting the figures; none is the usual case."""
    found = [note.text for note in capture.notes]
    end = capture.end
    if end is None:
        found.append(
            "the process was killed or left by exec: the capture ends with what was written by then"
        )
    elif end.lost_doorbells or end.lost_records:
        found.append(
            f"{end.lost_records:,} records ({end.lost_doorbells:,} doorbells) were lost, the log "
            "was full: the totals are right, the rows lack them; set a larger DENIZEN_LENS_LOG_MB"
        )
    if end is not None and end.unknown_tokens:
        found.append(
            f"{end.unknown_tokens:,} doorbells had a token of no known channel: their entries and "
            "bytes are not counted"
        )
    unreadable = sum(submission.doorbell.unreadable for submission in capture.submissions)
    if unreadable:
        found.append(f"{unreadable:,} doorbells' rings could not be read")
    if capture.instructions:
        code = capture.instructions[0].code.hex(" ")
        stepped = all(instruction.stepped for instruction in capture.instructions)
        how = ", performed by single step" if stepped else ""
        found.append(
            f"{len(capture.instructions):,} accesses to a doorbell page by an instruction that the "
            f"library does not know{how} (the first: {code})"
        )
    if summary is not None and summary.problems:
        found.append(f"{summary.problems:,} words were no method header: the streams are misread")
    return found


def overhead(capture: Capture) -> str:
    """How much longer a doorbell took in this run, in words; "" where nothing says so."""
    own = capture.overhead
    if own is None or own.doorbells == 0:
        return ""
    us = own.ns / own.doorbells * 1e-3
    return (
        f"timings under the lens are longer: {us:.1f} us per doorbell in its handler, and the "
        "delivery of a signal"
    )


def calls_of(capture: Capture, names: Sequence[str]) -> list[tuple[str, int, int, int]]:
    """Calls of the APIs whose name contains one of ``names``: name, time, doorbells, bytes.

    In order. Where calls are not numbered, each doorbell is taken for one.
    """
    found: dict[tuple[int, int], list[int]] = {}
    api: dict[tuple[int, int], str] = {}
    for submission in capture.submissions:
        bell = submission.doorbell
        name = api_of(capture, bell)
        if not any(part in name for part in names):
            continue
        key = (1, bell.call) if bell.call else (0, bell.sequence)
        row = found.setdefault(key, [bell.time_ns, 0, 0])
        row[1] += 1
        row[2] += bell.bytes
        api[key] = name
    return [(api[key], time, bells, size) for key, (time, bells, size) in found.items()]
