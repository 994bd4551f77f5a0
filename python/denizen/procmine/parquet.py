# SPDX-License-Identifier: Apache-2.0
"""Logs out of Parquet files, by columns: a text is looked at once, however many rows have it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from denizen.errors import MissingPackageError
from denizen.procmine.log import LIFECYCLE, MISSING, OTHER, Builder, LogError
from denizen.procmine.tables import Columns
from denizen.procmine.times import Parse

_ROWS = 1 << 20  # at a time


def _arrow() -> Any:
    try:
        import pyarrow  # noqa: PLC0415
        import pyarrow.compute  # noqa: PLC0415
        import pyarrow.parquet  # noqa: PLC0415
    except ImportError as error:
        raise MissingPackageError("pyarrow") from error
    return pyarrow


class _Texts:
    """A column as texts: ``values[codes[i]]`` of row i, whose code is MISSING if it is empty."""

    def __init__(self, arrow: Any, column: Any) -> None:
        encoded = column.cast(arrow.string()).dictionary_encode()
        self.values: list[str] = encoded.dictionary.to_pylist()
        codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        empty = [i for i, value in enumerate(self.values) if value == ""]
        self.codes = np.where((codes < 0) | np.isin(codes, empty), MISSING, codes)

    def mapped(
        self, number: Callable[[str], int], kept: NDArray[np.bool_], missing: int
    ) -> NDArray[np.int64]:
        """``number`` of the texts of some rows; of rows without one ``missing``."""
        codes = self.codes[kept]
        out = np.full(len(codes), missing, np.int64)
        there = codes != MISSING
        # In the order of the rows, so that numbers are given in the order in which names come.
        used, first, place = np.unique(codes[there], return_index=True, return_inverse=True)
        numbers = np.zeros(len(used), np.int64)
        for i in np.argsort(first):
            numbers[i] = number(self.values[used[i]])
        out[there] = numbers[place]
        return out


class _Times:
    """A column as microseconds since 1970 UTC; ``wrong[i]`` says why row i has none."""

    def __init__(self, arrow: Any, column: Any, parse: Parse, zone: str, what: str) -> None:
        self.wrong: dict[int, str] = {}
        kind = column.type
        if arrow.types.is_timestamp(kind):
            if kind.tz is None and zone != "UTC":
                column = arrow.compute.assume_timezone(
                    column, zone, ambiguous="earliest", nonexistent="latest"
                )
            column = column.cast(arrow.timestamp("us", tz=column.type.tz), safe=False)
            column = column.cast(arrow.int64())
        if arrow.types.is_integer(column.type):
            self.values = column.cast(arrow.int64()).fill_null(0).to_numpy(zero_copy_only=False)
            self.there = column.is_valid().to_numpy(zero_copy_only=False)
        else:
            texts = _Texts(arrow, column)
            parsed = np.zeros(len(texts.values) + 1, np.int64)
            bad: dict[int, str] = {}
            for i, text in enumerate(texts.values):
                if text.strip():
                    try:
                        parsed[i] = parse(text)
                    except ValueError as error:
                        bad[i] = f"{what} {error}"
            self.there = texts.codes != MISSING
            codes = np.where(self.there, texts.codes, len(texts.values))
            self.values = parsed[codes]
            for row in np.flatnonzero(np.isin(codes, list(bad))).tolist():
                self.wrong[row] = bad[int(codes[row])]
                self.there[row] = False

    def why(self, row: int, what: str) -> str:
        return self.wrong.get(row, f"an event without {what}")


class _Rows:
    """Some rows of the file, from ``line`` on."""

    def __init__(
        self,
        arrow: Any,
        column: Mapping[int, Any],
        columns: Columns,
        *,
        builder: Builder,
        parse: Parse,
        zone: str,
    ) -> None:
        self._builder = builder

        def texts(at: int) -> _Texts:
            return _Texts(arrow, column[at])

        self.case = texts(columns.case)
        self.activity = [texts(at) for at in columns.activity]
        self.time = _Times(arrow, column[columns.time], parse, zone, "a time")
        self.start = None
        if columns.start is not None:
            self.start = _Times(arrow, column[columns.start], parse, zone, "a start")
        self.lifecycle = None if columns.lifecycle is None else texts(columns.lifecycle)
        self.attributes = {key: texts(at) for key, at in columns.kept.items()}

    def feed(self, line: int) -> None:
        case = self.case.codes != MISSING
        activity = np.logical_and.reduce([one.codes != MISSING for one in self.activity])
        kept = case & activity & self.time.there
        start = None
        turned = np.zeros(len(kept), bool)
        if self.start is not None and self.start.there.any():
            start = np.where(self.start.there, self.start.values, self.time.values)
            turned = kept & (start > self.time.values)
            start = np.where(turned, self.time.values, start)

        def named(row: int) -> str:
            return f'an event of case "{self.case.values[self.case.codes[row]]}"'

        found: list[tuple[str, NDArray[np.bool_], Callable[[int], str]]] = [
            ("no case", ~case, lambda row: "an event without a case"),
            ("no activity", case & ~activity, lambda row: f"{named(row)} has no activity"),
            (
                "no time",
                case & activity & ~self.time.there,
                lambda row: self.time.why(row, "a time"),
            ),
            ("negative duration", turned, lambda row: f"{named(row)} ends before it starts"),
        ]
        if self.start is not None and self.start.wrong:
            wrong = np.zeros(len(kept), bool)
            wrong[list(self.start.wrong)] = True
            found.append(("no time", kept & wrong, partial(self.start.why, what="a start")))
        first = [(int(np.argmax(where)), kind, where, told) for kind, where, told in found
                 if where.any()]  # fmt: skip
        for row, kind, where, told in sorted(first, key=lambda one: one[0]):
            self._builder.problem(kind, line + row, told(row), int(where.sum()))
        builder = self._builder
        builder.extend(
            self.case.mapped(builder.case_names, kept, 0),
            self._activities(kept),
            self.time.values[kept],
            start=None if start is None else start[kept],
            lifecycle=None
            if self.lifecycle is None
            else self.lifecycle.mapped(lambda text: LIFECYCLE.get(text.lower(), OTHER), kept, 0),
            attributes={
                key: texts.mapped(partial(builder.value, key), kept, MISSING)
                for key, texts in self.attributes.items()
            },
        )

    def _activities(self, kept: NDArray[np.bool_]) -> NDArray[np.int64]:
        names = self._builder.activity_names
        if len(self.activity) == 1:
            return self.activity[0].mapped(names, kept, 0)
        parts = np.stack([one.codes[kept] for one in self.activity], axis=1)
        pairs, first, place = np.unique(parts, axis=0, return_index=True, return_inverse=True)
        numbers = np.zeros(len(pairs), np.int64)
        for i in np.argsort(first):
            texts = zip(self.activity, pairs[i].tolist(), strict=True)
            numbers[i] = names("+".join(one.values[code] for one, code in texts))
        return numbers[place.reshape(-1)]


def read(
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
    try:
        file = arrow.parquet.ParquetFile(path)
    except arrow.ArrowException as error:
        raise LogError(f"{path}:1: not readable as Parquet: {error}") from error
    names = file.schema_arrow.names
    columns = Columns(names, builder, case=case, activity=activity, time=time, start=start)
    line = 1
    with file:
        try:
            for batch in file.iter_batches(_ROWS, columns=[names[at] for at in columns.used()]):
                column = {at: batch.column(names[at]) for at in columns.used()}
                rows = _Rows(
                    arrow,
                    column,
                    columns,
                    builder=builder,
                    parse=parse,
                    zone=zone,
                )
                rows.feed(line)
                line += batch.num_rows
        except (arrow.ArrowException, OSError) as error:  # what is behind it is lost
            builder.problem("malformed", line, f"not readable as Parquet: {error}")
