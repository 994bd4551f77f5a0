# SPDX-License-Identifier: Apache-2.0
"""Groups from Python: every call on CPU ranks, processes, errors, resident groups, tuning."""

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from denizen import (
    ArgumentError,
    CompileError,
    DeadError,
    DeadlineError,
    DenizenError,
    ExhaustedError,
    group,
)
from denizen.cli import main
from denizen.group import table
from denizen.group.calls import DEFAULT, stream_of
from denizen.group.group import _kernels

ALGORITHMS = {"one_shot", "two_shot", "pull", "pull_twice", "push", "push_twice"}
COLLECTIVES = {"all_reduce", "reduce_scatter", "all_gather", "broadcast", "all_to_all"}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DENIZEN_CACHE", str(tmp_path / "cache"))


def on_ranks(groups, body):
    """Run body(group) for each, on threads of their own; what they returned."""
    results = [None] * len(groups)

    def one(i):
        try:
            results[i] = body(groups[i])
        except DenizenError as error:
            results[i] = error

    threads = [threading.Thread(target=one, args=(i,)) for i in range(len(groups))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return results


@pytest.mark.parametrize("ranks", [2, 3])
def test_every_collective(ranks):
    def body(g):
        given = np.arange(6 * ranks, dtype=np.float32) + 100 * g.rank
        out = np.empty(6, np.float32)
        g.reduce_scatter_tensor(out, given)
        total = ranks * np.arange(6 * ranks) + 100 * sum(range(ranks))
        assert (out == total[6 * g.rank :][:6]).all()

        everyone = np.empty(6 * ranks * ranks, np.float32)
        g.all_gather_into_tensor(everyone, given)
        assert (everyone.reshape(ranks, -1)[:, 0] == 100 * np.arange(ranks)).all()

        swapped = np.empty_like(given)
        g.all_to_all_single(swapped, given)
        assert (swapped.reshape(ranks, 6)[:, 0] == 6 * g.rank + 100 * np.arange(ranks)).all()

        g.broadcast(given, src=ranks - 1)
        assert given[0] == 100 * (ranks - 1)
        for op, wanted in ("sum", sum(range(ranks))), ("min", 0), ("max", ranks - 1):
            x = np.full(1000, g.rank, np.int32)
            g.all_reduce(x, op)
            assert (x == wanted).all()
        half = np.full((3, 5), g.rank, np.float16)
        mean = np.empty_like(half)
        g.all_reduce(half, "avg", out=mean)
        assert (mean == np.float16((ranks - 1) / 2)).all()
        assert (half == g.rank).all()
        g.barrier()
        return True

    assert on_ranks(group.local(ranks, "cpu"), body) == [True] * ranks


@pytest.mark.parametrize(
    "name",
    [
        "float64",
        "float32",
        "float16",
        "bfloat16",
        "float8_e4m3fn",
        "float8_e5m2",
        "int64",
        "int32",
        "uint8",
    ],
)
def test_every_type_is_summed_and_moved(name):
    dtype = np.dtype(name) if hasattr(np, name) else np.dtype(getattr(ml_dtypes, name))

    def body(g):
        x = (np.arange(301) % 3 + g.rank).astype(dtype)
        g.all_reduce(x)
        all_of_them = np.empty(2 * 301, dtype)
        g.all_gather_into_tensor(all_of_them, x + dtype.type(g.rank))
        return x.astype(float), all_of_them.reshape(2, -1).astype(float)

    wanted = np.arange(301) % 3 * 2.0 + 1
    next_one = (wanted.astype(dtype) + dtype.type(1)).astype(float)
    for total, gathered in on_ranks(group.local(2, "cpu"), body):
        assert (total == wanted).all()
        assert (gathered == [wanted, next_one]).all()


def test_symmetric_memory_is_an_array():
    def body(g):
        x = g.empty((100, 10))
        assert x.shape == (100, 10)
        assert not x.any()
        x += g.rank + 1
        y = g.empty((100, 10))
        g.barrier()
        g.all_reduce(x, out=y, algorithm="pull")
        return float(y.min()), float(y.max())

    assert on_ranks(group.local(2, "cpu", heap_bytes=1 << 16), body) == [(3.0, 3.0)] * 2
    with pytest.raises(ExhaustedError, match="symmetric memory has 0 of 0 bytes"):
        group.local(2, "cpu")[0].empty(1)


def test_other_types_are_refused():
    (g,) = group.local(1, "cpu")
    for bad, why in [
        (np.zeros(3, np.complex64), "complex64; use float64, float32, .* uint8"),
        (np.zeros((4, 4), np.float32)[:, 1:], "gaps"),
        (np.broadcast_to(np.float32(1), 3), "gaps|read-only"),
        ([1.0, 2.0], "list"),
    ]:
        with pytest.raises(ArgumentError, match=why):
            g.all_reduce(bad)
    x = np.zeros(4, np.float32)
    with pytest.raises(ArgumentError, match="4 are expected"):
        g.all_reduce(x, out=np.zeros(5, np.float32))
    with pytest.raises(ArgumentError, match="use one type"):
        g.all_reduce(x, out=np.zeros(4, np.int32))
    with pytest.raises(ArgumentError, match="none of sum, min, max, avg"):
        g.all_reduce(x, "product")
    with pytest.raises(ArgumentError, match="ranks 0 to 0"):
        g.broadcast(x, src=1)
    with pytest.raises(ArgumentError, match="1 to 8"):
        group.local(9, "cpu")


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"ranks": -1}, "ranks = -1; use a whole number"),
        ({"ranks": 2.5}, "ranks = 2.5; use a whole number"),
        ({"ranks": 2, "heap_bytes": -1}, "heap_bytes = -1; use a whole number"),
        ({"ranks": 2, "timeout": None}, "timeout = None; use seconds"),
    ],
    ids=str,
)
def test_sizes_and_deadlines_that_are_none(given, why):
    with pytest.raises(ArgumentError, match=why):
        group.local(device="cpu", **given)
    with pytest.raises(ArgumentError, match=why):
        group.join("unused", rank=0, **given)


class Elsewhere:
    """A tensor that only has the old protocol."""

    def __init__(self):
        self.__cuda_array_interface__ = {
            "shape": (2, 3),
            "strides": (12, 4),
            "typestr": "<f4",
            "data": (4096, False),
            "version": 3,
        }


def test_a_gpu_tensor_does_not_fit_cpu_ranks():
    (g,) = group.local(1, "cpu")
    with pytest.raises(ArgumentError, match="a GPU's memory"):
        g.all_reduce(Elsewhere())


class OnlyDlpack:
    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **_):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_dlpack_is_written_in_place():
    def body(g):
        x = np.full(50, g.rank + 1, np.float32)
        g.all_reduce(OnlyDlpack(x))
        return float(x.sum())

    assert on_ranks(group.local(2, "cpu"), body) == [150.0, 150.0]


def test_the_same_error_on_all_ranks():
    def body(g):
        g.all_reduce(np.zeros(10 + g.rank, np.float32))

    errors = on_ranks(group.local(3, "cpu", timeout=30), body)
    assert all(isinstance(error, ArgumentError) for error in errors)
    assert len({str(error) for error in errors}) == 1


def test_who_does_not_come():
    first, second = group.local(2, "cpu", timeout=1)
    with pytest.raises(DeadError, match=r"rank 0 waited 1 s for rank 1 in barrier"):
        first.barrier()
    with pytest.raises(DeadError, match="for rank 1"):
        second.check()


@pytest.mark.usefixtures("unoptimised")
def test_the_kernels_compile_at_run_time():
    has = {
        "common": ["check", *(f"call_{element}" for element in ("f32", "f16", "bf16", "i32"))],
        "rare": ["call_rare"],
        "resident": ["serve_common"],
    }
    try:
        cubins = {part: _kernels(2, 90, part) for part in has}
    except CompileError as error:
        if "libnvrtc" not in str(error):
            raise
        pytest.skip(str(error).splitlines()[0])
    for part, cubin in cubins.items():
        named = set(re.findall(rb"\.text\.denizen_group_(\w+)", cubin))
        assert named == {name.encode() for name in has[part]}, part


class CoreOfAGpu:
    """A rank's, with what was loaded and run there."""

    def __init__(self, rank):
        self.rank, self.ranks, self.on_gpu = rank, 2, False  # its tensors are on the CPU
        self.done = []

    def lacks(self, kind, element, resident):
        wanted = ("resident" if element == "f32" else "resident, all") if resident else "rare"
        return kind != "all_gather" and wanted not in self.done

    def add_code(self, cubin, resident):
        self.done.append(cubin.decode())

    def run(self, kind, given, out, count, element, *how):
        self.done.append(f"{kind} {element}")


class ResidentOfAGpu:
    def __init__(self, group, *about):
        assert group.done[-1:] == ["resident"]

    def post(self, *call):
        return 1


def test_kernels_of_rare_types_come_with_the_first_call(monkeypatch):
    monkeypatch.setattr("denizen.group.group._kernels", lambda ranks, gpu, part: part.encode())
    monkeypatch.setattr("denizen.group.group.capability", lambda device: 90)
    cores = [CoreOfAGpu(rank) for rank in range(2)]
    monkeypatch.setattr("denizen._core.group_local", lambda *about: cores)
    first, second = group.local(2, "cpu")
    first.all_reduce(np.zeros(8, np.float16))
    first.all_gather_into_tensor(np.zeros(16, np.int64), np.zeros(8, np.int64))
    assert [core.done for core in cores] == [["all_reduce f16", "all_gather i64"], []]
    # To both ranks before either runs: the first one's kernel would wait for the second's.
    first.all_reduce(np.zeros(8, np.int64))
    assert cores[0].done[2:] == ["rare", "all_reduce i64"]
    assert cores[1].done == ["rare"]
    second.all_reduce(np.zeros(8, np.int64))
    assert cores[1].done == ["rare", "all_reduce i64"]


def test_kernels_that_stay_come_with_the_first_resident_group(monkeypatch):
    monkeypatch.setattr("denizen.group.group._kernels", lambda ranks, gpu, part: part.encode())
    monkeypatch.setattr("denizen.group.group.capability", lambda device: 90)
    cores = [CoreOfAGpu(rank) for rank in range(2)]
    monkeypatch.setattr("denizen._core.group_local", lambda *about: cores)
    monkeypatch.setattr("denizen._core.ResidentGroup", ResidentOfAGpu)
    first, second = group.local(2, "cpu")
    with first.resident() as here, second.resident():
        assert [core.done for core in cores] == [["resident"], ["resident"]]
        here.all_reduce(np.zeros(8, np.float32))
        assert cores[1].done == ["resident"]
        here.all_reduce(np.zeros(8, np.int64))
        assert [core.done for core in cores] == [["resident", "resident, all"]] * 2


def test_resident():
    def body(g):
        x = np.full(5000, g.rank, np.float32)
        with pytest.raises(ArgumentError, match="one kernel for ever"):
            g.resident(breath_us=-1)
        with g.resident(breath_us=300) as resident:
            for _ in range(20):
                resident.all_reduce(x, "max")
            with pytest.raises(ArgumentError, match="use one type"):
                resident.all_reduce(x, out=np.zeros(5000, np.int32))
            resident.all_reduce(x)
            resident.wait()
        with pytest.raises(ArgumentError, match="closed"):
            resident.all_reduce(x)
        g.barrier()
        return float(x.min()), float(x.max())

    assert on_ranks(group.local(2, "cpu"), body) == [(2.0, 2.0)] * 2


RANK = """
import sys
import numpy as np
from denizen import group
path, rank, ranks = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
g = group.join(path, rank, ranks, timeout=30)
x = np.full(70_000, rank + 1, np.int32)
g.all_reduce(x)
print(x.min(), x.max(), len(g.links), g.size)
g.barrier()
"""


def test_processes(tmp_path):
    path = str(tmp_path / "socket")
    processes = [
        subprocess.Popen([sys.executable, "-c", RANK, path, str(r), "3"], stdout=subprocess.PIPE)
        for r in range(3)
    ]
    for process in processes:
        out, _ = process.communicate(timeout=60)
        assert process.returncode == 0
        assert out.decode().split() == ["6", "6", "2", "3"]


def test_join_has_a_deadline(tmp_path):
    with pytest.raises(DeadlineError, match="rank 1 of 2 did not come"):
        group.join(tmp_path / "socket", 0, 2, timeout=0.2)
    with pytest.raises(ArgumentError, match="abstract"):
        group.join("@name", 0, 2, timeout=0.2)
    with pytest.raises(ArgumentError, match="ranks count from 0"):
        group.join(tmp_path / "socket", 2, 2, timeout=0.2)


def test_multicast_switches(monkeypatch):
    for name in ("NCCL_NVLS_ENABLE", "TORCH_SYMM_MEM_DISABLE_MULTICAST", "NVSHMEM_DISABLE_NVLS"):
        monkeypatch.delenv(name, raising=False)
    group.forbid_multicast()
    assert os.environ["NCCL_NVLS_ENABLE"] == "0"
    monkeypatch.setenv("TORCH_SYMM_MEM_DISABLE_MULTICAST", "0")
    with pytest.raises(ArgumentError, match="TORCH_SYMM_MEM_DISABLE_MULTICAST is 0"):
        group.forbid_multicast()


def test_tune_is_kept_and_used(capsys):
    assert main(["tune", "--device", "cpu", "--quick"]) == 0
    text = capsys.readouterr().out
    assert "one_shot" in text
    assert "pull_twice" in text
    path = table.path_of(2, False, 0)
    kept = json.loads(path.read_text())
    assert {t[1] for t in kept["timings"] if t[4] == "all_reduce"} == ALGORITHMS
    of_others = {t[1] for t in kept["timings"] if t[4] != "all_reduce"}
    assert of_others == {"one_shot", "pull", "push"}  # what they have
    used = {name: [tuple(row) for row in rows] for name, rows in kept["tables"].items()}
    assert set(used) == COLLECTIVES
    assert all(f"{name} of float32" in text for name in COLLECTIVES)
    assert group.local(2, "cpu")[0].tables == used
    assert group.local(2, "cpu")[0].table == used["all_reduce"]
    assert group.local(2, "cpu", table=[(0, "two_shot", 2)])[0].table == [(0, "two_shot", 2)]
    path.write_text("{")  # as if it had been damaged
    assert len(group.local(2, "cpu")[0].table) >= 1
    assert main(["tune", "--ranks", "1"]) != 0


def test_tables_of_rank_0_are_everyones(tmp_path):
    mine = {"all_gather": [(4096, "push", 2), (0, "pull", 1)], "all_reduce": [(0, "two_shot", 3)]}
    given = [mine, [(0, "one_shot", 1)]]

    def one(rank):
        return group.join(tmp_path / "sock", rank, 2, table=given[rank]).tables

    with ThreadPoolExecutor() as threads:
        assert list(threads.map(one, range(2))) == [mine, mine]


@pytest.mark.parametrize(
    ("tables", "says"),
    [
        ({"all_sum": [(0, "pull", 1)]}, 'collective "all_sum" is none of barrier, all_reduce'),
        ({"barrier": [(0, "pull", 1)]}, "no choice: a barrier"),
        ({"broadcast": [(n, "pull", 1) for n in range(13)]}, "broadcast has more than 12 rows"),
    ],
)
def test_tables_that_cannot_be(tables, says):
    with pytest.raises(ArgumentError, match=says):
        group.local(2, "cpu", table=tables)


@pytest.mark.gpu
def test_tensors_on_gpus():
    torch = pytest.importorskip("torch")
    if torch.cuda.device_count() < 2:
        pytest.skip("fewer than two GPUs")
    groups = group.local(2, "gpu")
    for name in ["float64", "float32", "float16", "bfloat16", "int64", "int32", "uint8"]:
        dtype = getattr(torch, name)
        tensors = [torch.full((1000, 7), r + 1, dtype=dtype, device=f"cuda:{r}") for r in (0, 1)]
        for g, x in zip(groups, tensors, strict=True):
            g.all_reduce(x)
        for r, (g, x) in enumerate(zip(groups, tensors, strict=True)):
            g.wait(torch.cuda.current_stream(r).cuda_stream)
            assert (x == 3).all().item()


@pytest.mark.gpu
def test_a_resident_group_takes_rare_types_when_they_come():
    torch = pytest.importorskip("torch")
    if torch.cuda.device_count() < 2:
        pytest.skip("fewer than two GPUs")
    names = ["float32", "float64", "float32", "uint8", "int64", "bfloat16"]

    def body(g):
        x = {name: torch.full((999,), g.rank + 1, dtype=getattr(torch, name)) for name in names}
        x = {name: one.to(f"cuda:{g.rank}") for name, one in x.items()}
        torch.cuda.synchronize(g.rank)
        with g.resident() as resident:
            for name in names:
                resident.all_reduce(x[name], "max")
            resident.wait()
        return [x[name].unique().tolist() for name in names]

    assert on_ranks(group.local(2, "gpu", timeout=60), body) == [[[2]] * len(names)] * 2


NETWORK_RANK = """
import sys
import numpy as np
from denizen import group
address, rank, ranks = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
g = group.join(address, rank, ranks, timeout=30, token="for this test")
x = np.full(1000, rank + 1, np.int32)
g.all_reduce(x)
print(g.engine, x.min(), x.max())
g.barrier()
"""


def free_address():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{one.getsockname()[1]}"


def test_processes_that_meet_over_the_network():
    address = free_address()
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", NETWORK_RANK, address, str(r), "3"], stdout=subprocess.PIPE
        )
        for r in range(3)
    ]
    for process in processes:
        out, _ = process.communicate(timeout=60)
        assert process.returncode == 0
        assert out.decode().split() == ["memory", "6", "6"]


TOKEN = "for this test"


def both_ranks(address_of):
    """Rank 0 and rank 1 on threads, and what became of them; they join at ``address_of[rank]``."""
    results = [None, None]

    def one(rank):
        try:
            g = group.join(address_of[rank], rank, 2, timeout=20, token=TOKEN)
            g.barrier()
            results[rank] = g
        except DenizenError as error:
            results[rank] = error

    threads = [threading.Thread(target=one, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return results


class Recorder:
    """A machine on the way to ``address``: passes on, and keeps, what either side says."""

    def __init__(self, address):
        self._host, port = address.removeprefix("tcp://").split(":")
        self._port = int(port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"tcp://127.0.0.1:{self._listener.getsockname()[1]}"
        self.said = {"rank 0": b"", "rank 1": b""}
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        line, _ = self._listener.accept()
        while True:  # ends when rank 0 listens
            try:
                on = socket.create_connection((self._host, self._port))
                break
            except ConnectionRefusedError:
                time.sleep(0.01)
        back = threading.Thread(target=self._pass, args=(on, line, "rank 0"), daemon=True)
        back.start()
        self._pass(line, on, "rank 1")
        back.join()

    def _pass(self, one, other, who):
        with contextlib.suppress(OSError):
            while data := one.recv(65536):
                self.said[who] += data
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)

    def close(self):
        self._listener.close()
        self._thread.join(20)


def test_the_token_never_crosses_the_network():
    address = free_address()
    with contextlib.closing(Recorder(address)) as between:
        results = both_ranks([address, between.address])
    assert [g.engine for g in results] == ["memory", "memory"]
    assert between.said["rank 1"] and between.said["rank 0"]
    for said in between.said.values():
        assert TOKEN.encode() not in said


def test_who_listens_first_is_not_believed():
    """What rank 0 once said is of no use to who says it again."""
    address = free_address()
    with contextlib.closing(Recorder(address)) as between:
        assert not isinstance(both_ranks([address, between.address])[1], Exception)
    listener = socket.create_server(("127.0.0.1", 0))
    heard = []

    def impostor():
        line, _ = listener.accept()
        with line:
            line.sendall(between.said["rank 0"])
            line.settimeout(20)
            heard.append(line.recv(65536))

    thread = threading.Thread(target=impostor)
    thread.start()
    with contextlib.closing(listener), pytest.raises(ArgumentError, match="has another token"):
        group.join(f"tcp://127.0.0.1:{listener.getsockname()[1]}", 1, 2, timeout=20, token=TOKEN)
    thread.join(30)
    assert heard and TOKEN.encode() not in heard[0]


def test_who_says_nothing_holds_up_nobody(tmp_path):
    path = str(tmp_path / "socket")
    ended = threading.Event()
    silent = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def come_first():
        while not ended.is_set():  # ends when rank 0 is there
            with contextlib.suppress(OSError):
                silent.connect(path)
                return
            time.sleep(0.001)

    results = [None, None]

    def one(rank):
        if rank == 1:
            thread.join(20)  # after the silent one
        try:
            g = group.join(path, rank, 2, timeout=10)
            g.barrier()
            results[rank] = g.engine
        except DenizenError as error:
            results[rank] = error

    thread = threading.Thread(target=come_first)
    thread.start()
    ranks = [threading.Thread(target=one, args=(rank,)) for rank in range(2)]
    for each in ranks:
        each.start()
    for each in ranks:
        each.join(60)
    ended.set()
    thread.join()
    with silent:
        assert results == ["memory", "memory"]


def test_the_network_is_refused(tmp_path):
    with pytest.raises(ArgumentError, match="needs a token"):
        group.join("tcp://127.0.0.1:1", 0, 2)
    with pytest.raises(ArgumentError, match="tcp://HOST:PORT"):
        group.join("tcp://nowhere", 0, 2, token="for this test")
    with pytest.raises(ArgumentError, match="is for GPUs"):
        group.join("tcp://127.0.0.1:1", 0, 2, engine="nccl", token="for this test")
    with pytest.raises(ArgumentError, match="meet over TCP"):
        group.join(tmp_path / "socket", 0, 2, "gpu:0", engine="nccl")
    with pytest.raises(ArgumentError, match="none of automatic, memory, nccl"):
        group.join(tmp_path / "socket", 0, 2, engine="mpi")
    with pytest.raises(DeadlineError, match="rank 1 of 2 did not come to tcp"):
        group.join(free_address(), 0, 2, token="for this test", timeout=0.2)


# A driver and an NCCL that are not there: see fake_nccl.cpp.
NCCL_RANK = """
import ctypes, os, sys
fake, address, rank = sys.argv[1], sys.argv[2], int(sys.argv[3])
os.environ["DENIZEN_NCCL"] = fake
ctypes.CDLL(fake, ctypes.RTLD_GLOBAL)
import numpy as np
from denizen import ArgumentError, DeadError, group

class OnFakeGpu:
    def __init__(self, array):
        self.array = array
        self.__cuda_array_interface__ = array.__array_interface__

g = group.join(address, rank, 2, f"gpu:{rank}", engine="nccl", token="for this test", timeout=2)
x = np.full(1000, rank + 1, np.float32)
g.all_reduce(OnFakeGpu(x))
g.wait()
print(g.engine, g.device, x.min(), x.max(), os.environ["NCCL_NVLS_ENABLE"], len(g.table))
try:
    g.resident()
except ArgumentError as error:
    print("no kernels that stay" in str(error))
if rank == 1:
    sys.exit()
try:
    g.all_reduce(OnFakeGpu(x))
    g.wait()
except DeadError as error:
    print("waited 2 s for the other ranks" in str(error))
"""


def test_nccl(tmp_path):
    """Through all of it, down to the library's entry points."""
    compiler = os.environ.get("CXX") or shutil.which("c++")
    if not compiler:
        pytest.skip("no C++ compiler")
    top = Path(__file__).parents[2]
    fake = tmp_path / "libfake.so"
    options = ["-std=c++20", "-shared", "-fPIC", "-pthread", "-Wl,-soname,libcuda.so.1"]
    sources = [top / "tests/group/fake_nccl.cpp", top / "tests/support/driver_stubs.cpp"]
    command = [
        compiler,
        *options,
        f"-I{top / 'include'}",
        f"-I{top / 'src'}",
        *map(str, sources),
        "-o",
        str(fake),
    ]
    command.append("-lrt")
    subprocess.run(command, check=True, timeout=60)
    address = free_address()
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", NCCL_RANK, str(fake), address, str(r)], stdout=subprocess.PIPE
        )
        for r in range(2)
    ]
    for rank, process in enumerate(processes):
        out, _ = process.communicate(timeout=60)
        assert process.returncode == 0
        lines = out.decode().splitlines()
        assert lines[0] == "nccl Fake GPU 3.0 3.0 0 0"
        assert lines[1:] == ["True"] * (2 - rank)


def test_what_goes_to_which_stream(monkeypatch):
    """0 is CUDA's default stream, on which PyTorch works unless it is told of another."""
    current = types.SimpleNamespace(cuda_stream=0)
    cuda = types.SimpleNamespace(current_stream=lambda device: current)
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(cuda=cuda))
    tensor = type("Tensor", (), {"__module__": "torch", "is_cuda": True, "device": "cuda:0"})()
    assert stream_of(tensor, None) == DEFAULT == 1  # cudaStreamLegacy
    current.cuda_stream = 4096
    assert stream_of(tensor, None) == 4096
    assert [stream_of(tensor, given) for given in (0, 4096)] == [DEFAULT, 4096]
    assert stream_of(np.zeros(1), None) == 0  # the group's own
