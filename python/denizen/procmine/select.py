# SPDX-License-Identifier: Apache-2.0
"""Filters: a log of those cases that meet conditions."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from denizen.errors import ArgumentError
from denizen.procmine.log import MISSING, Attribute, Log

Window = Literal["within", "touching", "starting", "ending"]


def _numbers(log: Log, names: Collection[str]) -> NDArray[np.uint32]:
    known = {name: i for i, name in enumerate(log.activities)}
    for name in names:
        if name not in known:
            raise ArgumentError(f'{log.source}: no activity is called "{name}"')
    return np.array([known[name] for name in names], np.uint32)


def _having(log: Log, events: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Cases of which at least one event is marked."""
    out = np.zeros(len(log.cases), bool)
    out[log.case[events]] = True
    return out


def select(
    log: Log,
    *,
    begin: int | None = None,
    end: int | None = None,
    window: Window = "within",
    contains: Collection[str] = (),
    without: Collection[str] = (),
    starts_with: Collection[str] = (),
    ends_with: Collection[str] = (),
    least: int | None = None,
    most: int | None = None,
    where: Mapping[str, str] | None = None,
) -> Log:
    """The cases that meet all conditions, whole, as a log of their own.

    Args:
        log: the log.
        begin, end: a window of time, in microseconds since 1970-01-01 UTC; end itself is outside.
        window: "within" (all events in it), "touching" (at least one), "starting" (the first),
            "ending" (the last).
        contains, without: activities that all must be, or none may be, in the case.
        starts_with, ends_with: its first and last activity is one of these.
        least, most: from its first event to its last, in microseconds, both included.
        where: an attribute of the case, or of at least one of its events, has this value. Only
            those that were kept by read() are known.

    Raises ArgumentError for an activity or an attribute that the log does not have.
    """
    keep = np.zeros(len(log.cases), bool)
    keep[log.case] = True
    if len(log):
        order = log.order()
        case = log.case[order]
        first = np.flatnonzero(np.r_[True, case[1:] != case[:-1]])
        last = np.r_[first[1:], len(case)] - 1
        present = case[first]
        begins, ends = log.time[order[first]], log.time[order[last]]

        def demand(met: NDArray[np.bool_]) -> None:
            keep[present] &= met

        low = -(2**63) if begin is None else begin
        high = 2**63 - 1 if end is None else end
        if begin is not None or end is not None:
            if window == "within":
                demand((begins >= low) & (ends < high))
            elif window == "touching":
                keep &= _having(log, (log.time >= low) & (log.time < high))
            elif window == "starting":
                demand((begins >= low) & (begins < high))
            elif window == "ending":
                demand((ends >= low) & (ends < high))
            else:
                raise ArgumentError(
                    f'window "{window}" is none of within, touching, starting, ending'
                )
        if starts_with:
            demand(np.isin(log.activity[order[first]], _numbers(log, starts_with)))
        if ends_with:
            demand(np.isin(log.activity[order[last]], _numbers(log, ends_with)))
        if least is not None:
            demand(ends - begins >= least)
        if most is not None:
            demand(ends - begins <= most)
    for number in _numbers(log, contains):
        keep &= _having(log, log.activity == number)
    for number in _numbers(log, without):
        keep &= ~_having(log, log.activity == number)
    for key, value in (where or {}).items():
        keep &= _with_attribute(log, key, value)
    return _only(log, keep)


def _with_attribute(log: Log, key: str, value: str) -> NDArray[np.bool_]:
    if key not in log.attributes and key not in log.case_attributes:
        raise ArgumentError(
            f'{log.source}: no event or case has an attribute "{key}" that was kept'
        )
    met = np.zeros(len(log.cases), bool)
    column = log.case_attributes.get(key)
    if column is not None and value in column.values:
        met |= column.codes == column.values.index(value)
    column = log.attributes.get(key)
    if column is not None and value in column.values:
        met |= _having(log, column.codes == column.values.index(value))
    return met


def _only(log: Log, keep: NDArray[np.bool_]) -> Log:
    """Cases are numbered anew; activities keep their numbers."""
    events = keep[log.case] if len(log) else np.zeros(0, bool)
    number = np.full(len(keep), MISSING, np.uint32)
    number[keep] = np.arange(int(keep.sum()), dtype=np.uint32)
    return Log(
        log.source,
        [log.cases[c] for c in np.flatnonzero(keep)],
        log.activities,
        number[log.case[events]],
        log.activity[events],
        log.time[events],
        None if log.start is None else log.start[events],
        None if log.lifecycle is None else log.lifecycle[events],
        {key: Attribute(a.values, a.codes[events]) for key, a in log.attributes.items()},
        {key: Attribute(a.values, a.codes[keep]) for key, a in log.case_attributes.items()},
        log.problems,
        log.first_problems,
    )
