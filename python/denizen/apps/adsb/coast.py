# SPDX-License-Identifier: Apache-2.0
"""Coasts, borders and large cities of the world: Natural Earth 1:110m (tools/coastlines)."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from itertools import accumulate
from typing import Any

Line = list[tuple[float, float]]


@cache
def world() -> dict[str, Any]:
    """``coast`` and ``border``: lines of hundredths of a degree, a point (longitude, latitude) and
    then steps; ``cities``: (name, longitude, latitude) in the same unit."""
    text = files("denizen.apps.adsb").joinpath("coast.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def cities() -> list[tuple[str, float, float]]:
    """Name, longitude and latitude in degrees."""
    return [(name, x / 100, y / 100) for name, x, y in world()["cities"]]


def lines(kind: str = "coast") -> list[Line]:
    """Lines of (longitude, latitude) in degrees."""
    return [
        [
            (x / 100, y / 100)
            for x, y in zip(accumulate(steps[::2]), accumulate(steps[1::2]), strict=True)
        ]
        for steps in world()[kind]
    ]
