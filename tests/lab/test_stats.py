# SPDX-License-Identifier: Apache-2.0
"""Medians, intervals and percentiles against what is known of them; coverage: test_coverage.py."""

import math

import numpy as np
import pytest

from denizen.lab import stats


@pytest.mark.parametrize("count", [1, 5, 6, 9, 17, 40])
def test_rank_of_independent_values_is_the_binomial_one(count):
    def misses(k):
        return 2 * sum(math.comb(count, j) for j in range(k)) / 2**count

    k = stats.rank(count, 0.5)
    assert misses(k) <= 0.05 < misses(k + 1)


def test_values_alike_take_more_of_them():
    assert stats.rank(17, 0.5) == 5
    assert stats.rank(17, 2 / 3) < 5
    # All on one side of the median: 2/3 for each but the first.
    assert [stats.rank(count, 2 / 3) for count in (8, 9)] == [0, 1]


def test_too_few_samples_have_no_interval():
    assert stats.median_ci(range(8)) is None
    assert stats.median_ci(range(9)) == (0.0, 8.0)
    assert stats.median_ci(range(8), level=0.5) is not None


def test_rounds_are_the_unit():
    # Nine rounds at levels of their own: a thousand samples of each tell no more than one.
    levels = np.random.default_rng(3).normal(size=9)
    samples = np.repeat(levels, 1000) + np.random.default_rng(4).normal(scale=1e-3, size=9000)
    low, high = stats.median_ci(samples, rounds=9)
    assert (low, high) == pytest.approx((levels.min(), levels.max()), abs=1e-3)
    assert stats.median_ci(samples[:8000], rounds=8) is None
    with pytest.raises(ValueError, match="9000 samples do not come in 7 equal rounds"):
        stats.median_ci(samples, rounds=7)


def test_a_percentile_of_rounds_is_as_sure_as_the_rounds_are_alike():
    random = np.random.default_rng(6)
    samples = random.exponential(size=(12, 2000))
    alike = stats.percentile_ci(samples.ravel(), 99.0, rounds=12)
    low, high = stats.percentile_ci(samples.ravel(), 99.0)
    assert alike[1] - alike[0] == pytest.approx(high - low, rel=1.0)
    # One round in three is slow: the same samples, in rounds that differ.
    samples[::3] *= 1.3
    slow = stats.percentile_ci(samples.ravel(), 99.0, rounds=12)
    assert slow is None or slow[1] - slow[0] > 1.5 * (alike[1] - alike[0])
    assert stats.percentile_ci(samples[:8].ravel(), 99.0, rounds=8) is None
    assert stats.summarize(samples[:8].ravel(), rounds=8).p99_ci95 is None


def test_equal_arms_lie_as_far_apart_as_their_names_swapped():
    # Levels 1 and 2 by turns in both arms: swapped at random their medians differ by up to half.
    steady = np.resize([1.0, 1.001], 20)
    assert stats.apart(steady, steady) == 0.0
    assert stats.apart(steady, steady[::-1]) == pytest.approx(1e-3, rel=0.6)
    drift = np.linspace(1.0, 2.0, 20)  # as much in both: rounds do not differ
    assert stats.apart(drift, drift) == 0.0
    # A thousand samples of a round tell no more than the round.
    rounds = np.random.default_rng(7).normal(10, 1, (2, 12))
    first, second = np.repeat(rounds, 1000, axis=1)
    assert stats.apart(first, second, rounds=12) == pytest.approx(stats.apart(*rounds))
    assert stats.apart(first, second, rounds=12) > 0.02
    assert stats.apart(steady[:5], steady[:5]) is None
    assert stats.apart(steady - 1, steady) is None


def test_ratio_of_two_intervals():
    assert stats.ratio_ci(4.0, (4.0, 4.0), 2.0, (2.0, 2.0)) == (2.0, 2.0)
    # Of two that are equally sure, on the logarithms, each adds in quadrature.
    reach = math.exp(0.1 * math.sqrt(2))
    side = math.exp(0.1)
    found = stats.ratio_ci(4.0, (4 / side, 4 * side), 2.0, (2 / side, 2 * side))
    assert found == pytest.approx((2 / reach, 2 * reach))
    assert stats.ratio_ci(4.0, None, 2.0, (2.0, 2.0)) is None
    assert stats.ratio_ci(4.0, (0.0, 5.0), 2.0, (2.0, 2.0)) is None


def test_percentile_interval_holds_it_and_widens_with_bursts():
    values = np.random.default_rng(5).exponential(size=20_000)
    low, high = stats.percentile_ci(values, 99.0)
    assert low < stats.percentile(np.sort(values), 99.0) < high
    # The same samples with all slow ones in a few runs.
    burst = np.concatenate([np.sort(values)[:-400], np.sort(values)[-400:]])
    wide = stats.percentile_ci(burst, 99.0)
    assert wide is None or wide[1] - wide[0] > high - low
    assert stats.percentile_ci(values[:100], 99.0) is None


def test_summary_of_one_sample():
    summary = stats.summarize([2.5])
    assert summary == stats.Summary(2.5, None, 2.5, None, None, None, 2.5, 2.5, None)


def test_percentiles_are_samples_and_need_one_beyond():
    values = np.arange(1, 1001, dtype=float)
    summary = stats.summarize(values)
    assert (summary.p50, summary.p99, summary.p999) == (500.5, 990.0, 999.0)
    assert stats.summarize(values[:100]).p99 == 99.0
    assert stats.summarize(values[:99]).p99 is None
    assert stats.summarize(values[:999]).p999 is None


def test_coefficient_of_variation():
    assert stats.summarize([1.0, 3.0]).cv == pytest.approx(np.sqrt(2) / 2)
    assert stats.summarize([-1.0, 1.0]).cv is None


@pytest.mark.parametrize(
    ("samples", "message"),
    [([], "no samples"), ([[1.0]], "shape"), ([1.0, float("nan")], "sample 1 is nan")],
)
def test_what_cannot_be_summarised(samples, message):
    with pytest.raises(ValueError, match=message):
        stats.summarize(samples)


def test_thinning_keeps_the_order_and_the_limit():
    kept, stride = stats.thin(np.arange(1001), 400)
    assert stride == 3
    assert len(kept) == 334
    assert (kept // 3 == np.arange(334)).all()
    assert (stats.thin(np.arange(1001), 400)[0] == kept).all()
    assert stats.thin([1.0, 2.0], 400)[1] == 1


def test_thinning_does_not_keep_one_phase():
    # As an experiment that relaunches every 100 round trips: the first one after it is slow.
    samples = np.where(np.arange(20_000) % 100 == 0, 8.0, 4.0)
    kept, stride = stats.thin(samples, 400)
    assert stride == 50
    assert np.median(kept) == 4.0
    assert 0.0 < np.mean(kept == 8.0) < 0.05
