# SPDX-License-Identifier: Apache-2.0
"""Ranks that are processes, one for each GPU: they are killed at random, and NCCL between two."""

import os
import random
import subprocess
import sys
import threading
import time

import pytest

from denizen import _core
from denizen.device import parse_device
from denizen.group import nccl
from denizen.group.group import _prepare


def line_of(process, seconds=40):
    """The next line that ``process`` prints; without one in time it is killed, and this is ""."""
    timer = threading.Timer(seconds, process.kill)
    timer.start()
    try:
        return process.stdout.readline().strip()
    finally:
        timer.cancel()


# Told its rank and its first group, it sums until that fails, says so, and goes on with the next.
RANK = """
import sys
from denizen import DenizenError, _core, group
folder, ranks = sys.argv[1], int(sys.argv[2])
print("ready", _core.gpu_count(), flush=True)
rank, first = map(int, sys.stdin.readline().split())
for turn in range(first, 1000):
    x = g = None
    try:
        path = f"{folder}/{turn}"
        g = group.join(path, rank, ranks, f"gpu:{rank}", timeout=2, heap_bytes=1 << 20)
        x = g.empty(100_000)
        g.all_reduce(x)
        g.wait()
        print("running", turn, flush=True)
        while True:
            for _ in range(10):
                g.all_reduce(x)
            g.wait()
    except DenizenError as error:
        print("error", type(error).__name__, error, flush=True)
"""


class Rank:
    def __init__(self, folder, ranks):
        self.process = subprocess.Popen(
            [sys.executable, "-c", RANK, str(folder), str(ranks)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def begin(self, rank, turn):
        assert self.line().startswith("ready")
        self.process.stdin.write(f"{rank} {turn}\n")
        self.process.stdin.flush()
        return self

    def line(self):
        return line_of(self.process)

    def kill(self):
        self.process.kill()
        self.process.communicate()


@pytest.mark.gpu
@pytest.mark.parametrize("times", [4, pytest.param(20, marks=pytest.mark.deep)])
def test_killed_at_random(tmp_path, times):
    """The others get the same named error within the deadline, and make a new group."""
    ranks = min(_core.gpu_count(), 8)
    if ranks < 2:
        pytest.skip("fewer than two GPUs")
    _prepare(parse_device("gpu:0"), ranks)  # here, and not while a rank's line is waited for
    rng = random.Random(4)
    processes = [Rank(tmp_path, ranks) for _ in range(ranks)]
    spare = Rank(tmp_path, ranks)
    try:
        for rank, process in enumerate(processes):
            process.begin(rank, 0)
        for turn in range(times):
            for process in processes:
                assert process.line() == f"running {turn}"
            time.sleep(rng.random() * 0.1)
            victim = rng.randrange(ranks)
            begin = time.monotonic()
            processes[victim].kill()
            errors = {p.line() for i, p in enumerate(processes) if i != victim}
            assert time.monotonic() - begin < 5  # the deadline is 2 s
            assert len(errors) == 1, errors
            (error,) = errors
            assert error.startswith("error DeadError"), error
            assert f"for rank {victim} in all_reduce of 100000 f32" in error, error
            processes[victim] = spare.begin(victim, turn + 1)
            spare = Rank(tmp_path, ranks)
    finally:
        for process in [*processes, spare]:
            process.kill()


OVER_NCCL = """
import sys
import torch
from denizen import ArgumentError, DeadError, group
address, rank = sys.argv[1], int(sys.argv[2])
torch.cuda.set_device(rank)
g = group.join(address, rank, 2, f"gpu:{rank}", engine="nccl", token="for this test", timeout=20)
assert g.engine == "nccl" and g.links[0].peer == 1 - rank
for dtype in torch.float32, torch.float16, torch.bfloat16, torch.int32:
    x = torch.full((1000, 7), rank + 1, dtype=dtype, device=f"cuda:{rank}")
    g.all_reduce(x)
    out = torch.empty((2, 1000, 7), dtype=dtype, device=f"cuda:{rank}")
    g.all_gather_into_tensor(out, x)
    back = torch.empty_like(x)
    g.reduce_scatter_tensor(back, out)
    swapped = torch.empty_like(out)
    g.all_to_all_single(swapped, out)
    g.broadcast(x, src=1)
    g.wait(torch.cuda.current_stream().cuda_stream)
    assert (x == 3).all() and (out == 3).all() and (back == 6).all() and (swapped == 3).all()
g.barrier()
g.wait()
print("good", flush=True)
g = None  # on both: NCCL may wait for the other
if rank == 1:
    sys.exit()
try:
    g = group.join(address, 0, 2, "gpu:0", engine="nccl", token="for this test", timeout=0.5)
except Exception as error:
    print(type(error).__name__, flush=True)
"""


# NCCL takes ranks whose NCCL_HOSTID differ for ranks of different hosts: between these it has
# neither shared memory nor NVLink, and with no InfiniBand only sockets, here on loopback.
def host_of_its_own(rank):
    return {
        "NCCL_HOSTID": f"host {rank} of a test",
        "NCCL_IB_DISABLE": "1",
        "NCCL_SOCKET_IFNAME": "lo",
        "NCCL_DEBUG": "INFO",
        "NCCL_DEBUG_FILE": f"nccl-{rank}.log",
    }


@pytest.mark.gpu
@pytest.mark.parametrize("hosts", [1, 2])
def test_two_processes_over_nccl(tmp_path, hosts):
    pytest.importorskip("torch")
    if _core.gpu_count() < 2:
        pytest.skip("fewer than two GPUs")
    if nccl.find() is None and "DENIZEN_NCCL" not in os.environ:
        pytest.skip("no NCCL")
    address = f"tcp://127.0.0.1:{random.randrange(20000, 30000)}"
    script = tmp_path / "rank.py"
    script.write_text(OVER_NCCL)
    first, second = (
        subprocess.Popen(
            [sys.executable, str(script), address, str(rank)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            env={**os.environ, **(host_of_its_own(rank) if hosts == 2 else {})},
        )
        for rank in (0, 1)
    )
    try:
        assert line_of(second) == "good"
        out, _ = first.communicate(timeout=60)
        assert out.splitlines() == ["good", "DeadlineError"]
        if hosts == 2:
            for rank in (0, 1):
                log = (tmp_path / f"nccl-{rank}.log").read_text()
                assert "via NET/Socket" in log
                assert "via P2P" not in log
                assert "via SHM" not in log
    finally:
        for process in first, second:
            process.kill()
            process.communicate()


DIES = """
import sys
from denizen import group
rank = int(sys.argv[2])
g = group.join(sys.argv[1], rank, 2, f"gpu:{rank}", engine="nccl", token="for this test", timeout=3,
               heap_bytes=1 << 20)
x = g.empty(100_000)
try:
    while True:
        g.all_reduce(x)
        g.wait()
        print("round", flush=True)
except Exception as error:
    print(type(error).__name__, error, flush=True)
"""


@pytest.mark.gpu
@pytest.mark.parametrize("hosts", [1, 2])
def test_a_rank_over_nccl_is_killed(tmp_path, hosts):
    if _core.gpu_count() < 2 or (nccl.find() is None and "DENIZEN_NCCL" not in os.environ):
        pytest.skip("fewer than two GPUs, or no NCCL")
    address = f"tcp://127.0.0.1:{random.randrange(20000, 30000)}"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", DIES, address, str(rank)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            env={**os.environ, **(host_of_its_own(rank) if hosts == 2 else {})},
        )
        for rank in (0, 1)
    ]
    try:
        assert line_of(processes[1]) == "round"
        processes[1].kill()
        out, _ = processes[0].communicate(timeout=30)
        assert out.splitlines()[-1].startswith("DeadError"), out[-500:]
    finally:
        for process in processes:
            process.kill()
            process.communicate()
