# SPDX-License-Identifier: Apache-2.0
"""Sharing the GPU: other libraries' kernels run beside a resident program, and a program that has
nothing to do leaves and comes back without losing a message."""

import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import sample
from sample import ADD, TOTAL

import denizen
from denizen import _core

pytestmark = pytest.mark.gpu


def send_some(rt, counters, rounds=50):
    """Sends 1000 messages a round; returns how many."""
    for _ in range(rounds):
        messages = ADD.zeros(1000)
        messages["n"] = 1
        rt.send_many(counters[np.arange(1000) % len(counters)], messages)
    return 1000 * rounds


def count_beside(rt, work):
    """Runs `work` while a thread sends; every message must be handled all the same."""
    counters = rt.spawn("Counter", 64)
    sent = []
    stop = threading.Event()

    def stream():
        while not stop.is_set():
            sent.append(send_some(rt, counters, 5))

    thread = threading.Thread(target=stream)
    thread.start()
    try:
        work()
    finally:
        stop.set()
        thread.join()
    rt.drain()
    answers = rt.ask_many(counters, "Ask", TOTAL)
    assert sum(sent) > 0
    assert answers["sum"].sum() == answers["count"].sum() == sum(sent)


def test_sixteen_sms():
    with denizen.Runtime(sample.program(), "gpu", sms=16) as rt:
        assert rt.description["workers"] >= 15  # filled; the last place of all is the monitor's
        counters = rt.spawn("Counter", 64)
        sent = send_some(rt, counters)
        rt.drain()
        assert rt.ask_many(counters, "Ask", TOTAL)["count"].sum() == sent
    with denizen.Runtime(sample.program(), "gpu", sms=16, workers=64) as rt:
        assert rt.description["workers"] == 64
        counters = rt.spawn("Counter", 64)
        sent = send_some(rt, counters)
        rt.drain()
        assert rt.ask_many(counters, "Ask", TOTAL)["count"].sum() == sent


@pytest.mark.parametrize("options", [{"sms": 16}, {}], ids=["16 SMs", "default"])
def test_pytorch_on_its_own_stream(options):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("this PyTorch has no CUDA")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        # Everything that loads a kernel or takes memory, before the program is resident.
        a = torch.arange(1024 * 1024, device="cuda", dtype=torch.float64).reshape(1024, 1024)
        b = torch.eye(1024, device="cuda", dtype=torch.float64)
        out = torch.empty_like(a)
        host = torch.empty(1024, 1024, dtype=torch.float64, pin_memory=True)

        def work(rounds):
            for _ in range(rounds):
                torch.matmul(a, b, out=out)
                torch.add(out, 1.0, out=out)
            host.copy_(out, non_blocking=True)

        work(2)
    stream.synchronize()
    host.zero_()

    with denizen.Runtime(sample.program(), "gpu", **options) as rt:

        def beside():
            with torch.cuda.stream(stream):
                work(100)
            stream.synchronize()

        count_beside(rt, beside)
        expected = np.arange(1024 * 1024, dtype="f8").reshape(1024, 1024) + 1
        assert np.array_equal(host.numpy(), expected)
        assert rt.stats()["mode"] == "running"


def test_cupy_on_its_own_stream():
    cupy = pytest.importorskip("cupy")
    stream = cupy.cuda.Stream(non_blocking=True)
    kernel = cupy.ElementwiseKernel("uint64 x", "uint64 y", "y = 3 * x + 1", "three_x_plus_one")
    with stream:
        x = cupy.arange(1 << 20, dtype=cupy.uint64)
        y = cupy.empty_like(x)
        pinned = cupy.cuda.alloc_pinned_memory(x.nbytes)
        host = np.frombuffer(pinned, np.uint64, x.size)
        kernel(x, y)
        y.get(stream=stream, out=host)
    stream.synchronize()
    host[:] = 0

    with denizen.Runtime(sample.program(), "gpu", sms=16) as rt:

        def beside():
            with stream:
                for _ in range(200):
                    kernel(x, y)
                y.get(stream=stream, out=host)
            stream.synchronize()

        count_beside(rt, beside)
        assert np.array_equal(host, 3 * np.arange(1 << 20, dtype="u8") + 1)


# ---- programs that know nothing of it

# What each of these does first waits for the whole device: it runs in a process of its own, where
# CUDA has done nothing yet, after the runtime has started.
PYTORCH = {
    "first call": """
        x = torch.randn(1000, 1000, device="cuda")
        assert torch.isfinite(x).all().item() and x.std().item() > 0.9
    """,
    "synchronize": """
        x = torch.arange(1000, device="cuda")
        for _ in range(100):
            x = x + 1
            torch.cuda.synchronize()
        assert x.cpu().tolist() == list(range(100, 1100))
    """,
    "empty_cache": """
        for n in range(1, 21):
            x = torch.full((n << 20,), n, device="cuda", dtype=torch.int64)
            assert x.sum().item() == n * (n << 20)
            del x
            torch.cuda.empty_cache()
            assert torch.cuda.memory_reserved() == 0
    """,
    "pinned copies": """
        for n in range(20):
            host = torch.arange(1 << 20).pin_memory()
            x = host.to("cuda", non_blocking=True)
            assert torch.equal((x + n).cpu(), torch.arange(n, n + (1 << 20)))
    """,
    "graph": """
        x = torch.zeros(1000, device="cuda")
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                x += 1
        torch.cuda.current_stream().wait_stream(side)
        x.zero_()
        graphs = []
        for _ in range(5):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):  # in the mode that forbids others to ask the driver
                for _ in range(500):
                    x += 1
            graphs.append(graph)
        for graph in graphs:
            graph.replay()
        torch.cuda.synchronize()
        assert x.cpu().tolist() == [2500.0] * 1000
    """,
    "training": """
        torch.manual_seed(1)
        model = torch.nn.Sequential(
            torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1)
        ).cuda()
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
        x = torch.randn(4096, 64, device="cuda")
        y = x.sum(1, keepdim=True)
        losses = []
        for _ in range(200):
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        assert losses[-1] < 0.05 * losses[0], losses[::20]
    """,
}

BESIDE = """
import sys
sys.path.insert(0, {here!r})
import numpy as np
import torch
import denizen, sample
from test_beside import count_beside

def work():
{work}

with denizen.Runtime(sample.program(), "gpu", breath_us={breath_us}) as rt:
    count_beside(rt, work)
    assert rt.stats()["errors"] == 0
    assert rt.stats()["handover_ns"]["count"] > 0
print("done")
"""


@pytest.mark.parametrize("breath_us", [2000, 500])
@pytest.mark.parametrize("name", PYTORCH)
def test_pytorch_that_knows_nothing_of_it(name, breath_us):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("this PyTorch has no CUDA")
    work = textwrap.indent(textwrap.dedent(PYTORCH[name]), "    ")
    text = BESIDE.format(here=str(Path(__file__).parent), work=work, breath_us=repr(breath_us))
    ran = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=120, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[-1] == "done"


# ---- leaving the GPU and coming back


def wait_until_parked(rt):
    until = time.monotonic() + 10
    while not rt.parked and time.monotonic() < until:
        time.sleep(0.001)
    assert rt.parked


def test_idle_programs_leave_and_the_next_send_brings_them_back():
    with denizen.Runtime(sample.program(), "gpu", idle_ms=5) as rt:
        counters = rt.spawn("Counter", 200)
        for round in range(1, 31):
            wait_until_parked(rt)
            rt.send_many(counters, ADD.zeros(200))
            if round % 3 == 0:
                rt.drain()
            assert rt.ask(counters[round], "Ask", timeout=10)["count"] == round
        assert set(rt.ask_many(counters, "Ask", TOTAL)["count"].tolist()) == {30}
        assert rt.stats()["launches"] >= 31


def test_no_message_is_lost_around_the_edge():
    """Sends at every distance from the moment of leaving, by several threads."""
    with denizen.Runtime(sample.program(), "gpu", idle_ms=1) as rt:
        counters = rt.spawn("Counter", 16)
        rounds, threads = 300, 3
        failed = []

        def send(k):
            random = np.random.default_rng(k)
            try:
                for i in range(rounds):
                    rt.send(counters[(5 * k + i) % 16], "Add", n=1)
                    time.sleep(random.uniform(0, 0.004))
            except Exception as error:
                failed.append(error)

        pool = [threading.Thread(target=send, args=(k,)) for k in range(threads)]
        for t in pool:
            t.start()
        for t in pool:
            t.join()
        assert failed == []
        rt.drain(timeout=20)
        answers = rt.ask_many(counters, "Ask", TOTAL)
        assert answers["count"].sum() == answers["sum"].sum() == rounds * threads
        assert rt.stats()["launches"] > 1


def test_park_by_hand():
    with denizen.Runtime(sample.program(), "gpu") as rt:
        (counter,) = rt.spawn("Counter")
        rt.send(counter, "Add", n=4)
        rt.drain()
        assert not rt.parked
        rt.park()
        assert rt.parked
        launches = rt.stats()["launches"]
        assert rt.ask(counter, "Ask", timeout=10).tolist() == (4, 1)
        assert rt.stats()["launches"] == launches + 1
        rt.park()
        rt.park()
    assert rt.stats()["mode"] == "left"


def test_a_parked_program_closes():
    rt = denizen.Runtime(sample.program(), "gpu", idle_ms=1)
    (counter,) = rt.spawn("Counter")
    wait_until_parked(rt)
    rt.close()
    with pytest.raises(denizen.ClosedError):
        rt.ask(counter, "Ask")


@pytest.mark.parametrize("ordinal", [0, 1])
def test_gpus_by_number(ordinal):
    if _core.gpu_count() <= ordinal:
        pytest.skip(f"there is no GPU {ordinal}")
    with denizen.Runtime(sample.program(), f"gpu:{ordinal}") as rt:
        assert rt.description["device"] == _core.gpu_info(ordinal)[0]
        (counter,) = rt.spawn("Counter")
        rt.send(counter, "Add", n=1)
        assert rt.ask(counter, "Ask").tolist() == (1, 1)
