# SPDX-License-Identifier: Apache-2.0
"""The simulation of hosts against cases whose outcome is known, and what it must show."""

import pytest

from denizen.lab.hosts_model import WINDOW, Costs, simulate

COSTS = Costs(post=0.2, handle=0.3, wake_out=5.0, out=0.1, wake_in=7.0, in_=0.1, wire=20.0)
EACH = 60 * WINDOW


def test_a_worker_that_is_the_slowest_sets_the_rate():
    slow = Costs(post=2.0, handle=3.0, wake_out=0.1, out=0.1, wake_in=0.1, in_=0.1, wire=1.0)
    found = simulate(2, 16, slow, EACH)
    assert found.rate == pytest.approx(1 / 5.0, rel=0.05)
    assert found.shares["worker"] == pytest.approx(1 / 16, rel=0.05)
    assert found.core == pytest.approx(5.2 + 0.2 / found.batch, rel=0.05)


def test_one_core_for_all_is_busy_with_all():
    found = simulate(3, 1, COSTS, EACH, together=True)
    assert sum(found.shares.values()) == pytest.approx(1.0, rel=0.02)
    # A message takes 0.7 of its own, and its part of two wakes.
    assert 3 * found.rate == pytest.approx(1 / (0.7 + 12.0 / found.batch), rel=0.05)


def test_a_window_bounds_what_a_wire_carries():
    far = Costs(0.01, 0.01, 0.01, 0.01, 0.01, 0.01, wire=10_000.0)
    found = simulate(2, 16, far, EACH)
    assert found.rate == pytest.approx(WINDOW / 10_000.0, rel=0.1)


def test_more_hosts_mean_smaller_batches_and_more_wakes():
    few, some, many = (simulate(hosts, 4, COSTS, 8 * WINDOW) for hosts in (2, 8, 30))
    assert few.batch > some.batch > many.batch >= 1
    assert few.shares["wakes"] < some.shares["wakes"] < many.shares["wakes"]
    assert few.core < some.core < many.core
    assert some.rate > many.rate


def test_it_is_the_same_each_time():
    assert simulate(7, 2, COSTS, 3000) == simulate(7, 2, COSTS, 3000)
