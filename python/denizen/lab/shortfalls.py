# SPDX-License-Identifier: Apache-2.0
"""The goals that the records miss or leave undecided, each beside what limits it.

What was reached is in the records; the reasons are in shortfalls.toml beside this file.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from denizen import terminal
from denizen.lab import table
from denizen.lab.record import Goal, Record
from denizen.lab.summary import short

VERDICTS = ("met", "missed", "undecided")
HEADER = ("goal", "bound", "on", "reached", "95 % interval", "verdict")


@dataclass(frozen=True, slots=True)
class Reason:
    """Why goals of an experiment are missed: ``goals`` are names in which * stands for anything."""

    experiment: str
    goals: tuple[str, ...]
    why: str

    def fits(self, experiment: str, goal: str) -> bool:
        return experiment == self.experiment and any(fnmatchcase(goal, one) for one in self.goals)


@cache
def reasons() -> tuple[Reason, ...]:
    """What is known, in the order of the file."""
    found = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    return tuple(
        Reason(one["experiment"], tuple(one["goals"]), " ".join(one["why"].split()))
        for one in found["missed"]
    )


def reason(experiment: str, goal: str) -> Reason | None:
    """The first that fits, None if nothing is known."""
    return next((one for one in reasons() if one.fits(experiment, goal)), None)


def short_of(records: Sequence[Record]) -> Iterator[tuple[Record, Goal]]:
    """Each goal that is not met, in the records' order."""
    for record in records:
        for goal in record.goals:
            if goal.verdict != "met":
                yield record, goal


def _cells(record: Record, goal: Goal) -> tuple[str, ...]:
    what, bound, reached, between = table.goal_cells(goal)
    return (what, bound, short(record.device), reached, between, goal.verdict)


def text(records: Sequence[Record]) -> str:
    """The page's part, in Markdown: each reason with its goals, then what is undecided without."""
    explained: dict[tuple[str, str], list[tuple[str, ...]]] = {}
    undecided: list[tuple[str, ...]] = []
    for record, goal in short_of(records):
        known, cells = reason(record.experiment, goal.what), _cells(record, goal)
        if known is None and goal.verdict == "undecided":
            undecided.append((f"{record.experiment}: {cells[0]}", *cells[1:]))
        else:
            why = "Not known." if known is None else known.why
            explained.setdefault((record.experiment, why), []).append(cells)
    verdicts = [goal.verdict for record in records for goal in record.goals]
    counts = ", ".join(f"**{verdicts.count(one)} {one}**" for one in VERDICTS)
    parts = [f"Of {terminal.counted(len(verdicts), 'goal')}, each on its device: {counts}."]
    for (experiment, why), rows in explained.items():
        parts += [f"**{experiment}**: {why}", table.grid(HEADER, rows, (3, 4))]
    if undecided:
        parts += ["Undecided, by the interval alone:", table.grid(HEADER, undecided, (3, 4))]
    return "\n\n".join(parts)
