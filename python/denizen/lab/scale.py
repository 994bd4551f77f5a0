# SPDX-License-Identifier: Apache-2.0
"""How far hosts go: what each step of a message costs here, and hosts simulated by these costs.

Costs are the time that the threads of two hosts have had a core, by their own clocks, so that
others' work on the machine counts little. The simulation (hosts_model.py) is first held against two
and three hosts on this machine, which share its cores, and then has up to 1,000, each on a machine
of its own.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from statistics import median

import numpy as np

import denizen
from denizen.cluster import Cluster
from denizen.lab import hosts_model
from denizen.lab.hosts_model import Costs
from denizen.lab.record import Measured, Scalar

_TEXT = """
struct Node {
    uint32_t peer[2] = {}, peers = 0, done = 0, nodes = 0;
    denizen::Address first{};
    uint32_t count = 0, sent = 0, each = 0;
    uint64_t sum = 0;
    void on(const Meet& m, auto&) {
        peer[0] = m.one.value; peer[1] = m.other.value; peers = m.peers; first = m.first;
        nodes = m.nodes; each = m.each; count = sent = done = 0; sum = 0;
    }
    void next(auto& ctx) {
        if (sent == each) { return; }
        Load l{};
        l.word[0] = sent;
        ctx.send(denizen::Address{peer[sent++ % peers]}, l);
    }
    void on(const Go& m, auto& ctx) {
        for (uint32_t i = 0; i < m.window; ++i) { next(ctx); }
    }
    void on(const Load& m, auto& ctx) {
        sum += m.word[0];
        next(ctx);
        if (++count == each) { ctx.send(first, Ended{sum}); }
    }
    void on(const Ended& m, auto& ctx) {
        if (++done == nodes) { ctx.send(denizen::host, m); }
    }
    void on(const Ball& m, auto& ctx) {
        if (m.left != 0) {
            ctx.send(m.other, Ball{ctx.self(), m.left - 1});
        } else {
            ctx.send(denizen::host, Ended{0});
        }
    }
};
"""
_TRANSPORTS = ("rings", "tcp")
_CORES = (2, 16)
_HOSTS = (2, 3, 10, 30, 100, 300, 1000)
_WAIT = 120.0
_RATE = "messages of all hosts"
_CORE = "core time of a message"


def program() -> denizen.Program:
    """Nodes that send 64-byte slots, in turn to their peers."""
    address, u4, u8 = denizen.ADDRESS, np.uint32, np.uint64
    return denizen.Program(
        _TEXT,
        actors=["Node"],
        messages=[
            denizen.message(
                "Meet",
                [("one", address), ("other", address), ("first", address), ("peers", u4),
                 ("nodes", u4), ("each", u4)],
            ),
            denizen.message("Go", [("window", u4)]),
            denizen.message("Load", [("word", u4, 9)]),
            denizen.message("Ended", [("sum", u8)]),
            denizen.message("Ball", [("other", address), ("left", u4)]),
        ],
        name="nodes of the lab",
    )  # fmt: skip


def measure(_device: str, *, quick: bool) -> list[Measured]:
    """Costs on CPU threads, the comparison, and the simulation."""
    nodes = program()
    rows: list[Measured] = []
    worker = _worker(nodes, quick=quick)
    for transport in _TRANSPORTS:
        samples = [_costs(nodes, transport, w, quick=quick) for w in worker]
        costs = Costs(*(median(column) for column in zip(*map(_values, samples), strict=True)))
        for step, words in _STEPS.items():
            values = np.array([getattr(one, step) for one in samples])
            params: dict[str, Scalar] = {"step": words, "transport": transport}
            rows.append(Measured("core time of a step", params, "us", values, len(values), True))
        for hosts in (2, 3):
            rows += _compared(nodes, transport, hosts, costs, quick=quick)
        if transport == "tcp":
            rows += list(_simulated(costs, quick=quick))
    return rows


_STEPS = {
    "post": "worker, send",
    "handle": "worker, handle",
    "wake_out": "sending thread, batch",
    "out": "sending thread, message",
    "wake_in": "receiving thread, batch",
    "in_": "receiving thread, message",
    "wire": "no thread",
}


def _values(costs: Costs) -> list[float]:
    return [getattr(costs, step) for step in _STEPS]


def _meet(cluster: Cluster, each: int) -> list[int]:
    hosts = len(cluster.hosts)
    nodes = [int(cluster.spawn("Node", host=h)[0]) for h in range(hosts)]
    for h, node in enumerate(nodes):
        others = [other for o, other in enumerate(nodes) if o != h] or [node]
        cluster.send(
            node, "Meet", one=others[0], other=others[-1], first=nodes[0], peers=len(others),
            nodes=hosts, each=each,
        )  # fmt: skip
    cluster.drain()
    return nodes


def _flood(cluster: Cluster, nodes: list[int], each: int) -> tuple[float, bool]:
    """Seconds until each node has sent and handled ``each`` messages, and whether all came."""
    begin = time.perf_counter()
    for node in nodes:
        cluster.send(node, "Go", window=hosts_model.WINDOW)
    got = cluster.receive(timeout=_WAIT)
    seconds = time.perf_counter() - begin
    whole = each * (each - 1) // 2
    return seconds, len(nodes) > 1 or int(got.message["sum"]) == whole


def _core_us(pid: int) -> dict[str, float]:
    """Microseconds that each thread has had a core: by its number, and by name for the links'."""
    found: dict[str, float] = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):  # it has ended
            name = (task / "comm").read_text().strip()
            spent = int((task / "schedstat").read_text().split()[0]) / 1000
            key = name if name.startswith("denizen ") else task.name
            found[key] = found.get(key, 0.0) + spent
    return found


def _spent(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    return {key: value - before.get(key, 0.0) for key, value in after.items()}


def _worker(nodes: denizen.Program, *, quick: bool) -> list[float]:
    """Microseconds of a worker for a message that it sends and handles, of several turns."""
    each = 32_000 if quick else 320_000
    found = []
    me = os.getpid()
    with Cluster(nodes, 1) as cluster:
        for _ in range(3 if quick else 5):
            node = _meet(cluster, each)
            before = _core_us(me)
            _flood(cluster, node, each)
            spent = _spent(before, _core_us(me))
            spent.pop(str(me), None)  # this thread, which waits
            found.append(max(spent.values()) / each)
    return found


def _costs(nodes: denizen.Program, transport: str, worker: float, *, quick: bool) -> Costs:
    hops = 2_000 if quick else 20_000
    each = 32_000 if quick else 320_000
    with Cluster(nodes, 2, transport=transport, spin=0.0) as cluster:
        here, there = _meet(cluster, each)
        pids = [os.getpid(), cluster.hosts[1].pid]
        before = [_core_us(pid) for pid in pids]
        begin = time.perf_counter()
        cluster.send(here, "Ball", other=there, left=hops)
        cluster.receive(timeout=_WAIT)
        one_way = (time.perf_counter() - begin) / hops * 1e6
        alone = [_spent(b, _core_us(pid)) for b, pid in zip(before, pids, strict=True)]
        before = [_core_us(pid) for pid in pids]
        _flood(cluster, [here, there], each)
        flood = [_spent(b, _core_us(pid)) for b, pid in zip(before, pids, strict=True)]
    out = sum(spent["denizen out"] for spent in flood) / (2 * each)
    in_ = sum(spent["denizen in"] for spent in flood) / (2 * each)
    # A hop is one batch of one message; each host sends half of them.
    out_alone = sum(spent["denizen out"] for spent in alone) / hops
    in_alone = sum(spent["denizen in"] for spent in alone) / hops
    wake_out, wake_in = max(out_alone - out, 0.0), max(in_alone - in_, 0.0)
    wire = max(one_way - worker - out_alone - in_alone, 0.0)
    return Costs(worker / 2, worker / 2, wake_out, out, wake_in, in_, wire)


def _compared(
    nodes: denizen.Program, transport: str, hosts: int, costs: Costs, *, quick: bool
) -> Iterator[Measured]:
    each = 32_000 if quick else 320_000
    params: dict[str, Scalar] = {"hosts": hosts, "transport": transport}
    rates: dict[str, list[float]] = {"": [], "A/A": []}
    core = []
    right = True
    me = os.getpid()
    with Cluster(nodes, hosts, transport=transport, spin=0.0) as cluster:
        pids = [host.pid for host in cluster.hosts]
        for turn in range(4 if quick else 20):
            all_nodes = _meet(cluster, each)
            before = [_core_us(pid) for pid in pids]
            seconds, complete = _flood(cluster, all_nodes, each)
            spent = [_spent(b, _core_us(pid)) for b, pid in zip(before, pids, strict=True)]
            spent[0].pop(str(me), None)  # this thread, which waits
            right &= complete
            rates[("", "A/A")[(turn + 1) // 2 % 2]].append(hosts * each / seconds * 1e-6)
            core.append(sum(sum(one.values()) for one in spent) / (hosts * each))
    found = hosts_model.simulate(
        hosts, os.cpu_count() or 1, costs, min(each, 50_000), together=True
    )
    every = [*rates[""], *rates["A/A"]]
    for arm, samples in rates.items():
        yield Measured(_RATE, params, "M/s", np.array(samples), hosts * each, right, arm=arm)
    yield Measured(_CORE, params, "us", np.array(core), hosts * each, right)
    for case, unit, value in (
        (f"{_RATE}, simulated", "M/s", hosts * found.rate),
        (f"{_CORE}, simulated", "us", found.core),
        (f"{_RATE}, simulated / measured", "share", hosts * found.rate / median(every)),
        (f"{_CORE}, simulated / measured", "share", found.core / median(core)),
    ):
        yield Measured(case, params, unit, np.array([value]), 1, right)


def _simulated(costs: Costs, *, quick: bool) -> Iterator[Measured]:
    for cores in _CORES:
        for hosts in _HOSTS if not quick else _HOSTS[:5]:
            each = max(3 * hosts_model.WINDOW, min(20_000, 100_000 // hosts))
            found = hosts_model.simulate(hosts, cores, costs, each)
            params: dict[str, Scalar] = {"hosts": hosts, "cores": cores}
            for case, unit, value in (
                ("messages of a host, simulated", "M/s", found.rate),
                ("messages of a batch, simulated", "messages", found.batch),
                ("cores' time for wakes, simulated", "share", found.shares["wakes"]),
                ("cores' time for workers, simulated", "share", found.shares["worker"]),
            ):
                yield Measured(case, params, unit, np.array([value]), hosts * each, True)
