# SPDX-License-Identifier: Apache-2.0
"""What a record reached of the project's goals (goal_list.py).

A goal is never a test: a machine that misses it is reported, not failed. It is looked for by case
and parameters, so a record that has no such row has no such goal.
"""

from __future__ import annotations

from collections.abc import Sequence

from denizen.lab import stats, table
from denizen.lab.asked import Asked, Value, median
from denizen.lab.goal_list import GOALS
from denizen.lab.record import Goal, Row

MET, MISSED, UNDECIDED = "met", "missed", "undecided"
# Units of what is counted, not timed: where all samples agree, that is the figure.
_COUNTS = frozenset({"B", "doorbells", "messages"})


def reached(experiment: str, rows: Sequence[Row], *, gpu: bool) -> list[Goal]:
    """The goals of ``experiment`` that ``rows``, measured with a GPU or without, can answer.

    Where several rows fit (a case measured over both kinds of memory), the best one counts, and the
    answer says of how many, and which.
    """
    answers = []
    for goal in GOALS:
        if goal.experiment != experiment or (goal.needs_gpu and not gpu):
            continue
        found = [
            (value, row)
            for row in rows
            if row.case == goal.case
            and all(row.params.get(key) == item for key, item in goal.params.items())
            and (value := _of(goal, row)) is not None
        ]
        if not found:
            continue
        (best, ci95), row = (min if goal.sign == "<=" else max)(found, key=lambda one: one[0][0])
        bound = goal.bound + max(
            (goal.of_besides(row) for row in rows if row.case == goal.besides), default=0
        )
        sign = "≤" if goal.sign == "<=" else "≥"
        verdict = _verdict(goal.sign, bound, ci95)
        which = _apart(row, [other for _, other in found])
        answers.append(
            Goal(goal.what, f"{sign} {bound:g} {goal.unit}", best, ci95, verdict, len(found), which)
        )
    return answers


def _apart(row: Row, rows: Sequence[Row]) -> str:
    """The parameters of ``row`` that not all of ``rows`` share, in words."""
    apart = {
        key: value
        for key, value in row.params.items()
        if any(other.params.get(key) != value for other in rows)
    }
    return table.in_words(apart)


def _of(goal: Asked, row: Row) -> Value | None:
    value = goal.value(row)
    counted = row.unit in _COUNTS and goal.value is median and row.min == row.max
    return (row.median, (row.min, row.max)) if counted else value


def _verdict(sign: str, bound: float, ci95: stats.Interval | None) -> str:
    if ci95 is None:
        return UNDECIDED
    low, high = ci95
    if sign == ">=":
        low, high, bound = -high, -low, -bound
    return MET if high <= bound else MISSED if low > bound else UNDECIDED
