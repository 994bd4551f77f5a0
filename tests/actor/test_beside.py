# SPDX-License-Identifier: Apache-2.0
"""Sharing the GPU: other libraries' kernels run beside a resident program, and a program that has
nothing to do leaves and comes back without losing a message."""

import threading
import time

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
        assert rt.description["workers"] == 16
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
