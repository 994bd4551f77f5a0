# SPDX-License-Identifier: Apache-2.0
"""What happens at the same time within a case: its partial order, width, concurrent activities."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from denizen.procmine.log import LIFECYCLE, Attribute, Log

_MOST_PAIRS = 512  # executions of one case whose pairs are counted one by one


@dataclass(frozen=True, slots=True)
class Executions:
    """Activities as they were carried out: one for each event that is a moment or has a start, one
    for each pair of a start and a complete event. Arrays of shape (executions,), by case, then
    start, then end.

    ``open``: start events without a complete event of the same activity behind them in their case;
    they are moments.
    """

    case: NDArray[np.uint32]
    activity: NDArray[np.uint32]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    open: int


def executions(log: Log) -> Executions:
    """Those of a log: from its column of starts if it has one, else from its lifecycle.

    With a lifecycle each complete event takes the earliest start event of its activity in its case
    that no other took; complete events without one are moments, and so are events of other
    transitions.
    """
    events, begun, unpaired = _carried_out(log)
    case, activity, end = log.case[events], log.activity[events], log.time[events]
    order = np.lexsort((end, begun, case))
    return Executions(case[order], activity[order], begun[order], end[order], unpaired)


def by_execution(log: Log) -> Log:
    """A log with one event for each execution: its time is the end, its start the begin.

    What executions() says of lifecycles holds: without this, an activity of which a log tells both
    start and completion follows itself in every case.
    """
    events, begun, _ = _carried_out(log)
    attributes = {
        key: Attribute(column.values, column.codes[events])
        for key, column in log.attributes.items()
    }
    return replace(
        log,
        case=log.case[events],
        activity=log.activity[events],
        time=log.time[events],
        start=begun,
        lifecycle=None,
        attributes=attributes,
    )


def _carried_out(log: Log) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """The events that end executions, in order; when these began; start events without an end."""
    order = log.order()
    case, activity, time = log.case[order], log.activity[order], log.time[order]
    start = time.copy() if log.start is None else log.start[order]
    left = np.ones(len(order), bool)
    unpaired = 0
    if log.start is None and log.lifecycle is not None:
        stages = log.lifecycle[order]
        waiting: dict[tuple[int, int], list[int]] = defaultdict(list)
        keys = zip(case.tolist(), activity.tolist(), strict=True)
        for i, (key, stage) in enumerate(zip(keys, stages.tolist(), strict=True)):
            if stage == LIFECYCLE["start"]:
                waiting[key].append(i)
            elif stage == LIFECYCLE["complete"] and waiting.get(key):
                begun = waiting[key].pop(0)
                start[i] = time[begun]
                left[begun] = False
        unpaired = sum(map(len, waiting.values()))
    return order[left], start[left], unpaired


def order_of(start: NDArray[np.int64], end: NDArray[np.int64]) -> NDArray[np.bool_]:
    """before[i, j]: execution i comes before j, for k executions of one case; shape (k, k).

    One comes before another if it ends no later than the other starts. Two moments at the same
    time are concurrent, as no clock tells them apart.
    """
    before = end[:, None] <= start[None, :]
    moment = start == end
    together = moment[:, None] & moment[None, :] & (start[:, None] == start[None, :])
    return np.asarray(before & ~together)


def partial_order(found: Executions, case: int) -> NDArray[np.bool_]:
    """order_of() the executions of a case, by its number."""
    mine = np.flatnonzero(found.case == case)
    return order_of(found.start[mine], found.end[mine])


def widths(found: Executions, cases: int) -> NDArray[np.uint32]:
    """The width of each case's partial order: the most executions of which no two are ordered.

    Shape (cases,); 0 for a case without any. The order comes from intervals, and intervals that
    overlap in pairs have a moment in common, so the largest antichain is the largest number that
    are under way at once: exact for cases of any length. (By Dilworth's theorem it is also the
    least number of chains that cover the case; the tests compare it with that, by matching.)
    """
    n = len(found.case)
    moment = found.start == found.end
    # At one time: intervals end, moments happen side by side, intervals begin.
    case = np.concatenate([found.case, found.case])
    time = np.concatenate([found.start, found.end])
    rank = np.concatenate([np.where(moment, 1, 3), np.where(moment, 2, 0)])
    change = np.concatenate([np.ones(n, np.int64), -np.ones(n, np.int64)])
    order = np.lexsort((rank, time, case))
    under_way = np.cumsum(change[order])  # 0 at the end of each case
    out = np.zeros(cases, np.int64)
    np.maximum.at(out, case[order], under_way)
    return out.astype(np.uint32)


@dataclass(frozen=True, slots=True)
class Concurrency:
    """What concurrency() found.

    Attributes:
        executions: see there.
        width: uint32, shape (cases,).
        pairs: two activities (by name, the lesser first) and in how many pairs of executions of one
            case they were concurrent, most frequent first.
        left_out: cases of more than 512 executions; their pairs were not counted.
    """

    executions: Executions
    width: NDArray[np.uint32]
    pairs: list[tuple[str, str, int]]
    left_out: int


def concurrency(log: Log) -> Concurrency:
    """What happens at the same time in the cases of a log."""
    found = executions(log)
    width = widths(found, len(log.cases))
    bounds = np.searchsorted(found.case, np.arange(len(log.cases) + 1))
    pairs: Counter[tuple[int, int]] = Counter()
    left_out = 0
    for c in np.flatnonzero(width > 1).tolist():
        begin, end = int(bounds[c]), int(bounds[c + 1])
        if end - begin > _MOST_PAIRS:
            left_out += 1
            continue
        before = order_of(found.start[begin:end], found.end[begin:end])
        one, other = np.nonzero(np.triu(~(before | before.T), 1))
        a, b = found.activity[begin:end][one], found.activity[begin:end][other]
        pairs.update(zip(np.minimum(a, b).tolist(), np.maximum(a, b).tolist(), strict=True))
    names = log.activities
    told = [(min(names[a], names[b]), max(names[a], names[b]), n) for (a, b), n in pairs.items()]
    return Concurrency(found, width, sorted(told, key=lambda pair: (-pair[2], pair[:2])), left_out)
