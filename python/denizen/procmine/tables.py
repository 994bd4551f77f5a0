# SPDX-License-Identifier: Apache-2.0
"""Logs out of tables, one row of which is one event: their columns, and CSV."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TextIO

from denizen import limits
from denizen.procmine.log import Builder, LogError
from denizen.procmine.times import Parse

# What columns are called, by their roles; the first that is there is taken.
CASE = ("case:concept:name", "case_id", "case id", "caseid", "case")
ACTIVITY = ("concept:name", "activity", "event", "task")
TIME = ("time:timestamp", "timestamp", "complete_timestamp", "end", "time")
START = ("start_timestamp", "start")
LIFECYCLE = ("lifecycle:transition", "lifecycle")


class Columns:
    """Which column has which role."""

    def __init__(
        self,
        names: Sequence[str],
        builder: Builder,
        *,
        case: str | None,
        activity: Sequence[str],
        time: str | None,
        start: str | None,
    ) -> None:
        self._names = [name.strip() for name in names]
        self._builder = builder
        self.case = self._one("case", case, CASE)
        self.activity = (
            [self._one("activity", name, ()) for name in activity]
            if activity
            else [self._one("activity", None, ACTIVITY)]
        )
        self.time = self._one("time", time, TIME)
        self.start = self._maybe(start, START)
        self.lifecycle = self._maybe(None, LIFECYCLE)
        self.kept = {key: self._names.index(key) for key in builder.keep if key in self._names}

    def used(self) -> list[int]:
        """The places of all of them."""
        maybe = [self.start, self.lifecycle, *self.kept.values()]
        here = {self.case, *self.activity, self.time, *(at for at in maybe if at is not None)}
        return sorted(here)

    def _find(self, known: Iterable[str]) -> int | None:
        lower = [name.lower() for name in self._names]
        return next((lower.index(name) for name in known if name in lower), None)

    def _maybe(self, given: str | None, known: tuple[str, ...]) -> int | None:
        return self._find(known) if given is None else self._one("start", given, ())

    def _one(self, role: str, given: str | None, known: tuple[str, ...]) -> int:
        if given is not None and given in self._names:
            return self._names.index(given)
        found = self._find(known) if given is None else None
        if found is None:
            what = f'column "{given}"' if given is not None else f"a column for the {role}"
            raise LogError(
                f"{self._builder.source}:1: {what} is missing: there are "
                f"{', '.join(self._names)}; name it by --{role}"
            )
        return found


def _rows(
    rows: Iterator[Sequence[str]], columns: Columns, builder: Builder, parse: Parse,
    line_of: Callable[[], int],
) -> None:  # fmt: skip
    def time_of(cell: str, what: str) -> int | None:
        if not cell.strip():
            builder.problem("no time", line_of(), f"an event without {what}")
            return None
        try:
            return parse(cell)
        except ValueError as error:
            builder.problem("no time", line_of(), f"{what} {error}")
            return None

    for row in rows:
        if not row:
            continue
        if len(row) <= max(columns.case, columns.time, *columns.activity):
            builder.problem("malformed", line_of(), f"a row of {len(row)} fields: some are missing")
            continue
        case = row[columns.case]
        if case == "":
            builder.problem("no case", line_of(), "an event without a case")
            continue
        parts = [row[at] for at in columns.activity]
        if "" in parts:
            builder.problem("no activity", line_of(), f'an event of case "{case}" has no activity')
            continue
        time = time_of(row[columns.time], "a time")
        if time is None:
            continue
        start = None
        if columns.start is not None and columns.start < len(row) and row[columns.start]:
            start = time_of(row[columns.start], "a start")
            if start is not None and start > time:
                builder.problem(
                    "negative duration",
                    line_of(),
                    f'an event of case "{case}" ends before it starts',
                )
                start = time
        lifecycle = None
        if columns.lifecycle is not None and columns.lifecycle < len(row):
            lifecycle = row[columns.lifecycle]
        kept = {key: row[at] for key, at in columns.kept.items() if at < len(row) and row[at] != ""}
        builder.add(
            case,
            "+".join(parts),
            time,
            start=start,
            lifecycle=lifecycle or None,
            attributes=kept,
        )


def read_csv(
    path: Path,
    builder: Builder,
    parse: Parse,
    *,
    case: str | None = None,
    activity: Sequence[str] = (),
    time: str | None = None,
    start: str | None = None,
) -> None:
    """Feed the rows of a CSV file (.csv, .csv.gz) with a header to ``builder``.

    The delimiter is the one of comma, semicolon, tab and bar that the header has most of. Columns
    that are not named are looked for by their usual names.
    """
    file: TextIO
    file = io.TextIOWrapper(limits.opened(path), encoding="utf-8-sig", newline="")
    with file:
        line = 1
        text = limits.lines(file, path)
        try:
            head = next(text, "")
            delimiter = max(",;\t|", key=head.count)
            names = next(csv.reader([head], delimiter=delimiter), [])
            columns = Columns(names, builder, case=case, activity=activity, time=time, start=start)
            reader = csv.reader(text, delimiter=delimiter, strict=True)

            def line_of() -> int:
                return reader.line_num + 1

            line = 2
            _rows(reader, columns, builder, parse, line_of)
        except (csv.Error, UnicodeDecodeError, EOFError, zlib.error, gzip.BadGzipFile) as error:
            if line != 1:
                line = line_of()
            builder.problem("malformed", line, f"not readable as CSV: {error}")
