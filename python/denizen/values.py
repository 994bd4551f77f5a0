# SPDX-License-Identifier: Apache-2.0
"""What callers give to a runtime: addresses of actors, deadlines, numbers and texts."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

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


def whole(name: str, given: int, most: int = 2**32 - 1, *, least: int = 0) -> int:
    """A whole number from `least`, 0 or more, to `most`. Raises ArgumentError."""
    try:
        value = operator.index(given)
    except TypeError:
        value = -1
    if not least <= value <= most:
        raise ArgumentError(f"{name} = {given!r:.60}; use a whole number from {least} to {most}")
    return value


def flag(name: str, given: bool) -> bool:
    """True or False. Raises ArgumentError."""
    if not isinstance(given, bool | np.bool_ | int) or given not in (0, 1):
        raise ArgumentError(f"{name} = {given!r:.60}; use True or False")
    return bool(given)


def number(name: str, given: float) -> float:
    """A real number; NaN and the infinities are some. Raises ArgumentError."""
    try:
        return float(given + 0.0)
    except (TypeError, ValueError, OverflowError):
        raise ArgumentError(f"{name} = {given!r:.60}; use a real number") from None


def finite(name: str, given: float) -> float:
    """A real number that is neither NaN nor infinite. Raises ArgumentError."""
    value = number(name, given)
    if not math.isfinite(value):
        raise ArgumentError(f"{name} = {value}; use a finite number")
    return value


def numbers(name: str, given: ArrayLike) -> NDArray[Any]:
    """Numbers as an array. Raises ArgumentError."""
    try:
        array: NDArray[Any] = np.asarray(given)
    except (TypeError, ValueError):  # rows of several lengths
        raise ArgumentError(f"{name} = {given!r:.60}; use an array of numbers") from None
    if array.dtype.kind not in "biufc":
        raise ArgumentError(f"{name} are {array.dtype}; give numbers")
    return array


def element(name: str, given: DTypeLike) -> np.dtype[Any]:
    """A dtype, in the byte order of this machine. Raises ArgumentError."""
    try:
        if given is not None:  # which NumPy takes for float64
            return np.dtype(given).newbyteorder("=")
    except (TypeError, ValueError, SyntaxError):
        pass
    raise ArgumentError(f'{name} = {given!r:.60}; use a NumPy dtype, such as np.float32 or "f4"')


def text(what: str, given: str) -> str:
    """Text that can be written as UTF-8. Raises ArgumentError."""
    if not isinstance(given, str):
        raise ArgumentError(f"{what} = {given!r:.60}; use text")
    try:
        given.encode()
    except UnicodeEncodeError:
        raise ArgumentError(
            f"{what} {given!r:.60} has half of a surrogate pair; use text"
        ) from None
    return given
