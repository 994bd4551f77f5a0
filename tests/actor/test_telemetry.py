# SPDX-License-Identifier: Apache-2.0
"""rt.telemetry(): what a running program tells of itself."""

import dataclasses
import json
import threading

import pytest
import sample

import denizen
from denizen.telemetry import DURATION_ERROR, ROUTES, Durations, Telemetry


def type_of(telemetry, name):
    return next(a for a in telemetry.actor_types if a.name == name)


def test_counts_are_exact(rt):
    counters = rt.spawn("Counter", 10)
    messages = sample.ADD.zeros(1000)
    rt.send_many(counters[3], messages)
    rt.broadcast("Counter", "Add", n=1)
    rt.drain()
    t = rt.telemetry()
    assert type_of(t, "Counter").handled == 1010
    assert type_of(t, "Counter").live == 10
    assert type_of(t, "Hopper").handled == 0
    assert [a.name for a in t.actor_types] == list(rt.program.actors)
    assert t.handled == sum(w.handled for w in t.workers) == rt.stats()["handled"]
    assert len(t.workers) == rt.description["workers"]
    assert {w.mode for w in t.workers} == {"running"}
    assert all(w.host_ring == w.inbox == w.near == w.outbox == w.busy == 0 for w in t.workers)
    assert (t.mode, t.launches, t.errors, t.dead_letters) == ("running", 1, 0, 0)
    assert not t.observed
    assert type_of(t, "Counter").durations.count == 0


def test_durations_while_observed(rt):
    (counter,) = rt.spawn("Counter")
    (hopper,) = rt.spawn("Hopper")
    rt.observe(True)
    rt.send_many(counter, sample.ADD.zeros(500))
    rt.send(hopper, "Hop", to=hopper, left=20)
    rt.drain()
    rt.observe(False)
    rt.send(counter, "Add", n=1)
    rt.drain()
    t = rt.telemetry()
    assert type_of(t, "Counter").handled == 501
    d = type_of(t, "Counter").durations
    assert d.count == sum(d.buckets) == 500
    assert 0 <= d.p50 <= d.p90 <= d.p99 <= d.p999 <= d.max
    assert d.sum <= 500 * d.max / (1 - DURATION_ERROR)
    assert type_of(t, "Hopper").durations.count == 21
    assert t.sent[ROUTES.index("worker")] == 20
    assert sum(t.sent) == 20
    assert {(s.type, s.message) for s in t.slowest} <= {("Counter", "Add"), ("Hopper", "Hop")}
    assert [s.seconds for s in t.slowest] == sorted((s.seconds for s in t.slowest), reverse=True)
    assert 0 < t.slowest[0].seconds < 10
    assert t.device_time > 0


def test_a_paused_program_says_so(rt):
    rt.pause()
    assert rt.stats()["mode"] == rt.telemetry().mode == "paused"
    rt.resume()
    assert rt.telemetry().mode == "running"


def test_read_beside_traffic(rt):
    counters = rt.spawn("Counter", 4)
    rt.observe(True)
    ended = threading.Event()
    readings = []

    def read():
        while not ended.is_set():
            readings.append(rt.telemetry())

    thread = threading.Thread(target=read)
    thread.start()
    for _ in range(20):
        for counter in counters:
            rt.send_many(counter, sample.ADD.zeros(500))
    rt.drain()
    ended.set()
    thread.join()
    handled = [t.handled for t in readings]
    assert handled == sorted(handled)
    last = type_of(rt.telemetry(), "Counter")
    assert last.handled == last.durations.count == 40_000


def test_json_and_back(rt):
    (counter,) = rt.spawn("Counter")
    rt.observe(True)
    rt.send_many(counter, sample.ADD.zeros(100))
    rt.drain()
    t = rt.telemetry()
    assert Telemetry.from_dict(json.loads(json.dumps(dataclasses.asdict(t)))) == t


def test_by_power():
    buckets = [0] * 156
    buckets[1], buckets[3], buckets[4], buckets[8] = 5, 1, 7, 2  # 1, 3, 4 and 8 to 9 ns
    d = Durations(15, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, tuple(buckets))
    powers = d.by_power()
    assert powers[:3] == [(pytest.approx(4e-9), 6), (pytest.approx(8e-9), 13),
                          (pytest.approx(16e-9), 15)]  # fmt: skip
    assert powers[-1] == (pytest.approx(2**40 * 1e-9), 15)


def test_closed(device):
    rt = denizen.Runtime(sample.program(), device)
    rt.close()
    with pytest.raises(denizen.ClosedError):
        rt.telemetry()
    with pytest.raises(denizen.ClosedError):
        rt.observe(True)
