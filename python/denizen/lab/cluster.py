# SPDX-License-Identifier: Apache-2.0
"""Two hosts on one machine: how long a message takes from actor to actor, how many go in a second,
and how soon a killed host is known; beside ZeroMQ, plain sockets, gRPC and Ray (calls.py). And two
or three hosts that are killed, stopped and cut off under load, with an account of every message
(losses.py).

What is sent is counted and summed by the receiver, and compared outside the timed region.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import denizen
from denizen.cluster import Cluster, ucx
from denizen.compilers import library_of
from denizen.lab import calls, losses
from denizen.lab.record import Measured, Scalar

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
    void on(const Expect& m, auto&) { count = 0; sum = 0; want = m.count; }
    void on(const Load& m, auto& ctx) {
        ++count;
        sum += m.word[0];
        if (count == want) { ctx.send(denizen::host, Done{sum}); }
    }
};
"""

# 64 bytes of a plain socket's, to and fro or one way in batches; who connects counts and sums.
_SOCKETS = """
#include <cstdint>
#include <ctime>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>
#define API extern "C" __attribute__((visibility("default")))
static double now() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}
static bool whole(int fd, char* p, size_t n) {
    for (size_t at = 0; at < n;) {
        const ssize_t got = recv(fd, p + at, n - at, 0);
        if (got <= 0) { return false; }
        at += static_cast<size_t>(got);
    }
    return true;
}
API void echo(int fd) {
    char slot[64];
    while (whole(fd, slot, 64)) { if (send(fd, slot, 64, MSG_NOSIGNAL) != 64) { return; } }
}
API int trips(int fd, double* us, int count) {
    char slot[64] = {};
    for (int i = 0; i < count; ++i) {
        const double begin = now();
        if (send(fd, slot, 64, MSG_NOSIGNAL) != 64 || !whole(fd, slot, 64)) { return -1; }
        us[i] = (now() - begin) * 1e6;
    }
    return 0;
}
API void pour(int fd, uint32_t count, uint32_t batch) {
    std::vector<uint32_t> slots(16 * batch);
    for (uint32_t i = 0; i < count; i += batch) {
        for (uint32_t k = 0; k < batch; ++k) { slots[16 * k] = i + k; }
        const char* p = reinterpret_cast<const char*>(slots.data());
        for (size_t at = 0; at < 64 * batch;) {
            const ssize_t n = send(fd, p + at, 64 * batch - at, MSG_NOSIGNAL);
            if (n <= 0) { return; }
            at += static_cast<size_t>(n);
        }
    }
}
API uint64_t drink(int fd, uint32_t count) {
    std::vector<char> buffer(1 << 16);
    uint64_t sum = 0;
    size_t filled = 0;
    for (uint32_t seen = 0; seen < count;) {
        const ssize_t n = recv(fd, buffer.data() + filled, buffer.size() - filled, 0);
        if (n <= 0) { return 0; }
        filled += static_cast<size_t>(n);
        size_t at = 0;
        for (; at + 64 <= filled; at += 64, ++seen) {
            sum += *reinterpret_cast<uint32_t*>(&buffer[at]);
        }
        for (size_t i = at; i < filled; ++i) { buffer[i - at] = buffer[i]; }
        filled -= at;
    }
    return sum;
}
"""

_SOCKET_PEER = """
import ctypes, socket, sys
library = ctypes.CDLL(sys.argv[1])
sock = socket.socket(socket.AF_INET if sys.argv[2] == "TCP" else socket.AF_UNIX)
sock.connect(("127.0.0.1", int(sys.argv[3])) if sys.argv[2] == "TCP" else sys.argv[3])
if sys.argv[2] == "TCP":
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
if sys.argv[4] == "echo":
    library.echo(sock.fileno())
else:
    library.pour(sock.fileno(), int(sys.argv[5]), 256)
sock.recv(1)
"""

_ZMQ_PEER = """
import sys, zmq
context = zmq.Context()
if sys.argv[2] == "echo":
    sock = context.socket(zmq.PAIR)
    sock.connect(sys.argv[1])
    while (data := sock.recv()):
        sock.send(data)
else:
    sock = context.socket(zmq.PUSH)
    sock.connect(sys.argv[1])
    for i in range(int(sys.argv[3])):
        sock.send(i.to_bytes(4, "little") + bytes(60))
sock.close()
context.term()
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
        ],
        name="players of the lab",
    )


def measure(device: str, *, quick: bool) -> list[Measured]:
    """All of it. On a GPU each host has it, with two workers."""
    of_host = "cpu:1" if device in ("auto", "cpu") and denizen.gpu_problem() else device
    rows: list[Measured] = []
    players = program()
    for transport in ("rings", "tcp", *(["ucx"] if ucx.find() else [])):
        for waits, spin in (("spinning", 1.0), ("sleeping", 0.0)):
            with Cluster(players, 2, device=of_host, transport=transport, spin=spin) as cluster:
                params: dict[str, Scalar] = {"transport": transport, "links": waits}
                rows += _hops(cluster, params, quick=quick)
                rows += _loads(cluster, params, quick=quick)
        rows.append(_killed(players, of_host, transport, quick=quick))
    rows += _failures(of_host, quick=quick)
    rows += _sockets(quick=quick)
    if importlib.util.find_spec("zmq"):
        rows += _zmq(quick=quick)
    return rows + calls.measure(quick=quick)


# An arm and, by turns with it, the same once more.
_TWICE = ("", "A/A")


def _hops(cluster: Cluster, params: dict[str, Scalar], *, quick: bool) -> list[Measured]:
    (here,) = cluster.spawn("Player", host=0)
    (there,) = cluster.spawn("Player", host=1)
    hops = 200 if quick else 1000
    samples: dict[str, list[float]] = {arm: [] for arm in _TWICE}
    right = True
    for turn in range(10 if quick else 100):
        begin = time.perf_counter()
        cluster.send(here, "Ball", other=there, left=hops)  # an even number: it ends here
        got = cluster.receive(timeout=60.0)
        samples[_turn_of(turn)].append((time.perf_counter() - begin) * 1e6 / hops)
        right &= int(got.message["count"]) == (turn + 1) * (hops // 2 + 1)
        cluster.drain()
    case = "one way, actor to actor"
    return [
        Measured(case, params, "us", np.array(samples[arm]), hops, right, arm=arm) for arm in _TWICE
    ]


def _turn_of(turn: int) -> str:
    """Forth and back: the first, the second, the second, the first."""
    return _TWICE[(turn + 1) // 2 % 2]


def _loads(cluster: Cluster, params: dict[str, Scalar], *, quick: bool) -> list[Measured]:
    (sink,) = cluster.spawn("Player", host=0)
    (source,) = cluster.spawn("Player", host=1)
    piece = 1000
    pieces = 20 if quick else 1000
    count = piece * pieces
    samples: dict[str, list[float]] = {arm: [] for arm in _TWICE}
    right = True
    for turn in range(6 if quick else 20):
        cluster.send(sink, "Expect", count=count)
        cluster.drain()
        begin = time.perf_counter()
        cluster.send(source, "Go", other=sink, count=piece, first=0, left=pieces - 1)
        got = cluster.receive(timeout=120.0)
        samples[_turn_of(turn)].append(count / (time.perf_counter() - begin) * 1e-6)
        right &= int(got.message["count"]) == count * (count - 1) // 2
        cluster.drain()
    case = "64-byte slots, a pair of hosts"
    return [
        Measured(case, params, "M/s", np.array(samples[arm]), count, right, arm=arm)
        for arm in _TWICE
    ]


def _killed(players: denizen.Program, device: str, transport: str, *, quick: bool) -> Measured:
    samples = []
    for _ in range(3 if quick else 15):
        with Cluster(players, 2, device=device, transport=transport) as cluster:
            pid = cluster.hosts[1].pid
            links = cluster._hosts.local.links
            begin = time.perf_counter()
            os.kill(pid, signal.SIGKILL)
            while not links.lost():  # ends: by the link's deadline at the latest
                time.sleep(0.0001)
            samples.append((time.perf_counter() - begin) * 1e3)
    params: dict[str, Scalar] = {"transport": transport}
    return Measured("killed host is known", params, "ms", np.array(samples), len(samples), True)


_EVENT = {
    "kill": "killed host is known, under load",
    "stop": "stopped host is known, under load",
    "cut": "a cut is decided on both sides, under load",
}


def _failures(device: str, *, quick: bool) -> list[Measured]:
    kills, stops, cuts = (3, 2, 4) if quick else (100, 30, 50)
    deadline = 0.5
    total = losses.Account()
    for seed, (hosts, transport, events) in enumerate(losses.plan(kills, stops, cuts, 1)):
        total += losses.run(hosts, transport, events, seed, device=device, deadline=deadline)
    params: dict[str, Scalar] = {"deadline_s": deadline, "seed": 1}
    return [
        Measured(_EVENT[kind], params, "ms", np.array(times), total.sent, total.complete)
        for kind, times in total.known_ms.items()
    ]


def _sockets(*, quick: bool) -> list[Measured]:
    import socket  # noqa: PLC0415

    rows = []
    with tempfile.TemporaryDirectory(prefix="denizen-lab-") as name:
        path = Path(name) / "sockets.so"
        path.write_bytes(library_of(_SOCKETS, "sockets of the lab"))
        library = ctypes.CDLL(str(path))
        library.drink.restype = ctypes.c_uint64
        for kind in ("TCP", "Unix"):
            if kind == "TCP":
                listener = socket.create_server(("127.0.0.1", 0))
                where = str(listener.getsockname()[1])
            else:
                where = str(Path(name) / "socket")
                listener = socket.socket(socket.AF_UNIX)
                listener.bind(where)
                listener.listen()
            params: dict[str, Scalar] = {"socket": kind}
            count = 2000 if quick else 20_000
            with _peer(_SOCKET_PEER, str(path), kind, where, "echo"):
                sock = _accepted(listener, tcp=kind == "TCP")
                times = np.zeros(count)
                pointer = times.ctypes.data_as(ctypes.POINTER(ctypes.c_double))
                right = library.trips(sock.fileno(), pointer, count) == 0
                sock.close()
            rows.append(
                Measured("one way, plain socket, half a trip", params, "us", times / 2, 1, right)
            )
            count = 100_096 if quick else 1_000_192  # whole batches
            samples = []
            right = True
            for _ in range(3 if quick else 10):
                with _peer(_SOCKET_PEER, str(path), kind, where, "pour", str(count)):
                    sock = _accepted(listener, tcp=kind == "TCP")
                    begin = time.perf_counter()
                    total = library.drink(sock.fileno(), count)
                    samples.append(count / (time.perf_counter() - begin) * 1e-6)
                    right &= total == count * (count - 1) // 2
                    sock.close()
            case = "64-byte slots, plain socket, 256 at a time"
            rows.append(Measured(case, params, "M/s", np.array(samples), count, right))
            listener.close()
    return rows


def _accepted(listener: object, *, tcp: bool):  # type: ignore[no-untyped-def]
    import socket  # noqa: PLC0415

    assert isinstance(listener, socket.socket)
    listener.settimeout(20.0)
    sock, _ = listener.accept()
    sock.settimeout(None)
    if tcp:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def _zmq(*, quick: bool) -> list[Measured]:
    import zmq  # noqa: PLC0415

    context = zmq.Context()
    params: dict[str, Scalar] = {"library": "pyzmq"}
    sock = context.socket(zmq.PAIR)
    port = sock.bind_to_random_port("tcp://127.0.0.1")
    slot = bytes(64)
    times = []
    right = True
    with _peer(_ZMQ_PEER, f"tcp://127.0.0.1:{port}", "echo"):
        sock.send(slot)
        sock.recv()
        for _ in range(1000 if quick else 10_000):
            begin = time.perf_counter()
            sock.send(slot)
            right &= sock.recv() == slot
            times.append((time.perf_counter() - begin) * 1e6)
        sock.send(b"")
        sock.close()
    rows = [Measured("one way, ZeroMQ, half a trip", params, "us", np.array(times) / 2, 1, right)]
    count = 50_000 if quick else 500_000
    samples = []
    right = True
    for _ in range(3 if quick else 5):
        pull = context.socket(zmq.PULL)
        port = pull.bind_to_random_port("tcp://127.0.0.1")
        with _peer(_ZMQ_PEER, f"tcp://127.0.0.1:{port}", "pour", str(count)):
            total = int.from_bytes(pull.recv()[:4], "little")
            begin = time.perf_counter()
            for _ in range(count - 1):
                total += int.from_bytes(pull.recv()[:4], "little")
            samples.append((count - 1) / (time.perf_counter() - begin) * 1e-6)
            right &= total == count * (count - 1) // 2
            pull.close()
    context.term()
    rows.append(Measured("64-byte slots, ZeroMQ", params, "M/s", np.array(samples), count, right))
    return rows


def _peer(code: str, *words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", code, *words], stdin=subprocess.DEVNULL)
