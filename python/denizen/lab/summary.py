# SPDX-License-Identifier: Apache-2.0
"""Where denizen is ahead of others, level with them, behind them: from the records' ratios alone.

A comparison is a case of ours, a rival and a device, with one row for each set of parameters. What
wins against us is told by the same rule and in the same table as what we win.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from denizen.lab import rivals, table
from denizen.lab.record import Record, Row
from denizen.lab.stats import Interval

# What a row is compared with that is no rival: limits of the machine, and denizen itself.
_LIMITS = frozenset({
    "ask", "atomic increment", "atomic increments", "clock read", "copy", "host to device",
    "raw mailbox", "raw words", "read", "start and spawn", "supervised, none failing",
    "two steps and 5 us", "update of two arrays", "write + fsync", "graph, one thread",
    "graph, threads", "narrow", "wide", "echoes, first third",
})  # fmt: skip
_OURS = (
    "one kernel for ever", "one kernel for a run", "one kernel", "narrow", "wide", "on a thread",
)  # fmt: skip
# Of other experiments the cases are not denizen's, or the base is the same call without it.
_WITHOUT = frozenset({"beside", "driver", "frameworks", "handlers"})
# Ways of denizen itself, by experiment.
_OUR_WAYS = frozenset({
    ("bfs", "tasks"), ("io", "by handlers, portable"), ("transactions", "rules, from Python"),
    *(
        ("bfs", f"{what}{place}, seen by the host")
        for what in ("", "shortest paths, ") for place in ("one thread", "GPU")
    ),
})  # fmt: skip
# Bases that are ours, so that the rows that name them are rivals'.
_OUR_BASES = frozenset({("io", "by handlers")})


@dataclass(frozen=True, slots=True)
class Compared:
    """One row of ours beside its rival: how many times better, and where that leaves it."""

    what: str
    gain: float
    ci95: Interval | None
    standing: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """A case of ours beside one rival on one device."""

    experiment: str
    device: str
    case: str
    rival: str
    rows: tuple[Compared, ...]

    @property
    def against(self) -> str:
        """The rival without the name of our case: ``boost queue``."""
        for words in (f"{self.case}, ", f"{self.case.partition(', ')[0]}, "):
            if self.rival.startswith(words):
                return self.rival.removeprefix(words)
        return self.rival

    @property
    def why(self) -> str | None:
        """Why one is ahead of the other, None where nothing is known."""
        name = rivals.known(rivals.WHY, self.experiment, self.rival)
        return None if name is None else rivals.WHY[self.experiment, name]

    @property
    def uneven(self) -> tuple[str, str] | None:
        """The rival's name and what makes its figure uneven, None where nothing is known."""
        name = rivals.known(rivals.UNEVEN, self.experiment, self.rival)
        if name is None:
            return None
        told, _ = rivals.UNEVEN[self.experiment, name]
        return f"{self.experiment}, {name}", told


def _turned(standing: str) -> str:
    return {table.AHEAD: table.BEHIND, table.BEHIND: table.AHEAD}.get(standing, standing)


def _row(row: Row, base: str, *, theirs: bool) -> Compared:
    gain, ci95 = table.gain(row, base)
    standing = table.standing(row, base)
    if theirs:
        gain, standing = 1 / gain, _turned(standing)
        ci95 = None if ci95 is None else (1 / ci95[1], 1 / ci95[0])
    return Compared(table.params(row), gain, ci95, standing)


def comparisons(records: Sequence[Record]) -> list[Comparison]:
    """All of the records', in their order."""
    found: dict[tuple[str, str, str, str], list[Compared]] = {}
    for record in records:
        if record.experiment in _WITHOUT:
            continue
        for row in record.rows:
            for base, ratio in row.ratio_to.items():
                if base in _LIMITS or base.endswith(_OURS) or ratio <= 0:
                    continue
                # "chain of saxpy, GNU Radio" is theirs, beside our "chain of saxpy".
                theirs = row.case.startswith(f"{base}, ")
                theirs |= (record.experiment, base) in _OUR_BASES
                case, rival = (base, row.case) if theirs else (row.case, base)
                if (record.experiment, rival) in _OUR_WAYS:
                    continue
                key = (record.experiment, record.device, case, rival)
                found.setdefault(key, []).append(_row(row, base, theirs=theirs))
    return [Comparison(*key, tuple(rows)) for key, rows in found.items()]


HEADER = ("denizen's", "beside", "on", "how many times better", "rows")
STANDINGS = (table.AHEAD, table.LEVEL, table.BEHIND, table.UNDECIDED)


def _unbroken(text: str) -> str:
    return text.replace(" ", "\N{NO-BREAK SPACE}")


def _range(rows: Sequence[Compared]) -> str:
    ends = [pick(rows, key=lambda row: row.gain) for pick in (min, max)]
    told = [_unbroken(table.times(row.gain, row.ci95)) for row in ends]
    return told[0] if len(rows) == 1 else " ... ".join(told)


def _folded(summary: str, text: str) -> str:
    return f"<details><summary>{summary}</summary>\n\n{text}\n\n</details>"


def text(records: Sequence[Record]) -> str:
    """The summary as Markdown: a line for each rival with the reason, then a table for each
    standing, all made in the same way."""
    every = comparisons(records)
    parts = [
        "A comparison is ahead or behind where its whole 95 % interval is, and beyond what two "
        "equal arms of its record lie apart (A/A: the case's own, else the largest); level where "
        "that lies within 3 % of 1; else undecided. The reasons follow from how each is built.",
    ]
    counts = {
        standing: sum(row.standing == standing for one in every for row in one.rows)
        for standing in STANDINGS
    }
    parts.append(
        f"Of {sum(counts.values())} rows beside a rival: "
        + ", ".join(f"**{count} {standing}**" for standing, count in counts.items())
        + "."
    )
    parts.append(_by_rival(every))
    parts.append(_equal_arms(every, records))
    cases = {(record.experiment, row.case) for record in records for row in record.rows}
    evened = {
        (experiment, name)
        for (experiment, name), (_, even) in rivals.UNEVEN.items()
        if (experiment, even) in cases
    }
    uneven = dict.fromkeys(
        one.uneven
        for one in every
        if one.uneven is not None
        and (one.experiment, one.uneven[0].removeprefix(f"{one.experiment}, ")) not in evened
    )
    parts.append("Known to be uneven:")
    parts.append("\n".join(f"- {rival}: {told}." for rival, told in uneven) or "- nothing.")
    parts.append("Without a row in any record:")
    parts.append(
        "\n".join(f"- {of}, {rival}: {told}." for (of, rival), told in rivals.MISSING.items())
    )
    parts.append("Line by line; each row of a record counts alone:")
    for standing, count in counts.items():
        lines = []
        for one in every:
            rows = [row for row in one.rows if row.standing == standing]
            if not rows:
                continue
            share = f"{len(rows)} of {len(one.rows)}"
            if len(one.rows) > len(rows) == 1 and rows[0].what:
                share += f": {rows[0].what}"
            lines.append((one.case, one.against, short(one.device), _range(rows), share))
        found = table.grid(HEADER, lines, ()) if lines else "None."
        parts.append(_folded(f"{standing.capitalize()}: {count} rows", found))
    return "\n\n".join(parts)


def _by_rival(every: Sequence[Comparison]) -> str:
    """By experiment and rival: rows of each standing, the span of all of them, the reason."""
    groups: dict[tuple[str, str], list[Comparison]] = {}
    for one in every:
        groups.setdefault((one.experiment, one.against), []).append(one)
    lines = []
    for (experiment, rival), of in groups.items():
        rows = [row for one in of for row in one.rows]
        counts = [sum(row.standing == standing for row in rows) for standing in STANDINGS]
        reasons = dict.fromkeys(one.why for one in of if one.why is not None)
        told = [
            _unbroken(f"{count} {word}")
            for count, word in zip(counts, STANDINGS, strict=True)
            if count
        ]
        who = "<br>".join((f"**{experiment}: {rival}**", *reasons))
        lines.append((who, _range(rows), ", ".join(told)))
    header = ("experiment: beside, and why", "how many times better", "rows that are")
    return table.grid(header, lines, ())


def _equal_arms(every: Sequence[Comparison], records: Sequence[Record]) -> str:
    """By experiment: how far two equal arms lie apart, in the middle and at most."""
    known, unknown = [], []
    for experiment in dict.fromkeys(one.experiment for one in every):
        floors = sorted(
            row.floor
            for record in records
            for row in record.rows
            if record.experiment == experiment
            and row.noise_floor is not None
            and row.floor is not None
        )
        if floors:
            middle = table.percent(floors[len(floors) // 2])
            known.append(f"{experiment} {middle}, {table.percent(floors[-1])}")
        else:
            unknown.append(experiment)
    told = f"Two equal arms lie apart (A/A, middle and most): {'; '.join(known) or 'no record'}."
    return f"{told} Not measured: {', '.join(unknown)}." if unknown else told


def short(device: str) -> str:
    """A device's name for a column: ``H200``, ``EPYC, 2 cores``."""
    for word in ("NVIDIA ", "CPU: ", "AMD ", "(R)", "Intel ", " Processor", " 80GB HBM3"):
        device = device.replace(word, "")
    return device.strip()
