# SPDX-License-Identifier: Apache-2.0
"""What profilers wrote, as spans and durations; and how long spans overlap.

The page draws the overlap of an arm's spans. The readers are for an experiment's ``sample``, or for
looking at a kernel beside its record: a profiler's times are its own, taken under its own load, and
no verdict rests on them.
"""

from __future__ import annotations

import csv
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path

from denizen.ab.experiment import ExperimentError, Span

WAITING = "wait"  # a kind of span that is no work
_SECONDS = {
    "ns": 1e-9, "nsecond": 1e-9, "us": 1e-6, "usecond": 1e-6, "ms": 1e-3, "msecond": 1e-3,
    "s": 1.0, "second": 1.0,
}  # fmt: skip
_DURATIONS = ("gpu__time_duration.sum", "Duration")


def ncu_durations(path: Path) -> dict[str, list[float]]:
    """Seconds of each launch by kernel, from ``ncu --csv`` (its details page).

    Needs the metric gpu__time_duration.sum, which the section SpeedOfLight shows as Duration.
    Raises ExperimentError if there is none, or in a unit that is not known.
    """
    lines = path.read_text(encoding="utf-8").splitlines()
    # What the program and ncu itself printed comes before the header.
    first = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    found: dict[str, list[float]] = {}
    seen: set[tuple[str, str]] = set()  # a launch has the metric in more than one section
    for row in csv.DictReader(lines[first:] if first is not None else []):
        launch = (row.get("Process ID") or "", row["ID"])
        if row.get("Metric Name") not in _DURATIONS or launch in seen:
            continue
        unit = row["Metric Unit"]
        if unit not in _SECONDS:
            raise ExperimentError(f'{path}: a duration in "{unit}" is not known')
        seen.add(launch)
        seconds = float(row["Metric Value"].replace(",", "")) * _SECONDS[unit]
        found.setdefault(row["Kernel Name"], []).append(seconds)
    if not found:
        raise ExperimentError(f"{path} has no durations: run ncu --csv with {_DURATIONS[0]}")
    return found


_NSYS = {
    "CUPTI_ACTIVITY_KIND_KERNEL": "SELECT s.value, k.start, k.end FROM "
    "CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds s ON s.id = k.shortName",
    "CUPTI_ACTIVITY_KIND_MEMCPY": "SELECT 'copy', start, end FROM CUPTI_ACTIVITY_KIND_MEMCPY",
}


def nsys_spans(path: Path) -> list[Span]:
    """Kernels (by short name) and copies (track ``copy``) from ``nsys export --type sqlite``.

    In the order of their beginnings, in seconds of the capture's clock. Raises ExperimentError if
    the file is no such export or nothing ran.
    """
    rows: list[tuple[str, int, int]] = []
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
            names = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            present = {name for (name,) in names}
            # A capture without a copy has no table for copies.
            for table, query in _NSYS.items():
                if table in present:
                    rows += database.execute(query)
    except sqlite3.Error as error:
        raise ExperimentError(f"{path} is no export of nsys: {error}") from error
    if not rows:
        raise ExperimentError(f"{path} has neither kernels nor copies")
    rows.sort(key=lambda row: row[1])
    return [Span(name, begin * 1e-9, end * 1e-9) for name, begin, end in rows]


def _joined(spans: Iterable[Span]) -> list[tuple[float, float]]:
    """The times in which any of the spans ran, apart and in order."""
    joined: list[tuple[float, float]] = []
    for begin, end in sorted((span.begin, span.end) for span in spans):
        if joined and begin <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((begin, end))
    return joined


def overlap(first: Iterable[Span], second: Iterable[Span]) -> float:
    """Seconds in which a span of ``first`` and one of ``second`` ran at once."""
    a, b = _joined(first), _joined(second)
    total, i, j = 0.0, 0, 0
    while i < len(a) and j < len(b):  # each turn leaves one interval behind
        total += max(0.0, min(a[i][1], b[j][1]) - max(a[i][0], b[j][0]))
        if a[i][1] < b[j][1]:
            i += 1
        else:
            j += 1
    return total


def overlaps(spans: Sequence[Span]) -> str:
    """How long the second kind of span ran during the first, in words; "" if there are not two.

    A track is ``KIND`` or ``KIND, PLACE`` (``copy, block 33``): what ran at once is that of one
    place, added up over the places.
    """
    kinds: dict[str, dict[str, list[Span]]] = {}
    for span in spans:
        kind, _, place = span.track.partition(", ")
        kinds.setdefault(kind, {}).setdefault(place, []).append(span)
    names = [kind for kind in kinds if kind != WAITING]
    if len(names) != 2:
        return ""
    first, second = names
    here, there = kinds[first], kinds[second]
    together = sum(overlap(here[place], there.get(place, ())) for place in here)
    share = together / (sum(busy(one) for one in here.values()) or 1.0)
    return f"{second} ran during {share:.0%} of {first}"


def busy(spans: Iterable[Span]) -> float:
    """Seconds in which any of the spans ran."""
    return sum(end - begin for begin, end in _joined(spans))
