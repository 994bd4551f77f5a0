# SPDX-License-Identifier: Apache-2.0
"""Times of events: text to microseconds since 1970-01-01 UTC, without going through a float."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from denizen.errors import ArgumentError

_EPOCH = date(1970, 1, 1).toordinal()
_EPOCH_TIME = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = 86_400_000_000
_TEXT = re.compile(
    r"\s*(\d{4}-\d\d-\d\d)"
    r"(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d+))?)?\s*(Z|z|[+-]\d\d(?::?\d\d)?)?)?\s*",
    re.ASCII,
)

Parse = Callable[[str], int]


def zone_of(name: str) -> tzinfo:
    """The time zone ``name`` of the IANA database, such as Europe/Berlin; ArgumentError if none."""
    if name.upper() in {"UTC", "Z"}:
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ArgumentError(f'time zone "{name}" is not known; use one such as UTC') from error


@lru_cache(maxsize=4096)
def _midnight(day: str) -> int:
    return (date.fromisoformat(day).toordinal() - _EPOCH) * _DAY


@lru_cache(maxsize=256)
def _offset(text: str) -> int:
    if text in "Zz":
        return 0
    digits = text[1:].replace(":", "").ljust(4, "0")
    minutes = 60 * int(digits[:2]) + int(digits[2:])
    if minutes >= 24 * 60:
        raise ValueError(f"an offset of {text}")
    return (minutes if text[0] == "+" else -minutes) * 60_000_000


def parser(zone: tzinfo = UTC) -> Parse:
    """Gives ``parse(text)``: microseconds since 1970-01-01 UTC of an ISO 8601 time.

    ``2010-01-31T12:00:00.123+01:00``, with a space for the T, without seconds, fraction or clock
    time too. Digits beyond the microsecond are cut off. A text without an offset is local time of
    ``zone``. ``parse`` raises ValueError for anything else.
    """
    utc = zone == UTC

    def parse(text: str) -> int:
        found = _TEXT.fullmatch(text)
        if found is None:
            raise ValueError(f'"{text:.40}" is no ISO 8601 time')
        day, hour, minute, second, fraction, offset = found.groups()
        h, m, s = int(hour or 0), int(minute or 0), int(second or 0)
        if h > 23 or m > 59 or s > 59:
            raise ValueError(f'"{text:.40}" is no time of a day')
        value = _midnight(day) + ((h * 60 + m) * 60 + s) * 1_000_000
        if fraction:
            value += int(fraction[:6].ljust(6, "0"))
        if offset:
            return value - _offset(offset)
        if utc:
            return value
        local = datetime(1970, 1, 1) + timedelta(microseconds=value)
        return (local.replace(tzinfo=zone) - _EPOCH_TIME) // timedelta(microseconds=1)

    return parse


def text_of(time: int) -> str:
    """ISO 8601 in UTC; milliseconds, or microseconds where there are some."""
    moment = _EPOCH_TIME + timedelta(microseconds=int(time))
    return moment.isoformat(timespec="microseconds" if time % 1000 else "milliseconds")


def span_of(microseconds: float) -> str:
    """A duration for people: ``3.2 days``, ``41 s``."""
    for unit, size in (("days", _DAY), ("h", 3_600_000_000), ("min", 60_000_000), ("s", 1_000_000)):
        if abs(microseconds) >= (2 if unit == "days" else 1) * size:
            return (
                f"{microseconds / size:,.3g} {unit}"
                if microseconds < 1000 * size
                else (f"{microseconds / size:,.0f} {unit}")
            )
    return f"{microseconds / 1000:,.3g} ms" if microseconds else "0 s"
