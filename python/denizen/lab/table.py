# SPDX-License-Identifier: Apache-2.0
"""Markdown tables made of records, and the region of docs/figures.md that holds them.

Nothing here measures or rounds a figure into a better one: what a table says is in a record.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path

from denizen.files import write_text
from denizen.lab import idle
from denizen.lab.record import (
    EXPERIMENTS,
    Goal,
    LabError,
    Record,
    Row,
    Scalar,
    lower_is_better,
    path_in,
)
from denizen.lab.stats import Interval

BEGIN = "<!-- figures:begin -->"
END = "<!-- figures:end -->"
PICTURES = "figures"  # the folder beside the page


def number(value: float | None) -> str:
    """Three significant digits, without an exponent up to a billion; ``-`` for None."""
    if value is None:
        return "-"
    if value == 0:
        return "0"
    digits = 2 - math.floor(math.log10(abs(value)))
    text = f"{round(value, digits):,.{max(digits, 0)}f}"
    return text


def percent(share: float | None) -> str:
    """A fraction as percent, two significant digits: ``3.4 %``; ``-`` for None."""
    if share is None:
        return "-"
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.2g} %"


def interval(ci95: Interval | None) -> str:
    """A 95 % confidence interval; ``too few`` where the samples are too few for one."""
    return "too few" if ci95 is None else f"{number(ci95[0])} to {number(ci95[1])}"


def params(row: Row) -> str:
    """The parameters of a row in words, empty without any."""
    return in_words(row.params)


def in_words(found: Mapping[str, Scalar]) -> str:
    """Parameters in words: ``bytes 65,536, route gpu``."""
    words = []
    for key, value in found.items():
        if (key, value) == ("latency", False):
            words.append("submit only, not a latency")
        elif isinstance(value, int) and not isinstance(value, bool):
            words.append(f"{key} {value:,}")
        else:
            words.append(f"{key} {value}")
    return ", ".join(words)


AHEAD, LEVEL, BEHIND, UNDECIDED = "ahead", "level", "behind", "undecided"
_LEVEL_WITHIN = 0.03


def gain(row: Row, base: str) -> tuple[float, Interval | None]:
    """How many times better ``row`` is than its base, and the interval: below 1 it is worse."""
    ratio, ci95 = row.ratio_to[base], row.ratio_ci95[base]
    if not lower_is_better(row.unit):
        return ratio, ci95
    return 1 / ratio, None if ci95 is None else (1 / ci95[1], 1 / ci95[0])


def standing(row: Row, base: str) -> str:
    """AHEAD or BEHIND where the whole interval of the ratio lies on that side of 1 and beyond what
    two equal arms lie apart (``Row.floor``), LEVEL where it lies within 3 % of 1, else UNDECIDED.
    """
    _, ci95 = gain(row, base)
    if ci95 is None:
        return UNDECIDED
    if ci95[0] >= 1 / (1 + _LEVEL_WITHIN) and ci95[1] <= 1 + _LEVEL_WITHIN:
        return LEVEL
    return beyond(ci95, row.floor)


def beyond(ci95: Interval, floor: float | None) -> str:
    """AHEAD or BEHIND where the whole interval of a gain is, beyond ``floor``; else UNDECIDED."""
    noise = 1 + (floor or 0.0)
    return AHEAD if ci95[0] > noise else BEHIND if ci95[1] < 1 / noise else UNDECIDED


def below_floor(row: Row, base: str) -> bool:
    """Whether it is A/A alone that leaves a comparison undecided: its interval does not hold 1."""
    _, ci95 = gain(row, base)
    return ci95 is not None and not ci95[0] <= 1 <= ci95[1] and standing(row, base) == UNDECIDED


def times(value: float, ci95: Interval | None) -> str:
    """``3.1x better (2.9 to 3.4)``: a gain and its interval, turned so that both are above 1."""
    if value >= 1:
        return f"{number(value)}x better ({interval(ci95)})"
    turned = None if ci95 is None else (1 / ci95[1], 1 / ci95[0])
    return f"{number(1 / value)}x worse ({interval(turned)})"


def comparison(row: Row) -> str:
    """How a row stands to its bases: ``3.1x better (2.9 to 3.4) than launch + sync``."""
    parts = []
    for base, ratio in row.ratio_to.items():
        if ratio <= 0:
            continue
        # "cpu to cpu, boost queue" is "boost queue" beside "cpu to cpu, denizen spsc".
        kind, _, rest = base.partition(", ")
        name = rest if rest and row.case.startswith(f"{kind}, ") else base
        how = standing(row, base)
        told = "" if how in (AHEAD, BEHIND) else f": {how}"
        if below_floor(row, base):
            told += f", two equal arms lie up to {percent(row.floor)} apart"
        parts.append(f"{times(*gain(row, base))} than {name}{told}")
    return "; ".join(parts)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def grid(header: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int]) -> str:
    """A Markdown table; the columns in ``right`` are set to the right."""
    rule = ["---:" if i in right else "---" for i in range(len(header))]
    lines = [header, rule, *[[_cell(text) for text in row] for row in rows]]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


HEADER = ("case", "unit", "median", "95 % interval", "p99", "p99.9", "max", "n", "compared")


def cells(row: Row) -> tuple[str, str, str, str, str, str, str, str, str]:
    """The cells of one row under :data:`HEADER`."""
    name = f"{row.case} ({params(row)})" if row.params else row.case
    if not row.verified:
        name += ", NOT VERIFIED"
    return (
        name,
        row.unit,
        number(row.median),
        interval(row.ci95),
        number(row.p99),
        number(row.p999),
        number(row.max if row.p99 is not None and lower_is_better(row.unit) else None),
        f"{row.n:,}",
        comparison(row),
    )


_ON_GPUS = re.compile(r"(\d+) GPUs")


def gpus(row: Row) -> int:
    """How many GPUs a row of a GPU's record needs: what only some machines can run."""
    found = row.params
    told = [int(found[key]) for key in ("gpus", "ranks") if key in found]
    told += [int(found[key]) + 1 for key in ("from node", "to node") if key in found]
    if (hosts := _ON_GPUS.fullmatch(str(found.get("hosts")))) is not None:
        told.append(int(hosts[1]))
    if found.get("route") == "peer":
        told.append(2)
    return max(told, default=1)


def _several(record: Record) -> list[str]:
    """``5 of 64 rows need 2 GPUs``, by how many."""
    needed = [gpus(row) for row in record.rows] if record.driver is not None else []
    return [
        f"{needed.count(count)} of {len(needed)} rows need {count} GPUs"
        for count in sorted(set(needed) - {1})
    ]


def source(record: Record) -> str:
    """One line on where a record's figures come from; behind their date, how many of its rows only
    several GPUs can run.
    """
    parts = [record.device]
    if record.driver is not None:
        parts.append(f"driver {record.driver}")
    if record.cuda is not None:
        parts.append(f"CUDA {record.cuda}")
    if record.driver is not None:
        parts.append(record.cpu)
    head, _, dirty = record.commit.partition("-")
    parts.append(f"commit {head[:10]}{' with changes' if dirty else ''}")
    parts.append(record.utc[:10])
    parts += _several(record)
    if record.quick:
        parts.append("quick run")
    if not record.verified:
        parts.append("NOT VERIFIED")
    return " · ".join(parts)


def _equal_arms(record: Record) -> str:
    """How far cases lay apart from themselves."""
    differed = sorted(row.noise_floor for row in record.rows if row.noise_floor is not None)
    swapped = sorted(row.apart for row in record.rows if row.apart is not None)
    if not differed:
        return "A/A: no case was measured twice: nothing says what difference means nothing."

    def spread(found: Sequence[float]) -> str:
        if len(found) == 1:
            return percent(found[0])
        middle = percent(found[len(found) // 2])
        return f"{percent(found[0])} to {percent(found[-1])}, {middle} in the middle"

    told = (
        f"A/A: {len(differed)} of {len(record.rows)} cases were measured twice, by turns, and "
        f"differed by {spread(differed)}."
    )
    if swapped:
        return (
            f"{told} 95 % of the differences between two equal arms are below {spread(swapped)} "
            "(their names swapped at random in each round)."
        )
    return told + " One difference each, which the next run's may exceed."


def notes(record: Record) -> list[str]:
    """What a reader must know beside the rows: noise floor, what was left out and why, load on the
    device."""
    lines = [_equal_arms(record), *(f"Said meanwhile: {one}" for one in record.remarks)]
    for row in record.rows if record.experiment == "sustained" else ():
        if row.cv is not None and not lower_is_better(row.unit):
            lines.append(
                f"{row.case}: coefficient of variation {100 * row.cv:.2g} % "
                f"over {len(row.samples) * row.stride} samples."
            )
    others = record.environment.get("cores_busy_before")
    if isinstance(others, float) and others > idle.MOST:
        lines.append(
            f"Others were at work before it began, {others:.2f} cores' worth: the machine was not "
            "quiet."
        )
    sensors = record.nvml or {}
    if sensors.get("power_w") is not None:
        idle_ones, loaded = sensors.get("readings_idle"), sensors.get("readings")
        when = (
            "From start to end, compiler and set-up included"
            if idle_ones is None or loaded is None
            else f"While a kernel ran, {loaded} of {loaded + idle_ones} readings"
        )
        lines.append(
            f"{when}: {number(sensors.get('power_w'))} W, "
            f"{number(sensors.get('temperature_c'))} °C, "
            f"SM clock {number(sensors.get('sm_clock_mhz'))} MHz (medians)."
        )
    if sensors.get("ecc_corrected") is not None:
        lines.append(
            f"The memory had {sensors.get('ecc_corrected')} errors that ECC corrected, and "
            f"{sensors.get('ecc_uncorrected')} that it did not."
        )
    return lines


GOALS_HEADER = ("goal", "bound", "reached", "95 % interval", "met")


def goal_rows(record: Record) -> list[tuple[str, ...]]:
    """The cells of the record's goals under :data:`GOALS_HEADER`."""
    words = {"met": "yes", "missed": "no", "undecided": "undecided"}
    return [(*goal_cells(goal), words[goal.verdict]) for goal in record.goals]


def goal_cells(goal: Goal) -> tuple[str, str, str, str]:
    """Name, bound, what was reached and its interval."""
    return (
        goal.what + _of_rows(goal),
        goal.bound,
        number(goal.reached),
        "of this run" if goal.ci95 == (goal.reached,) * 2 else interval(goal.ci95),
    )


def _of_rows(goal: Goal) -> str:
    """Which row answered, where several could."""
    if goal.best_of == 1:
        return ""
    return f" (best of {goal.best_of} rows{goal.row and f': {goal.row}'})"


def goals(record: Record) -> str:
    """The table of goals that the record answers, empty without any."""
    return grid(GOALS_HEADER, goal_rows(record), (2, 3)) if record.goals else ""


_FOLDED = 8  # more rows than this are folded away, below the goals they answer,
_SHOWN = 100  # and more than this are not shown


def section(record: Record) -> str:
    """A record as Markdown: source, goals, rows, notes."""
    rows = grid(HEADER, [cells(row) for row in record.rows], (2, 3, 4, 5, 6, 7))
    file = path_in(Path("../benchmarks/results"), record).as_posix()
    if len(record.rows) > _SHOWN:
        rows = f"{len(record.rows)} rows, in [the record]({file})."
    elif len(record.rows) > _FOLDED:
        summary = f"<summary>{len(record.rows)} rows</summary>"
        rows = f"<details>{summary}\n\n{rows}\n\n</details>"
    from denizen.lab import curves  # noqa: PLC0415  (made of tables)

    parts = [
        f"**{source(record)}** ([record]({file}))",
        "\n".join(
            f"![{words}]({PICTURES}/{name}.svg)"
            for name, (words, _) in curves.curves(record).items()
        ),
        goals(record),
        rows,
        "\n".join(notes(record)),
    ]
    return "\n\n".join(part for part in parts if part)


def figures(records: Sequence[Record]) -> str:
    """The page's region, markers included, of these records in their order."""
    parts = [BEGIN + "\n<!-- made by `denizen bench table` of benchmarks/results: do not edit -->"]
    if not records:
        parts.append("No records yet: `denizen bench all` makes them.")
    else:
        from denizen.lab import limits, shortfalls, summary  # noqa: PLC0415  (made of tables)

        parts += ["## Ahead, level, behind", summary.text(records)]
        parts += ["## Goals missed or undecided", shortfalls.text(records)]
        parts += ["## Limits", limits.text(records), "## Experiments"]
    for experiment, group in groupby(records, key=lambda record: record.experiment):
        parts.append(f"### {EXPERIMENTS[experiment]}")
        parts.append(f"![{EXPERIMENTS[experiment]}]({PICTURES}/{experiment}.svg)")
        parts += [section(record) for record in group]
    return "\n\n".join([*parts, END])


def with_figures(text: str, records: Sequence[Record]) -> str:
    """``text`` with its region replaced; LabError unless it has exactly one."""
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise LabError(f"the text needs one {BEGIN} and, after it, one {END}")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + figures(records) + after


def read(page: Path) -> str:
    """The text of ``page``; LabError if it cannot be opened."""
    try:
        return page.read_text(encoding="utf-8")
    except OSError as error:
        why = f"{error.strerror}; expected a page with {BEGIN} and {END}"
        raise LabError(f"{page}: {why}") from error


def update(page: Path, records: Sequence[Record]) -> bool:
    """Put the figures into ``page``; whether that changed the file."""
    old = read(page)
    try:
        new = with_figures(old, records)
    except LabError as error:
        raise LabError(f"{page}: {error}") from error
    if new != old:
        write_text(page, new)
    changed = new != old
    drawn = pictures(page, records)
    for path in _strays(page, drawn):
        path.unlink()
        changed = True
    for path, text in drawn.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(exist_ok=True)
            write_text(path, text)
            changed = True
    return changed


def pictures(page: Path, records: Sequence[Record]) -> dict[Path, str]:
    """The pictures of ``page``: files and what belongs into them."""
    from denizen.lab import curves  # noqa: PLC0415  (made of tables)
    from denizen.lab.pictures import picture  # noqa: PLC0415

    drawn = {
        experiment: picture(experiment, list(group))
        for experiment, group in groupby(records, key=lambda record: record.experiment)
    }
    for record in records:
        drawn |= {name: text for name, (_, text) in curves.curves(record).items()}
    return {page.parent / PICTURES / f"{name}.svg": text for name, text in drawn.items()}


def _strays(page: Path, drawn: Mapping[Path, str]) -> set[Path]:
    """Pictures in the page's folder that no record makes."""
    return set((page.parent / PICTURES).glob("*.svg")) - drawn.keys()


def current(page: Path, records: Sequence[Record]) -> bool:
    """Whether ``page`` and its pictures are what the records say."""
    text = read(page)
    drawn = pictures(page, records)
    return (
        with_figures(text, records) == text
        and not _strays(page, drawn)
        and all(
            path.exists() and path.read_text(encoding="utf-8") == svg for path, svg in drawn.items()
        )
    )
