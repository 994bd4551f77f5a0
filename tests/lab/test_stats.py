# SPDX-License-Identifier: Apache-2.0
"""Medians, intervals and percentiles against brute force and against known distributions."""

import numpy as np
import pytest

from denizen.lab import stats


def brute_force_ci(values, block, resamples, seed):
    """The same block bootstrap, one resample at a time and without bins."""
    blocks = max(1, len(values) // block)
    of = np.minimum(np.arange(len(values)) // block, blocks - 1)
    parts = [values[of == i] for i in range(blocks)]
    drawn = np.random.default_rng(seed).multinomial(
        blocks, np.full(blocks, 1 / blocks), size=resamples
    )
    medians = [
        np.median(np.concatenate([np.tile(part, k) for part, k in zip(parts, row, strict=True)]))
        for row in drawn
    ]
    return tuple(np.quantile(medians, [0.025, 0.975], method="inverted_cdf"))


@pytest.mark.parametrize("n", [1, 2, 7, 100, 1001])
@pytest.mark.parametrize("block", [1, 3, 10])
def test_interval_equals_brute_force(n, block):
    values = np.random.default_rng(n).lognormal(size=n)
    expected = brute_force_ci(values, block, 200, 5)
    assert stats.median_ci(values, block=block, resamples=200, seed=5) == pytest.approx(expected)


def test_interval_of_many_samples_is_right_to_a_bin():
    values = np.random.default_rng(1).exponential(size=50_001)
    low, high = stats.median_ci(values, block=200, resamples=300, seed=2)
    exact = brute_force_ci(values, 200, 300, 2)
    ranks = np.searchsorted(np.sort(values), [low, high]) / values.size
    exact_ranks = np.searchsorted(np.sort(values), exact) / values.size
    assert np.abs(ranks - exact_ranks).max() <= 1 / 4096


def test_interval_covers_the_true_median():
    hits = 0
    for trial in range(400):
        values = np.random.default_rng(trial).exponential(size=300)
        low, high = stats.median_ci(values, seed=trial)
        hits += low <= np.log(2) <= high
    # 95 % nominal; 400 trials have a standard deviation of 1.1 %.
    assert 0.91 <= hits / 400 <= 0.99


def test_blocks_widen_the_interval_of_correlated_samples():
    noise = np.random.default_rng(3).normal(size=4000)
    slow = np.repeat(noise[:40], 100)  # 40 independent levels, 100 samples each
    alone = np.subtract(*stats.median_ci(slow, block=1))
    together = np.subtract(*stats.median_ci(slow, block=100))
    assert abs(together) > 3 * abs(alone)


def test_same_seed_same_interval():
    values = np.random.default_rng(4).normal(size=999)
    assert stats.median_ci(values, seed=9) == stats.median_ci(values, seed=9)


def test_summary_of_one_sample():
    summary = stats.summarize([2.5])
    assert summary == stats.Summary(2.5, (2.5, 2.5), 2.5, None, None, 2.5, 2.5, None)


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
    assert len(kept) <= 400
    assert (kept == np.arange(0, 1001, 3)).all()
    assert stats.thin([1.0, 2.0], 400)[1] == 1


@pytest.mark.parametrize("n", [1, 10, 1000, 10**6])
def test_block_length_bounds_the_number_of_blocks(n):
    assert min(n, 10) <= n // stats.block_length(n) <= 256
