# SPDX-License-Identifier: Apache-2.0
"""Mining as events arrive: an actor for each case, and some for each activity, on the runtime."""

from __future__ import annotations

import time
from dataclasses import dataclass
from importlib.resources import files
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

import denizen
from denizen import _core
from denizen.errors import ArgumentError
from denizen.lab import machine
from denizen.procmine.log import Log
from denizen.procmine.mine import Mined

_TIMEOUT = 60.0
_CHUNK = 1 << 16
_BUCKETS = (64 - 4 + 1) << 4  # text.hpp
_PART = 8

HAPPENED = denizen.message(
    "Happened", [("time", "i8"), ("bound", "i8"), ("activity", "u4"), ("address", "u4")]
)
STEP = denizen.message("Step", [("duration", "u8"), ("before", "u4")])
FINISH = denizen.message("Finish")
END = denizen.message("End")
ASK_CASE = denizen.message("AskCase")
ASK_EDGE = denizen.message("AskEdge", [("before", "u4")])
ASK_HISTOGRAM = denizen.message("AskHistogram", [("before", "u4"), ("first", "u4")])
ASK_ENDS = denizen.message("AskEnds")
CASE_REPORT = denizen.message(
    "CaseReport",
    [
        ("hash", "u8"),
        ("first", "i8"),
        ("last", "i8"),
        ("events", "u4"),
        ("last_activity", "u4"),
        ("late", "u4"),
        ("pushed_out", "u4"),
        ("waiting", "u4"),
    ],
)
EDGE_REPORT = denizen.message(
    "EdgeReport",
    [("count", "u8"), ("high", "u8"), ("low", "u8"), ("least", "u8"), ("most", "u8")],
)
BUCKETS = denizen.message("Buckets", [("counts", "u4", (_PART,))])
ENDS = denizen.message("Ends", [("starts", "u8"), ("ends", "u8")])
_MESSAGES = [
    HAPPENED, STEP, FINISH, END, ASK_CASE, ASK_EDGE, ASK_HISTOGRAM, ASK_ENDS, CASE_REPORT,
    EDGE_REPORT, BUCKETS, ENDS,
]  # fmt: skip


def program(activities: int, waiting: int) -> denizen.Program:
    """The actors Case and Activity (case.hpp) for so many activities and waiting events."""
    text = files("denizen.procmine").joinpath("case.hpp").read_text(encoding="utf-8")
    sizes = (
        f"inline constexpr uint32_t activity_count = {activities};\n"
        f"inline constexpr uint32_t waiting_slots = {waiting};\n"
    )
    return denizen.Program(
        sizes + text, actors=["Case", "Activity"], messages=_MESSAGES, name="case.hpp"
    )


@dataclass(frozen=True, slots=True)
class Edges:
    """A graph at some moment. Arrays of shape (activities, activities), [from, to].

    Attributes:
        count: uint64.
        mean: float64, microseconds; 0 where count is 0. So are the next.
        least, most: uint64, microseconds.
        starts, ends: uint64, shape (activities,); ends are told when the stream is finished.
    """

    count: NDArray[np.uint64]
    mean: NDArray[np.float64]
    least: NDArray[np.uint64]
    most: NDArray[np.uint64]
    starts: NDArray[np.uint64]
    ends: NDArray[np.uint64]


class Stream:
    """Cases and their graph while events arrive.

    Args:
        activities: how many there are; at most 128.
        cases: how many there may be.
        late: microseconds; an event may come so much later than events of a later time.
        waiting: events of one case that can wait for earlier ones. If there are more, the oldest
            goes on before its time, and what belongs before it is too late.
        device: as of denizen.Runtime.
        shards: actors of each activity, so that more workers can count.

    Cases and activities are told by number. What is too late is left out and counted.
    """

    def __init__(
        self,
        activities: int,
        cases: int,
        *,
        late: int = 0,
        waiting: int = 16,
        device: str = "auto",
        shards: int = 4,
    ) -> None:
        if not 1 <= activities <= 128:
            raise ArgumentError(
                f"{activities} activities; a stream has 1 to 128: merge or filter them, or mine "
                "the log at once"
            )
        if not 0 <= late < 2**62 or not 1 <= waiting <= 1024 or not 1 <= shards <= 1024:
            raise ArgumentError(
                f"late = {late}, waiting = {waiting}, shards = {shards}; late must be 0 or more, "
                "the others 1 to 1024"
            )
        self._activities, self._cases, self._late = activities, cases, late
        slots = waiting if late else 1
        self._shards = shards
        each = activities * (_BUCKETS * 4 + 40) + 256
        room = cases * (slots * 16 + 160) + self._shards * activities * each
        self._rt = denizen.Runtime(
            program(activities, slots),
            device=device,
            max_actors=cases + self._shards * activities + 64,
            state_bytes=room + room // 4 + (1 << 22),
        )
        spawned = self._rt.spawn("Activity", self._shards * activities, timeout=_TIMEOUT)
        self._counters = spawned.reshape(self._shards, activities)
        self._case = self._rt.spawn("Case", cases, timeout=_TIMEOUT)
        self._newest = -(2**62)

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._rt.close()

    @property
    def runtime(self) -> denizen.Runtime:
        """The program that runs it."""
        return self._rt

    def feed(
        self,
        case: NDArray[np.uint32],
        activity: NDArray[np.uint32],
        time: NDArray[np.int64],
    ) -> None:
        """Send n events, in the order of their arrival; shape (n,) each, time in microseconds.

        Returns when they are on their way: flush() waits until they are counted.
        """
        if not len(time) == len(case) == len(activity):
            raise ArgumentError("case, activity and time differ in length")
        if not len(time):
            return
        if int(case.max()) >= self._cases or int(activity.max()) >= self._activities:
            raise ArgumentError(
                f"case {case.max()} or activity {activity.max()} is out of range: there are "
                f"{self._cases} and {self._activities}"
            )
        events = HAPPENED.zeros(len(time))
        events["time"] = time
        newest = np.maximum(np.maximum.accumulate(time), self._newest)
        self._newest = int(newest[-1])
        events["bound"] = newest - self._late
        events["activity"] = activity
        events["address"] = self._counters[case % self._shards, activity]
        self._rt.send_many(self._case[case], events)

    def flush(self) -> None:
        """Wait until all events that were fed are counted, or wait for later ones."""
        self._rt.drain(_TIMEOUT)

    def finish(self) -> None:
        """The stream is over: what waits goes on, and every case ends."""
        finish = FINISH.zeros(self._cases)
        self._rt.send_many(self._case, finish)
        self.flush()

    def edges(self) -> Edges:
        """The graph so far; may be asked at any time. Events that wait are not in it yet."""
        n = self._activities
        ask = ASK_EDGE.zeros(self._shards * n * n)
        ask["before"] = np.tile(np.arange(n, dtype=np.uint32), self._shards * n)
        to = np.repeat(self._counters.reshape(-1), n)
        told = self._rt.ask_many(to, ask, EDGE_REPORT, timeout=_TIMEOUT)
        told = told.reshape(self._shards, n, n).transpose(0, 2, 1)  # [shard, from, to]
        count = told["count"].sum(axis=0)
        high, low = told["high"].sum(axis=0), told["low"].sum(axis=0)
        whole = np.maximum(count, 1)
        mean = (high // whole).astype(np.float64) * 2.0**32 + (
            (high % whole).astype(np.float64) * 2.0**32 + low.astype(np.float64)
        ) / whole.astype(np.float64)
        least = np.where(count > 0, told["least"].min(axis=0), 0)
        ends = self._rt.ask_many(self._counters.reshape(-1), "AskEnds", ENDS, timeout=_TIMEOUT)
        ends = ends.reshape(self._shards, n)
        return Edges(
            count,
            mean,
            least,
            told["most"].max(axis=0),
            ends["starts"].sum(axis=0),
            ends["ends"].sum(axis=0),
        )

    def quantile(self, edges: list[tuple[int, int]], q: float) -> NDArray[np.float64]:
        """A quantile of the durations of some edges, in microseconds; shape (len(edges),).

        Linear between two durations, as NumPy's. Out of histograms whose buckets are a sixteenth of
        their values wide: off by at most 1/32 of the value; NaN for an edge never gone.
        """
        parts = _BUCKETS // _PART
        pairs = np.array(edges, np.uint32).reshape(-1, 2)
        counts = np.zeros((len(pairs), _BUCKETS), np.uint64)
        for shard in self._counters:
            ask = ASK_HISTOGRAM.zeros(len(pairs) * parts)
            ask["before"] = np.repeat(pairs[:, 0], parts)
            ask["first"] = np.tile(np.arange(parts, dtype=np.uint32) * _PART, len(pairs))
            to = np.repeat(shard[pairs[:, 1]], parts)
            told = self._rt.ask_many(to, ask, BUCKETS, timeout=_TIMEOUT)["counts"]
            counts += told.reshape(len(pairs), _BUCKETS).astype(np.uint64)
        sums = counts.cumsum(axis=1)
        out = np.full(len(pairs), np.nan)
        begins = np.array([_bucket_begin(b) for b in range(_BUCKETS + 1)], np.float64)
        middles = (begins[:-1] + begins[1:] - 1) / 2
        for i, total in enumerate(sums[:, -1].tolist()):
            if total:
                place = q * (total - 1)
                below, above = np.searchsorted(sums[i], [int(place), int(place) + 1], side="right")
                above = min(above, _BUCKETS - 1) if place % 1 else below
                out[i] = middles[below] + (middles[above] - middles[below]) * (place % 1)
        return out

    def cases(self) -> NDArray[np.void]:
        """What each case knows: CASE_REPORT, shape (cases,)."""
        return self._rt.ask_many(self._case, "AskCase", CASE_REPORT, timeout=_TIMEOUT)


def _bucket_begin(bucket: int) -> int:
    if bucket < 16:
        return bucket
    return (16 | (bucket & 15)) << ((bucket >> 4) - 1)


@dataclass(frozen=True, slots=True)
class Streamed:
    """What replay() found.

    Attributes:
        edges: the graph at the end.
        cases: reports of the cases, shape (cases,).
        median, p95: float64, microseconds, of the edges of ``pairs``, within 1/32.
        pairs: (from, to) of every edge that was gone, in order.
        events: those that were counted; late: those that were too late, and left out.
        glances: how often the graph was read meanwhile.
        seconds: from the first event to the last one counted.
        device: where it ran.
    """

    edges: Edges
    cases: NDArray[np.void]
    pairs: list[tuple[int, int]]
    median: NDArray[np.float64]
    p95: NDArray[np.float64]
    events: int
    late: int
    glances: int
    seconds: float
    device: str

    def differences(self, mined: Mined) -> list[str]:
        """How it differs from a log mined at once: nothing if no event was too late.

        Frequencies, means, least, most, starts, ends, and each case's events and path (by hash)
        must be equal; median and p95 within 1/32.
        """
        names = mined.log.activities
        n = len(names)
        out = []

        def compare(what: str, mine: NDArray[np.generic], other: NDArray[np.generic]) -> None:
            if not np.array_equal(mine, other):
                out.append(f"{what} differ from those of the log mined at once")

        count = np.zeros((n, n), np.uint64)
        least, most, mean = count.copy(), count.copy(), np.zeros((n, n))
        at = (mined.edge_from, mined.edge_to)
        count[at], least[at], most[at] = mined.edge_count, mined.edge_least, mined.edge_most
        mean[at] = mined.edge_mean
        compare("frequencies", self.edges.count, count)
        compare("shortest durations", self.edges.least, least)
        compare("longest durations", self.edges.most, most)
        if not np.allclose(self.edges.mean, mean, rtol=1e-12, atol=0):
            out.append("mean durations differ from those of the log mined at once")
        compare("starts", self.edges.starts, mined.starts)
        compare("ends", self.edges.ends, mined.ends)
        compare("cases' numbers of events", self.cases["events"], mined.case_events)
        hashes = [_core.procmine_path_hash(mined.path(v)) for v in range(len(mined.variant_count))]
        known = np.array([*hashes, 0], np.uint64)
        which = np.minimum(mined.case_variants, len(hashes)).astype(np.int64)
        compare("paths", self.cases["hash"], known[which])
        if not out:
            for what, mine, other in (
                ("median", self.median, mined.edge_median),
                ("p95", self.p95, mined.edge_p95),
            ):
                wrong = np.abs(mine - other) > other / 32 + 1
                if wrong.any():
                    i = int(np.flatnonzero(wrong)[0])
                    a, b = self.pairs[i]
                    out.append(f"{what} of {names[a]} → {names[b]}: {mine[i]:g}, not {other[i]:g}")
        return out


def replay(
    log: Log, *, late: int = 0, waiting: int = 16, device: str = "auto", glances: int = 8
) -> Streamed:
    """Send a log's events through actors, in the order they have in the log.

    ``late``, ``waiting``, ``device``: as of Stream. ``glances``: how often the graph is read
    meanwhile, about.
    """
    with Stream(
        max(len(log.activities), 1), max(len(log.cases), 1), late=late, waiting=waiting,
        device=device,
    ) as stream:  # fmt: skip
        pieces = max(1, -(-len(log) // _CHUNK))
        every = max(1, pieces // max(glances, 1))
        looked = 0
        begin = time.perf_counter()
        for i in range(pieces):
            part = slice(i * len(log) // pieces, (i + 1) * len(log) // pieces)
            stream.feed(log.case[part], log.activity[part], log.time[part])
            if glances and i % every == every - 1:
                stream.edges()
                looked += 1
        stream.finish()
        seconds = time.perf_counter() - begin
        edges, cases = stream.edges(), stream.cases()
        pairs = [(int(a), int(b)) for a, b in np.argwhere(edges.count)]
        found = stream.runtime.description
        name = str(found["device"]) if found["on_gpu"] else machine.cpu_name()
        return Streamed(
            edges,
            cases[: len(log.cases)],
            pairs,
            stream.quantile(pairs, 0.5),
            stream.quantile(pairs, 0.95),
            int(cases["events"].sum()),
            int(cases["late"].sum()),
            looked,
            seconds,
            f"{name}; {found['workers']:,} {'warps' if found['on_gpu'] else 'threads'}",
        )
