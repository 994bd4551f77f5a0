# SPDX-License-Identifier: Apache-2.0
"""From paired blocks to a verdict. Nothing here measures; the tests feed it known distributions.

A block is one palindrome of slots (A B C C B A) in an order drawn at random, so each arm has the
same mean position in it and a linear drift cancels within the block. The unit of analysis is a
block's log ratio, log(mean time of the arm's two slots / mean time of the base's two slots): what
the machine did to the whole block (clocks, a neighbour's load) is in both and falls out.

- The estimate is exp of the *median* of the log ratios, not the ratio of two medians (which would
  throw the pairing away) and not a mean (one interrupted slot would move it).
- Wilcoxon's signed-rank test on the log ratios. Where the arms are the same, exchanging their
  labels only exchanges orders that were equally likely, so signs are symmetric and independent by
  the randomisation itself, whatever the noise looks like and however it is correlated.
- Processes differ (addresses, pages, clocks), by more than their blocks tell. With two or more, the
  medians of the processes must also differ by Student's t. A p value is the larger of both, and an
  interval spans the block bootstrap's and Student's: all must agree, so none can do harm.
- Equivalence is claimed only by two one-sided tests (Schuirmann 1987) against a margin stated
  beforehand. No difference found is "undecided", never "equal".
- Over a sweep p values are adjusted by Holm (1979), differences and equivalences separately.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from denizen.ab import bootstrap
from denizen.errors import MissingPackageError

Array = NDArray[np.float64]

ALPHA = 0.05
# An A/A arm that differs at this level says that the design itself is biased. It is far below ALPHA
# because every cell has such an arm and a good run must not be void by chance.
ALPHA_AGAIN = 0.001
RESAMPLES = 10_000

FASTER, SLOWER, EQUIVALENT, UNDECIDED, VOID = VERDICTS = (
    "faster", "slower", "equivalent", "undecided", "void",
)  # fmt: skip


def require_scipy() -> Any:
    """SciPy's statistics; MissingPackageError that says how to install it."""
    try:
        from scipy import stats as scipy_stats  # noqa: PLC0415  (half a second to import)
    except ImportError as error:
        raise MissingPackageError("SciPy") from error
    return scipy_stats


def log_ratios(base: ArrayLike, arm: ArrayLike) -> Array:
    """log(arm / base) of each block from its slots' times: (..., blocks, 2) to (..., blocks).

    Times in any one unit. The arithmetic mean of the two slots, in which a linear drift cancels
    exactly.
    """
    of_base = np.asarray(base, dtype=np.float64).mean(axis=-1)
    of_arm = np.asarray(arm, dtype=np.float64).mean(axis=-1)
    ratios: Array = np.log(of_arm) - np.log(of_base)
    return ratios


def _wilcoxon(values: Array, alternative: str) -> Array:
    """p of Wilcoxon's signed-rank test over the last axis, by its normal approximation."""
    found = require_scipy().wilcoxon(
        values,
        axis=-1,
        alternative=alternative,
        method="asymptotic",
        correction=True,
        zero_method="zsplit",  # ties count half to either side: equal blocks speak against both
    )
    return np.asarray(found.pvalue, dtype=np.float64)


def _student(medians: Array, alternative: str) -> Array:
    """p of Student's t that the processes' medians have the mean 0, over the last axis."""
    n = medians.shape[-1]
    mean, error = medians.mean(axis=-1), medians.std(axis=-1, ddof=1) / math.sqrt(n)
    # Processes that agree to the last digit are infinitely sure of any mean but 0.
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(mean == 0, 0.0, mean / error)
    upper = np.asarray(require_scipy().t.sf(t, n - 1), dtype=np.float64)
    if alternative == "greater":
        return upper
    if alternative == "less":
        return 1 - upper
    return 2 * np.minimum(upper, 1 - upper)


def _p(values: Array, alternative: str) -> Array:
    p = _wilcoxon(values.reshape(*values.shape[:-2], -1), alternative)
    if values.shape[-2] > 1:
        p = np.maximum(p, _student(np.median(values, axis=-1), alternative))
    return p


def p_randomised(values: ArrayLike) -> Array:
    """As p_different, but by the blocks alone: exact for an arm that *is* the base (A/A)."""
    array = np.asarray(values, dtype=np.float64)
    return _wilcoxon(array.reshape(*array.shape[:-2], -1), "two-sided")


def p_different(values: ArrayLike) -> Array:
    """p that the log ratios are symmetric about 0; shape (..., processes, blocks) to (...)."""
    return _p(np.asarray(values, dtype=np.float64), "two-sided")


def p_equivalent(values: ArrayLike, margin: float) -> Array:
    """p that the ratio is outside (1 / (1 + margin), 1 + margin): the larger of two one-sided.

    Shape (..., processes, blocks) to (...).
    """
    array, reach = np.asarray(values, dtype=np.float64), math.log1p(margin)
    return np.maximum(_p(array + reach, "greater"), _p(array - reach, "less"))


def holm(p: Sequence[float]) -> list[float]:
    """Holm's step-down adjustment; compare each with the level for the whole family."""
    order = sorted(range(len(p)), key=p.__getitem__)
    adjusted, running = [0.0] * len(p), 0.0
    for rank, i in enumerate(order):
        running = max(running, min(1.0, (len(p) - rank) * p[i]))
        adjusted[i] = running
    return adjusted


def interval(values: Array, level: float, seed: int) -> tuple[float, float]:
    """The ratio's interval from (processes, blocks) log ratios, at ``level``."""
    low, high = bootstrap.median_ci(values.ravel(), level=level, resamples=RESAMPLES, seed=seed)
    # The bootstrap knows of correlation but covers too little with few blocks, most of all where
    # tails are heavy. Order statistics around the median cover at any number, if independent.
    ascending = np.sort(values, axis=None)
    rank = max(0, int(require_scipy().binom.ppf((1 - level) / 2, ascending.size, 0.5)) - 1)
    low, high = min(low, float(ascending[rank])), max(high, float(ascending[-1 - rank]))
    processes = values.shape[0]
    if processes > 1:
        medians = np.median(values, axis=1)
        error = medians.std(ddof=1) / math.sqrt(processes)
        reach = float(require_scipy().t.ppf((1 + level) / 2, processes - 1)) * float(error)
        centre = float(medians.mean())
        low, high = min(low, centre - reach), max(high, centre + reach)
    return math.exp(low), math.exp(high)


@dataclass(frozen=True, slots=True)
class Comparison:
    """An arm against its base. Ratios are times: below 1 the arm is faster.

    ``by_process`` has each process's own ratio; ``p_equivalent`` is None without a margin. The p
    values are not adjusted.
    """

    ratio: float
    ci95: tuple[float, float]
    ci90: tuple[float, float]
    p_different: float
    p_equivalent: float | None
    by_process: tuple[float, ...]
    blocks: int


def compare(values: ArrayLike, margin: float | None = None, *, seed: int = 0) -> Comparison:
    """Compare by the log ratios ``values``, shape (processes, blocks). Reproducible by ``seed``."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 2 or array.size == 0 or not np.isfinite(array).all():
        raise ValueError(f"log ratios must be finite, (processes, blocks), got {array.shape}")
    return Comparison(
        ratio=math.exp(float(np.median(array))),
        ci95=interval(array, 0.95, seed),
        ci90=interval(array, 0.90, seed),
        p_different=float(p_different(array)),
        p_equivalent=None if margin is None else float(p_equivalent(array, margin)),
        by_process=tuple(float(x) for x in np.exp(np.median(array, axis=1))),
        blocks=array.size,
    )


def verdict(
    found: Comparison,
    different: float,
    equivalent: float | None,
    margin: float | None,
    noise: tuple[float, float] = (1.0, 1.0),
) -> str:
    """What may be said of an arm, given its adjusted p values and the A/A arm's interval.

    A difference needs p, an interval beyond 1, and an estimate outside of what the A/A arm's
    interval allows for no difference at all. Equivalence needs both one-sided tests and the 90 %
    interval within the margin; it is the verdict even where a difference within it is certain,
    since the margin said beforehand that such a difference does not matter.
    """
    if margin is not None and equivalent is not None and equivalent < ALPHA:
        low, high = found.ci90
        if 1 / (1 + margin) < low and high < 1 + margin:
            return EQUIVALENT
    floor = max(abs(math.log(edge)) for edge in noise)
    if different < ALPHA and abs(math.log(found.ratio)) > floor:
        if found.ci95[1] < 1:
            return FASTER
        if found.ci95[0] > 1:
            return SLOWER
    return UNDECIDED
