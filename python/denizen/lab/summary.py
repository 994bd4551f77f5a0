# SPDX-License-Identifier: Apache-2.0
"""Where denizen is ahead of others, level with them, behind them: from the records' ratios alone.

A comparison is a case of ours, a rival and a device, with one row for each set of parameters. What
wins against us is told by the same rule and in the same table as what we win.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from denizen.lab import table
from denizen.lab.record import Record, Row
from denizen.lab.stats import Interval

# What a row is compared with that is no rival: limits of the machine, and denizen itself.
_LIMITS = frozenset({
    "ask", "atomic increment", "atomic increments", "clock read", "copy", "host to device",
    "raw mailbox", "raw words", "read", "start and spawn", "supervised, none failing",
    "two steps and 5 us", "update of two arrays", "write + fsync", "graph, one thread",
    "graph, threads", "narrow", "wide",
})  # fmt: skip
_OURS = ("one kernel for ever", "one kernel for a run", "one kernel", "narrow", "wide")
# Of other experiments the cases are not denizen's, or the base is the same call without it.
_WITHOUT = frozenset({"beside", "driver", "frameworks"})
# What a rival's figure holds that ours does not, or the other way round.
CAVEATS = {
    (
        "flow",
        "chain of saxpy, GNU Radio",
    ): "its time holds the start and stop of its graph",
    ("adsb", "dump1090"): "its time holds the start of the process, the file and printing",
    (
        "wave",
        "graph",
    ): "a captured graph of our own sweep; a plain sweep was twice as fast on an H200",
    ("dispatch", "launch + sync"): "ran beside our polling kernel; alone it took a seventh less",
    ("dispatch", "graph + sync"): "ran beside our polling kernel; alone it took an eighth less",
    ("group", "NCCL in a graph"): "without registered buffers and windows",
    ("group", "NCCL eager, synchronised"): "without registered buffers and windows",
    ("channels", "moodycamel concurrent"): "without its tokens",
    ("arena", "device malloc"): "with fewer threads",
}


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
    def uneven(self) -> tuple[str, str] | None:
        """The rival's name in CAVEATS and what makes it uneven, None where nothing is known."""
        for (experiment, name), told in CAVEATS.items():
            if experiment == self.experiment and f", {self.rival}".endswith(f", {name}"):
                return name, told
        return None


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
                case, rival = (base, row.case) if theirs else (row.case, base)
                key = (record.experiment, record.device, case, rival)
                found.setdefault(key, []).append(_row(row, base, theirs=theirs))
    return [Comparison(*key, tuple(rows)) for key, rows in found.items()]


HEADER = ("denizen's", "beside", "on", "how many times better", "rows")


def _range(rows: Sequence[Compared]) -> str:
    if len(rows) == 1:
        return table.times(rows[0].gain, rows[0].ci95)
    low, high = (pick(rows, key=lambda row: row.gain) for pick in (min, max))
    return f"{table.times(low.gain, low.ci95)} ... {table.times(high.gain, high.ci95)}"


def text(records: Sequence[Record]) -> str:
    """The summary as Markdown: one table for each standing, each made in the same way."""
    every = comparisons(records)
    parts = [
        "A comparison is ahead or behind where its whole 95 % interval is, and beyond what two "
        "equal arms of its record lie apart (A/A: the case's own, else the largest); level where "
        "that lies within 3 % of 1; else undecided. Each row of a record counts alone, so that one "
        "line can stand in several tables. Why a goal was missed is in the "
        "[records' README](../benchmarks/results/README.md).",
    ]
    counts = {
        standing: sum(row.standing == standing for one in every for row in one.rows)
        for standing in (table.AHEAD, table.LEVEL, table.BEHIND, table.UNDECIDED)
    }
    parts.append(
        f"Of {sum(counts.values())} rows beside a rival: "
        + ", ".join(f"**{count} {standing}**" for standing, count in counts.items())
        + "."
    )
    parts.append(_by_experiment(every, list(counts), records))
    uneven = dict.fromkeys(one.uneven for one in every if one.uneven is not None)
    parts.append("Known to be uneven:")
    parts.append("\n".join(f"- {rival}: {told}." for rival, told in uneven) or "- nothing.")
    for standing in counts:
        lines = []
        for one in every:
            rows = [row for row in one.rows if row.standing == standing]
            if not rows:
                continue
            share = f"{len(rows)} of {len(one.rows)}"
            if len(one.rows) > len(rows) == 1 and rows[0].what:
                share += f": {rows[0].what}"
            lines.append((one.case, one.rival, short(one.device), _range(rows), share))
        parts.append(f"### {standing.capitalize()}")
        parts.append(table.grid(HEADER, lines, ()) if lines else "None.")
    return "\n\n".join(parts)


def _by_experiment(
    every: Sequence[Comparison], standings: Sequence[str], records: Sequence[Record]
) -> str:
    """By experiment: rows of each standing, how far equal arms lie apart, who wins against us."""
    lines = []
    for experiment in dict.fromkeys(one.experiment for one in every):
        of = [one for one in every if one.experiment == experiment]
        found = [row.standing for one in of for row in one.rows]
        winners = dict.fromkeys(
            one.rival for one in of if any(row.standing == table.BEHIND for row in one.rows)
        )
        counts = [str(found.count(standing)) for standing in standings]
        floors = sorted(
            row.floor
            for record in records
            for row in record.rows
            if record.experiment == experiment
            and row.noise_floor is not None
            and row.floor is not None
        )
        apart = (
            f"{table.percent(floors[len(floors) // 2])}, {table.percent(floors[-1])}"
            if floors
            else "not measured"
        )
        lines.append((experiment, " / ".join(counts), apart, "; ".join(winners)))
    header = (
        "experiment",
        " / ".join(standings),
        "two equal arms apart, middle and most",
        "rivals that win",
    )
    return table.grid(header, lines, ())


def short(device: str) -> str:
    """A device's name for a column: ``H200``, ``EPYC, 2 cores``."""
    for word in ("NVIDIA ", "CPU: ", "AMD ", "(R)", "Intel ", " Processor", " 80GB HBM3"):
        device = device.replace(word, "")
    return device.strip()
