# SPDX-License-Identifier: Apache-2.0
"""The part of the experiment ``cluster`` that is called from Python: the same 64 bytes by pyzmq, by
gRPC, and by calls of an actor of Ray, between two processes of this machine. Each where it is
installed.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from denizen import terminal
from denizen.lab.record import Measured

_SLOT = bytes(64)
_LIBRARIES = ("pyzmq", "gRPC", "Ray")
ONE_WAY = {name: f"one way, {name}, half a trip" for name in _LIBRARIES}
SLOTS = {name: f"64-byte slots, {name}" for name in _LIBRARIES}

_ZMQ_PEER = """
import sys, zmq
sock = zmq.Context().socket(zmq.PAIR)
sock.connect(sys.argv[1])
while (slot := sock.recv()):  # a slot, or 4 bytes: how many will come one way
    if len(slot) == 64:
        sock.send(slot)
    else:
        count = int.from_bytes(slot, "little")
        total = sum(int.from_bytes(sock.recv()[:4], "little") for _ in range(count))
        sock.send(total.to_bytes(8, "little"))
"""

_GRPC_PEER = """
import sys, grpc
from concurrent.futures import ThreadPoolExecutor
def echo(request, context):
    return request
def drink(requests, context):
    total = sum(int.from_bytes(slot[:4], "little") for slot in requests)
    return total.to_bytes(8, "little")
server = grpc.server(ThreadPoolExecutor(2))
server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("lab", {
    "echo": grpc.unary_unary_rpc_method_handler(echo),
    "drink": grpc.stream_unary_rpc_method_handler(drink),
}),))
print(server.add_insecure_port("127.0.0.1:0"), flush=True)
server.start()
sys.stdin.read()
server.stop(0)
"""


def measure(*, quick: bool) -> list[Measured]:
    """The rows of those that are installed; of the others a line says why there are none."""
    rows: list[Measured] = []
    for package, name, rival in (
        ("zmq", "pyzmq", _zmq),
        ("grpc", "grpcio", _grpc),
        ("ray", "ray", _ray),
    ):
        found = importlib.util.find_spec(package)
        if found is None or found.origin is None:  # a mere folder of that name is none
            terminal.error(f"cluster: no rows of {name}, it is not installed: pip install {name}")
            continue
        rows += rival(quick=quick)
    return rows


def _rows(
    library: str, echo: Callable[[], bytes], pour: Callable[[int], int], count: int, *, quick: bool
) -> list[Measured]:
    """``echo()``: a slot there and back; ``pour(n)``: n slots one way, the sum of their numbers."""
    right = echo() == _SLOT
    times = []
    for _ in range(300 if quick else 3000):
        begin = time.perf_counter()
        right &= echo() == _SLOT
        times.append((time.perf_counter() - begin) * 1e6 / 2)
    rows = [Measured(ONE_WAY[library], {}, "us", np.array(times), 1, right)]
    samples = []
    for _ in range(3 if quick else 10):
        begin = time.perf_counter()
        right &= pour(count) == count * (count - 1) // 2
        samples.append(count / (time.perf_counter() - begin) * 1e-6)
    return [*rows, Measured(SLOTS[library], {}, "M/s", np.array(samples), count, right)]


def _zmq(*, quick: bool) -> list[Measured]:
    import zmq  # noqa: PLC0415

    with zmq.Context() as context, context.socket(zmq.PAIR) as sock:
        sock.setsockopt(zmq.RCVTIMEO, 120_000)
        port = sock.bind_to_random_port("tcp://127.0.0.1")
        with subprocess.Popen([sys.executable, "-c", _ZMQ_PEER, f"tcp://127.0.0.1:{port}"]):

            def echo() -> bytes:
                sock.send(_SLOT)
                return sock.recv()

            def pour(count: int) -> int:
                sock.send(count.to_bytes(4, "little"))
                for i in range(count):
                    sock.send(i.to_bytes(4, "little") + bytes(60))
                return int.from_bytes(sock.recv(), "little")

            rows = _rows("pyzmq", echo, pour, 10_000 if quick else 200_000, quick=quick)
            sock.send(b"")
    return rows


def _grpc(*, quick: bool) -> list[Measured]:
    import grpc  # noqa: PLC0415

    peer = subprocess.Popen(
        [sys.executable, "-c", _GRPC_PEER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with peer:
        assert peer.stdout is not None
        channel = grpc.insecure_channel(f"127.0.0.1:{int(peer.stdout.readline())}")
        call = channel.unary_unary("/lab/echo")
        stream = channel.stream_unary("/lab/drink")

        def pour(count: int) -> int:
            slots = (i.to_bytes(4, "little") + bytes(60) for i in range(count))
            return int.from_bytes(stream(slots, timeout=120.0), "little")

        count = 5_000 if quick else 100_000
        rows = _rows("gRPC", lambda: bytes(call(_SLOT, timeout=60.0)), pour, count, quick=quick)
        channel.close()
        assert peer.stdin is not None
        peer.stdin.close()
    return rows


def _ray(*, quick: bool) -> list[Measured]:
    import ray  # noqa: PLC0415

    class Peer:
        total = 0

        def echo(self, slot: bytes) -> bytes:
            return slot

        def take(self, slot: bytes) -> None:
            self.total += int.from_bytes(slot[:4], "little")

        def told(self) -> int:
            total, self.total = self.total, 0
            return total

    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, _node_ip_address="127.0.0.1")
    try:
        peer: Any = ray.remote(Peer).remote()

        def pour(count: int) -> int:
            for i in range(count):
                peer.take.remote(i.to_bytes(4, "little") + bytes(60))
            return int(ray.get(peer.told.remote(), timeout=120.0))  # calls are done in their order

        def echo() -> bytes:
            return bytes(ray.get(peer.echo.remote(_SLOT), timeout=60.0))

        return _rows("Ray", echo, pour, 1_000 if quick else 20_000, quick=quick)
    finally:
        ray.shutdown()
