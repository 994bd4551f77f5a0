# SPDX-License-Identifier: Apache-2.0
"""Two records of one experiment: which rows changed, which one of them lacks, which goals turned.

A row changed where the interval of the ratio of both medians leaves out 1 by more than two equal
arms lie apart in either record. The two were measured apart, so that interval is the widest that
both rows' own allow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from denizen import terminal
from denizen.lab import record, table
from denizen.lab.record import Goal, LabError, Record, Row, lower_is_better
from denizen.lab.stats import Interval

HEADER = ("case", "unit", "before", "now", "change")


@dataclass(frozen=True, slots=True)
class Change:
    """A row before and now: so many times better it is, below 1 worse; None where either has too
    few samples for an interval."""

    before: Row
    now: Row
    times: float
    ci95: Interval | None

    @property
    def told(self) -> bool:
        """Whether the row changed."""
        floor = max(self.before.floor or 0.0, self.now.floor or 0.0)
        return self.ci95 is not None and table.beyond(self.ci95, floor) != table.UNDECIDED


@dataclass(frozen=True, slots=True)
class Compared:
    """``goals`` are those that both records answer, each with another verdict."""

    changes: tuple[Change, ...]
    gone: tuple[Row, ...]
    new: tuple[Row, ...]
    goals: tuple[tuple[Goal, Goal], ...]


def _change(before: Row, now: Row) -> Change | None:
    old, new = (before, now) if lower_is_better(now.unit) else (now, before)
    if old.median <= 0 or new.median <= 0 or before.unit != now.unit:
        return None
    ci95 = None
    if old.ci95 is not None and new.ci95 is not None and min(*old.ci95, *new.ci95) > 0:
        ci95 = (old.ci95[0] / new.ci95[1], old.ci95[1] / new.ci95[0])
    return Change(before, now, old.median / new.median, ci95)


def compared(before: Record, now: Record) -> Compared:
    """LabError unless both are of one experiment."""
    if before.experiment != now.experiment:
        raise LabError(
            f'records of "{before.experiment}" and of "{now.experiment}"; compare two of one '
            "experiment"
        )
    old = {row.key: row for row in before.rows}
    new = {row.key: row for row in now.rows}
    verdicts = {goal.what: goal for goal in before.goals}
    pairs = [(old[key], row) for key, row in new.items() if key in old]
    return Compared(
        tuple(change for pair in pairs if (change := _change(*pair)) is not None),
        tuple(row for key, row in old.items() if key not in new),
        tuple(row for key, row in new.items() if key not in old),
        tuple(
            (verdicts[goal.what], goal)
            for goal in now.goals
            if goal.what in verdicts and verdicts[goal.what].verdict != goal.verdict
        ),
    )


def in_words(rows: Sequence[Row], most: int = 6) -> str:
    """``ask (memory pinned), ask (memory mapped)``: names of rows, of many the first ones."""
    names = [table.cells(row)[0] for row in rows[:most]]
    more = len(rows) - len(names)
    return "; ".join(names) + (f"; and {more} more" if more else "")


def pairs(before: Path, now: Path) -> Iterator[tuple[Record, Record]]:
    """Records of two files, or of two folders by experiment and device. LabError where there is
    nothing to compare; what one folder has alone is told."""
    for path in (before, now):
        if not path.exists():
            raise LabError(f"{path}: no such file or folder")
    if before.is_dir() != now.is_dir():
        raise LabError(f"{before} and {now}: give two records, or two folders of them")
    if not before.is_dir():
        yield record.read(before), record.read(now)
        return
    old = {record.path_in(Path(), one): one for one in record.read_all(before)}
    new = {record.path_in(Path(), one): one for one in record.read_all(now)}
    if not old.keys() & new.keys():
        raise LabError(f"{before} and {now} have no experiment on one device in common")
    for here, those in ((before, old.keys() - new.keys()), (now, new.keys() - old.keys())):
        if those:
            alone = ", ".join(path.with_suffix("").as_posix() for path in sorted(those))
            terminal.line(f"only in {here}: {alone}")
    yield from ((one, new[path]) for path, one in old.items() if path in new)


def show(before: Record, now: Record) -> None:
    """Print what differs to stdout."""
    found = compared(before, now)
    terminal.line(f"{now.experiment}, before: {table.source(before)}")
    terminal.line(f"{now.experiment}, now: {table.source(now)}")
    told = [change for change in found.changes if change.told]
    rows = [
        (
            table.cells(change.now)[0],
            change.now.unit,
            table.number(change.before.median),
            table.number(change.now.median),
            table.times(change.times, change.ci95),
        )
        for change in told
    ]
    if rows:
        terminal.table(f"{now.experiment}: what changed", HEADER, rows, right=(2, 3))
    few = sum(change.ci95 is None for change in found.changes)
    same = len(found.changes) - len(told) - few
    terminal.line(
        f"{terminal.counted(len(told), 'row')} changed, {same} did not; {few} with too few samples"
    )
    for what, those in (("gone", found.gone), ("new", found.new)):
        if those:
            terminal.line(f"{terminal.counted(len(those), 'row')} {what}: {in_words(those)}")
    for old, new in found.goals:
        terminal.line(
            f"{new.what}, {new.bound}: {old.verdict} with {table.number(old.reached)}, now "
            f"{new.verdict} with {table.number(new.reached)}"
        )
