# SPDX-License-Identifier: Apache-2.0
"""Reads logs of events from files, by the ends of their names."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from denizen.errors import parsing
from denizen.procmine import parquet, tables, times, xes
from denizen.procmine.log import Builder, Log, LogError, OnError


def read(
    path: str | os.PathLike[str],
    *,
    on_error: OnError = "count",
    case: str | None = None,
    activity: Sequence[str] = (),
    time: str | None = None,
    start: str | None = None,
    zone: str = "UTC",
    keep: Sequence[str] = (),
) -> Log:
    """A log from a file: .xes, .xes.gz, .csv, .csv.gz or .parquet.

    Args:
        path: the file.
        on_error: "stop" raises LogError at the first problem; "count" leaves the event out and
            counts it in Log.problems: XML that is not well-formed (what is behind it is lost),
            events without case, activity or time. An event that ends before it starts, or (XES)
            is earlier than the one before it in its trace, is a negative duration: counted, and
            the event stays, as a moment and at its place in time.
        case, activity, time, start: keys (XES) or columns (tables) to use instead of the usual
            ones; several for the activity are joined by "+", such as concept:name and
            lifecycle:transition. start: when an event began, if it is no moment.
        zone: of times without an offset, by its IANA name.
        keep: keys of attributes of events and cases to keep, for filters.

    Raises LogError with file and line, TooLargeError (denizen.limits says for what), ArgumentError,
    MissingPackageError (Parquet needs pyarrow), OSError.
    """
    path = Path(path)
    with parsing(path, LogError):
        parse = times.parser(times.zone_of(zone))
        builder = Builder(str(path), on_error, keep)
        name = path.name.lower().removesuffix(".gz")
        keys = {"case": case, "time": time}
        if name.endswith(".xes"):
            given = {key: value for key, value in keys.items() if value is not None}
            xes.read(
                path, builder, parse, activity=activity or ("concept:name",), start=start, **given
            )
        elif name.endswith((".csv", ".tsv", ".txt")):
            tables.read_csv(path, builder, parse, activity=activity, start=start, **keys)
        elif name.endswith(".parquet"):
            parquet.read(path, builder, parse, zone=zone, activity=activity, start=start, **keys)
        else:
            raise LogError(f"{path}: neither .xes, .csv (both also .gz) nor .parquet")
        return builder.log()
