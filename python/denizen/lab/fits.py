# SPDX-License-Identifier: Apache-2.0
"""How the host's time for a call goes with how much it holds: the slope and the correlation of API
time with submitted bytes, and with the number of kernels, branches, nodes or updates.

As in the paper "Revealing NVIDIA Closed-Source Driver Command Streams for CPU-GPU Runtime Behavior
Insight", which took graphs of 1 to 200 and of 1 to 2000 kernels. A correlation, no cause.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from denizen.lab.record import Measured, Scalar

if TYPE_CHECKING:
    from denizen.lab.driver import Counted

# Families of cases, and the parameter in which each grows.
_FAMILIES = {
    "graph, a chain": "kernels",
    "launches, a chain": "kernels",
    "graph, fork and join": "branches",
    "streams, fork and join": "branches",
    "graph, IF nodes": "nodes",
    "graph, node parameters set": "updated",
    "graph, launched after an update": "updated",
}
# Where a fit of its own ends though the family goes on: a longer chain may fill its channel's ring
# of 1,024 entries, and then its time has a wait for the GPU in it.
_WITHOUT_A_WAIT = {"launches, a chain": 500}
_SHORT = 200  # the paper's first range
_LEAST = 3  # points
_RESAMPLES = 1000


def fits(counted: Sequence[Counted], beside: Sequence[Measured]) -> list[Measured]:
    """Fits of each family over its whole range, and over its shorter ones where it goes beyond:
    up to 200, and as far as no call waits for the GPU."""
    made: list[Measured] = []
    for case, by in _FAMILIES.items():
        sizes = {int(one.params[by]): one for one in counted if one.case == case}
        times = {int(one.params[by]): one for one in beside if one.case == case and not one.arm}
        numbers = sorted(sizes.keys() & times.keys())
        ranges: dict[int, list[int]] = {}
        for end in (_SHORT, _WITHOUT_A_WAIT.get(case, _SHORT), *numbers[-1:]):
            points = [number for number in numbers if number <= end]
            if points:
                ranges[points[-1]] = points
        for most, points in ranges.items():
            samples = [times[number].samples for number in points]
            verified = all(times[n].verified and sizes[n].right for n in points)
            params: dict[str, Scalar] = {"of": case, by: f"1 to {most}"}
            x = [float(np.median(sizes[number].bytes)) for number in points]
            made += _fit("API time over submitted bytes", "ns/B", params, x=x, samples=samples,
                         verified=verified)  # fmt: skip
            x = [float(number) for number in points]
            made += _fit(f"API time over {by}", "ns each", params, x=x, samples=samples,
                         verified=verified)  # fmt: skip
    return made


def _fit(
    name: str,
    unit: str,
    params: dict[str, Scalar],
    *,
    x: list[float],
    samples: list[NDArray[np.float64]],
    verified: bool,
) -> list[Measured]:
    """Slope and correlation of the medians of ``samples`` (microseconds) over ``x``, with their
    95 % intervals; nothing where fewer than three points or only one x are known.

    The bootstrap draws each point's samples anew: it says how sure the medians make the fit, not
    how well a line describes them, which the correlation does.
    """
    if len(x) < _LEAST or np.ptp(x) == 0:
        return []
    places = np.array(x)
    medians = np.array([np.median(one) for one in samples])
    if np.ptp(medians) == 0:
        return []
    rng = np.random.default_rng(0)
    drawn = np.column_stack(
        [np.median(rng.choice(one, (_RESAMPLES, one.size)), axis=1) for one in samples]
    )
    n = sum(one.size for one in samples)
    made = []
    for what, of, value, all_values in (
        ("slope", unit, _slope(places, medians[None]) * 1e3, _slope(places, drawn) * 1e3),
        ("correlation", "r", _correlation(places, medians[None]), _correlation(places, drawn)),
    ):
        low, high = np.quantile(all_values, [0.025, 0.975])
        interval = (float(min(low, value[0])), float(max(high, value[0])))
        made.append(
            Measured(f"{name}, {what}", params, of, value, n, verified, ci95=interval)
        )  # fmt: skip
    return made


def _slope(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Least-squares slopes of the rows of ``y``, shape (n, len(x)), over ``x``."""
    centred = x - x.mean()
    found: NDArray[np.float64] = (y @ centred) / (centred @ centred)
    return found


def _correlation(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Pearson's r of the rows of ``y`` with ``x``; 0 for a row that is constant."""
    centred = x - x.mean()
    rest = y - y.mean(axis=1, keepdims=True)
    norm = np.sqrt((rest**2).sum(axis=1) * (centred @ centred))
    found: NDArray[np.float64] = np.divide(
        rest @ centred, norm, out=np.zeros(len(y)), where=norm > 0
    )
    return found
