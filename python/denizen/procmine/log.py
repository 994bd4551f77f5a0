# SPDX-License-Identifier: Apache-2.0
"""A log of events in memory, as columns; and how one is built while its problems are counted."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from denizen.errors import ArgumentError

OnError = Literal["stop", "count"]
PROBLEMS = (
    "malformed",
    "no case",
    "no activity",
    "no time",
    "negative duration",
)

MISSING = 0xFFFFFFFF
"""The code of an attribute that an event or a case does not have."""
LIFECYCLE = {"start": 1, "complete": 2}
OTHER = 3


class LogError(ArgumentError):
    """A log that cannot be used; the message begins with file and line."""


@dataclass(frozen=True, slots=True)
class Attribute:
    """A column of texts: ``values[codes[i]]``, or nothing where ``codes[i]`` is MISSING."""

    values: list[str]
    codes: NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class Log:
    """n events of some cases, in any order.

    Attributes:
        source: where it came from.
        cases, activities: their names, by number.
        case, activity: uint32, shape (n,): numbers of each event.
        time: int64, shape (n,): when it happened, or ended, in microseconds since 1970-01-01 UTC.
        start: int64, shape (n,): when it began, or None: events are moments.
        lifecycle: uint8, shape (n,): 0 not told, 1 start, 2 complete, 3 other; or None.
        attributes: those of events that were asked for, by key; codes of shape (n,).
        case_attributes: those of cases; codes of shape (len(cases),).
        problems: how often each of PROBLEMS was met while reading.
        first_problems: the first of each, with file and line.
    """

    source: str
    cases: list[str]
    activities: list[str]
    case: NDArray[np.uint32]
    activity: NDArray[np.uint32]
    time: NDArray[np.int64]
    start: NDArray[np.int64] | None = None
    lifecycle: NDArray[np.uint8] | None = None
    attributes: dict[str, Attribute] = field(default_factory=dict)
    case_attributes: dict[str, Attribute] = field(default_factory=dict)
    problems: dict[str, int] = field(default_factory=dict)
    first_problems: dict[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.time)

    def order(self) -> NDArray[np.int64]:
        """The events by case, then time; those of equal times stay as they were."""
        return np.lexsort((self.time, self.case)).astype(np.int64, copy=False)

    def trace(self, case: str) -> list[tuple[str, int]]:
        """Activity and time of each event of a case, in order. ArgumentError if there is none."""
        if case not in self.cases:
            raise ArgumentError(f'{self.source}: no case "{case}"')
        events = np.flatnonzero(self.case == self.cases.index(case))
        events = events[np.argsort(self.time[events], kind="stable")]
        return [(self.activities[self.activity[i]], int(self.time[i])) for i in events]


def from_columns(
    cases: Sequence[object] | NDArray[np.generic],
    activities: Sequence[object] | NDArray[np.generic],
    times: ArrayLike,
    *,
    start: ArrayLike | None = None,
    source: str = "columns",
) -> Log:
    """A log out of three columns of one length, events in any order.

    ``cases`` and ``activities`` may hold anything that can be compared; it is named by ``str``.
    ``times`` and ``start``: integers, microseconds since 1970-01-01 UTC, or NumPy's datetime64.

    Raises ArgumentError for columns of unequal lengths and for a start after its event's time.
    """
    case_names, case = np.unique(np.asarray(cases), return_inverse=True)
    activity_names, activity = np.unique(np.asarray(activities), return_inverse=True)
    time = _microseconds(times)
    begin = None if start is None else _microseconds(start)
    for what, column in (("activities", activity), ("times", time), ("start", begin)):
        if column is not None and len(column) != len(case):
            raise ArgumentError(f"{len(column)} {what} for {len(case)} cases")
    if begin is not None and (late := np.flatnonzero(begin > time)).size:
        raise ArgumentError(f"event {late[0]} starts after its time: a negative duration")
    return Log(
        source,
        [str(name) for name in case_names],
        [str(name) for name in activity_names],
        case.reshape(-1).astype(np.uint32),
        activity.reshape(-1).astype(np.uint32),
        time,
        begin,
    )


def _microseconds(times: ArrayLike) -> NDArray[np.int64]:
    array = np.asarray(times)
    if array.dtype.kind == "M":
        if np.isnat(array).any():
            raise ArgumentError(f"event {int(np.flatnonzero(np.isnat(array))[0])} has no time")
        return array.astype("datetime64[us]").astype(np.int64)
    if array.size and array.dtype.kind not in "iu":
        raise ArgumentError(f"times are {array.dtype}; integers or datetime64 are expected")
    return np.ascontiguousarray(array, np.int64)


class Names:
    """Numbers for texts, in the order in which they come."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def __call__(self, name: str) -> int:
        return self.numbers.setdefault(name, len(self.numbers))

    @property
    def names(self) -> list[str]:
        return list(self.numbers)


class Builder:
    """Takes events one by one from a reader. ``keep``: keys of attributes to hold on to."""

    def __init__(self, source: str, on_error: OnError, keep: Iterable[str] = ()) -> None:
        if on_error not in ("stop", "count"):
            raise ArgumentError(f'on_error "{on_error}" is neither stop nor count')
        self.source = source
        self._on_error = on_error
        self._problems = dict.fromkeys(PROBLEMS, 0)
        self._first: dict[str, str] = {}
        self.case_names, self.activity_names = Names(), Names()
        self._case, self._activity, self._time = array("q"), array("q"), array("q")
        self._start, self._lifecycle = array("q"), array("q")
        self._has_start = self._has_lifecycle = False
        self.keep = tuple(dict.fromkeys(keep))
        self._values = {key: Names() for key in self.keep}
        self._codes = {key: array("q") for key in self.keep}
        self._case_codes: dict[str, dict[int, int]] = {key: {} for key in self.keep}

    def problem(self, kind: str, line: int, what: str, count: int = 1) -> None:
        """Raises LogError, or counts it."""
        text = f"{self.source}:{line}: {what}"
        if self._on_error == "stop":
            raise LogError(text)
        self._problems[kind] += count
        self._first.setdefault(kind, text)

    def add(
        self,
        case: str,
        activity: str,
        time: int,
        *,
        start: int | None = None,
        lifecycle: str | None = None,
        attributes: Mapping[str, str] | None = None,
    ) -> None:
        self._case.append(self.case_names(case))
        self._activity.append(self.activity_names(activity))
        self._time.append(time)
        self._has_start |= start is not None
        self._start.append(time if start is None else start)
        self._has_lifecycle |= lifecycle is not None
        self._lifecycle.append(0 if lifecycle is None else LIFECYCLE.get(lifecycle.lower(), OTHER))
        for key in self.keep:
            value = None if attributes is None else attributes.get(key)
            self._codes[key].append(MISSING if value is None else self._values[key](value))

    def extend(
        self,
        case: NDArray[np.int64],
        activity: NDArray[np.int64],
        time: NDArray[np.int64],
        *,
        start: NDArray[np.int64] | None,
        lifecycle: NDArray[np.int64] | None,
        attributes: Mapping[str, NDArray[np.int64]],
    ) -> None:
        """Many events at once: numbers by case_names, activity_names and ``value()``."""
        none = np.zeros(len(time), np.int64)
        self._has_start |= start is not None
        self._has_lifecycle |= lifecycle is not None and bool(lifecycle.any())
        for column, values in (
            (self._case, case),
            (self._activity, activity),
            (self._time, time),
            (self._start, time if start is None else start),
            (self._lifecycle, none if lifecycle is None else lifecycle),
            *((self._codes[key], attributes.get(key, none + MISSING)) for key in self.keep),
        ):
            column.frombytes(np.ascontiguousarray(values, np.int64).tobytes())

    def value(self, key: str, text: str) -> int:
        """The number of a value of an attribute that is kept."""
        return self._values[key](text)

    def describe_case(self, case: str, attributes: Mapping[str, str]) -> None:
        """Attributes of the case itself."""
        for key in self.keep:
            if key in attributes and case in self.case_names.numbers:
                self._case_codes[key][self.case_names(case)] = self._values[key](attributes[key])

    def log(self) -> Log:
        count = len(self.case_names.numbers)
        of_events, of_cases = {}, {}
        for key in self.keep:
            codes = np.array(self._codes[key], np.uint32)
            if (codes != MISSING).any():
                of_events[key] = Attribute(self._values[key].names, codes)
            if self._case_codes[key]:
                column = np.full(count, MISSING, np.uint32)
                column[list(self._case_codes[key])] = list(self._case_codes[key].values())
                of_cases[key] = Attribute(self._values[key].names, column)
        return Log(
            self.source,
            self.case_names.names,
            self.activity_names.names,
            np.array(self._case, np.uint32),
            np.array(self._activity, np.uint32),
            np.array(self._time, np.int64),
            np.array(self._start, np.int64) if self._has_start else None,
            np.array(self._lifecycle, np.uint8) if self._has_lifecycle else None,
            of_events,
            of_cases,
            {kind: count for kind, count in self._problems.items() if count},
            self._first,
        )
