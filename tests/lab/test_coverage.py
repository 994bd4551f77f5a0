# SPDX-License-Identifier: Apache-2.0
"""How often the intervals hold what they are to hold, by simulation.

``python tests/lab/test_coverage.py`` prints the table of benchmarks/results/README.md.
"""

import functools
import math
from pathlib import Path

import numpy as np
import pytest

from denizen.lab import stats, table

README = Path(__file__).resolve().parents[2] / "benchmarks" / "results" / "README.md"
COUNTS = (3, 8, 9, 11, 15, 21, 31, 54, 101, 400, 2000, 10_000)
SLOW = 0.3  # of the samples in two modes
_TRIALS = 4000


def series(rng, trials, n, coefficient):
    """``trials`` stationary autoregressive series of variance 1."""
    noise = rng.normal(size=(trials, n))
    values = noise.copy()
    fresh = math.sqrt(1 - coefficient**2)
    for i in range(1, n):
        values[:, i] = coefficient * values[:, i - 1] + fresh * noise[:, i]
    return values


def independent(rng, trials, n):
    return rng.exponential(size=(trials, n))


def autoregressive(rng, trials, n):
    return np.exp(series(rng, trials, n, 0.5))


def modes(rng, trials, n, coefficient=0.0):
    """Three of ten samples 30 % slower; with a coefficient they come in a row."""
    slow = series(rng, trials, n, coefficient) > 0.524401  # 70 % of a normal distribution
    return 1 + 0.3 * slow + rng.normal(scale=0.02, size=(trials, n))


def lasting_modes(rng, trials, n):
    return modes(rng, trials, n, 0.5)


# Each with its median: of the modes, where the fast one has five sevenths below.
KINDS = {
    "independent": (independent, math.log(2)),
    "AR(0.5)": (autoregressive, 1.0),
    "two modes": (modes, 1 + 0.02 * 0.565949),
    "two modes, AR(0.5)": (lasting_modes, 1 + 0.02 * 0.565949),
}


def share(intervals, truth):
    """Of the intervals that hold ``truth``; None where there are none."""
    found = [one for one in intervals if one is not None]
    return np.mean([low <= truth <= high for low, high in found]) if found else None


@functools.cache
def coverage(kind, n, trials):
    draw, truth = KINDS[kind]
    rng = np.random.default_rng(n)
    parts = [draw(rng, 100, n) for _ in range(trials // 100)]
    return share([stats.median_ci(one) for part in parts for one in part], truth)


def ratio_coverage(kind, n, trials):
    draw, _ = KINDS[kind]
    rng = np.random.default_rng(n)
    found = []
    for _ in range(trials // 100):
        for over, under in zip(draw(rng, 100, n), draw(rng, 100, n), strict=True):
            a, b = stats.summarize(over), stats.summarize(under)
            found.append(stats.ratio_ci(a.median, a.ci95, b.median, b.ci95))
    return share(found, 1.0)


def in_rounds(kind, rounds, trials):
    """A level for each round, of 20 samples that differ from it by 2 %."""
    draw, truth = KINDS[kind]
    rng = np.random.default_rng(rounds)
    found = []
    for _ in range(trials // 100):
        near = np.exp(rng.normal(scale=0.02, size=(100, rounds, 20)))
        for one in draw(rng, 100, rounds)[:, :, None] * near:
            found.append(stats.median_ci(one.ravel(), rounds=rounds))
    return share(found, truth)


def ratio_in_rounds(kind, rounds, trials):
    """Two arms that share a level for each round, and differ from it by 2 % in each."""
    draw, _ = KINDS[kind]
    rng = np.random.default_rng(rounds)
    found = []
    for _ in range(trials // 100):
        arms = np.exp(rng.normal(scale=0.02, size=(2, 100, rounds, 1)))
        near = np.exp(rng.normal(scale=0.02, size=(2, 100, rounds, 20)))
        levels = draw(rng, 100, rounds)[None, :, :, None] * arms * near
        for over, under in zip(*levels, strict=True):
            found.append(stats.ratio_of_rounds_ci(over.ravel(), under.ravel(), rounds))
    return share(found, 1.0)


def tail_in_rounds(kind, rounds, trials):
    """Exponential samples, 400 to a round; the rounds are 10 % faster or slower (one sigma)."""
    rng = np.random.default_rng(rounds)
    coefficient = {"independent": 0.0, "AR(0.5)": 0.5}[kind]
    spread = np.exp(0.1 * np.random.default_rng(1).normal(size=4_000_000))
    truth = np.quantile(spread * np.random.default_rng(2).exponential(size=4_000_000), 0.99)
    found = []
    for _ in range(trials // 100):
        levels = np.exp(0.1 * series(rng, 100, rounds, coefficient))
        for one in levels[:, :, None] * rng.exponential(size=(100, rounds, 400)):
            found.append(stats.percentile_ci(one.ravel(), 99.0, rounds=rounds))
    return share(found, truth)


def tail_coverage(kind, n, trials):
    draw, _ = KINDS[kind]
    truth = {"independent": math.log(100), "AR(0.5)": math.exp(2.326348)}[kind]
    rng = np.random.default_rng(n)
    parts = [draw(rng, 100, n) for _ in range(trials // 100)]
    return share([stats.percentile_ci(one, 99.0) for part in parts for one in part], truth)


def enough(found, trials):
    """At least 95 %, but for four standard deviations of the simulation and one in a hundred."""
    return found is None or found >= 0.94 - 4 * math.sqrt(0.05 * 0.95 / trials)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [3, 9, 13, 31, 101, 1000])
def test_an_interval_of_the_median_keeps_its_coverage(kind, n):
    found = coverage(kind, n, 500)
    assert (found is None) == (n < 9)
    assert enough(found, 500)


@pytest.mark.parametrize("kind", KINDS)
def test_so_does_that_of_a_ratio(kind):
    assert enough(ratio_coverage(kind, 11, 500), 500)


@pytest.mark.parametrize("kind", KINDS)
def test_so_do_those_of_samples_in_rounds(kind):
    assert enough(in_rounds(kind, 12, 300), 300)
    assert enough(ratio_in_rounds(kind, 12, 300), 300)
    if kind in ("independent", "AR(0.5)"):
        assert enough(tail_in_rounds(kind, 20, 300), 300)


def test_samples_of_rounds_that_count_alone_would_be_noticed(monkeypatch):
    median_ci = stats.median_ci
    monkeypatch.setattr(stats, "median_ci", lambda samples, **_: median_ci(samples))
    assert not enough(in_rounds("AR(0.5)", 20, 300), 300)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [9, 15, 101])
def test_equal_arms_that_took_turns_seldom_lie_farther_apart(kind, n):
    draw, _ = KINDS[kind]
    beyond = []
    for both in draw(np.random.default_rng(n), 200, 2 * n):
        first, second = both[::2], both[1::2]
        most = stats.apart(first, second)
        beyond.append(abs(math.log(np.median(first) / np.median(second))) > math.log1p(most))
    assert enough(1 - np.mean(beyond), 200)
    assert np.mean(beyond) > 0  # nor is it so wide that it says nothing


def test_too_narrow_an_interval_would_be_noticed(monkeypatch):
    monkeypatch.setattr(stats, "_ALIKE", 0.0)  # as if neighbours were independent
    coverage.cache_clear()
    assert not enough(coverage("AR(0.5)", 31, 500), 500)
    coverage.cache_clear()


def rows(trials):
    def text(found):
        return "too few" if found is None else f"{100 * found:.1f}"

    for n in COUNTS:
        few = trials if n <= 1000 else trials // 4
        yield [f"{n:,}", *(text(coverage(kind, n, few)) for kind in KINDS)]
    for n in (11, 54, 400):
        yield [f"ratio, {n} each", *(text(ratio_coverage(kind, n, trials)) for kind in KINDS)]
    for n in (9, 12, 20):
        found = [text(in_rounds(kind, n, trials // 4)) for kind in KINDS]
        yield [f"{n} rounds of 20", *found]
    for n in (12, 20):
        found = [text(ratio_in_rounds(kind, n, trials // 4)) for kind in KINDS]
        yield [f"ratio, {n} rounds of 20", *found]
    for n in (12, 20):
        kinds = ("independent", "AR(0.5)")
        found = [text(tail_in_rounds(kind, n, trials // 4)) for kind in kinds]
        yield [f"p99, {n} rounds of 400", *found, "", ""]
    for n in (400, 2000, 20_000):
        few = trials if n <= 1000 else trials // 4
        found = [text(tail_coverage(kind, n, few)) for kind in ("independent", "AR(0.5)")]
        yield [f"p99, {n:,}", *found, "", ""]


def printed(trials=_TRIALS):
    return table.grid(("samples", *KINDS), list(rows(trials)), (1, 2, 3, 4))


@pytest.mark.deep
def test_the_table_of_coverage_is_what_the_simulation_says():
    text = printed()
    assert text in README.read_text(encoding="utf-8"), text
    for line in text.splitlines()[2:]:
        for cell in line.split("|")[2:-1]:
            word = cell.strip()
            assert word in ("", "too few") or float(word) >= 94.0, line


if __name__ == "__main__":
    print(printed())
