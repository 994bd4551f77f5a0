# SPDX-License-Identifier: Apache-2.0
"""Logs out of tables: CSV, and Parquet by way of pyarrow. One row is one event."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

from denizen.errors import MissingPackageError
from denizen.procmine.log import Builder, LogError
from denizen.procmine.times import Parse

# What columns are called, by their roles; the first that is there is taken.
CASE = ("case:concept:name", "case_id", "case id", "caseid", "case")
ACTIVITY = ("concept:name", "activity", "event", "task")
TIME = ("time:timestamp", "timestamp", "complete_timestamp", "end", "time")
START = ("start_timestamp", "start")
LIFECYCLE = ("lifecycle:transition", "lifecycle")

_Cell = str | int | None


class _Columns:
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
    rows: Iterator[Sequence[_Cell]], columns: _Columns, builder: Builder, parse: Parse,
    line_of: Callable[[], int],
) -> None:  # fmt: skip
    def time_of(cell: _Cell, what: str) -> int | None:
        if isinstance(cell, int):  # of Parquet: microseconds already
            return cell
        if cell is None or not cell.strip():
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
        if case is None or case == "":
            builder.problem("no case", line_of(), "an event without a case")
            continue
        parts = [row[at] for at in columns.activity]
        if any(part is None or part == "" for part in parts):
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
        kept = {
            key: str(row[at])
            for key, at in columns.kept.items()
            if at < len(row) and row[at] not in (None, "")
        }
        builder.add(
            str(case),
            "+".join(map(str, parts)),
            time,
            start=start,
            lifecycle=None if lifecycle in (None, "") else str(lifecycle),
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
    if path.suffix == ".gz":
        file = io.TextIOWrapper(gzip.GzipFile(path), encoding="utf-8-sig", newline="")
    else:
        file = path.open(encoding="utf-8-sig", newline="")
    with file:
        line = 1
        try:
            head = file.readline()
            delimiter = max(",;\t|", key=head.count)
            names = next(csv.reader([head], delimiter=delimiter), [])
            columns = _Columns(names, builder, case=case, activity=activity, time=time, start=start)
            reader = csv.reader(file, delimiter=delimiter, strict=True)

            def line_of() -> int:
                return reader.line_num + 1

            line = 2
            _rows(reader, columns, builder, parse, line_of)
        except (csv.Error, UnicodeDecodeError, EOFError, zlib.error, gzip.BadGzipFile) as error:
            if line != 1:
                line = line_of()
            builder.problem("malformed", line, f"not readable as CSV: {error}")


def _arrow() -> Any:
    try:
        import pyarrow  # noqa: PLC0415
        import pyarrow.parquet  # noqa: PLC0415
    except ImportError as error:
        raise MissingPackageError("pyarrow", "tables") from error
    return pyarrow


def read_parquet(
    path: Path,
    builder: Builder,
    parse: Parse,
    *,
    zone: str = "UTC",
    case: str | None = None,
    activity: Sequence[str] = (),
    time: str | None = None,
    start: str | None = None,
) -> None:
    """Feed the rows of a Parquet file to ``builder``; a problem's line is the row's, from 1.

    Raises MissingPackageError without pyarrow, LogError for a file that is no Parquet.
    """
    arrow = _arrow()
    compute = __import__("pyarrow.compute").compute
    try:
        file = arrow.parquet.ParquetFile(path)
    except arrow.ArrowException as error:
        raise LogError(f"{path}:1: not readable as Parquet: {error}") from error
    names = file.schema_arrow.names
    columns = _Columns(names, builder, case=case, activity=activity, time=time, start=start)
    line = 0

    def rows() -> Iterator[Sequence[_Cell]]:
        nonlocal line
        for batch in file.iter_batches():
            cells = []
            for column in batch.columns:
                kept = column
                if arrow.types.is_timestamp(kept.type):
                    if kept.type.tz is None and zone != "UTC":
                        kept = compute.assume_timezone(kept, zone)
                    kept = kept.cast(arrow.timestamp("us", tz=kept.type.tz), safe=False)
                    kept = kept.cast(arrow.int64())
                elif not arrow.types.is_integer(kept.type):
                    kept = kept.cast(arrow.string())
                cells.append(kept.to_pylist())
            for row in zip(*cells, strict=True):
                line += 1
                yield row

    _rows(rows(), columns, builder, parse, lambda: line)
