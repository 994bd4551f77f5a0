# SPDX-License-Identifier: Apache-2.0
"""The block bootstrap against brute force."""

import numpy as np
import pytest

from denizen.ab import bootstrap


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
    assert bootstrap.median_ci(values, block=block, resamples=200, seed=5) == pytest.approx(
        expected
    )


def test_interval_of_many_samples_is_right_to_a_bin():
    values = np.random.default_rng(1).exponential(size=50_001)
    low, high = bootstrap.median_ci(values, block=200, resamples=300, seed=2)
    exact = brute_force_ci(values, 200, 300, 2)
    ranks = np.searchsorted(np.sort(values), [low, high]) / values.size
    exact_ranks = np.searchsorted(np.sort(values), exact) / values.size
    assert np.abs(ranks - exact_ranks).max() <= 1 / 4096


def test_blocks_widen_the_interval_of_correlated_samples():
    noise = np.random.default_rng(3).normal(size=4000)
    slow = np.repeat(noise[:40], 100)  # 40 independent levels, 100 samples each
    alone = np.subtract(*bootstrap.median_ci(slow, block=1))
    together = np.subtract(*bootstrap.median_ci(slow, block=100))
    assert abs(together) > 3 * abs(alone)


def test_same_seed_same_interval():
    values = np.random.default_rng(4).normal(size=999)
    assert bootstrap.median_ci(values, seed=9) == bootstrap.median_ci(values, seed=9)


@pytest.mark.parametrize("n", [1, 10, 1000, 10**6])
def test_block_length_bounds_the_number_of_blocks(n):
    assert min(n, 10) <= n // bootstrap.block_length(n) <= 256
