# SPDX-License-Identifier: Apache-2.0
"""The part of the experiment ``cluster`` that sockets do: the same 64 bytes between two processes
of this machine by TCP, by a Unix socket and by ZeroMQ's C library, each from C++.
"""

from __future__ import annotations

import ctypes
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from denizen.compilers import library_of
from denizen.lab.record import LabError, Measured, Scalar

# To and fro, or one way: who connects answers or sends, the other one counts and sums. A socket
# that spins is read without waiting until something has come.
_TEXT = """
#include <cstdint>
#include <cstring>
#include <ctime>
#include <dlfcn.h>
#include <sched.h>
#include <cerrno>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>
#define API extern "C" __attribute__((visibility("default")))
static double now() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}
static bool whole(int fd, char* p, size_t n, bool spins) {
    for (size_t at = 0, looks = 0; at < n;) {
        const ssize_t got = recv(fd, p + at, n - at, spins ? MSG_DONTWAIT : 0);
        if (got < 0 && errno == EAGAIN) {
            if (++looks % 64 == 0) { sched_yield(); } // as a link's threads do
            continue;
        }
        if (got <= 0) { return false; }
        at += static_cast<size_t>(got);
    }
    return true;
}
API void echo(int fd, int spins) {
    char slot[64];
    while (whole(fd, slot, 64, spins)) { if (send(fd, slot, 64, MSG_NOSIGNAL) != 64) { return; } }
}
API int trips(int fd, int spins, double* us, int count) {
    char slot[64] = {};
    for (int i = 0; i < count; ++i) {
        const double begin = now();
        if (send(fd, slot, 64, MSG_NOSIGNAL) != 64 || !whole(fd, slot, 64, spins)) { return -1; }
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
// ZeroMQ's C library, wherever its package has put it; numbers are those of zmq.h.
constexpr int pair = 0, last_endpoint = 32;
struct Zmq {
    void *(*ctx_new)(), *(*socket)(void*, int);
    int (*ctx_term)(void*), (*close)(void*), (*bind)(void*, const char*);
    int (*connect)(void*, const char*), (*getsockopt)(void*, int, void*, size_t*);
    int (*send)(void*, const void*, size_t, int), (*recv)(void*, void*, size_t, int);
    void *context, *sock;
};
template<class F> static void find(void* library, const char* name, F& f) {
    f = reinterpret_cast<F>(dlsym(library, name));
}
static Zmq* opened(const char* path) {
    void* const library = dlopen(path, RTLD_NOW);
    if (library == nullptr) { return nullptr; }
    Zmq* const z = new Zmq{};
    find(library, "zmq_ctx_new", z->ctx_new);
    find(library, "zmq_socket", z->socket);
    find(library, "zmq_ctx_term", z->ctx_term);
    find(library, "zmq_close", z->close);
    find(library, "zmq_bind", z->bind);
    find(library, "zmq_connect", z->connect);
    find(library, "zmq_getsockopt", z->getsockopt);
    find(library, "zmq_send", z->send);
    find(library, "zmq_recv", z->recv);
    z->context = z->ctx_new();
    z->sock = z->socket(z->context, pair);
    return z;
}
API Zmq* zmq_listen(const char* path, char* at, size_t room) {
    Zmq* const z = opened(path);
    const bool bound = z != nullptr && z->bind(z->sock, "tcp://127.0.0.1:*") == 0;
    return bound && z->getsockopt(z->sock, last_endpoint, at, &room) == 0 ? z : nullptr;
}
API Zmq* zmq_dial(const char* path, const char* at) {
    Zmq* const z = opened(path);
    return z != nullptr && z->connect(z->sock, at) == 0 ? z : nullptr;
}
API void zmq_end(Zmq* z) {
    z->close(z->sock);
    z->ctx_term(z->context);
    delete z;
}
API void zmq_echo(Zmq* z) {
    char slot[64];
    while (z->recv(z->sock, slot, 64, 0) == 64) { z->send(z->sock, slot, 64, 0); }
}
API int zmq_trips(Zmq* z, double* us, int count) {
    char slot[64] = {};
    for (int i = 0; i < count; ++i) {
        const double begin = now();
        if (z->send(z->sock, slot, 64, 0) != 64 || z->recv(z->sock, slot, 64, 0) != 64) {
            return -1;
        }
        us[i] = (now() - begin) * 1e6;
    }
    return z->send(z->sock, slot, 0, 0); // 0 bytes: it is over
}
API void zmq_pour(Zmq* z, uint32_t count) {
    uint32_t slot[16] = {};
    for (uint32_t i = 0; i < count; ++i) {
        slot[0] = i;
        z->send(z->sock, slot, 64, 0);
    }
}
API uint64_t zmq_drink(Zmq* z, uint32_t count) {
    uint32_t slot[16];
    uint64_t sum = 0;
    for (uint32_t i = 0; i < count; ++i) {
        if (z->recv(z->sock, slot, 64, 0) != 64) { return 0; }
        sum += slot[0];
    }
    return sum;
}
"""

_PEER = """
import ctypes, socket, sys
library, kind, where, *words = sys.argv[1:]
lib = ctypes.CDLL(library)
if kind == "ZeroMQ":
    lib.zmq_dial.restype = ctypes.c_void_p
    zmq = ctypes.c_void_p(lib.zmq_dial(words[1].encode(), where.encode()))
    if words[0] == "echo":
        lib.zmq_echo(zmq)
    else:
        lib.zmq_pour(zmq, int(words[2]))
    lib.zmq_end(zmq)
else:
    sock = socket.socket(socket.AF_INET if kind == "TCP" else socket.AF_UNIX)
    sock.connect(("127.0.0.1", int(where)) if kind == "TCP" else where)
    if kind == "TCP":
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if words[0] == "echo":
        lib.echo(sock.fileno(), int(words[1]))
    else:
        lib.pour(sock.fileno(), int(words[1]), 256)
    sock.recv(1)
"""

_BATCH = 256
_PATIENCE = 60.0  # seconds until a peer has ended: it hangs

ONE_WAY = {kind: f"one way, {kind} socket, half a trip" for kind in ("TCP", "Unix")}
SLOTS = {kind: f"64-byte slots, {kind} socket, {_BATCH} at a time" for kind in ("TCP", "Unix")}
ZMQ_ONE_WAY, ZMQ_SLOTS = "one way, ZeroMQ, half a trip", "64-byte slots, ZeroMQ"


def measure(*, quick: bool) -> list[Measured]:
    """Of TCP and Unix sockets, and of ZeroMQ where its Python package has brought the library."""
    rows: list[Measured] = []
    with tempfile.TemporaryDirectory(prefix="denizen-lab-") as name:
        path = Path(name) / "sockets.so"
        path.write_bytes(library_of(_TEXT, "sockets of the lab"))
        library = ctypes.CDLL(str(path))
        library.drink.restype = library.zmq_drink.restype = ctypes.c_uint64
        library.zmq_listen.restype = ctypes.c_void_p
        for kind in ("TCP", "Unix"):
            rows += _sockets(library, path, kind, quick=quick)
        if (zmq := _libzmq()) is not None:
            rows += _zmq(library, path, zmq, quick=quick)
    return rows


def _sockets(library: ctypes.CDLL, path: Path, kind: str, *, quick: bool) -> Iterator[Measured]:
    tcp = kind == "TCP"
    if tcp:
        listener = socket.create_server(("127.0.0.1", 0))
        where = str(listener.getsockname()[1])
    else:
        where = str(path.with_name("socket"))
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(where)
        listener.listen()
    with listener:
        count = 2_000 if quick else 20_000
        for waits, spins in (("spinning", 1), ("sleeping", 0)):
            with _peer(path, kind, where, "echo", str(spins)):
                sock = _accepted(listener, tcp=tcp)
                times, right = _trips(count, partial(library.trips, sock.fileno(), spins))
                sock.close()
            params: dict[str, Scalar] = {"waits": waits}
            yield Measured(ONE_WAY[kind], params, "us", times / 2, 1, right)
        count = _BATCH * (391 if quick else 3907)

        def turn() -> tuple[float, bool]:
            with _peer(path, kind, where, "pour", str(count)):
                sock = _accepted(listener, tcp=tcp)
                found = _timed(lambda: int(library.drink(sock.fileno(), count)), count)
                sock.close()
            return found

        yield _rates(SLOTS[kind], count, turn, quick=quick)


def _zmq(library: ctypes.CDLL, path: Path, zmq: str, *, quick: bool) -> Iterator[Measured]:
    @contextmanager
    def linked(*words: str) -> Iterator[ctypes.c_void_p]:
        at = ctypes.create_string_buffer(256)
        end = library.zmq_listen(zmq.encode(), at, ctypes.c_size_t(len(at)))
        if not end:
            raise LabError(f"ZeroMQ's library {zmq} does not listen on loopback")
        end = ctypes.c_void_p(end)
        with _peer(path, "ZeroMQ", at.value.decode(), words[0], zmq, *words[1:]):
            yield end
            library.zmq_end(end)

    count = 1_000 if quick else 10_000
    with linked("echo") as end:
        times, right = _trips(count, partial(library.zmq_trips, end))
    yield Measured(ZMQ_ONE_WAY, {}, "us", times / 2, 1, right)
    count = 100_000 if quick else 1_000_000

    def turn() -> tuple[float, bool]:
        with linked("pour", str(count)) as end:
            library.zmq_drink(end, 1)  # number 0: from now on the other side sends
            return _timed(lambda: int(library.zmq_drink(end, count - 1)), count)

    yield _rates(ZMQ_SLOTS, count, turn, quick=quick)


def _trips(count: int, run: Callable[[object, int], int]) -> tuple[NDArray[np.float64], bool]:
    times = np.zeros(count)
    right = run(times.ctypes.data_as(ctypes.POINTER(ctypes.c_double)), count) == 0
    return times, right


def _rates(
    case: str, count: int, turn: Callable[[], tuple[float, bool]], *, quick: bool
) -> Measured:
    """``turn()``: M/s of so many slots, and whether their sum was right."""
    found = [turn() for _ in range(3 if quick else 10)]
    rates = np.array([rate for rate, _ in found])
    return Measured(case, {}, "M/s", rates, count, all(right for _, right in found))


def _timed(sum_of: Callable[[], int], count: int) -> tuple[float, bool]:
    begin = time.perf_counter()
    total = sum_of()
    return count / (time.perf_counter() - begin) * 1e-6, total == count * (count - 1) // 2


def _accepted(listener: socket.socket, *, tcp: bool) -> socket.socket:
    listener.settimeout(20.0)
    sock, _ = listener.accept()
    sock.settimeout(None)
    if tcp:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def _libzmq() -> str | None:
    """The shared library that the package zmq has loaded, if it is installed."""
    try:
        import zmq  # noqa: F401, PLC0415
    except ImportError:
        return None
    maps = Path("/proc/self/maps").read_text(encoding="utf-8")
    found = [line.split()[-1] for line in maps.splitlines() if "libzmq" in line.rpartition("/")[2]]
    return found[0] if found else None


@contextmanager
def _peer(path: Path, *words: str) -> Iterator[None]:
    peer = subprocess.Popen(
        [sys.executable, "-c", _PEER, str(path), *words], stdin=subprocess.DEVNULL
    )
    try:
        yield
        peer.wait(_PATIENCE)
    finally:
        peer.kill()
        peer.wait()
