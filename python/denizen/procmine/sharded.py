# SPDX-License-Identifier: Apache-2.0
"""Mining over several hosts: each mines its cases, and what they found is put together.

A case is on one host, so counts are sums. Means are of sums of integers. The quantiles of an edge
are exact without its durations in one place: all hosts are asked how many of theirs are at most a
value, which is halved in on.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from denizen.cluster.engines import Engines, Port
from denizen.procmine.log import Log
from denizen.procmine.mine import NO_VARIANT, Mined, mine

# What arrays are, by their tags: to an engine EVENTS and BELOW, to the caller all of it.
EVENTS, BELOW, EDGES, ACTIVITIES, CASES, VARIANTS, PATHS = range(7)

_EVENT = np.dtype([("case", "<u4"), ("activity", "<u4"), ("time", "<i8")])
_EDGE = np.dtype(
    [
        (name, "<u8")
        for name in ("edge", "edge_count", "edge_least", "edge_most", "sum_high", "sum_low")
    ]
)
_ACTIVITY = np.dtype([(name, "<u8") for name in ("activity_counts", "starts", "ends")])
_CASE = np.dtype(
    [("variants", "<u4"), ("events", "<u4"), ("begins", "<i8"), ("ends", "<i8")]
)  # of Mined, without case_
_VARIANT = np.dtype([("count", "<u8"), ("length", "<u8")])
_TARGET = np.dtype([("edge", "<u8"), ("value", "<u8")])
_PER_MILLE = (500, 950)  # median and p95
_PATIENCE = 600.0  # seconds for one host's part


def mine_on_hosts(
    log: Log, device: str, hosts: int, transport: str, *, quantiles: bool, variants: bool
) -> Mined:
    """As mine(): the same arrays, bit for bit. HostLostError if a host is lost before the end."""
    given = {
        "device": device, "activities": len(log.activities), "variants": variants,
        "cases": [len(range(h, len(log.cases), hosts)) for h in range(hosts)],
    }  # fmt: skip
    with Engines(f"{__name__}:engine", hosts, given, transport=transport) as engines:
        began = time.perf_counter()
        owner = log.case % np.uint32(hosts)
        for host in range(hosts):
            own = owner == host
            events = np.empty(int(own.sum()), _EVENT)
            events["case"] = log.case[own] // np.uint32(hosts)
            events["activity"], events["time"] = log.activity[own], log.time[own]
            engines.send(host, EVENTS, events)
        parts = _collected(engines, (EDGES, ACTIVITIES, CASES, VARIANTS, PATHS))
        arrays = _edges([p[EDGES].view(_EDGE) for p in parts], len(log.activities))
        counted = np.sum([_table(p[ACTIVITIES], _ACTIVITY) for p in parts], axis=0)
        for i, name in enumerate(_ACTIVITY.names or ()):
            arrays[name] = counted[:, i]
        for name in ("edge_median", "edge_p95"):
            arrays[name] = np.zeros(len(arrays["edge"]))
        if quantiles and len(arrays["edge"]):
            arrays["edge_median"], arrays["edge_p95"] = _quantiles(engines, arrays)
        arrays["seconds"] = time.perf_counter() - began
    arrays |= _cases([p[CASES].view(_CASE) for p in parts], len(log.cases))
    arrays |= _variants(
        [(p[VARIANTS].view(_VARIANT), p[PATHS].view(np.uint32)) for p in parts],
        arrays["case_variants"],
    )
    if not variants:
        arrays["case_variants"] = np.zeros(0, np.uint32)
    return Mined(log, arrays, f"{hosts} host{'s' * (hosts != 1)} of {device}")


def _table(data: NDArray[np.uint8], dtype: np.dtype[Any]) -> NDArray[np.uint64]:
    return data.view(np.uint64).reshape(-1, len(dtype.names or ()))


def _collected(engines: Engines, tags: Sequence[int]) -> list[dict[int, NDArray[np.uint8]]]:
    """Of each host, what it answers with these tags."""
    parts: list[dict[int, NDArray[np.uint8]]] = [{} for _ in range(engines.hosts)]
    while any(len(part) < len(tags) for part in parts):  # ends, or has run out of time
        got = engines.receive(timeout=_PATIENCE)
        parts[got.sender][got.tag] = got.data
    return parts


def _edges(parts: list[NDArray[Any]], activities: int) -> dict[str, Any]:
    every = np.concatenate(parts)
    edge, place = np.unique(every["edge"], return_inverse=True)

    def summed(name: str) -> NDArray[np.uint64]:
        out = np.zeros(len(edge), np.uint64)
        np.add.at(out, place, every[name])
        return out

    count, high, low = summed("edge_count"), summed("sum_high"), summed("sum_low")
    least, most = np.full(len(edge), 2**64 - 1, np.uint64), np.zeros(len(edge), np.uint64)
    np.minimum.at(least, place, every["edge_least"])
    np.maximum.at(most, place, every["edge_most"])
    # As Sum::over() has it, to the last bit: whole part and rest apart.
    whole = (high // count).astype(np.float64) * 2.0**32
    rest = (high % count).astype(np.float64) * 2.0**32 + low.astype(np.float64)
    return {
        "edge": edge,
        "edge_from": (edge // np.uint64(max(activities, 1))).astype(np.uint32),
        "edge_to": (edge % np.uint64(max(activities, 1))).astype(np.uint32),
        "edge_count": count,
        "edge_least": least,
        "edge_most": most,
        "edge_mean": whole + rest / count.astype(np.float64),
    }


def _quantiles(engines: Engines, arrays: Mapping[str, Any]) -> list[NDArray[np.float64]]:
    """Median and p95 of each edge, linear between two values."""
    count = arrays["edge_count"]
    positions = [(count - np.uint64(1)) * np.uint64(p) for p in _PER_MILLE]
    below = [position // np.uint64(1000) for position in positions]
    last = count - np.uint64(1)
    ranks = np.concatenate(
        [rank for b in below for rank in (b, np.minimum(b + np.uint64(1), last))]
    )
    edges = np.tile(arrays["edge"], len(ranks) // len(count))
    low = np.tile(arrays["edge_least"], len(ranks) // len(count))
    high = np.tile(arrays["edge_most"], len(ranks) // len(count))
    turn = 0
    while (open_ := np.flatnonzero(low < high)).size:  # ends: each turn halves what is between
        middle = low[open_] + (high[open_] - low[open_]) // np.uint64(2)
        targets = np.empty(len(open_), _TARGET)
        targets["edge"], targets["value"] = edges[open_], middle
        for host in range(engines.hosts):
            engines.send(host, BELOW, targets, turn)
        at_most = np.sum(
            [part[BELOW].view(np.uint64) for part in _collected(engines, (BELOW,))], axis=0
        )
        enough = at_most > ranks[open_]
        high[open_] = np.where(enough, middle, high[open_])
        low[open_] = np.where(enough, low[open_], middle + np.uint64(1))
        turn += 1
    values = low.reshape(len(_PER_MILLE), 2, len(count))
    found = []
    for position, (one, other) in zip(positions, values, strict=True):
        fraction = (position % np.uint64(1000)).astype(np.float64) / 1000.0
        found.append(one.astype(np.float64) + (other - one).astype(np.float64) * fraction)
    return found


def _cases(parts: list[NDArray[Any]], cases: int) -> dict[str, Any]:
    every = np.empty(cases, _CASE)
    for host, part in enumerate(parts):
        every[host :: len(parts)] = part
    return {f"case_{name}": every[name].copy() for name in _CASE.names or ()}


def _variants(
    parts: list[tuple[NDArray[Any], NDArray[np.uint32]]], case_variants: NDArray[np.uint32]
) -> dict[str, Any]:
    """All hosts' variants, most frequent first; numbers in ``case_variants`` become theirs."""
    counts: Counter[tuple[int, ...]] = Counter()
    paths: list[list[tuple[int, ...]]] = []
    for variants, steps in parts:
        ends = np.cumsum(variants["length"]).tolist()
        all_steps = steps.tolist()
        own = [
            tuple(all_steps[end - length : end])
            for end, length in zip(ends, variants["length"].tolist(), strict=True)
        ]
        paths.append(own)
        for path, count in zip(own, variants["count"].tolist(), strict=True):
            counts[path] += count
    order = sorted(counts, key=lambda path: (-counts[path], path))
    number = {path: i for i, path in enumerate(order)}
    for host, own in enumerate(paths):
        to = np.array([*(number[path] for path in own), NO_VARIANT], np.uint32)
        of_host = case_variants[host :: len(parts)]
        case_variants[host :: len(parts)] = to[np.minimum(of_host, len(own))]
    length = np.array([len(path) for path in order], np.uint32)
    return {
        "variant_count": np.array([counts[path] for path in order], np.uint64),
        "variant_length": length,
        "variant_offset": np.cumsum(length, dtype=np.uint64) - length,
        "paths": np.array([step for path in order for step in path], np.uint32),
    }


# ---- on each host


def engine(
    port: Port, *, device: str, activities: int, cases: Sequence[int], variants: bool
) -> None:
    """Mines what it gets, then counts durations for as long as it is asked."""
    durations: _Durations | None = None
    while (got := port.receive()) is not None:
        if got.tag == EVENTS:
            log = _log(got.data.view(_EVENT), activities, cases[port.number])
            durations = _Durations(log)
            _answer(port, mine(log, device=device, quantiles=False, variants=variants), durations)
        elif got.tag == BELOW and durations is not None:
            port.answer(BELOW, durations.at_most(got.data.view(_TARGET)), got.number)


def _log(events: NDArray[Any], activities: int, cases: int) -> Log:
    """Without names, which stay with the caller."""
    case, activity, moment = (np.ascontiguousarray(events[name]) for name in _EVENT.names or ())
    return Log("a host's cases", [""] * cases, [""] * activities, case, activity, moment)


def _answer(port: Port, mined: Mined, durations: _Durations) -> None:
    port.answer(EDGES, durations.edges())
    counted = [getattr(mined, name) for name in _ACTIVITY.names or ()]
    port.answer(ACTIVITIES, np.stack(counted, axis=1))
    cases = np.empty(len(mined.case_events), _CASE)
    for name in _CASE.names or ():
        values = getattr(mined, f"case_{name}")
        cases[name] = values if len(values) else NO_VARIANT  # variants: none were asked for
    port.answer(CASES, cases)
    paths = [mined.path(i) for i in range(len(mined.variant_count))]
    found = np.empty(len(paths), _VARIANT)
    found["count"], found["length"] = mined.variant_count, [len(path) for path in paths]
    port.answer(VARIANTS, found)
    port.answer(PATHS, np.concatenate([np.zeros(0, np.uint32), *paths]))


class _Durations:
    """Those of a host's cases, by edge, the shortest first."""

    def __init__(self, log: Log) -> None:
        order = log.order()
        case, activity, time = log.case[order], log.activity[order], log.time[order]
        inside = case[1:] == case[:-1]
        edge = activity[:-1].astype(np.uint64) * np.uint64(max(len(log.activities), 1))
        edge = (edge + activity[1:])[inside]
        duration = (time[1:].view(np.uint64) - time[:-1].view(np.uint64))[inside]
        by_edge = np.lexsort((duration, edge))
        self._values = duration[by_edge]
        self._edge, self._begin = np.unique(edge[by_edge], return_index=True)
        self._end = np.append(self._begin[1:], len(self._values)).astype(np.int64)

    def edges(self) -> NDArray[Any]:
        """What is known of each edge, _EDGE."""
        out = np.zeros(len(self._edge), _EDGE)
        if not len(out):
            return out
        out["edge"], out["edge_count"] = self._edge, self._end - self._begin
        out["edge_least"], out["edge_most"] = self._values[self._begin], self._values[self._end - 1]
        out["sum_high"] = np.add.reduceat(self._values >> np.uint64(32), self._begin)
        out["sum_low"] = np.add.reduceat(self._values & np.uint64(2**32 - 1), self._begin)
        return out

    def at_most(self, targets: NDArray[Any]) -> NDArray[np.uint64]:
        """Of each target: how many of the edge's durations are at most the value."""
        place = np.minimum(np.searchsorted(self._edge, targets["edge"]), len(self._edge) - 1)
        if not len(self._edge):
            return np.zeros(len(targets), np.uint64)
        known = self._edge[place] == targets["edge"]
        begin = np.where(known, self._begin[place], 0)
        low, high = begin.copy(), np.where(known, self._end[place], 0)
        while (low < high).any():  # ends: each turn halves what is between
            middle = (low + high) // 2
            at = np.minimum(middle, len(self._values) - 1)
            right = (self._values[at] <= targets["value"]) & (low < high)
            high = np.where(right | (low >= high), high, middle)
            low = np.where(right, middle + 1, low)
        return (low - begin).astype(np.uint64)
