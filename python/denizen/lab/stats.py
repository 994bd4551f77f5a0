# SPDX-License-Identifier: Apache-2.0
"""Statistics of one benchmark case: median, its confidence interval, percentiles.

Samples are always in the order in which they were measured. Neighbours are not independent (clock
ramps, interrupts, ABBA arms that share a thermal state), so the interval comes from a block
bootstrap: whole runs of neighbours are drawn, not single samples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

RESAMPLES = 1000
_MAX_BLOCKS = 256
_MAX_BINS = 4096


@dataclass(frozen=True, slots=True)
class Summary:
    """What a record keeps of a case. All values are in the unit of the samples.

    A percentile that the sample is too small to show (fewer than one sample beyond it) is None, and
    so is ``cv`` (standard deviation / mean) for one sample or a mean of zero.
    """

    median: float
    ci95: tuple[float, float]
    p50: float
    p99: float | None
    p999: float | None
    min: float
    max: float
    cv: float | None


def samples_array(samples: ArrayLike) -> NDArray[np.float64]:
    """``samples`` as a float64 vector; ValueError if empty, not one-dimensional or not finite."""
    values = np.asarray(samples, dtype=np.float64)
    if values.ndim != 1:
        raise ValueError(f"samples must be one-dimensional, got shape {values.shape}")
    if values.size == 0:
        raise ValueError("no samples")
    if not np.isfinite(values).all():
        at = int(np.flatnonzero(~np.isfinite(values))[0])
        raise ValueError(f"sample {at} is {values[at]}: only finite numbers can be summarised")
    return values


def block_length(n: int) -> int:
    """Samples per bootstrap block for ``n`` samples: n^(1/3), within 10 and 256 blocks.

    n^(1/3) is the rate-optimal order for the block bootstrap of a variance (Künsch 1989). Fewer
    than ten blocks (or samples) would resample almost nothing; the cap bounds the memory it takes.
    """
    root: float = n ** (1 / 3)
    return max(1, min(round(root), n // 10), math.ceil(n / _MAX_BLOCKS))


def median_ci(
    samples: ArrayLike,
    *,
    level: float = 0.95,
    block: int | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> tuple[float, float]:
    """Percentile-bootstrap confidence interval of the median, by blocks of ``block`` samples.

    Reproducible for equal ``seed``. Exact for up to 4,096 distinct samples; above that the sorted
    samples are grouped into 4,096 quantile bins and a resampled median is the upper edge of its
    bin, so the answer is right to 1/4096 of the distribution. One sample gives (x, x).
    """
    values = samples_array(samples)
    if not 0.0 < level < 1.0:
        raise ValueError(f"level must lie between 0 and 1, got {level}")
    length = block_length(values.size) if block is None else block
    if length < 1:
        raise ValueError(f"block must be at least 1, got {length}")
    # A last block shorter than the others would be drawn as often as a full one, so the remainder
    # joins the block before it.
    blocks = max(1, values.size // length)
    block_of = np.minimum(np.arange(values.size) // length, blocks - 1)

    order = np.argsort(values, kind="stable")
    bins = min(values.size, _MAX_BINS)
    bin_of_rank = np.arange(values.size, dtype=np.int64) * bins // values.size
    last_rank = np.searchsorted(bin_of_rank, np.arange(bins), side="right") - 1
    bin_value = values[order][last_rank]

    count = np.zeros((blocks, bins), dtype=np.float32)
    np.add.at(count, (block_of[order], bin_of_rank), 1.0)

    rng = np.random.default_rng(seed)
    drawn = rng.multinomial(blocks, np.full(blocks, 1.0 / blocks), size=resamples)
    # Counts stay below 2^24 per resample for every sample size we take, where float32 is exact;
    # the running sum is taken in float64.
    running = np.cumsum(drawn.astype(np.float32) @ count, axis=1, dtype=np.float64)
    total = running[:, -1]
    low = (running < np.floor((total + 1) / 2)[:, None]).sum(axis=1)
    high = (running < np.ceil((total + 1) / 2)[:, None]).sum(axis=1)
    medians = (bin_value[low] + bin_value[high]) / 2
    tail = round((1 - level) / 2, 12)  # (1 - 0.95) / 2 is a hair above 0.025
    lower, upper = np.quantile(medians, [tail, 1 - tail], method="inverted_cdf")
    return float(lower), float(upper)


def percentile(values: NDArray[np.float64], q: float) -> float | None:
    """The ``q``-th percentile of ascending ``values``, None where less than one sample lies beyond.

    The value is one of the samples (no interpolation): the smallest that at most 100-q percent of
    them exceed.
    """
    rank = math.ceil(round(values.size * q / 100, 6))
    return float(values[rank - 1]) if rank < values.size else None


def summarize(samples: ArrayLike, *, seed: int = 0) -> Summary:
    """Median with its 95 % interval, percentiles, extremes and coefficient of variation."""
    values = samples_array(samples)
    median = float(np.median(values))
    lower, upper = median_ci(values, seed=seed)
    ascending = np.sort(values)
    mean = float(values.mean())
    return Summary(
        median=median,
        # Binning may put the interval's edge a hair beyond the median of the sample itself.
        ci95=(min(lower, median), max(upper, median)),
        p50=median,
        p99=percentile(ascending, 99.0),
        p999=percentile(ascending, 99.9),
        min=float(values.min()),
        max=float(values.max()),
        cv=float(values.std(ddof=1) / mean) if values.size > 1 and mean != 0 else None,
    )


def thin(samples: ArrayLike, keep: int) -> tuple[NDArray[np.float64], int]:
    """Every k-th sample, k the smallest stride that leaves at most ``keep``; returns (kept, k)."""
    values = samples_array(samples)
    stride = max(1, math.ceil(values.size / keep))
    return values[::stride], stride
