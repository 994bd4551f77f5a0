# SPDX-License-Identifier: Apache-2.0
"""What callers give to a runtime: addresses of actors, deadlines, numbers and texts."""

from __future__ import annotations

import math
import operator

import numpy as np

from denizen.errors import ArgumentError


def address(given: int) -> int:
    """An actor's address as a whole number. Raises ArgumentError."""
    try:
        value = operator.index(given)
    except TypeError:
        value = -1
    if not 0 <= value < 2**32:
        way_out = "use one that spawn() returned"
        if isinstance(given, np.ndarray):
            way_out = "use one of its elements"
        elif isinstance(given, float):
            way_out += f", or timeout={given!r} if that is the deadline"
        raise ArgumentError(f"{given!r} is no address; {way_out}")
    return value


def seconds(timeout: float, name: str = "timeout") -> float:
    """A deadline in seconds, or another span of them by its name. Raises ArgumentError."""
    try:
        value = float(timeout + 0.0)
    except (TypeError, OverflowError):
        value = math.nan
    if math.isnan(value):
        raise ArgumentError(f"{name} = {timeout!r:.60}; use seconds")
    return value


def whole(name: str, given: int, most: int = 2**32 - 1) -> int:
    """A whole number from 0 to `most`. Raises ArgumentError."""
    try:
        value = operator.index(given)
    except TypeError:
        value = -1
    if not 0 <= value <= most:
        raise ArgumentError(f"{name} = {given!r:.60}; use a whole number from 0 to {most}")
    return value


def text(what: str, given: str) -> str:
    """Text that can be written as UTF-8. Raises ArgumentError."""
    try:
        given.encode()
    except UnicodeEncodeError:
        raise ArgumentError(
            f"{what} {given!r:.60} has half of a surrogate pair; use text"
        ) from None
    return given
