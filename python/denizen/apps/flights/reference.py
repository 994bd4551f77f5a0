# SPDX-License-Identifier: Apache-2.0
"""The figures that the actors must arrive at, by NumPy from the rows, and the comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from denizen.apps.flights.load import MISSING, Flights

Figures = Mapping[str, NDArray[np.generic]]
"""Name of a figure to its value for each entity, all of one length."""


@dataclass(frozen=True, slots=True)
class Reference:
    """Figures per aircraft (entries as ``Flights.tails``) and per airport."""

    aircraft: Figures
    airports: Figures


def mean(total: NDArray[np.generic], count: NDArray[np.generic]) -> NDArray[np.float64]:
    """``total / count`` in float64, and 0 where the count is 0."""
    wide = np.asarray(total, dtype=np.float64)
    result = np.zeros_like(wide)
    np.divide(wide, count, out=result, where=np.asarray(count) != 0)
    return result


def compute(flights: Flights) -> Reference:
    """The reference for ``flights``; sums are integers, so a comparison with them is exact."""
    left = flights.dep_delay != MISSING
    landed = flights.arr_delay != MISSING
    dep_delay = np.where(left, flights.dep_delay, 0)
    arr_delay = np.where(landed, flights.arr_delay, 0)
    minutes = np.where(flights.air_time != MISSING, flights.air_time, 0)

    def per(index: NDArray[np.uint32], values: NDArray[np.generic], size: int) -> NDArray[np.int64]:
        # float64 weights hold every sum exactly: they stay below 2^31.
        return np.bincount(index, weights=values, minlength=size).astype(np.int64)

    planes, ports = len(flights.tails), len(flights.airports)
    one = np.ones(len(flights))
    who, origin, dest = flights.aircraft, flights.origin, flights.dest
    aircraft = {
        "flights": per(who, one, planes),
        "cancelled": per(who, ~left, planes),
        "landed": per(who, landed, planes),
        "minutes": per(who, minutes, planes),
        "dep_delay": per(who, dep_delay, planes),
        "arr_delay": per(who, arr_delay, planes),
        "miles": per(who, flights.distance, planes),
        # Every flight must reach its aircraft in time order.
        "misordered": np.zeros(planes, dtype=np.int64),
    }
    airports = {
        "departures": per(origin, one, ports),
        "cancelled": per(origin, ~left, ports),
        "dep_delay": per(origin, dep_delay, ports),
        "arrivals": per(dest, one, ports),
        "landed": per(dest, landed, ports),
        "arr_delay": per(dest, arr_delay, ports),
        "minutes": per(origin, minutes, ports) + per(dest, minutes, ports),
    }
    return Reference(aircraft=with_means(aircraft), airports=with_means(airports))


def with_means(figures: Figures) -> Figures:
    """``figures`` with the mean departure and arrival delay in minutes, from their sums.

    The delays are averaged over the flights that left, and over those that landed.
    """
    scheduled = figures["flights"] if "flights" in figures else figures["departures"]
    left = np.asarray(scheduled, dtype=np.int64) - np.asarray(figures["cancelled"], dtype=np.int64)
    return {
        **figures,
        "mean_dep_delay": mean(figures["dep_delay"], left),
        "mean_arr_delay": mean(figures["arr_delay"], figures["landed"]),
    }


@dataclass(frozen=True, slots=True)
class Comparison:
    """``equal[i]``: every figure of entity i agrees. ``first`` names the first that does not."""

    equal: NDArray[np.bool_]
    figures: int
    first: str | None


def compare(kind: str, names: Sequence[str], found: Figures, expected: Figures) -> Comparison:
    """Compare every figure of every entity, exactly. ``kind`` and ``names`` are for the message."""
    equal = np.ones(len(names), dtype=np.bool_)
    first: str | None = None
    for figure, want in expected.items():
        got = found[figure]
        if got.shape != want.shape:
            raise ValueError(f"{figure} of {kind}: {got.shape} values, expected {want.shape}")
        # Unsigned against signed would be compared as float64; int64 holds both.
        wide = np.float64 if want.dtype.kind == "f" else np.int64
        same = got.astype(wide) == want.astype(wide)
        if first is None and not same.all():
            at = int(np.flatnonzero(~same)[0])
            name = names[at] or "(no tail number)"
            first = f"{figure} of {kind} {name} is {got[at]}, expected {want[at]}"
        equal &= same
    return Comparison(equal=equal, figures=len(names) * len(expected), first=first)
