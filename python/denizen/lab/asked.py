# SPDX-License-Identifier: Apache-2.0
"""What a goal asks of a row of a record: a figure that it reads there (a median, a percentile, how
many times faster than another case) with its interval, and a bound."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from denizen.lab import stats
from denizen.lab.record import Row, Scalar

# A figure and its interval, None where the samples are too few for one. What a goal asks of a run
# itself (its longest call, messages lost in it, its variation) is known: both ends are the figure.
Value = tuple[float, stats.Interval | None]


def longest(row: Row) -> float:
    return row.max


def p999_of(row: Row) -> float:
    return 0.0 if row.p999 is None else row.p999


@dataclass(frozen=True, slots=True)
class Asked:
    """``value`` of the row with ``case`` and ``params`` must be ``<=`` or ``>=`` the bound.

    What the longest sample of case ``besides`` took may be added, or what ``of_besides`` says of
    its row.
    """

    experiment: str
    what: str
    case: str
    params: Mapping[str, Scalar]
    sign: str
    bound: float
    unit: str
    value: Callable[[Row], Value | None]
    needs_gpu: bool = True
    besides: str = ""
    of_besides: Callable[[Row], float] = longest


def median(row: Row) -> Value:
    return row.median, row.ci95


def ratio(name: str) -> Callable[[Row], Value | None]:
    def value(row: Row) -> Value | None:
        return (row.ratio_to[name], row.ratio_ci95[name]) if name in row.ratio_to else None

    return value


def lowest(row: Row) -> Value:
    return row.min, (row.min, row.min)


def highest(row: Row) -> Value:
    return row.max, (row.max, row.max)


def inverse(value: Value | None) -> Value | None:
    if value is None or value[0] == 0:
        return None
    ci95 = value[1]
    return 1 / value[0], None if ci95 is None else (1 / ci95[1], 1 / ci95[0])


def faster(name: str) -> Callable[[Row], Value | None]:
    """How many times shorter than case ``name``."""
    return lambda row: inverse(ratio(name)(row))


def faster_than_first(*names: str) -> Callable[[Row], Value | None]:
    """How many times shorter than the first of these that ran."""
    return lambda row: inverse(first_of(*names)(row))


def faster_than_all(*names: str) -> Callable[[Row], Value | None]:
    """How many times shorter than the shortest of these that ran."""

    def value(row: Row) -> Value | None:
        found = [faster(name)(row) for name in names]
        return smallest([one for one in found if one is not None])

    return value


def smallest(values: Sequence[Value]) -> Value | None:
    """The least of several ratios: as small as the least end of any interval, and no larger than
    the least of the other ends."""
    if not values:
        return None
    intervals = [ci95 for _, ci95 in values if ci95 is not None]
    whole = len(intervals) == len(values)
    ends = (min(low for low, _ in intervals), min(high for _, high in intervals)) if whole else None
    return min(value for value, _ in values), ends


def least_faster(row: Row) -> Value | None:
    """How many times shorter than the shortest of all others."""
    found = [faster(name)(row) for name in row.ratio_to]
    return smallest([value for value in found if value is not None])


def first_of(*names: str) -> Callable[[Row], Value | None]:
    """Against the first of these that ran: the fairer one, that older records have not."""

    def value(row: Row) -> Value | None:
        return next((found for name in names if (found := ratio(name)(row)) is not None), None)

    return value


def least_of(*rivals: str | tuple[str, ...]) -> Callable[[Row], Value | None]:
    """Against the best of these; no answer if one did not run: it may not have been built in.

    Of several names for a rival the first that ran counts.
    """

    def value(row: Row) -> Value | None:
        found = [first_of(*((name,) if isinstance(name, str) else name))(row) for name in rivals]
        known = [one for one in found if one is not None]
        return smallest(known) if len(known) == len(rivals) else None

    return value


def p99_to_p50(row: Row) -> Value | None:
    if row.p99 is None or not row.p50:
        return None
    return row.p99 / row.p50, stats.ratio_ci(row.p99, row.p99_ci95, row.p50, row.ci95)


def at_p99(row: Row) -> Value | None:
    return None if row.p99 is None else (row.p99, row.p99_ci95)


def at_p999(row: Row) -> Value | None:
    """Of so many samples that it is known of this run."""
    return None if row.p999 is None else (row.p999, (row.p999, row.p999))


def cv_percent(row: Row) -> Value | None:
    return None if row.cv is None else (100 * row.cv, (100 * row.cv, 100 * row.cv))
