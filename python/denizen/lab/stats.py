# SPDX-License-Identifier: Apache-2.0
"""Statistics of one benchmark case: median, percentiles, and intervals that keep their coverage.

Samples are always in the order in which they were measured. Neighbours are not independent (clock
ramps, interrupts, arms that share a thermal state), and the intervals allow for that:

- **Median**: order statistics. Whatever the distribution, the k-th smallest and the k-th largest of
  B values enclose the median unless fewer than k lie on one side of it. With independent values
  that number is binomial (Thompson 1936; David and Nagaraja, Order Statistics, 2003, 7.1). Here a
  value may lie on the same side as the one before it with a probability above one half: 0.685,
  which covers an autoregressive series of coefficient 0.5 (1/2 + asin(0.5)/pi = 2/3).
- From 54 samples on the B values are the medians of 18 runs of neighbours, which leaves little of
  what makes neighbours alike. A run has an odd length: then its median lies below the true median
  as often as above.
- Eight samples or fewer are too few for 95 %: there is no interval, and no guess in its place.
- Where samples come in rounds, the medians of the rounds are the values, and the rounds are the
  runs of a percentile.
- **Percentile**: the interval of the share of samples below it, by the binomial distribution of as
  many samples as the rate of exceedances in the same 18 runs says they are worth (Woodruff 1952;
  Korn and Graubard 1998).
- **Ratio of two medians**: from both intervals by MOVER on the logarithms (Zou and Donner 2008).
  Of two cases that came in the same rounds it is the median of the rounds' own ratios: what makes a
  round slow for both is in neither.
- **A/A**: two equal arms that took turns could as well have been named the other way round in each
  round. So the names are swapped at random, round by round, and what 95 % of the differences that
  come out stay below is how far two equal arms lie apart (Fisher's randomisation).

``tests/lab/test_coverage.py`` simulates them; benchmarks/results/README.md has its table.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

Interval = tuple[float, float]

LEVEL = 0.95
RUNS = 18
# Above one half, how often neighbours fall on the same side of the median; divided by the length of
# the runs, since only their ends are neighbours.
_ALIKE = 0.185
_LEAST_ROUNDS = 9
# Of rounds that are an autoregressive series of coefficient 0.5: the variance of their mean over
# that of independent ones, (1 + 0.5) / (1 - 0.5), and how much of a degree of freedom each is worth
# where that variance is estimated, (1 - 0.25) / (1 + 0.25).
_ROUNDS_ALIKE, _ROUNDS_FREE = 3.0, 0.6
_SWAPS = 2000
_LEAST_SWAPPED = 6  # 32 differences; of five, one in sixteen is the largest


@dataclass(frozen=True, slots=True)
class Summary:
    """What a record keeps of a case. All values are in the unit of the samples.

    A percentile that the sample is too small to show (fewer than one sample beyond it) is None, and
    so is ``cv`` (standard deviation / mean) for one sample or a mean of zero, and an interval that
    the samples are too few for.
    """

    median: float
    ci95: Interval | None
    p50: float
    p99: float | None
    p99_ci95: Interval | None
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


@cache
def rank(count: int, same: float, level: float = LEVEL) -> int:
    """Largest k for which the k-th smallest and k-th largest of ``count`` values enclose the median
    with probability ``level``; 0 where none does.

    Each value lies on the same side of the median as the one before it with probability ``same``.
    """
    # below[s, j]: the last value lies on side s, and j values lie below the median.
    below = np.zeros((2, count + 1))
    below[0, 0] = below[1, 1] = 0.5
    for _ in range(count - 1):
        stays, changes = below * same, below[::-1] * (1 - same)
        below = stays + changes
        below[1] = np.concatenate(([0.0], below[1, :-1]))
    tail = np.cumsum(below.sum(axis=0))  # tail[j]: at most j lie below
    return int(np.searchsorted(tail, (1 - level) / 2, side="right"))


def _runs(count: int) -> tuple[NDArray[np.int64], int]:
    """Where each run begins, and its length: evenly spread over ``count`` samples."""
    length = count // RUNS
    length -= 1 - length % 2
    if length < 3:
        return np.arange(count), 1
    return np.rint(np.linspace(0, count - length, RUNS)).astype(np.int64), length


def _in_rounds(values: NDArray[np.float64], rounds: int) -> NDArray[np.float64]:
    if rounds < 1 or values.size % rounds != 0:
        raise ValueError(f"{values.size} samples do not come in {rounds} equal rounds")
    return values.reshape(rounds, -1)


def _middles(values: NDArray[np.float64], rounds: int | None) -> tuple[NDArray[np.float64], int]:
    """Medians of the rounds, if there are any, and of the runs of neighbours; and their length."""
    if rounds is not None:
        values = np.median(_in_rounds(values, rounds), axis=1)
    begins, length = _runs(values.size)
    middles: NDArray[np.float64] = np.median(values[begins[:, None] + np.arange(length)], axis=1)
    return middles, length


def apart(first: ArrayLike, second: ArrayLike, *, rounds: int | None = None) -> float | None:
    """How far the medians of two equal arms that took turns lie apart, as a fraction.

    95 % of the differences are below when the two are swapped at random in each round (without
    ``rounds``: in each run of neighbours). None where fewer than six can be swapped, or a median is
    not positive. Equal calls answer equally.
    """
    (a, _), (b, _) = (_middles(samples_array(one), rounds) for one in (first, second))
    count = min(a.size, b.size)
    pairs = np.array([a[:count], b[:count]])
    if count < _LEAST_SWAPPED or pairs.min() <= 0:
        return None
    swapped = np.random.default_rng(count).random((_SWAPS, count)) < 0.5
    ours = np.median(np.where(swapped, pairs[1], pairs[0]), axis=1)
    theirs = np.median(np.where(swapped, pairs[0], pairs[1]), axis=1)
    return float(np.expm1(np.quantile(np.abs(np.log(ours / theirs)), LEVEL)))


def median_ci(
    samples: ArrayLike, *, level: float = LEVEL, rounds: int | None = None
) -> Interval | None:
    """Confidence interval of the median, None where the samples are too few for ``level``.

    With ``rounds`` the samples are so many groups of equal size, one after the other; ValueError if
    they cannot be.
    """
    if not 0.0 < level < 1.0:
        raise ValueError(f"level must lie between 0 and 1, got {level}")
    middles, length = _middles(samples_array(samples), rounds)
    k = rank(middles.size, 0.5 + _ALIKE / length, level)
    if k == 0:
        return None
    middles.sort()
    return float(middles[k - 1]), float(middles[-k])


def _binomial_cdf(n: int, p: float) -> NDArray[np.float64]:
    """P(X <= j) for j = 0 ... n of X binomial."""
    j = np.arange(1, n + 1)
    odds = np.log((n - j + 1) / j) + math.log(p / (1 - p))
    logs = np.concatenate(([0.0], np.cumsum(odds))) + n * math.log1p(-p)
    sums: NDArray[np.float64] = np.cumsum(np.exp(logs))
    return sums


def _quantile_of_t(freedom: float) -> float:
    """Student's t at 97.5 %, by its expansion in 1 / ``freedom``; within 0.2 % from five on."""
    z = 1.959964
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return z + sum(term / float(freedom ** (i + 1)) for i, term in enumerate(terms))


def percentile_ci(
    samples: ArrayLike, q: float, *, level: float = LEVEL, rounds: int | None = None
) -> Interval | None:
    """Confidence interval of the ``q``-th percentile, None where the samples are too few.

    With ``rounds`` the samples are so many groups of equal size, of which it takes nine.
    """
    values = samples_array(samples)
    share = q / 100
    ascending = np.sort(values)
    value = percentile(ascending, q)
    if value is None:
        return None
    if rounds is not None and values.size // rounds > 1:
        groups = _in_rounds(values, rounds)
        if rounds < _LEAST_ROUNDS:
            return None
    else:
        begins, length = _runs(values.size)
        if length == 1:
            return None
        groups = values[begins[:, None] + np.arange(length)]
    beyond = (groups > value).mean(axis=1)
    alone = share * (1 - share) / groups.shape[1]
    # How many samples are worth one: the variance of the groups' shares, itself known from few.
    alike, freedom = (1.0, 1.0) if rounds is None else (_ROUNDS_ALIKE, _ROUNDS_FREE)
    few = (_quantile_of_t(freedom * (beyond.size - 1)) / 1.959964) ** 2
    # Of a series that is alike the variance of n is too small by about 1 - 2 / n.
    few_alike = 1.0 if rounds is None else beyond.size / (beyond.size - 2)
    between = max(0.0, few_alike * float(beyond.var(ddof=1)) / alone - 1)
    worth = (1 + between * alike) * few
    count = int(values.size / worth)
    if count < 1:
        return None
    cdf = _binomial_cdf(count, share)
    tail = (1 - level) / 2
    low = int(np.searchsorted(cdf, tail, side="right")) / count
    high = (int(np.searchsorted(cdf, 1 - tail)) + 1) / count
    first, last = math.floor(low * values.size), math.ceil(high * values.size)
    if first < 1 or last > values.size:
        return None
    return float(ascending[first - 1]), float(ascending[last - 1])


def ratio_ci(
    over: float, over_ci: Interval | None, under: float, under_ci: Interval | None
) -> Interval | None:
    """Interval of ``over / under`` from the intervals of both, None where one is missing or not
    positive.

    The two must be independent, or rise and fall together, which makes it wider than need be.
    """
    if over_ci is None or under_ci is None:
        return None
    if min(over_ci[0], under_ci[0], over, under) <= 0:
        return None
    ratio = math.log(over / under)
    down = math.hypot(math.log(over / over_ci[0]), math.log(under_ci[1] / under))
    up = math.hypot(math.log(over_ci[1] / over), math.log(under / under_ci[0]))
    return math.exp(ratio - down), math.exp(ratio + up)


def ratio_of_rounds_ci(over: ArrayLike, under: ArrayLike, rounds: int) -> Interval | None:
    """Interval of ``over / under`` of two cases that took turns, so many equal rounds of each; None
    where the rounds are too few, or a median is not positive.
    """
    above, below = (
        np.median(_in_rounds(samples_array(one), rounds), axis=1) for one in (over, under)
    )
    return median_ci(above / below) if min(above.min(), below.min()) > 0 else None


def percentile(values: NDArray[np.float64], q: float) -> float | None:
    """The ``q``-th percentile of ascending ``values``, None where less than one sample lies beyond.

    The value is one of the samples (no interpolation): the smallest that at most 100-q percent of
    them exceed.
    """
    rank = math.ceil(round(values.size * q / 100, 6))
    return float(values[rank - 1]) if rank < values.size else None


def around(interval: Interval | None, value: float) -> Interval | None:
    """``interval``, widened to hold ``value``: medians of runs need not enclose that of all."""
    return None if interval is None else (min(interval[0], value), max(interval[1], value))


def summarize(samples: ArrayLike, *, rounds: int | None = None) -> Summary:
    """Median with its 95 % interval, percentiles, extremes and coefficient of variation."""
    values = samples_array(samples)
    median = float(np.median(values))
    ascending = np.sort(values)
    mean = float(values.mean())
    return Summary(
        median=median,
        ci95=around(median_ci(values, rounds=rounds), median),
        p50=median,
        p99=percentile(ascending, 99.0),
        p99_ci95=percentile_ci(values, 99.0, rounds=rounds),
        p999=percentile(ascending, 99.9),
        min=float(values.min()),
        max=float(values.max()),
        cv=float(values.std(ddof=1) / mean) if values.size > 1 and mean != 0 else None,
    )


def thin(samples: ArrayLike, keep: int) -> tuple[NDArray[np.float64], int]:
    """One of every k samples in a row, drawn at random, in their order; returns (kept, k).

    k is the smallest that leaves at most ``keep``. Always the same of the k would pick the same
    phase of whatever repeats in the samples. Equal calls draw equally.
    """
    values = samples_array(samples)
    stride = max(1, math.ceil(values.size / keep))
    begins = np.arange(0, values.size, stride)
    room = np.minimum(stride, values.size - begins)
    drawn = np.random.default_rng(values.size).integers(0, room)
    return values[begins + drawn], stride
