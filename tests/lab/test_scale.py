# SPDX-License-Identifier: Apache-2.0
"""The experiment of hosts: runs made of known costs give these costs, and hosts do what is counted.

How long anything takes is not looked at.
"""

import os
import threading
from pathlib import Path

import numpy as np
import pytest

from denizen.cluster import Cluster
from denizen.lab import hosts_model, scale
from denizen.lab.scale import _Busy, _Clock, _Pair

TICKS, TICK, PER_LOOK = 100_000, 0.1, 50
TRUE = {
    "send": 0.2, "send_batch": 3.0, "receive": 0.3, "receive_batch": 2.0, "look": 0.5,
    "idle": 0.04, "wake": 9.0, "carry": 0.15, "nap": 6.0, "late": 55.0, "wire": 4.0,
}  # fmt: skip
TASKS = Path("/proc/self/task")
TINY = scale._Sizes(turns=1, ticks=5_000, hops=40, floods=2, each=300)


def made(links, burst=None):
    """A run of a host with so many links whose steps cost TRUE."""
    us = TICKS * (TICK + links * TRUE["look"] / PER_LOOK)
    bursts = TICKS // burst.every if burst else 0
    messages = bursts * burst.messages if burst else 0
    us += bursts * TRUE["send_batch"] + messages * TRUE["send"]
    looks = 20_000 + 7 * messages // 1000 + bursts
    sink = looks * (TRUE["look"] + TRUE["idle"])
    sink += bursts * TRUE["receive_batch"] + messages * TRUE["receive"]
    receives = bursts * TRUE["wake"] + messages * TRUE["carry"]
    naps = 400
    seconds = naps * (1000.0 + TRUE["late"] + TRUE["nap"]) * 1e-6
    threads = [
        {"denizen out": _Clock(naps * TRUE["nap"], naps)},
        {"denizen in": _Clock(receives, bursts)},
    ]
    return _Busy(us, TICKS, [us, sink], threads, [TICKS // PER_LOOK, looks], seconds)


@pytest.mark.parametrize("receives", [True, False])
def test_costs_are_those_that_runs_were_made_of(receives):
    hop = sum(TRUE[step] for step in ("send", "send_batch", "receive", "receive_batch", "wire"))
    hop += 1.5 * (TRUE["look"] + TRUE["idle"])
    hop += TRUE["wake"] + TRUE["carry"] if receives else 0.0
    pair = _Pair(made(1), {b: made(1, b) for b in scale._BURSTS}, made(1), hop)
    threads = scale._costs(made(0), pair, made(2), None, receives=True)
    found = scale._costs(made(0), pair, made(2), threads, receives=receives)
    assert found.threads_receive == receives
    assert {step: getattr(found, step) for step in TRUE} == pytest.approx(TRUE, rel=0.01)
    assert set(scale._STEPS) == set(TRUE)


def until_asleep(numbers):
    """Until all of these threads wait, and their clocks stand still."""
    while any(
        (TASKS / str(n) / "stat").read_text().rpartition(")")[2].split()[0] != "S" for n in numbers
    ):
        os.sched_yield()


def test_what_noise_makes_less_than_nothing_costs_nothing():
    assert scale._fit([[1, 1, 1], [1, 4, 16]], [0.9, 3.9, 16.1])[0] == 0.0
    batch, message = scale._fit([[1, 1, 1], [1, 4, 16]], [2.1, 2.4, 3.6])
    assert (batch, message) == pytest.approx((2.0, 0.1))


def test_clocks_are_what_passed_and_those_of_links_are_added():
    before = {"12": _Clock(5.0, 2), "denizen in": _Clock(1.0, 1)}
    after = {"12": _Clock(8.0, 4), "denizen in": _Clock(9.0, 9), "13": _Clock(2.0, 1)}
    passed = scale._passed(before, after)
    assert passed == {"12": (3.0, 2), "denizen in": (8.0, 8), "13": (2.0, 1)}
    assert scale._worker_of(passed) == 3.0


def test_threads_of_links_are_counted_together():
    go, named = threading.Event(), threading.Barrier(3)
    numbers = []

    def wait():
        numbers.append(threading.get_native_id())
        (TASKS / str(numbers[-1]) / "comm").write_text("denizen in")
        named.wait()
        go.wait()

    threads = [threading.Thread(target=wait) for _ in range(2)]
    before = scale._clocks(os.getpid()).get("denizen in", _Clock())
    for thread in threads:
        thread.start()
    named.wait()
    until_asleep(numbers)
    each = [(TASKS / str(n) / "schedstat").read_text().split() for n in numbers]
    found = scale._clocks(os.getpid())["denizen in"]
    assert found.turns - before.turns == sum(int(turns) for _, _, turns in each)
    assert found.us - before.us == pytest.approx(sum(int(ns) for ns, _, _ in each) / 1000)
    go.set()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("waits", scale._SPIN)
def test_hosts_send_and_handle_what_is_counted(waits):
    with Cluster(scale.program(), 2, transport="tcp", spin=scale._SPIN[waits]) as cluster:
        nodes = scale._meet(cluster)
        before = cluster.stats()[0]["links"][1]
        burst = scale._BURSTS[-1]
        run = scale._busy(cluster, nodes, TINY, burst)
        after = cluster.stats()[0]["links"][1]
        assert after["taken"] - before["taken"] == TINY.ticks // burst.every * burst.messages
        assert run.ticks == TINY.ticks
        assert run.us > 0
        assert run.looks[0] > 0
        assert {"denizen in", "denizen out"} <= run.threads[1].keys()
        slow = scale._busy(cluster, nodes, TINY, burst, work=2)
        assert slow.ticks == TINY.ticks // 10
        assert slow.us >= 2 * slow.ticks
        seen = scale._see(cluster, TINY)
        assert seen.right
        assert len(seen.core) == len(seen.one_way) == TINY.floods
        # A sum that is not that of what was sent is told.
        assert not scale._flood(cluster, scale._meet(cluster, 10), 11, 1)[1]


def test_it_says_what_each_row_is_of():
    pair = _Pair(made(1), {b: made(1, b) for b in scale._BURSTS}, made(1), 30.0)
    costs = scale._costs(made(0), pair, made(2), None, receives=True)
    rows = list(scale._simulated(costs, "sleeping", quick=True))
    rows += scale._simulated(costs, "spinning", quick=True)
    assert len({row.key for row in rows}) == len(rows)
    assert all(np.isfinite(row.samples).all() for row in rows)
    assert {row.params["hosts"] for row in rows} == {2, 3, 10, 30, 100}


def test_what_was_simulated_is_told_as_a_share_of_what_was_measured():
    pair = _Pair(made(1), {b: made(1, b) for b in scale._BURSTS}, made(1), 30.0)
    costs = scale._costs(made(0), pair, made(2), None, receives=True)
    seen = scale._Seen({"": [1.0, 3.0], "A/A": [2.0]}, [4.0], [50.0], False)
    rows = list(scale._compared(seen, {"hosts": 2}, 2, costs, TINY))
    by = {row.case: row.samples[0] for row in rows if not row.arm}
    for case, measured in ((scale._RATE, 2.0), (scale._CORE, 4.0), (scale._ONE_WAY, 50.0)):
        simulated = by[f"{case}, simulated"]
        assert simulated > 0
        assert by[f"{case}, simulated / measured"] == pytest.approx(simulated / measured)
    assert not any(row.verified for row in rows)
    assert [list(row.samples) for row in rows if row.arm == "A/A"] == [[2.0]]
    assert [row.rounds for row in rows[:4]] == [2, 1, 1, 1]  # a sample each


@pytest.mark.parametrize("receives", [True, False])
def test_naps_are_those_of_a_worker_that_looks_so_often(receives):
    pair = _Pair(made(1), {b: made(1, b) for b in scale._BURSTS}, made(1), 30.0)
    threads = scale._costs(made(0), pair, made(2), None, receives=True)
    costs = scale._costs(made(0), pair, made(2), threads, receives=receives)
    often, seldom = made(1, scale._BURSTS[0]), made(1)
    for run, us in ((often, 1.0), (seldom, 5000.0)):
        run.looks[0] = run.seconds * 1e6 / us
        took = hosts_model.naps(2, costs, us)[0] * run.seconds * 1e6
        run.threads[0].update({"denizen in": _Clock(took / 4, 1), "denizen out": _Clock(took, 1)})
    pair = _Pair(made(1), {scale._BURSTS[0]: often}, seldom, 30.0)
    rows = list(scale._naps_compared([pair], {}, costs))
    shares = [row.samples[0] for row in rows if row.unit == "share"]
    assert shares == pytest.approx([0.8, 0.8])
    looks = [row.samples[0] for row in rows if row.unit == "us"]
    assert looks == pytest.approx([1.0, 5000.0])
    simulated = [row.samples[0] for row in rows if row.case.endswith(", simulated")]
    assert (simulated[0] < simulated[1]) == (not receives)
