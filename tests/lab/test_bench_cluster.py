# SPDX-License-Identifier: Apache-2.0
"""`denizen bench cluster`: its goals are judged by its rows, which name what their links took."""

import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest

from denizen.lab import bench, calls, cluster, goals, sockets
from denizen.lab.record import Measured, rows_of

RIVALS = {
    "us": [*sockets.ONE_WAY.values(), sockets.ZMQ_ONE_WAY, *calls.ONE_WAY.values()],
    "M/s": [*sockets.SLOTS.values(), sockets.ZMQ_SLOTS, *calls.SLOTS.values()],
}


def rows(hosts, values):
    """As measure() makes them: of each transport, both ways to wait, and the ends of hosts."""
    made = []
    for transport in ("rings", "tcp"):
        link = {"hosts": hosts, "transport": transport}
        for waits in ("spinning", "sleeping"):
            for case, unit in ((cluster.ONE_WAY, "us"), (cluster.SLOTS, "M/s")):
                samples = np.full(20, values[unit])
                params = link | {"waits": waits}
                made += [Measured(case, params, unit, samples, 1, True, arm=a) for a in ("", "A/A")]
            made.append(Measured(cluster.ASKED, link | {"waits": waits}, "us", samples, 1, True))
        for case in (cluster.KILLED, cluster.STOPPED):
            samples = np.full(5, values[case])
            made.append(Measured(case, link | {"deadline_s": 2.0}, "ms", samples, 1, True))
    for kind, case in cluster._UNDER_LOAD.items():
        params = {"hosts": hosts, "deadline_s": 2.0, "seed": 1}
        made.append(Measured(case, params, "ms", np.full(5, values[kind]), 1, True))
    return made


class Players:
    """A cluster whose players answer at once."""

    def __init__(self):
        self.count = self.sum = 0
        self.words = {"Go": self.go, "Ball": self.ball, "Expect": self.go}

    def go(self, count, **_):
        self.sum = max(self.sum, count * (count - 1) // 2)

    def ball(self, left, **_):
        self.count += left // 2 + 1

    def spawn(self, _actor, count=1, *, host):
        return range(count)

    def send(self, _to, message, **words):
        if message == "Expect":
            self.sum = 0
        self.words[message](**words)

    def receive(self, timeout):
        time.sleep(1e-4)
        return SimpleNamespace(message={"count": self.sum or self.count})

    def drain(self):
        pass


@pytest.mark.parametrize(("rows_of_it", "turns"), [("_hops", 10), ("_loads", 6)])
def test_two_turns_are_a_round_of_both_arms(rows_of_it, turns):
    more = () if rows_of_it == "_hops" else (1,)
    found = list(getattr(cluster, rows_of_it)(Players(), {}, *more, quick=True))
    assert [(one.arm, one.rounds, one.verified) for one in found] == [
        ("", turns // 2, True),
        ("A/A", turns // 2, True),
    ]


GOOD = {"us": 1.0, "M/s": 20.0, cluster.KILLED: 5.0, cluster.STOPPED: 1990.0}
GOOD |= {"kill": 5.0, "stop": 1990.0, "cut": 1990.0}


@pytest.mark.parametrize(
    ("wrong", "missed"),
    [
        ({}, set()),
        ({"us": 70.0}, {"spinning", "sleeping"}),
        ({"M/s": 1.0}, {"64-byte"}),
        ({cluster.KILLED: 60.0}, {"killed"}),
        ({cluster.STOPPED: 2001.0}, {"stopped"}),
        ({"kill": 60.0, "stop": 2001.0}, {"load"}),
    ],
    ids=["none", "one way", "rate", "killed", "stopped", "under load"],
)
def test_each_figure_to_show_is_judged(wrong, missed):
    found = goals.reached("cluster", rows_of(rows("CPU threads", GOOD | wrong)), gpu=False)
    assert len(found) == 11
    for goal in found:
        words = set(goal.what.replace(",", "").split())
        named = bool(words & missed) and not ("load" in words and "load" not in missed)
        assert goal.verdict == ("missed" if named else "met"), goal


def test_hosts_on_a_gpu_have_goals_of_their_own():
    """And are none of the CPU's."""
    for hosts in ("one GPU", "2 GPUs"):
        found = goals.reached("cluster", rows_of(rows(hosts, GOOD)), gpu=True)
        assert all(hosts in goal.what and goal.verdict == "met" for goal in found)
        assert [goal.bound for goal in found] == ["\u2264 8 us", "\u2265 10 M/s", "\u2265 5 M/s"]


def test_a_row_is_compared_with_the_rivals_that_do_the_same():
    made = rows("CPU threads", GOOD)
    rivals = [
        Measured(case, params, unit, np.full(20, 2.0), 1, True)
        for unit, cases in RIVALS.items()
        for case in cases
        for params in (
            [{"waits": w} for w in ("spinning", "sleeping")]
            if case in sockets.ONE_WAY.values()
            else [{}]
        )
    ]
    cluster._compare(made, rivals)
    complaints = []
    found = {
        (row.case, row.params["transport"]): set(row.ratio_to)
        for row in rows_of(made + rivals, complaints)
        if row.ratio_to
    }
    assert not complaints
    for transport, socket in (("rings", "Unix"), ("tcp", "TCP")):
        assert found[cluster.ONE_WAY, transport] == {sockets.ONE_WAY[socket], sockets.ZMQ_ONE_WAY}
        assert found[cluster.ASKED, transport] == set(calls.ONE_WAY.values())
        slots = {sockets.SLOTS[socket], sockets.ZMQ_SLOTS, *calls.SLOTS.values()}
        assert found[cluster.SLOTS, transport] == slots


def test_a_row_names_what_the_link_took():
    """And not what was asked for: a link by UCX may go on by TCP."""
    told = SimpleNamespace(description={"links": {(0, 1): {"transport": "tcp", "why": "..."}}})
    assert cluster._params(told, "CPU threads") == {"hosts": "CPU threads", "transport": "tcp"}


def test_frameworks_that_are_not_installed_are_named(monkeypatch, capsys):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    monkeypatch.setitem(sys.modules, "zmq", None)
    assert calls.measure(quick=True) == []
    assert sockets._libzmq() is None
    told = capsys.readouterr().err
    for name in ("pyzmq", "grpcio", "ray"):
        assert f"no rows of {name}, it is not installed: pip install {name}" in told


@pytest.mark.deep
def test_all_of_it_is_measured_and_every_message_accounted_for():
    record = bench.run("cluster", "cpu", quick=True)
    assert record.verified
    cases = {row.case for row in record.rows}
    own = {cluster.ONE_WAY, cluster.SLOTS, cluster.ASKED, cluster.KILLED, cluster.STOPPED}
    assert own | {*sockets.ONE_WAY.values(), *sockets.SLOTS.values()} <= cases
    assert set(cluster._UNDER_LOAD.values()) <= cases
    assert len(record.goals) == 11
