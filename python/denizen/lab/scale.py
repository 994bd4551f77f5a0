# SPDX-License-Identifier: Apache-2.0
"""How far hosts go: what each step of a message costs here, and hosts simulated by these costs.

Workers carry what goes to other hosts, between their messages; what comes is received by workers,
if links spin for 1 ms or more ("spinning"), or by a thread of each link ("sleeping"). What a worker
does for a link has no clock of its own. So a worker is kept busy with messages to itself, a fixed
number of them, and reads its CPU clock before the first and after the last: what a run takes longer
than one that differs in one thing is what that thing costs (:func:`_costs`). These clocks stand
still while others have the core.

The simulation (hosts_model.py) is first held against two and three hosts on this machine, which
share its cores, and then has up to 1,000, each on a machine of its own.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np

import denizen
from denizen.cluster import Cluster
from denizen.lab import hosts_model
from denizen.lab.hosts_model import Costs
from denizen.lab.record import LabError, Measured, Scalar

_TEXT = """
#include <ctime>

struct Node {
    uint32_t peer[2] = {}, peers = 0;
    denizen::Address first{};
    uint32_t count = 0, sent = 0, each = 0;
    uint64_t sum = 0, left = 0, ticks = 0, begun = 0;
    uint32_t every = 0, burst = 0, work = 0;
    bool stopped = false;

    static uint64_t clock()
    {
        timespec t{};
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        return static_cast<uint64_t>(t.tv_sec) * 1000000000u + static_cast<uint64_t>(t.tv_nsec);
    }
    void on(const Meet& m, auto&) {
        peer[0] = m.one.value; peer[1] = m.other.value; peers = m.peers; first = m.first;
        each = m.each; count = sent = 0; sum = 0;
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
        ++count;
        if (each != 0) {
            next(ctx);
            if (count == each) { ctx.send(first, Ended{sum, 0}); }
        }
    }
    void on(const Ended& m, auto& ctx) { ctx.send(denizen::host, m); } // of the first one's process
    void on(const Busy& m, auto& ctx) {
        left = m.ticks; ticks = 0; every = m.every; burst = m.burst; work = m.work; stopped = false;
        begun = clock();
        ctx.send(ctx.self(), Tick{});
    }
    void on(const Stop&, auto&) { stopped = true; }
    void on(const Tick& m, auto& ctx) {
        if (stopped) { return; }
        if (work != 0) {
            const uint64_t until = clock() + work;
            while (clock() < until) {}
        }
        if (left != 0 && ++ticks % every == 0) {
            for (uint32_t i = 0; i < burst; ++i) { ctx.send(denizen::Address{peer[0]}, Load{}); }
        }
        if (left != 0 && --left == 0) { ctx.send(first, Ended{ticks, clock() - begun}); }
        ctx.send(ctx.self(), m); // until Stop: looks are counted before it is idle
    }
    void on(const Ball& m, auto& ctx) {
        if (m.left != 0) {
            ctx.send(m.other, Ball{ctx.self(), m.left - 1});
        } else {
            ctx.send(first, Ended{0, 0});
        }
    }
};
"""
_TRANSPORTS = ("rings", "tcp")
_SPIN = {"sleeping": 0.0, "spinning": 2e-3}  # seconds; workers receive from 1 ms on
_CORES = (2, 16)
_HOSTS = (2, 3, 10, 30, 100, 300, 1000)


class _Burst(NamedTuple):
    """Messages that a busy worker sends together, once in so many messages to itself.

    It looks at its links meanwhile; the worker of the other host has handled all by the next burst,
    and has not found nothing for long.
    """

    messages: int
    every: int


# In size and in number: else the looks between cannot be told from the batches.
_BURSTS = (_Burst(1, 128), _Burst(1, 384), _Burst(16, 256), _Burst(64, 384))
_WORK = 40  # microseconds at a message, of a worker that seldom looks: 64 of them between two looks
_WAIT = 120.0
_US = 1e6  # of a second
_RATE = "messages of all hosts"
_NAPS = "naps of a link's threads, of a core"
_CORE = "core time of a message"
_ONE_WAY = "one way, one message of each host under way"


def program() -> denizen.Program:
    """Nodes that send 64-byte slots, to themselves and in turn to their peers."""
    address, u4, u8 = denizen.ADDRESS, np.uint32, np.uint64
    return denizen.Program(
        _TEXT,
        actors=["Node"],
        messages=[
            denizen.message(
                "Meet",
                [("one", address), ("other", address), ("first", address), ("peers", u4),
                 ("each", u4)],
            ),
            denizen.message("Go", [("window", u4)]),
            denizen.message("Load", [("word", u4, 9)]),
            denizen.message("Ended", [("sum", u8), ("ns", u8)]),
            denizen.message("Busy", [("ticks", u8), ("every", u4), ("burst", u4), ("work", u4)]),
            denizen.message("Stop", []),
            denizen.message("Tick", [("word", u4, 9)]),
            denizen.message("Ball", [("other", address), ("left", u4)]),
        ],
        name="nodes of the lab",
    )  # fmt: skip


@dataclass(frozen=True)
class _Sizes:
    turns: int  # in which costs are measured
    ticks: int  # messages to itself of a worker that is kept busy
    hops: int
    floods: int
    each: int  # messages of each host in a flood


# Nine and more of each: fewer have no interval.
_WHOLE = _Sizes(turns=9, ticks=1_000_000, hops=10_000, floods=22, each=60_000)
_QUICK = _Sizes(turns=2, ticks=50_000, hops=1_000, floods=4, each=8_000)

_STEPS = {
    "send": "worker, send: message",
    "send_batch": "worker, send: batch",
    "receive": "worker, receive: message",
    "receive_batch": "worker, receive: batch",
    "look": "worker, look at a link",
    "idle": "worker, round that finds nothing",
    "wake": "receiving thread: batch",
    "carry": "receiving thread: message",
    "nap": "a link's thread: nap",
    "late": "a link's thread: nap that lasts longer, no core",
    "wire": "between the two, no core",
}


def measure(_device: str, *, quick: bool) -> list[Measured]:
    """Costs on CPU threads, the comparison, and the simulation."""
    nodes, sizes = program(), _QUICK if quick else _WHOLE
    rows: list[Measured] = []
    with Cluster(nodes, 1) as cluster:
        alone = [_busy(cluster, _meet(cluster), sizes) for _ in range(sizes.turns)]
    for transport in _TRANSPORTS:
        threads: Costs | None = None  # of links whose threads receive
        for waits, spin in _SPIN.items():
            params: dict[str, Scalar] = {"transport": transport, "waits": waits}
            with Cluster(nodes, 2, transport=transport, spin=spin) as cluster:
                pairs = [_pair(cluster, sizes) for _ in range(sizes.turns)]
                two = _see(cluster, sizes)
            with Cluster(nodes, 3, transport=transport, spin=spin) as cluster:
                three = [_busy(cluster, _meet(cluster), sizes) for _ in range(sizes.turns)]
                seen = {2: two, 3: _see(cluster, sizes)}
            samples = [
                _costs(*runs, threads, receives=waits == "sleeping")
                for runs in zip(alone, pairs, three, strict=True)
            ]
            costs = _median(samples)
            threads = threads or costs
            for step, words in _STEPS.items():
                values = np.array([getattr(one, step) for one in samples])
                rows.append(
                    Measured(
                        "core time of a step", {"step": words, **params}, "us", values,
                        len(values), True,
                    )
                )  # fmt: skip
            rows += _naps_compared(pairs, params, costs)
            for hosts, found in seen.items():
                rows += _compared(found, {"hosts": hosts, **params}, hosts, costs, sizes)
            if transport == "tcp":
                rows += list(_simulated(costs, waits, quick=quick))
    return rows


def _median(samples: list[Costs]) -> Costs:
    first = samples[0]
    return Costs(**{
        f.name: (
            first.threads_receive
            if f.name == "threads_receive"
            else median(getattr(one, f.name) for one in samples)
        )
        for f in fields(Costs)
    })  # fmt: skip


def _meet(cluster: Cluster, each: int = 0) -> list[int]:
    hosts = len(cluster.hosts)
    nodes = [int(cluster.spawn("Node", host=h)[0]) for h in range(hosts)]
    for h, node in enumerate(nodes):
        others = [other for o, other in enumerate(nodes) if o != h] or [node]
        cluster.send(
            node, "Meet", one=others[0], other=others[-1], first=nodes[0], peers=len(others),
            each=each,
        )  # fmt: skip
    cluster.drain()
    return nodes


# ---- clocks


class _Clock(NamedTuple):
    us: float = 0.0  # with a core
    turns: int = 0  # how often it was given one


def _clocks(pid: int) -> dict[str, _Clock]:
    """Of each thread of a process by its number, and of the links' together by their name."""
    found: dict[str, _Clock] = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):  # it has ended
            name = (task / "comm").read_text().strip()
            spent, _, turns = (int(x) for x in (task / "schedstat").read_text().split())
            key = name if name.startswith("denizen ") else task.name
            us, before = found.get(key, _Clock())
            found[key] = _Clock(us + spent / 1000, before + turns)
    if pid == os.getpid():
        found.pop(str(pid), None)  # this thread, which waits
    return found


def _passed(before: dict[str, _Clock], after: dict[str, _Clock]) -> dict[str, _Clock]:
    none = _Clock()
    return {
        key: _Clock(us - before.get(key, none).us, turns - before.get(key, none).turns)
        for key, (us, turns) in after.items()
    }


def _worker_of(clocks: dict[str, _Clock]) -> float:
    return max(c.us for name, c in clocks.items() if not name.startswith("denizen "))


def _looks(cluster: Cluster) -> list[int]:
    """By host: how often its workers have looked at its links."""
    stats = cluster.stats()
    return [sum(int(link["looks"]) for link in s["links"].values()) for s in stats.values()]


# ---- what the clocks say


@dataclass(frozen=True)
class _Busy:
    """A run in which the worker of host 0 was kept busy: its CPU clock over as many `ticks`.

    By host: what each worker and the links' threads had a core for, from before to after, and how
    often workers looked at links.
    """

    us: float
    ticks: int
    workers: list[float]
    threads: list[dict[str, _Clock]]
    looks: list[int]
    seconds: float


def _busy(
    cluster: Cluster, nodes: list[int], sizes: _Sizes, burst: _Burst | None = None, work: int = 0
) -> _Busy:
    """The worker of host 0 sends itself messages, and now and then so many to host 1.

    It works at each for `work` microseconds; then there are fewer of them.
    """
    ticks = sizes.ticks // (5 * work) if work else sizes.ticks
    pids = [host.pid for host in cluster.hosts]
    looks = _looks(cluster)
    before = [_clocks(pid) for pid in pids]
    begin = time.perf_counter()
    burst = burst or _Burst(0, ticks + 1)
    cluster.send(
        nodes[0], "Busy", ticks=ticks, every=burst.every, burst=burst.messages, work=1000 * work
    )
    got = cluster.receive(timeout=_WAIT).message
    seconds = time.perf_counter() - begin
    clocks = [_passed(b, _clocks(pid)) for b, pid in zip(before, pids, strict=True)]
    looked = [after - b for b, after in zip(looks, _looks(cluster), strict=True)]
    cluster.send(nodes[0], "Stop")
    cluster.drain()
    workers = [_worker_of(c) for c in clocks]
    return _Busy(int(got["ns"]) / 1000, ticks, workers, clocks, looked, seconds)


class _Pair(NamedTuple):
    still: _Busy  # nothing goes to the other host
    bursts: dict[_Burst, _Busy]
    slow: _Busy  # its worker works so long at each message that it seldom looks
    one_way: float  # of a message that goes to and fro


def _pair(cluster: Cluster, sizes: _Sizes) -> _Pair:
    nodes = _meet(cluster)
    still = _busy(cluster, nodes, sizes)
    bursts = {burst: _busy(cluster, nodes, sizes, burst) for burst in _BURSTS}
    slow = _busy(cluster, nodes, sizes, _BURSTS[0], _WORK)
    begin = time.perf_counter()
    cluster.send(nodes[0], "Ball", other=nodes[1], left=sizes.hops)
    cluster.receive(timeout=_WAIT)
    return _Pair(still, bursts, slow, (time.perf_counter() - begin) * _US / sizes.hops)


def _fit(columns: list[list[float]], cost: list[float]) -> list[float]:
    """Least squares of the relative errors, none of the results below 0."""
    rows = np.array(columns, dtype=float).T
    weight = 1 / np.maximum(np.array(cost), 0.02 * max(cost))
    found = np.linalg.lstsq(rows * weight[:, None], np.array(cost) * weight, rcond=None)[0]
    return [max(float(x), 0.0) for x in found]


def _costs(
    alone: _Busy, pair: _Pair, three: _Busy, threads: Costs | None, *, receives: bool
) -> Costs:
    """Each cost from runs that differ in it.

    ``send``, ``send_batch``: what the worker of host 0 takes longer for its messages to itself when
    it also sends bursts to host 1; a line over the burst's size. ``receive``, ``receive_batch``:
    the worker of host 1 only looks for these bursts, so it is its time less that of its looks,
    which the link counts; fitted together with what a look takes there, ``idle`` and ``look``.
    ``wake``, ``carry``: of the thread there, if it receives (`receives`), by how often it was given
    a core and by its messages; else they are those of `threads`, for a worker that sleeps.
    ``look``: a message to itself of a host without links, with one and with two; a line over their
    number, times the messages between two looks. ``nap``: of the thread of host 0 that would send,
    and leaves it to the worker, for each time that it had a core. ``wire``: what of a hop's time is
    none of these.
    """
    still, bursts = pair.still, pair.bursts
    per_tick = [run.us / run.ticks for run in (alone, still, three)]
    look = max(float(np.polyfit([0, 1, 2], per_tick, 1)[0]), 0.0) * still.ticks / still.looks[0]
    sent = [float(run.ticks // b.every) for b, run in bursts.items()]
    messages = [n * b.messages for n, b in zip(sent, bursts, strict=True)]
    send_batch, send = _fit([sent, messages], [run.us - still.us for run in bursts.values()])
    looks = [float(run.looks[1]) for run in bursts.values()]
    each_look, receive_batch, receive = _fit(
        [looks, sent, messages], [run.workers[1] for run in bursts.values()]
    )
    idle = max(each_look - look, 0.0)
    if receives:
        receiving = [run.threads[1]["denizen in"] for run in bursts.values()]
        wakes = [float(c.turns) for c in receiving]
        wake, carry = _fit([wakes, messages], [c.us for c in receiving])
    elif threads is not None:
        wake, carry = threads.wake, threads.carry
    else:
        raise LabError("scale: the costs of threads that receive were not measured first")
    naps = [run.threads[0]["denizen out"] for run in bursts.values()]
    turns = max(sum(c.turns for c in naps), 1)
    nap = sum(c.us for c in naps) / turns
    seconds = sum(run.seconds for run in bursts.values())
    late = max(seconds * _US / turns - hosts_model.NAP - nap, 0.0)
    # It is sent in the look after its handler, and waits half a round for the one that sees it.
    known = send + send_batch + receive + receive_batch + 1.5 * (idle + look)
    known += wake + carry if receives else 0.0
    return Costs(
        send=send, send_batch=send_batch, receive=receive, receive_batch=receive_batch, look=look,
        idle=idle, wire=max(pair.one_way - known, 0.0), wake=wake, carry=carry, nap=nap, late=late,
        threads_receive=receives,
    )  # fmt: skip


# ---- hosts of this machine, beside the simulation


class _Seen(NamedTuple):
    rates: dict[str, list[float]]  # by arm
    core: list[float]
    one_way: list[float]
    right: bool


def _flood(cluster: Cluster, nodes: list[int], each: int, window: int) -> tuple[float, bool]:
    """Seconds until each node has sent and handled ``each`` messages, and whether all came."""
    begin = time.perf_counter()
    for node in nodes:
        cluster.send(node, "Go", window=window)
    sums = [int(cluster.receive(timeout=_WAIT).message["sum"]) for _ in nodes]
    # Each sends the numbers up to `each`, in turn to its peers.
    return time.perf_counter() - begin, sum(sums) == len(nodes) * each * (each - 1) // 2


def _see(cluster: Cluster, sizes: _Sizes) -> _Seen:
    hosts = len(cluster.hosts)
    pids = [host.pid for host in cluster.hosts]
    seen = _Seen({"": [], "A/A": []}, [], [], True)
    right = True
    for turn in range(sizes.floods):
        nodes = _meet(cluster, sizes.each)
        before = [_clocks(pid) for pid in pids]
        seconds, complete = _flood(cluster, nodes, sizes.each, hosts_model.WINDOW)
        spent = [_passed(b, _clocks(pid)) for b, pid in zip(before, pids, strict=True)]
        messages = hosts * sizes.each
        seen.rates[("", "A/A")[(turn + 1) // 2 % 2]].append(messages / seconds * 1e-6)
        seen.core.append(sum(c.us for one in spent for c in one.values()) / messages)
        right &= complete
        hops = sizes.hops // 4
        seconds, complete = _flood(cluster, _meet(cluster, hops), hops, 1)
        seen.one_way.append(seconds * _US / hops)
        right &= complete
    return seen._replace(right=right)


def _naps_compared(
    pairs: list[_Pair], params: dict[str, Scalar], costs: Costs
) -> Iterator[Measured]:
    """What the threads of a link take that is a worker's to look at, which it does so often."""
    for work, runs in (
        (0, [pair.bursts[_BURSTS[0]] for pair in pairs]),
        (_WORK, [pair.slow for pair in pairs]),
    ):
        naps = [
            sum(run.threads[0][name].us for name in ("denizen in", "denizen out"))
            / (run.seconds * _US)
            for run in runs
        ]
        tour = median(run.seconds * _US / max(run.looks[0], 1) for run in runs)
        simulated = hosts_model.naps(2, costs, tour)[0]
        of: dict[str, Scalar] = {"handler_us": work, **params}
        for case, unit, values in (
            (_NAPS, "%", [100 * n for n in naps]),
            (f"{_NAPS}, simulated", "%", [100 * simulated]),
            (f"{_NAPS}, simulated / measured", "share", [simulated / median(naps)]),
            (f"{_NAPS}: between two looks", "us", [tour]),
        ):
            yield Measured(case, of, unit, np.array(values), len(values), True)


def _compared(
    seen: _Seen, params: dict[str, Scalar], hosts: int, costs: Costs, sizes: _Sizes
) -> Iterator[Measured]:
    cores = os.cpu_count() or 1
    many = hosts_model.simulate(hosts, cores, costs, min(sizes.each, 10_000), together=True)
    one = hosts_model.simulate(hosts, cores, costs, 1000, window=1, together=True)
    right, n = seen.right, hosts * sizes.each
    for arm, samples in seen.rates.items():  # one of each in a round
        rates = np.array(samples)
        yield Measured(_RATE, params, "M/s", rates, n, right, arm=arm, rounds=rates.size)
    core, one_way = np.array(seen.core), np.array(seen.one_way)
    yield Measured(_CORE, params, "us", core, n, right, rounds=core.size)
    hops = sizes.hops // 4
    yield Measured(_ONE_WAY, params, "us", one_way, hops, right, rounds=one_way.size)
    both = [*seen.rates[""], *seen.rates["A/A"]]
    for case, unit, value, measured in (
        (_RATE, "M/s", hosts * many.rate, both),
        (_CORE, "us", many.core, seen.core),
        (_ONE_WAY, "us", 1 / one.rate, seen.one_way),
    ):
        yield Measured(f"{case}, simulated", params, unit, np.array([value]), 1, right)
        share = np.array([value / median(measured)])
        yield Measured(f"{case}, simulated / measured", params, "share", share, 1, right)


# ---- up to 1,000 hosts


def _simulated(costs: Costs, waits: str, *, quick: bool) -> Iterator[Measured]:
    for cores in _CORES:
        for hosts in _HOSTS if not quick else _HOSTS[:5]:
            each = (4 if quick else 8) * hosts_model.WINDOW
            many = hosts_model.simulate(hosts, cores, costs, each)
            one = hosts_model.simulate(hosts, cores, costs, 100, window=1)
            # Of the default in the case's name alone, so that a curve has one kind of hosts.
            kind = "" if waits == "sleeping" else " that spins"
            params: dict[str, Scalar] = {"hosts": hosts, "cores": cores}
            for case, unit, value in (
                (f"messages of a host{kind}, simulated", "M/s", many.rate),
                (f"one way to a host{kind}, simulated", "us", 1 / one.rate),
                (f"messages of a batch of a host{kind}, simulated", "messages", many.batch),
                (f"between two looks at a link of a host{kind}, simulated", "us", many.tour),
                (f"cores that naps of a host{kind} want, simulated", "cores", many.naps),
                *(
                    (f"{_CORE} of a host{kind}, simulated: {what}", "us", many.by.get(what, 0.0))
                    for what in hosts_model.WHAT
                ),
            ):  # fmt: skip
                yield Measured(case, params, unit, np.array([value]), hosts * each, True)
