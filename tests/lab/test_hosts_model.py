# SPDX-License-Identifier: Apache-2.0
"""The simulation of hosts against cases whose outcome is known, and what it must show."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from denizen.lab import hosts_model
from denizen.lab.hosts_model import WHAT, WINDOW, Costs, left_by_naps, naps, simulate

ROOT = Path(__file__).resolve().parents[2]
LOOKS = Costs(
    send=0.1, send_batch=2.0, receive=0.2, receive_batch=1.0, look=0.3, idle=0.1, wire=5.0,
    wake=7.0, carry=0.1, nap=0.0, late=60.0, threads_receive=False,
)  # fmt: skip
THREADS = replace(LOOKS, threads_receive=True)
BOTH = pytest.mark.parametrize("costs", [LOOKS, THREADS], ids=["workers", "threads"])
EACH = 60 * WINDOW


def test_the_runtime_has_these_sizes():
    def one(folder, pattern):
        # rings.cpp has a nap of its own.
        files = [p for p in sorted((ROOT / folder).glob("*pp")) if p.name != "rings.cpp"]
        text = "".join(p.read_text() for p in files)
        found = set(re.findall(pattern, text))
        assert len(found) == 1, (pattern, found)
        return int(found.pop().replace("'", ""))

    cluster, far = "src/cluster", "src/actor"
    assert one(cluster, r"constexpr uint32_t batch = (\d+);") == hosts_model.BATCH
    assert one(cluster, r"uint64_t nap_ns = ([\d']+);") == 1000 * hosts_model.NAP
    assert one(cluster, r"short_nap_ns = ([\d']+);") == 1000 * hosts_model.SHORT_NAP
    assert one(cluster, r"constexpr int nap_ms = (\d+);\n") == hosts_model.REST / 1000
    assert one(far, r"links_per_look = (\d+);") == hosts_model.LINKS_PER_LOOK
    look = one("include/denizen/actor", r"\(worked \? n % (\d+) == 0 \|\| worker\.row_ended\(\)")
    assert look == hosts_model.ROUNDS_PER_LOOK
    offer = one("include/denizen/actor", r"worker\.waits_for_room\(\) \? 16 : (\d+)\)")
    assert offer == hosts_model.PATIENCE


def test_a_worker_that_does_all_sets_the_rate():
    found = simulate(2, 16, LOOKS, EACH)
    # Between two looks it handles four messages, which it then sends; four come by the same look.
    each = 0.1 + 0.2 + (2.0 + 1.0 + 0.3) / 4
    assert found.rate == pytest.approx(1 / each, rel=0.05)
    assert found.core == pytest.approx(each, rel=0.05)
    assert found.batch == pytest.approx(4, rel=0.05)


def test_threads_that_receive_leave_the_worker_to_others():
    found = simulate(2, 16, THREADS, EACH)
    assert found.rate == pytest.approx(1 / (0.1 + 0.2 + (2.0 + 0.3) / 4), rel=0.05)
    assert found.by["messages"] == pytest.approx(0.1 + 0.2 + 0.1, rel=0.02)
    # A batch that comes while a thread is awake shares its wake.
    assert 0 < found.by["wakes"] <= 7.0 / 4 * 1.02


def test_a_thread_that_finds_more_goes_on_without_a_wake():
    slow = replace(THREADS, carry=1.0, wake=100.0)
    assert simulate(2, 16, slow, EACH).by["wakes"] < 0.1


@BOTH
def test_one_core_for_all_is_busy_with_all(costs):
    found = simulate(3, 1, costs, EACH, together=True)
    assert 3 * found.rate * found.core == pytest.approx(1.0, rel=0.03)
    assert sum(found.by.values()) == pytest.approx(found.core)
    assert set(found.by) == set(WHAT)


@BOTH
def test_hosts_that_share_a_core_are_slower(costs):
    apart, shared = simulate(3, 2, costs, EACH), simulate(3, 2, costs, EACH, together=True)
    assert shared.rate < apart.rate


@BOTH
def test_a_window_bounds_what_a_wire_carries(costs):
    far = replace(costs, wire=10_000.0)
    assert simulate(2, 16, far, EACH).rate == pytest.approx(WINDOW / 10_000.0, rel=0.1)


@BOTH
def test_one_message_takes_all_steps_of_its_way(costs):
    found = simulate(2, 16, costs, 400, window=1)
    steps = 0.1 + 2.0 + 0.2 + 5.0 + (7.0 + 0.1 if costs.threads_receive else 1.0)
    # And a round or two of looks.
    assert steps < 1 / found.rate < steps + 3 * (0.3 + 0.1)


@BOTH
def test_more_hosts_mean_smaller_batches_that_cost_more(costs):
    few, some, many = (simulate(hosts, 4, costs, 8 * WINDOW) for hosts in (2, 4, 30))
    assert few.batch > some.batch > many.batch >= 1
    assert few.by["batches"] < some.by["batches"] < many.by["batches"]
    assert few.core < some.core < many.core
    assert few.rate > some.rate > many.rate


def test_a_worker_comes_to_each_link_in_its_turn():
    looks = replace(LOOKS, send=0.0, send_batch=0.0, receive=0.0, receive_batch=0.0, wire=0.1)
    one = {hosts: simulate(hosts, 16, looks, 100, window=1) for hosts in (9, 401)}
    assert one[9].tour == pytest.approx(8 * 0.3 + 0.1, rel=0.1)
    tour = 400 * 0.3 + 50 * 0.1
    assert one[401].tour == pytest.approx(tour, rel=0.1)
    # It waits for half a tour before it is sent, and for half a one before it is seen.
    assert 1 / one[401].rate == pytest.approx(tour, rel=0.25)
    threads = simulate(401, 16, replace(looks, threads_receive=True), 100, window=1)
    assert 1 / threads.rate == pytest.approx(tour / 2 + 7.2, rel=0.25)


def test_naps_take_cores_by_the_number_of_links():
    costs = replace(LOOKS, nap=10.0)
    each = 10.0 / (1000.0 + 60.0 + 10.0)
    assert naps(101, costs, tour=0.0) == pytest.approx((200 * each, 200))
    threads, napping = naps(101, replace(costs, threads_receive=True), tour=0.0)
    assert (threads, napping) == pytest.approx((100 * (each + 10.0 / 5010.0), 200))
    # A tour that takes as long as a nap and ten short ones: eleven naps in its time.
    tour = 1070.0 + 10 * (50.0 + 60.0 + 10.0)
    often = 100 * 10.0 * (1 / 1070.0 + 11 / tour)
    assert naps(101, costs, tour)[0] == pytest.approx(often)
    found = simulate(101, 4, costs, 2 * WINDOW)
    assert found.naps == pytest.approx(200 * each, rel=0.01)
    assert found.by["naps"] == pytest.approx(found.naps / found.rate, rel=0.01)


def test_naps_leave_a_worker_its_part_of_the_cores():
    assert left_by_naps(16, 5.5, 1000) == 10.5
    some = [left_by_naps(2, wanted, 200) for wanted in (0.5, 1.1, 1.9, 2.5, 4.0, 20.0)]
    assert some == sorted(some, reverse=True)
    assert some[1] > 0.9
    # Half of what 200 threads want is not there: a hundred wait, and it has the part of one more.
    assert some[4] == pytest.approx(2 / 101, rel=0.02)


def test_a_host_whose_naps_want_all_cores_is_slow():
    costs = replace(LOOKS, nap=10.0)
    assert simulate(100, 2, costs, WINDOW).rate < 0.5 * simulate(100, 4, costs, WINDOW).rate


@BOTH
def test_some_hosts_stand_for_all(costs, monkeypatch):
    few = simulate(50, 2, costs, 6 * WINDOW)
    monkeypatch.setattr(hosts_model, "MOST_SIMULATED", 50)
    every = simulate(50, 2, costs, 6 * WINDOW)
    assert few.rate == pytest.approx(every.rate, rel=0.05)
    assert few.tour == pytest.approx(every.tour, rel=0.05)


def test_a_worker_that_gave_its_core_is_woken_by_a_thread():
    # Three workers on one core: who looks in vain lets another one have it, and then a thread is
    # woken for what comes.
    found = simulate(3, 1, LOOKS, 400, window=1, together=True)
    assert found.by["wakes"] > 0
    assert simulate(3, 3, LOOKS, 400, window=1, together=True).by["wakes"] == 0


@BOTH
def test_it_is_the_same_each_time(costs):
    assert simulate(7, 2, costs, 3000) == simulate(7, 2, costs, 3000)
