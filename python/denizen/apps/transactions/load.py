# SPDX-License-Identifier: Apache-2.0
"""Reads transactions, profiles and rules; writes transactions. Nothing is repaired or left out.

The first thing that is wrong ends the reading with file, line and reason (DataError).
"""

from __future__ import annotations

import csv
import json
import sys
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from denizen import limits
from denizen.apps.transactions.records import (
    ENHANCED,
    EXPOSED,
    KINDS,
    PROFILE,
    TRANSACTION,
    Records,
    Rules,
)
from denizen.errors import ArgumentError, DataError, MissingPackageError, parsing, unreadable
from denizen.files import whole

if TYPE_CHECKING:
    import io

__all__ = ["FORMATS", "DataError", "pieces", "profiles", "rules", "write"]

FORMATS = ("csv", "parquet", "arrow", "raw")
"""CSV with a header, Parquet, an Arrow IPC stream or file, and 128-byte records as they are."""

_SUFFIXES = {
    ".csv": "csv",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".ipc": "arrow",
    ".raw": "raw",
    ".bin": "raw",
}


class _Wanted(NamedTuple):
    """Names of columns."""

    required: tuple[str, ...]
    optional: tuple[str, ...]

    def of(self, header: Sequence[str]) -> list[str]:
        return [name for name in (*self.required, *self.optional) if name in header]


_OF_TRANSACTION = _Wanted(
    ("id", "customer", "dest", "amount_cents", "ts_ms"),
    ("country", "type", "currency", "flags", "device_hash", "address_hash", "reference"),
)
_MARKS = {"exposed": EXPOSED, "enhanced": ENHANCED}
_OF_PROFILE = _Wanted(
    ("customer",),
    ("home", "allowed", "amount_limit", "exposed_limit", "dormant_ms", "velocity_limit", *_MARKS),
)

_Columns = Mapping[str, Any]


class _Place(NamedTuple):
    """Where a piece of a file was: its rows' numbers, of lines or rows, from 1."""

    name: str
    unit: str
    numbers: Sequence[int]

    def at(self, k: int) -> str:
        return f"{self.name}, {self.unit} {self.numbers[k]}"


def pieces(path: str, form: str | None = None, size: int = 1 << 16) -> Iterator[Records]:
    """The transactions of a file, dtype TRANSACTION, at most ``size`` at a time.

    Those of a pipe come as soon as they are there, not when there are ``size`` of them.

    Args:
        path: "-" is stdin, whose form must be given; it cannot be Parquet.
        form: one of FORMATS; None: by the file's suffix.

    Raises DataError, and MissingPackageError where Parquet or Arrow needs pyarrow.
    """
    for place, columns in _tables(path, form, size, TRANSACTION, _OF_TRANSACTION):
        if isinstance(columns, np.ndarray):
            yield columns
            continue
        count = len(columns["id"])
        records = np.zeros(count, TRANSACTION)
        for field, values in columns.items():
            if field == "type":
                values = _kinds(values)  # noqa: PLW2901
            _set(records, field, values, place)
        yield records


def profiles(path: str, form: str | None = None) -> Records:
    """The profiles of a file, dtype PROFILE: customer, and any of home, allowed (a mask, 0x... in
    CSV; all countries if there is no such column), the limits, exposed and enhanced (0 or 1).
    """
    found = []
    for place, columns in _tables(path, form, 1 << 16, PROFILE, _OF_PROFILE):
        if isinstance(columns, np.ndarray):
            found.append(columns)
            continue
        records = np.zeros(len(columns["customer"]), PROFILE)
        records["allowed"] = 2**64 - 1
        for field, values in columns.items():
            if field in _MARKS:
                mark = np.zeros(len(records), TRANSACTION)
                _set(mark, "type", values, place, most=1, called=field)
                records["flags"] |= mark["type"].astype(np.uint16) * np.uint16(_MARKS[field])
            else:
                _set(records, field, values, place)
        found.append(records)
    return np.concatenate(found) if found else np.zeros(0, PROFILE)


def rules(path: Path, base: Rules | None = None) -> Rules:
    """Rules from a JSON object with any of the fields of Rules; the others are ``base``'s."""
    try:
        given = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise unreadable(path, error, "a JSON object with fields of Rules") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: not JSON: {error}") from error
    if not isinstance(given, dict):
        raise DataError(f"{path}: not an object of names and numbers")
    try:
        return Rules.from_dict(given, base)
    except ArgumentError as error:
        raise DataError(f"{path}: {error}") from error


def write(path: str, records: Records, form: str | None = None) -> None:
    """Writes transactions or profiles to a file that pieces() and profiles() read."""
    form = _form(path, form)
    with whole(path) as part:
        _write(part, records, form)


def _write(path: str, records: Records, form: str) -> None:
    if form == "raw":
        records.tofile(path)
        return
    columns = {name: records[name] for name in records.dtype.names or () if name != "reserved"}
    if records.dtype == PROFILE:
        flags = columns.pop("flags")
        columns |= {name: (flags & mark) // mark for name, mark in _MARKS.items()}
    if form == "csv":
        with Path(path).open("w", encoding="utf-8", newline="") as file:
            out = csv.writer(file)
            out.writerow(columns)
            out.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))
        return
    pa = _pyarrow()
    table = pa.table({name: pa.array(column) for name, column in columns.items()})
    if form == "parquet":
        import pyarrow.parquet as pq  # noqa: PLC0415

        pq.write_table(table, path)
    else:
        with pa.OSFile(path, "wb") as file, pa.ipc.new_stream(file, table.schema) as out:
            out.write_table(table)


def _pyarrow() -> Any:
    try:
        import pyarrow as pa  # noqa: PLC0415
        import pyarrow.ipc  # noqa: PLC0415
    except ImportError as error:
        raise MissingPackageError("pyarrow") from error
    return pa


def _form(path: str, form: str | None) -> str:
    if form is None:
        form = _SUFFIXES.get(Path(path).suffix.lower())
    if form is None:
        raise DataError(
            f"{path}: no format is known by that name; give --format {' or '.join(FORMATS)}"
        )
    if form not in FORMATS:
        raise ArgumentError(f'format "{form}"; use {", ".join(FORMATS)}')
    return form


# Columns, or ready records, and where they were.
_Tables = Iterator[tuple[_Place, _Columns | Records]]


def _tables(
    path: str,
    form: str | None,
    size: int,
    dtype: np.dtype[Any],
    wanted: _Wanted,
) -> _Tables:
    name = "stdin" if path == "-" else path
    form = _form(path, form)
    if form == "parquet" and path == "-":
        raise DataError("stdin: Parquet is read from its end; write it to a file first")
    with ExitStack() as stack, parsing(name):
        try:
            file: IO[bytes] = (
                sys.stdin.buffer if path == "-" else stack.enter_context(Path(path).open("rb"))
            )
            if form == "raw":
                yield from _raw(file, name, size, dtype)
            elif form == "csv":
                yield from _csv(file, name, size, wanted)
            else:
                yield from _arrow(file, name, size, form, wanted)
        except OSError as error:
            raise unreadable(name, error, "records: CSV, Parquet, Arrow or raw") from error


def _raw(file: IO[bytes], name: str, size: int, dtype: np.dtype[Any]) -> _Tables:
    row = 0
    rest = b""
    while data := _what_is_there(file, size * dtype.itemsize - len(rest)):  # ends with the file
        data = rest + data
        whole = len(data) // dtype.itemsize * dtype.itemsize
        rest = data[whole:]
        if whole:
            yield _Place(name, "record", ()), np.frombuffer(data[:whole], dtype)
        row += whole // dtype.itemsize
    if rest:
        raise DataError(
            f"{name}: ends with {len(rest)} bytes after record {row}; records have "
            f"{dtype.itemsize} bytes"
        )


def _what_is_there(file: IO[bytes], most: int) -> bytes:
    """Up to ``most`` bytes, of a pipe what has arrived; empty at the end."""
    return cast("io.BufferedReader", file).read1(most)


class _Lines:
    """The lines of a file as text. ``waiting``: there are whole ones that have arrived."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        self._file, self._name = file, name
        self._ready: deque[bytes] = deque()
        self._rest = b""
        self._number = 0
        self._longest = limits.most("token")

    @property
    def waiting(self) -> bool:
        return bool(self._ready)

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        while not self._ready:  # ends: with a line, or with the file
            data = _what_is_there(self._file, 1 << 23)
            if not data:
                if not self._rest:
                    raise StopIteration
                self._ready.append(self._rest)
                self._rest = b""
                break
            *lines, self._rest = (self._rest + data).split(b"\n")
            if len(self._rest) > self._longest:
                where = f"{self._name}, line {self._number + len(self._ready) + len(lines) + 1}"
                raise limits.too_large("token", self._longest, f"{where}: has bytes")
            self._ready.extend(line + b"\n" for line in lines)
        self._number += 1
        try:
            return self._ready.popleft().decode("utf-8-sig" if self._number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise DataError(
                f"{self._name}, line {self._number}: not UTF-8 text: {error.reason}"
            ) from error


def _csv(file: IO[bytes], name: str, size: int, wanted: _Wanted) -> _Tables:
    lines = _Lines(file, name)
    reader = csv.reader(lines, strict=True)
    try:
        header = [title.strip() for title in next(reader, [])]
        _check_columns(name, header, wanted)
        chosen = [(field, header.index(field)) for field in wanted.of(header)]
        rows: list[list[str]] = []
        numbers: list[int] = []
        for row in reader:
            if len(row) != len(header):
                raise DataError(
                    f"{name}, line {reader.line_num}: {len(row)} fields, the header has "
                    f"{len(header)}"
                )
            rows.append(row)
            numbers.append(reader.line_num)
            if len(rows) == size or not lines.waiting:
                columns = {field: [r[at] for r in rows] for field, at in chosen}
                yield _Place(name, "line", numbers), columns
                rows, numbers = [], []
        if rows:
            columns = {field: [r[at] for r in rows] for field, at in chosen}
            yield _Place(name, "line", numbers), columns
    except csv.Error as error:
        raise DataError(f"{name}, line {reader.line_num}: {error}") from error


def _arrow(file: IO[bytes], name: str, size: int, form: str, wanted: _Wanted) -> _Tables:
    pa = _pyarrow()
    try:
        batches: Any
        if form == "parquet":
            import pyarrow.parquet as pq  # noqa: PLC0415

            reader = pq.ParquetFile(file)
            header = reader.schema_arrow.names
            batches = reader.iter_batches(size, columns=wanted.of(header))
        else:
            seekable = file.seekable()
            is_file = seekable and file.read(6) == b"ARROW1"
            if seekable:
                file.seek(0)
            reader = (pa.ipc.open_file if is_file else pa.ipc.open_stream)(file)
            header = reader.schema.names
            batches = (
                (reader.get_batch(k) for k in range(reader.num_record_batches))
                if is_file
                else reader
            )
        _check_columns(name, header, wanted)
        row = 1
        for batch in batches:
            for at in range(0, batch.num_rows, size):
                piece = batch.slice(at, size)
                place = _Place(name, "row", range(row, row + piece.num_rows))
                yield place, {f: _column(pa, piece, f, place) for f in wanted.of(header)}
                row += piece.num_rows
    except pa.ArrowException as error:
        raise DataError(f"{name}: not {form} that can be read: {error}") from error


def _column(pa: Any, batch: Any, field: str, place: _Place) -> Any:
    column = batch.column(batch.schema.get_field_index(field))
    if column.null_count:
        first = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
        raise DataError(f"{place.at(first)}: {field} is null")
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ms")).cast(pa.int64())
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return column.to_pylist()
    if not (pa.types.is_integer(column.type) or pa.types.is_boolean(column.type)):
        raise DataError(f'{place.name}: column "{field}" is of {column.type}; use integers')
    return column.to_numpy(zero_copy_only=False)


def _check_columns(name: str, header: Sequence[str], wanted: _Wanted) -> None:
    for field in wanted.required:
        if field not in header:
            known = ", ".join((*wanted.required, *wanted.optional))
            raise DataError(f'{name}: column "{field}" is missing; columns are {known}')
    for field in wanted.of(header):
        if list(header).count(field) > 1:
            raise DataError(f'{name}: column "{field}" appears twice')


def _kinds(values: Any) -> Any:
    """Names of KINDS become their numbers, numbers stay."""
    if isinstance(values, list):
        numbers = {kind: str(k) for k, kind in enumerate(KINDS)}
        return [numbers.get(value.strip().lower(), value) for value in values]
    return values


def _number(text: str) -> int:
    """A whole number in decimal digits; -1 for anything else."""
    digits = text.strip(" ")
    whole = digits.isascii() and digits.isdecimal() and len(digits) < 100  # 2^64 has 20
    return int(digits) if whole else -1


def _mask(text: str) -> int:
    """The same, or 0x and hexadecimal digits."""
    digits = text.strip(" ")
    if digits[:2].lower() == "0x" and digits[2:].isalnum():
        with suppress(ValueError):
            return int(digits, 16)
    return _number(text)


def _set(
    records: Records,
    field: str,
    values: Any,
    place: _Place,
    *,
    most: int | None = None,
    called: str | None = None,
) -> None:
    """Puts a column into its field, every value within its range, or else DataError."""
    if most is None:
        most = int(np.iinfo(records.dtype[field]).max)
    if isinstance(values, list):
        read = _mask if field == "allowed" else _number
        numbers = np.zeros(len(values), np.uint64)
        for k, text in enumerate(values):
            number = -1 if text is None else read(text)
            if not 0 <= number <= most:
                raise DataError(
                    f'{place.at(k)}: {called or field} is "{text}", not a whole number from 0 to '
                    f"{most}"
                )
            numbers[k] = number
        records[field] = numbers
        return
    wrong = np.flatnonzero((values < 0) | (values > most))
    if len(wrong):
        at = int(wrong[0])
        raise DataError(
            f"{place.at(at)}: {called or field} is {values[at]}, not a whole number from 0 to "
            f"{most}"
        )
    records[field] = values
