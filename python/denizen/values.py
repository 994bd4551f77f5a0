# SPDX-License-Identifier: Apache-2.0
"""What callers give to a runtime: addresses of actors, and deadlines."""

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


def seconds(timeout: float) -> float:
    """A deadline in seconds. Raises ArgumentError."""
    try:
        value = timeout + 0.0
    except TypeError:
        value = math.nan
    if math.isnan(value):
        raise ArgumentError(f"timeout = {timeout!r}; use seconds")
    return value
