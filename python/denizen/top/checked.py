# SPDX-License-Identifier: Apache-2.0
"""Plain data out of JSON that a stranger wrote: types, sizes and ranges as a dataclass says them.

A server at a URL need not be ours. What passes here can be computed with and printed: numbers are
finite, texts have no control characters, rows have an end.
"""

from __future__ import annotations

import math
import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

from denizen.errors import ArgumentError
from denizen.terminal import plain

MOST_TEXT = 256  # characters
MOST_ROWS = 1 << 16
MOST_INTEGER = 1 << 64

_hints = cache(get_type_hints)


def checked(kind: Any, given: Any, where: str = "telemetry") -> Any:
    """``given`` as a ``kind``: int, float, str, bool, a dataclass, tuple[T, ...], Mapping[int, T].

    Fields without which a dataclass can do may be missing, none may be too many. ``where`` is what
    errors name. Raises ArgumentError.
    """
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        (inner,) = (one for one in get_args(kind) if one is not types.NoneType)
        return None if given is None else checked(inner, given, where)
    if is_dataclass(kind):
        return _record(kind, given, where)
    if origin is tuple:
        rows = _sized(given, list, where)
        return tuple(checked(get_args(kind)[0], one, f"{where}[{i}]") for i, one in enumerate(rows))
    if origin is Mapping:
        return _mapping(get_args(kind)[1], given, where)
    return _scalar(kind, given, where)


def _sized(given: Any, kind: type[list[Any]] | type[dict[str, Any]], where: str) -> Any:
    if not isinstance(given, kind):
        raise ArgumentError(f"{where} is {type(given).__name__}, not {kind.__name__}")
    if len(given) > MOST_ROWS:
        raise ArgumentError(f"{where} has {len(given):,} entries; up to {MOST_ROWS:,} are shown")
    return given


def _record(kind: Any, given: Any, where: str) -> Any:
    entries = _sized(given, dict, where)
    hints = _hints(kind)
    names = {one.name for one in fields(kind)}
    for name in entries.keys() - names:
        raise ArgumentError(f"{where} has no {plain(name)[:MOST_TEXT]}")
    found = {name: checked(hints[name], entries[name], f"{where}.{name}") for name in entries}
    try:
        return kind(**found)
    except TypeError as error:
        raise ArgumentError(f"{where}: {error}") from error


def _mapping(kind: Any, given: Any, where: str) -> dict[int, Any]:
    found = {}
    for key, value in _sized(given, dict, where).items():
        if not (key.isascii() and key.isdecimal() and len(key) <= 9):
            raise ArgumentError(f"{where} has a key that is no small number")
        found[int(key)] = checked(kind, value, f"{where}[{int(key)}]")
    return found


def _scalar(kind: Any, given: Any, where: str) -> Any:
    if kind is float and type(given) is int and abs(given) < MOST_INTEGER:
        return float(given)
    if type(given) is not kind:
        raise ArgumentError(f"{where} is {type(given).__name__}, not {kind.__name__}")
    if kind is str:
        return plain(given[:MOST_TEXT])
    if kind is int and not -MOST_INTEGER < given < MOST_INTEGER:
        raise ArgumentError(f"{where} is no integer of 64 bits")
    if kind is float and not math.isfinite(given):
        raise ArgumentError(f"{where} is {given}, no finite number")
    return given
