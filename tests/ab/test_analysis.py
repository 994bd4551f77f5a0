# SPDX-License-Identifier: Apache-2.0
"""Verdicts on known distributions: how often they are wrong, and what they find.

Every rate is of simulated experiments with a fixed seed. A rate of alpha = 5 % over 10,000
experiments has a standard deviation of 0.22 %, so 5.7 % is three of them above it.
"""

import math

import numpy as np
import pytest

from denizen.ab import analysis

scipy_stats = pytest.importorskip("scipy.stats")

TRIALS, BLOCKS = 10_000, 20
BOUND = 0.057


@pytest.fixture(autouse=True)
def fewer_resamples(monkeypatch):
    """Intervals of thousands of experiments; each is as right on average, only less smooth."""
    monkeypatch.setattr(analysis, "RESAMPLES", 400)


def slots(rng, shape, noise):
    """Noise of slots' log times: shape (..., 2 slots)."""
    if noise == "normal":
        return 0.01 * rng.normal(size=shape)
    if noise == "heavy":  # Student's t with 2 degrees of freedom: no variance
        return 0.01 * np.clip(rng.standard_t(2, size=shape), -300, 300)
    spikes = rng.random(size=shape) < 0.05  # an interrupt makes a slot much longer, never shorter
    return 0.01 * rng.normal(size=shape) + spikes * rng.exponential(1.0, size=shape)


def experiments(seed, noise, *, ratio=1.0, processes=1, between=0.0, trials=TRIALS):
    """Log ratios of simulated experiments, shape (trials, processes, BLOCKS)."""
    rng = np.random.default_rng(seed)
    shape = (trials, processes, BLOCKS, 2)
    base = np.exp(slots(rng, shape, noise))
    arm = ratio * np.exp(slots(rng, shape, noise))
    luck = between * rng.normal(size=(trials, processes, 1))  # of one arm in one process
    return analysis.log_ratios(base, arm) + luck


def verdicts(values, margin=None):
    """Verdicts of single cells. Without a small p there is no claim: only those are gone into."""
    different = analysis.p_different(values)
    equivalent = np.ones_like(different)
    if margin is not None:
        equivalent = analysis.p_equivalent(values, margin)
    found = np.full(len(values), analysis.UNDECIDED, dtype=object)
    for i in np.flatnonzero((different < analysis.ALPHA) | (equivalent < analysis.ALPHA)):
        comparison = analysis.compare(values[i], margin)
        found[i] = analysis.verdict(
            comparison, comparison.p_different, comparison.p_equivalent, margin
        )
    return found


@pytest.mark.parametrize(("noise", "processes"), [("normal", 1), ("heavy", 5), ("spikes", 1)])
def test_equal_arms_differ_no_more_often_than_alpha(noise, processes):
    values = experiments(1, noise, processes=processes)
    found = verdicts(values)
    assert np.mean(found != analysis.UNDECIDED) <= BOUND
    # Each direction alone, too: an A/A arm is never "faster" more often than half of alpha.
    assert np.mean(found == analysis.FASTER) <= 0.03


def test_an_again_arm_is_void_by_chance_in_a_cell_of_a_thousand():
    values = experiments(1, "heavy", processes=5)
    assert np.mean(analysis.p_randomised(values) < analysis.ALPHA_AGAIN) <= 0.002


def test_luck_of_a_process_is_no_difference():
    values = experiments(2, "normal", processes=5, between=0.02)
    flat = values.reshape(TRIALS, 1, -1)
    # What the blocks alone would claim: this is why processes are repeated.
    assert np.mean(analysis.p_different(flat) < analysis.ALPHA) > 0.5
    assert np.mean(analysis.p_different(values) < analysis.ALPHA) <= BOUND


def test_correlated_noise_is_no_difference():
    """Blocks that remember: as the order is drawn for each, their signs are independent."""
    rng = np.random.default_rng(3)
    walk = np.cumsum(rng.normal(size=(TRIALS, BLOCKS * 4)), axis=1) * 0.05  # a random walk of slots
    position = walk.reshape(TRIALS, BLOCKS, 4)
    first = rng.random(size=(TRIALS, BLOCKS, 1)) < 0.5  # ABBA or BAAB
    outer, inner = np.exp(position[..., [0, 3]]), np.exp(position[..., [1, 2]])
    base, arm = np.where(first, outer, inner), np.where(first, inner, outer)
    values = analysis.log_ratios(base, arm)[:, None, :]
    assert np.mean(analysis.p_different(values) < analysis.ALPHA) <= BOUND


def test_linear_drift_cancels_in_a_block():
    for order in (np.array([0, 1, 1, 0]), np.array([2, 0, 1, 1, 0, 2])):
        time = 1.0 + 0.3 * np.arange(order.size)
        values = analysis.log_ratios(time[order == 0], time[order == 1])
        assert values == pytest.approx(0, abs=1e-15)


@pytest.mark.parametrize(("noise", "least"), [("normal", 0.99), ("heavy", 0.9), ("spikes", 0.95)])
def test_two_percent_are_found(noise, least):
    found = verdicts(experiments(4, noise, ratio=0.98, processes=5, between=0.002, trials=200))
    assert np.mean(found == analysis.FASTER) >= least
    assert not np.any(found == analysis.SLOWER)
    found = verdicts(experiments(5, noise, ratio=1.02, processes=5, between=0.002, trials=200))
    assert np.mean(found == analysis.SLOWER) >= least


@pytest.mark.parametrize(
    ("noise", "processes", "ratio"),
    [("normal", 1, 1.02), ("heavy", 1, 1 / 1.02), ("heavy", 5, 1.02)],
)
def test_equivalence_at_the_margin_is_claimed_no_more_often_than_alpha(noise, processes, ratio):
    between = 0.001 if processes > 1 else 0.0  # one process cannot know its own luck
    values = experiments(6, noise, ratio=ratio, processes=processes, between=between)
    assert np.mean(analysis.p_equivalent(values, 0.02) < analysis.ALPHA) <= BOUND


def test_equivalence_of_equal_arms_is_found():
    values = experiments(7, "normal", processes=5, between=0.002, trials=200)
    assert np.mean(verdicts(values, 0.02) == analysis.EQUIVALENT) >= 0.95
    # Too noisy to tell: not equal, undecided.
    values = experiments(8, "normal", processes=5, between=0.1, trials=200)
    assert np.mean(verdicts(values, 0.02) == analysis.EQUIVALENT) <= 0.05


def test_a_certain_difference_within_the_margin_is_equivalent():
    values = experiments(9, "normal", ratio=1.005, processes=5, trials=20) * 0.1 + 0.9 * math.log(
        1.005
    )
    assert set(verdicts(values, 0.02)) == {analysis.EQUIVALENT}
    assert set(verdicts(values)) == {analysis.SLOWER}


@pytest.mark.parametrize(("processes", "noise"), [(1, "normal"), (1, "heavy"), (5, "heavy")])
def test_interval_covers_the_true_ratio(processes, noise):
    values = experiments(10, noise, ratio=1.1, processes=processes, trials=300)
    hits = 0
    for one in values:
        low, high = analysis.compare(one).ci95
        hits += low <= 1.1 <= high
    # 300 trials at 95 % have a standard deviation of 1.3 %.
    assert hits / 300 >= 0.92


def test_a_difference_below_the_floor_of_the_again_arm_is_undecided():
    values = experiments(11, "normal", ratio=1.02, processes=5, trials=1)[0]
    found = analysis.compare(values)
    p = found.p_different
    assert analysis.verdict(found, p, None, None) == analysis.SLOWER
    assert analysis.verdict(found, p, None, None, (0.97, 1.01)) == analysis.UNDECIDED


def test_equal_times_are_undecided():
    found = analysis.compare(np.zeros((3, 20)), 0.02)
    assert (found.ratio, found.ci95) == (1.0, (1.0, 1.0))
    assert analysis.verdict(found, found.p_different, None, None) == analysis.UNDECIDED
    # ... but certainly equivalent, if a margin says what that is to mean.
    assert (
        analysis.verdict(found, found.p_different, found.p_equivalent, 0.02) == analysis.EQUIVALENT
    )


def test_holm_against_its_definition():
    assert analysis.holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert analysis.holm([0.5, 0.6]) == [1.0, 1.0]
    assert analysis.holm([]) == []
    # A family of 20 true nulls: at least one claim in at most 5 % of sweeps.
    values = experiments(12, "normal").reshape(TRIALS // 20, 20, 1, BLOCKS)
    p = analysis.p_different(values)
    wrong = [min(analysis.holm(list(family))) < analysis.ALPHA for family in p]
    assert np.mean(wrong) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / len(wrong))
    assert np.mean((p < analysis.ALPHA).any(axis=1)) > 0.5  # what no adjustment would claim


def test_p_of_processes_is_students():
    values = np.random.default_rng(13).normal(0.3, 1, size=(4, 30))
    medians = np.median(values, axis=1)
    for side in ("two-sided", "less", "greater"):
        expected = scipy_stats.ttest_1samp(medians, 0, alternative=side).pvalue
        assert analysis._student(medians, side) == pytest.approx(expected)


def test_values_that_cannot_be_compared():
    for bad in (np.zeros(5), np.zeros((2, 0)), np.full((1, 5), np.nan)):
        with pytest.raises(ValueError, match="log ratios"):
            analysis.compare(bad)
