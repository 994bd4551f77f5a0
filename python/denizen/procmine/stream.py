# SPDX-License-Identifier: Apache-2.0
"""Mining as events arrive: an actor for each case, on the runtime."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from importlib.resources import files
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

import denizen
from denizen import _core, machine
from denizen.errors import ArgumentError, ExhaustedError
from denizen.procmine.log import Log
from denizen.procmine.mine import Mined

_TIMEOUT = 60.0
_CHUNK = 1 << 20
_BUCKETS = (64 - 4 + 1) << 4  # text.hpp
_PART = 4096  # words that a clerk copies for one message
_FIGURES = 5  # words of an edge: count, lower and upper half of the sum, ~least, most
_EDGES = 4096  # places for edges, unless more are asked for
_COUNTS_BYTES = 1 << 28  # of the graph's counters: shards beyond the first keep below it

BEGIN = denizen.message("Begin", [("graph", denizen.BUFFER)])
HAPPENED = denizen.message("Happened", [("words", "u4", (9,))])  # packed.hpp
FINISH = denizen.message("Finish")
ASK_CASE = denizen.message("AskCase")
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
SET = denizen.message("Set", [("graph", denizen.BUFFER), ("words", "u8", (3,))])
CLEAR = denizen.message("Clear", [("graph", denizen.BUFFER), ("first", "u8"), ("count", "u8")])
COPY = denizen.message(
    "Copy",
    [
        ("graph", denizen.BUFFER),
        ("to", denizen.BUFFER),
        ("first", "u8"),
        ("at", "u4"),
        ("count", "u4"),
    ],
)
DONE = denizen.message("Done")
_MESSAGES = [BEGIN, HAPPENED, FINISH, ASK_CASE, CASE_REPORT, SET, CLEAR, COPY, DONE]


# Starts and ends; and of the edges that were gone from << 32 | to, figures and slots.
_Words = tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint64], NDArray[np.intp]]


def program(waiting: int) -> denizen.Program:
    """The actors Case and Clerk (case.hpp) for so many events of a case that can wait."""
    text = files("denizen.procmine").joinpath("case.hpp").read_text(encoding="utf-8")
    sizes = f"inline constexpr uint32_t waiting_slots = {waiting};\n"
    return denizen.Program(
        sizes + text, actors=["Case", "Clerk"], messages=_MESSAGES, name="case.hpp"
    )


@dataclass(frozen=True, slots=True)
class Edges:
    """A graph at some moment: e edges that were gone, by source, then by the one they go to.

    Attributes:
        source, to: uint32, shape (e,): activities.
        count: uint64, shape (e,), as the next.
        mean: float64, microseconds.
        least, most: uint64, microseconds.
        starts, ends: uint64, shape (activities,); ends are told when the stream is finished.
    """

    source: NDArray[np.uint32]
    to: NDArray[np.uint32]
    count: NDArray[np.uint64]
    mean: NDArray[np.float64]
    least: NDArray[np.uint64]
    most: NDArray[np.uint64]
    starts: NDArray[np.uint64]
    ends: NDArray[np.uint64]


class Stream:
    """Cases and their graph while events arrive.

    Args:
        activities: how many there are.
        cases: how many there may be.
        late: microseconds; an event may come so much later than events of a later time.
        waiting: events of one case that can wait for earlier ones. If there are more, the oldest
            goes on before its time, and what belongs before it is too late.
        device: as of denizen.Runtime.
        edges: how many different edges there may be, 8 KB each; by default 4,096, or as many as
            there are pairs of activities.
        trace: as of denizen.Runtime, so that ``runtime.trace(path)`` can be called.

    Cases and activities are told by number. What is too late is left out and counted. feed() may be
    called by one thread and the graph read by another.

    Raises ExhaustedError if the memory is not there; from what reads the graph or finishes it also
    if there are more edges than were asked for.
    """

    def __init__(
        self,
        activities: int,
        cases: int,
        *,
        late: int = 0,
        waiting: int = 16,
        device: str = "auto",
        edges: int | None = None,
        trace: bool = False,
    ) -> None:
        if not 1 <= activities < 2**31 or not 1 <= cases < 2**31:
            raise ArgumentError(
                f"activities = {activities}, cases = {cases}; a stream has 1 to 2^31 - 1 of each"
            )
        if not 0 <= late < 2**62 or not 1 <= waiting <= 1024:
            raise ArgumentError(
                f"late = {late}, waiting = {waiting}; late must be 0 to 2^62, waiting 1 to 1024"
            )
        if edges is not None and not 1 <= edges < 2**31:
            raise ArgumentError(f"edges = {edges}; there may be 1 to 2^31 - 1")
        self._activities, self._cases = activities, cases
        self._room = min(edges or _EDGES, activities**2)
        slots = waiting if late else 1
        room = cases * (slots * 16 + 128)
        layout = _core.procmine_counts(activities, self._room, 1)
        self._rt = denizen.Runtime(
            program(slots),
            device=device,
            max_actors=cases + 64,
            state_bytes=room + room // 4 + (1 << 22),
            pool_bytes=8 * layout["words"] + (1 << 20),
            trace=trace,
        )
        try:
            self._begin(late)
        except BaseException:
            self._rt.close()
            raise

    def _begin(self, late: int) -> None:
        told = self._rt.description
        shards = 1  # a GPU adds in its L2
        one = 8 * _core.procmine_counts(self._activities, self._room, 1)["words"]
        if not told["on_gpu"]:
            shards = max(1, min(int(told["workers"]), 16, _COUNTS_BYTES // one))
        self._layout = _core.procmine_counts(self._activities, self._room, shards)
        words = self._layout["words"]
        self._counts = self._rt.buffer(words, np.uint64)
        # Where copies for the host go: all of a shard but its histograms, or some of these.
        self._staged = max(self._layout["histograms"], 64 * _BUCKETS)
        self._staging = self._rt.buffer(self._staged, np.uint64, "pinned")
        self._clerks = self._rt.spawn("Clerk", min(int(told["workers"]), 16), timeout=_TIMEOUT)
        parts = -(-words // (1 << 16))
        clear = CLEAR.zeros(parts)
        clear["graph"] = self._counts.ref
        clear["first"] = np.arange(parts) * (1 << 16)
        clear["count"] = np.minimum(words - clear["first"], 1 << 16)
        self._ask_clerks(clear)
        sizes = SET.zeros(1)
        sizes["graph"] = self._counts.ref
        sizes["words"] = (self._activities, self._layout["slots"], shards)
        self._ask_clerks(sizes)
        self._case = self._rt.spawn("Case", self._cases, timeout=_TIMEOUT)
        self._rt.broadcast("Case", "Begin", timeout=_TIMEOUT, graph=self._counts)
        self._rt.drain(timeout=_TIMEOUT)
        # Workers on CPU threads need the cores themselves.
        packers = min(8, max(1, len(os.sched_getaffinity(0)) // 2)) if told["on_gpu"] else 1
        self._packer = _core.ProcminePacker(self._case, self._activities, late, packers)
        self._finished = False
        self._feeding, self._reading = threading.Lock(), threading.Lock()

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

        The more at a time, the more share a message: up to three events of a case. Returns when
        they are on their way: flush() waits until they are counted.

        Raises ArgumentError if the columns differ in length or a number is out of range; then none
        of them is sent.
        """
        columns = (
            np.ascontiguousarray(case, np.uint32),
            np.ascontiguousarray(activity, np.uint32),
            np.ascontiguousarray(time, np.int64),
        )
        with self._feeding:
            if self._finished:
                raise ArgumentError("the stream is finished; make another for what comes now")
            self._packer.feed(self._rt._core, self._rt._ids[HAPPENED.name], *columns, _TIMEOUT)

    def flush(self) -> None:
        """Wait until all events that were fed are counted, or wait for later ones."""
        self._rt.drain(timeout=_TIMEOUT)

    def finish(self) -> None:
        """The stream is over: what waits goes on, and every case ends. Nothing can be fed then."""
        with self._feeding:
            if not self._finished:
                self._rt.broadcast("Case", "Finish", timeout=_TIMEOUT)
            self._finished = True
        self.flush()

    def edges(self) -> Edges:
        """The graph so far; may be asked at any time. Events that wait are not in it yet.

        While events are under way, the figures of an edge may be some events apart.
        """
        with self._reading:
            shards = [self._shard(i) for i in range(self._layout["shards"])]
            self._check_room()
        n = self._activities
        ends = np.stack([ends for ends, _, _, _ in shards]).sum(axis=0, dtype=np.uint64)
        keys, place = np.unique(
            np.concatenate([keys for _, keys, _, _ in shards]), return_inverse=True
        )
        figures = np.concatenate([figures for _, _, figures, _ in shards])
        count, low, high, least, most = (np.zeros(len(keys), np.uint64) for _ in range(_FIGURES))
        for column, into in enumerate((count, low, high)):
            np.add.at(into, place, figures[:, column])
        np.maximum.at(least, place, figures[:, 3])
        np.maximum.at(most, place, figures[:, 4])
        mean = (high // count).astype(np.float64) * 2.0**32 + (
            (high % count).astype(np.float64) * 2.0**32 + low.astype(np.float64)
        ) / count.astype(np.float64)
        return Edges(
            (keys >> np.uint64(32)).astype(np.uint32),
            keys.astype(np.uint32),
            count,
            mean,
            ~least,
            most,
            ends[:n],
            ends[n:],
        )

    def quantile(self, edges: list[tuple[int, int]], q: float) -> NDArray[np.float64]:
        """A quantile of the durations of some edges, in microseconds; shape (len(edges),).

        Linear between two durations, as NumPy's. Out of histograms whose buckets are a sixteenth of
        their values wide: off by at most 1/32 of the value; NaN for an edge never gone.
        """
        pairs = np.array(edges, np.uint64).reshape(-1, 2)
        counts = np.zeros((len(pairs), _BUCKETS), np.uint64)
        with self._reading:
            for shard in range(self._layout["shards"]):
                _, keys, _, slot = self._shard(shard)
                place = dict(zip(keys.tolist(), slot.tolist(), strict=True))
                found = [
                    (i, place[key])
                    for i, key in enumerate((pairs[:, 0] << np.uint64(32) | pairs[:, 1]).tolist())
                    if key in place
                ]
                begin = self._layout["histograms"]
                for part in range(0, len(found), 64):
                    rows, slots = np.array(found[part : part + 64]).T
                    size = np.full(len(slots), _BUCKETS)
                    told = self._copy(shard, begin + slots * _BUCKETS, size)
                    counts[rows] += told.reshape(-1, _BUCKETS)
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

    def _ask_clerks(self, messages: NDArray[np.void]) -> None:
        to = np.resize(self._clerks, len(messages))
        self._rt.ask_many(to, messages, DONE, timeout=_TIMEOUT)

    def _copy(
        self, shard: int, first: NDArray[np.int64], count: NDArray[np.int64]
    ) -> NDArray[np.uint64]:
        """Some ranges of a shard's words, one behind the other."""
        ask = COPY.zeros(len(first))
        ask["graph"], ask["to"] = self._counts.ref, self._staging.ref
        ask["first"] = self._layout["head"] + shard * self._layout["shard_words"] + first
        ask["at"] = np.cumsum(count) - count
        ask["count"] = count
        self._ask_clerks(ask)
        copied: NDArray[np.uint64] = self._staging.numpy()[: int(count.sum())].copy()
        return copied

    def _shard(self, shard: int) -> _Words:
        """What a shard has counted so far."""
        layout, n = self._layout, self._activities
        first = np.arange(0, layout["histograms"], _PART)
        words = self._copy(shard, first, np.minimum(layout["histograms"] - first, _PART))
        figures = words[layout["figures"] :].reshape(-1, _FIGURES)
        slots = np.flatnonzero(figures[:, 0])
        if layout["figures"] == layout["keys"]:  # each pair has a slot
            keys = (slots // n << 32 | slots % n).astype(np.uint64)
        else:
            keys = words[layout["keys"] : layout["figures"]][slots] - np.uint64(1)
        return words[: layout["keys"]], keys, figures[slots], slots

    def _check_room(self) -> None:
        lost = int(self._copy(0, np.array([3 - self._layout["head"]]), np.array([1]))[0])
        if lost:
            raise ExhaustedError(
                f"the graph has more edges than there is room for ({self._layout['slots']:,}); "
                f"{lost:,} steps were not counted: give edges={4 * self._layout['slots']} or so "
                "(--edges), 8 KB each, or merge activities"
            )


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
        pairs: (from, to) of every edge that was gone, in order, as in ``edges``.
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
        out = []

        def compare(what: str, mine: NDArray[np.generic], other: NDArray[np.generic]) -> None:
            if not np.array_equal(mine, other):
                out.append(f"{what} differ from those of the log mined at once")

        compare("edges", self.edges.source, mined.edge_from)
        compare("edges", self.edges.to, mined.edge_to)
        compare("frequencies", self.edges.count, mined.edge_count)
        compare("shortest durations", self.edges.least, mined.edge_least)
        compare("longest durations", self.edges.most, mined.edge_most)
        if not out and not np.allclose(self.edges.mean, mined.edge_mean, rtol=1e-12, atol=0):
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
    log: Log,
    *,
    late: int = 0,
    waiting: int = 16,
    device: str = "auto",
    edges: int | None = None,
    glances: int = 8,
    traced: Callable[[denizen.Runtime], AbstractContextManager[object]] | None = None,
) -> Streamed:
    """Send a log's events through actors, in the order they have in the log.

    ``late``, ``waiting``, ``device``, ``edges``: as of Stream. ``glances``: how often the
    graph is read meanwhile, about. ``traced``: of the program, what is entered while events are
    sent, such as a trace.
    """
    with Stream(
        max(len(log.activities), 1), max(len(log.cases), 1), late=late, waiting=waiting,
        device=device, edges=edges, trace=traced is not None,
    ) as stream:  # fmt: skip
        pieces = max(1, -(-len(log) // _CHUNK))
        every = max(1, pieces // max(glances, 1))
        looked = 0
        with traced(stream.runtime) if traced is not None else nullcontext():
            begin = time.perf_counter()
            for i in range(pieces):
                part = slice(i * len(log) // pieces, (i + 1) * len(log) // pieces)
                stream.feed(log.case[part], log.activity[part], log.time[part])
                if glances and i % every == every - 1:
                    stream.edges()
                    looked += 1
            stream.finish()
            seconds = time.perf_counter() - begin
        graph, cases = stream.edges(), stream.cases()
        pairs = list(zip(graph.source.tolist(), graph.to.tolist(), strict=True))
        found = stream.runtime.description
        name = str(found["device"]) if found["on_gpu"] else machine.cpu_name()
        return Streamed(
            graph,
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
