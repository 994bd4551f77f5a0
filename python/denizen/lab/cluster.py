# SPDX-License-Identifier: Apache-2.0
"""Two hosts on one machine: how long a message takes from actor to actor, how many go in a second,
and how soon a killed and a stopped host are known; beside plain sockets and ZeroMQ (sockets.py),
gRPC and Ray (calls.py). And two or three hosts that are killed, stopped and cut off under load,
with an account of every message (losses.py).

What is sent is counted and summed by the receiver, and compared outside the timed region. A row
names what its link took, by what the cluster tells of it.
"""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Iterator

import numpy as np

import denizen
from denizen import _core, terminal
from denizen.cluster import Cluster, ucx
from denizen.device import parse_device
from denizen.lab import calls, losses, sockets
from denizen.lab.record import LabError, Measured, Scalar

log = logging.getLogger(__name__)

_TEXT = """
struct Player {
    uint64_t count = 0, sum = 0, want = 0;
    void on(const Ball& m, auto& ctx) {
        ++count;
        if (m.left != 0) {
            ctx.send(m.other, Ball{ctx.self(), m.left - 1});
        } else {
            ctx.send(denizen::host, Done{count});
        }
    }
    void on(const Go& m, auto& ctx) {
        for (uint32_t i = 0; i < m.count; ++i) {
            Load l{};
            l.word[0] = m.first + i;
            ctx.send(m.other, l);
        }
        if (m.left != 0) { // in pieces, or its outbox is full
            ctx.send(ctx.self(), Go{m.other, m.count, m.first + m.count, m.left - 1});
        }
    }
    void on(const Echo& m, auto& ctx) { ctx.reply(m); }
    void on(const Expect& m, auto&) { count = 0; sum = 0; want = m.count; }
    void on(const Load& m, auto& ctx) {
        ++count;
        sum += m.word[0];
        if (count == want) { ctx.send(denizen::host, Done{sum}); }
    }
};
"""


def program() -> denizen.Program:
    """Players: balls to and fro, and loads of 64 bytes with their header."""
    return denizen.Program(
        _TEXT,
        actors=["Player"],
        messages=[
            denizen.message("Ball", [("other", denizen.ADDRESS), ("left", np.uint32)]),
            denizen.message("Done", [("count", np.uint64)]),
            denizen.message(
                "Go",
                [
                    ("other", denizen.ADDRESS),
                    ("count", np.uint32),
                    ("first", np.uint32),
                    ("left", np.uint32),
                ],
            ),
            denizen.message("Expect", [("count", np.uint64)]),
            denizen.message("Load", [("word", np.uint32, 9)]),
            denizen.message("Echo", [("word", np.uint32, 9)]),
        ],
        name="players of the lab",
    )


ONE_WAY, SLOTS = "one way, actor to actor", "64-byte slots, a pair of hosts"
ASKED = "one way, asked from Python, half a trip"
KILLED, STOPPED = "killed host is known", "stopped host is known"
# Failures under load: kills, stops and cuts. tests/cluster/test_failures.py has more of them.
FAILURES, FAILURES_QUICK = (20, 6, 10), (3, 2, 4)
_UNDER_LOAD = {
    "kill": f"{KILLED}, under load",
    "stop": f"{STOPPED}, under load",
    "cut": "a cut is decided on both sides, under load",
}
_DEADLINE = 2.0  # seconds of silence, as a cluster that says nothing has
_PAIRS = 64  # actors that send, and as many that receive, of hosts on GPUs
_TWICE = ("", "A/A")  # an arm and, by turns with it, the same once more


def measure(device: str, *, quick: bool) -> list[Measured]:
    """All of it, on two GPUs, or one, or on CPU threads: what there is, or what is named."""
    log.info("sockets and other libraries")
    rivals = [*sockets.measure(quick=quick), *calls.measure(quick=quick)]
    transports = ["rings", "tcp"]
    if ucx.find() is not None:
        transports.append("ucx")
    else:
        terminal.error(
            "cluster: no rows of links over UCX, it is not installed: pip install libucx-cu13"
        )
    players = program()
    hosts, devices = _place(device)
    rows: list[Measured] = []
    for transport in transports:
        for waits, spin in (("spinning", 1.0), ("sleeping", 0.0)):
            log.info("two hosts on %s, %s, %s", hosts, transport, waits)
            with Cluster(players, devices, transport=transport, spin=spin) as cluster:
                params = _params(cluster, hosts) | {"waits": waits}
                rows += _hops(cluster, params, quick=quick)
                pairs = _PAIRS if parse_device(devices[0]).on_gpu else 1
                rows += _loads(cluster, params, pairs, quick=quick)
                rows.append(_asked(cluster, params, quick=quick))
        for case in (KILLED, STOPPED):
            log.info("%s: two hosts on %s, %s", case, hosts, transport)
            rows.append(_known(case, players, devices, transport, hosts, quick=quick))
    log.info("failures under load")
    rows += _failures(devices[0], hosts, quick=quick)
    _compare(rows, rivals)
    return rows + rivals


def _place(device: str) -> tuple[str, list[str]]:
    """What two hosts are on, and the device of each."""
    if not parse_device(device).on_gpu:
        return "CPU threads", ["cpu:1"] * 2
    if device in ("auto", "gpu") and _core.gpu_count() > 1:
        return "2 GPUs", ["gpu:0", "gpu:1"]
    return "one GPU", [device if device.startswith("gpu:") else "gpu:0"] * 2


def _params(cluster: Cluster, hosts: str) -> dict[str, Scalar]:
    """What the link of the two hosts goes by, as both say."""
    return {"hosts": hosts, "transport": cluster.description["links"][0, 1]["transport"]}


def _turn_of(turn: int) -> str:
    """Forth and back: the first, the second, the second, the first. Two turns are a round."""
    return _TWICE[(turn + 1) // 2 % 2]


def _hops(cluster: Cluster, params: dict[str, Scalar], *, quick: bool) -> Iterator[Measured]:
    (here,) = cluster.spawn("Player", host=0)
    (there,) = cluster.spawn("Player", host=1)
    samples: dict[str, list[float]] = {arm: [] for arm in _TWICE}
    count = 0  # that the first player has had

    def turn(hops: int) -> tuple[float, bool]:
        """Microseconds of a hop, and whether the ball was seen as often. Ends where it began."""
        nonlocal count
        count += hops // 2 + 1
        begin = time.perf_counter()
        cluster.send(here, "Ball", other=there, left=hops)
        got = cluster.receive(timeout=60.0)
        took = (time.perf_counter() - begin) * 1e6 / hops
        cluster.drain()
        return took, int(got.message["count"]) == count

    turns = 10 if quick else 100
    first, right = turn(20)
    hops = _within(3.0 / turns, first * 1e-6, 200 if quick else 1000)
    for number in range(turns):
        took, same = turn(hops)
        samples[_turn_of(number)].append(took)
        right &= same
    for arm in _TWICE:
        times = np.array(samples[arm])
        yield Measured(ONE_WAY, params, "us", times, hops, right, arm=arm, rounds=times.size)


def _within(seconds: float, each: float, most: int, least: int = 20) -> int:
    """An even number of what takes ``each`` seconds that fits, at least ``least``: a machine may be
    slow, and one GPU takes turns between processes."""
    return max(least, min(most, int(seconds / each)) // 2 * 2)


def _loads(
    cluster: Cluster, params: dict[str, Scalar], pairs: int, *, quick: bool
) -> Iterator[Measured]:
    """``pairs``: actors that send, each to one of its own."""
    sinks = cluster.spawn("Player", pairs, host=0)
    sources = cluster.spawn("Player", pairs, host=1)
    if pairs > 1:
        params = params | {"pairs": pairs}
    piece, least = 1000, 20 if pairs == 1 else 2
    samples: dict[str, list[float]] = {arm: [] for arm in _TWICE}

    def turn(pieces: int) -> tuple[float, bool]:
        """M/s, and whether the numbers that came have the right sums."""
        count = piece * pieces
        for sink in sinks:
            cluster.send(sink, "Expect", count=count)
        cluster.drain()
        begin = time.perf_counter()
        for source, sink in zip(sources, sinks, strict=True):
            cluster.send(source, "Go", other=sink, count=piece, first=0, left=pieces - 1)
        sums = {int(cluster.receive(timeout=120.0).message["count"]) for _ in sinks}
        rate = pairs * count / (time.perf_counter() - begin) * 1e-6
        cluster.drain()
        return rate, sums == {count * (count - 1) // 2}

    first, right = turn(least)
    pieces = _within(0.3, pairs * piece * 1e-6 / first, 20 if quick else 1000, least)
    for number in range(6 if quick else 20):
        rate, same = turn(pieces)
        samples[_turn_of(number)].append(rate)
        right &= same
    for arm in _TWICE:
        rates, n = np.array(samples[arm]), pairs * piece * pieces
        yield Measured(SLOTS, params, "M/s", rates, n, right, arm=arm, rounds=rates.size)


def _asked(cluster: Cluster, params: dict[str, Scalar], *, quick: bool) -> Measured:
    """What a call of Ray's or gRPC's does: this process asks an actor of the other host."""
    (there,) = cluster.spawn("Player", host=1)
    times = []
    right = True
    word = np.arange(9, dtype=np.uint32)
    for _ in range(300 if quick else 3000):
        word += 1
        begin = time.perf_counter()
        got = cluster.ask(there, "Echo", timeout=10.0, word=word)
        times.append((time.perf_counter() - begin) * 1e6 / 2)
        right &= bool((got["word"] == word).all())
    return Measured(ASKED, params, "us", np.array(times), 1, right)


def _known(
    case: str,
    players: denizen.Program,
    devices: list[str],
    transport: str,
    hosts: str,
    *,
    quick: bool,
) -> Measured:
    """Milliseconds from the signal until the other host says that this one is lost, and why."""
    number, why = {
        KILLED: (signal.SIGKILL, "its process has ended"),
        STOPPED: (signal.SIGSTOP, "it has been silent for"),
    }[case]
    samples = []
    right = True
    params: dict[str, Scalar] = {}
    turns = {KILLED: (10, 3), STOPPED: (5, 1)}[case][quick]
    for _ in range(turns):
        with Cluster(players, devices, transport=transport, deadline=_DEADLINE) as cluster:
            params = _params(cluster, hosts) | {"deadline_s": _DEADLINE}
            pid = cluster.hosts[1].pid
            links = cluster._hosts.local.links
            begin = time.perf_counter()
            os.kill(pid, number)
            while not (lost := links.lost()):  # ends: by the link's deadline at the latest
                if time.perf_counter() - begin > 30 * _DEADLINE:
                    raise LabError(f"{case}: not after {30 * _DEADLINE:g} s")
                time.sleep(0.0001)
            samples.append((time.perf_counter() - begin) * 1e3)
            right &= why in lost[1]
            if case == STOPPED:  # it would not end by itself
                os.kill(pid, signal.SIGKILL)
    return Measured(case, params, "ms", np.array(samples), turns, right)


def _failures(device: str, hosts: str, *, quick: bool) -> list[Measured]:
    total = losses.Account()
    trials = losses.plan(*(FAILURES_QUICK if quick else FAILURES), 1)
    for seed, (of, transport, events) in enumerate(trials):
        total += losses.run(of, transport, events, seed, device=device, deadline=_DEADLINE)
    params: dict[str, Scalar] = {"hosts": hosts, "deadline_s": _DEADLINE, "seed": 1}
    return [
        Measured(_UNDER_LOAD[kind], params, "ms", np.array(times), total.sent, total.complete)
        for kind, times in total.known_ms.items()
    ]


def _compare(rows: list[Measured], rivals: list[Measured]) -> None:
    """Each row has those rivals as its bases that do the same and were measured."""
    ran = {row.case for row in rivals}
    for row in rows:
        kind = "Unix" if row.params.get("transport") == "rings" else "TCP"
        bases = {
            ONE_WAY: (sockets.ONE_WAY[kind], sockets.ZMQ_ONE_WAY),
            SLOTS: (sockets.SLOTS[kind], sockets.ZMQ_SLOTS, *calls.SLOTS.values()),
            ASKED: calls.ONE_WAY.values(),
        }
        if not row.arm:
            row.ratio_base = tuple(base for base in bases.get(row.case, ()) if base in ran)
