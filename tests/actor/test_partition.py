# SPDX-License-Identifier: Apache-2.0
"""A program in a partition of SMs runs there and nowhere else, and shares it with no other program
that has one."""

import re
import threading

import numpy as np
import pytest
import sample

import denizen

ADD = denizen.message("Add", [("n", "u4")])
ASK = denizen.message("Ask")
TOTAL = denizen.message("Total", [("sum", "u8"), ("count", "u4")])
WHERE = denizen.message("Where")
FILL = denizen.message("Fill", [("data", denizen.BUFFER), ("n", "u4")])
READ = denizen.message("Read", [("data", denizen.BUFFER)])
SMS = denizen.message("Sms", [("seen", "u4", (8,))])  # a bit for each

TEXT = r"""
__device__ inline uint32_t sm()
{
    uint32_t number;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(number));
    return number;
}
struct Counter {
    uint64_t sum = 0;
    uint32_t count = 0;
    Sms sms{};
    void on(const Add& m, auto&)
    {
        sum += m.n;
        ++count;
        sms.seen[sm() / 32] |= 1u << sm() % 32;
    }
    void on(const Ask&, auto& ctx) { ctx.reply(Total{sum, count}); }
    void on(const Where&, auto& ctx) { ctx.reply(sms); }
    void on(const Fill& m, auto& ctx)
    {
        auto words = ctx.template data<uint32_t>(m.data);
        for (uint32_t& word : words) word = m.n;
        ctx.reply(Total{0, static_cast<uint32_t>(words.size())});
    }
    void on(const Read& m, auto& ctx)
    {
        auto words = ctx.template data<uint32_t>(m.data);
        Total total{0, static_cast<uint32_t>(words.size())};
        for (const uint32_t word : words) total.sum += word;
        ctx.reply(total);
    }
};
"""


def program():
    messages = [ADD, ASK, TOTAL, WHERE, SMS, FILL, READ]
    return denizen.Program(TEXT, actors=["Counter"], messages=messages, name="partitioned")


def send_and_count(rt, rounds):
    """Sends to an actor of each worker; each message counts. Where they were handled."""
    counters = rt.spawn("Counter", rt.description["workers"])
    messages = ADD.zeros(counters.size)
    messages["n"] = np.arange(counters.size)
    for _ in range(rounds):
        rt.send_many(counters, messages)
        rt.drain(timeout=20)
    totals = rt.ask_many(counters, ASK(), TOTAL, timeout=20)
    assert (totals["count"] == rounds).all()
    assert (totals["sum"] == rounds * messages["n"].astype("u8")).all()
    seen = np.bitwise_or.reduce(rt.ask_many(counters, WHERE(), SMS, timeout=20)["seen"])
    return set(np.flatnonzero(np.unpackbits(seen.view("u1"), bitorder="little")).tolist())


def largest():
    """Of this GPU's partitions, and the smallest; skips the test where the driver has none."""
    try:
        denizen.Runtime(program(), "gpu", partition=10**6)
    except denizen.DeviceError as error:
        pytest.skip(str(error))
    except denizen.ArgumentError as error:
        found = re.fullmatch(
            r"partition = 1000000; SMs of .* are partitioned by (\d+): use a multiple of that, "
            r"at most (\d+)",
            str(error),
        )
        assert found, str(error)
        return int(found[2]), int(found[1])
    raise AssertionError("a GPU with a million SMs")


@pytest.mark.gpu
@pytest.mark.parametrize("breath_us", ["auto", 500, None])
def test_two_programs_side_by_side_share_no_sm(breath_us):
    _, least = largest()
    options = {"partition": 2 * least, "breath_us": breath_us}
    with (
        denizen.Runtime(program(), "gpu", **options) as one,
        denizen.Runtime(program(), "gpu", **options) as other,
    ):
        seen = {}

        def run(rt):
            seen[rt] = send_and_count(rt, 300)

        threads = [threading.Thread(target=run, args=(rt,)) for rt in (one, other)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert seen.keys() == {one, other}
        for rt in (one, other):
            assert least < len(seen[rt]) <= 2 * least
            assert rt.description["partition"] == 2 * least
            assert rt.stats()["errors"] == 0
            assert breath_us is None or rt.stats()["handover_ns"]["count"] > 0
        assert seen[one].isdisjoint(seen[other])


@pytest.mark.gpu
def test_clusters_are_as_large_as_without():
    _, least = largest()
    with denizen.Runtime(program(), "gpu", sms=2 * least) as rt:
        without = rt.description["cluster"]
    with denizen.Runtime(program(), "gpu", partition=2 * least) as rt:
        assert rt.description["cluster"] == without
        (first,) = rt.spawn("Counter")
        near = rt.spawn("Counter", near=int(first), how="cluster")
        rt.send_many(near, ADD.zeros(near.size))
        assert rt.ask(near[0], ASK(), timeout=20)["count"] == 1


@pytest.mark.gpu
def test_a_cluster_that_does_not_fit_is_refused_or_runs():
    _, least = largest()
    try:
        with denizen.Runtime(program(), "gpu", partition=2 * least, cluster=16, workers=16) as rt:
            send_and_count(rt, 3)
    except denizen.NoFitError as error:
        assert "in clusters of 16; use fewer workers or a smaller cluster" in str(error)


@pytest.mark.gpu
def test_workers_and_fewer_sms_in_a_partition():
    _, least = largest()
    with denizen.Runtime(program(), "gpu", partition=least, workers=least) as rt:
        assert rt.description["workers"] == least
        assert len(send_and_count(rt, 50)) <= least
    with denizen.Runtime(program(), "gpu", partition=2 * least, sms=1) as rt:
        assert len(send_and_count(rt, 3)) <= 2 * least
        assert rt.description["partition"] == 2 * least
    with pytest.raises(denizen.ArgumentError, match=rf"the partition has {least}: give it more"):
        denizen.Runtime(program(), "gpu", partition=least, sms=least + 1)


@pytest.mark.gpu
def test_a_partition_goes_back_with_its_program():
    most, least = largest()
    if most == least:
        pytest.skip("this GPU has one partition")
    with (
        denizen.Runtime(program(), "gpu", partition=least),
        pytest.raises(denizen.ExhaustedError, match=rf"this process leave {most - least}: use a"),
    ):
        denizen.Runtime(program(), "gpu", partition=most)
    for _ in range(3):
        with denizen.Runtime(program(), "gpu", partition=most) as rt:
            assert len(send_and_count(rt, 3)) <= most
    with pytest.raises(denizen.ArgumentError, match=f"use a multiple of that, at most {most}"):
        denizen.Runtime(program(), "gpu", partition=least + 1 if least > 1 else most + 1)


@pytest.mark.gpu
def test_memory_is_the_primary_contexts():
    """A program in a partition writes to PyTorch's memory, which PyTorch reads."""
    torch = pytest.importorskip("torch")
    _, least = largest()
    theirs = torch.zeros(1000, dtype=torch.int32, device="cuda")
    torch.cuda.synchronize()
    with (
        denizen.Runtime(program(), "gpu", partition=least) as rt,
        rt.wrap(theirs) as same,
    ):
        (counter,) = rt.spawn("Counter")
        assert rt.ask(counter, FILL(data=same, n=7), timeout=20)["count"] == 1000
        assert int(theirs.sum()) == 7000
        assert rt.ask(counter, READ(data=same), timeout=20).tolist() == (7000, 1000)


def test_cpu_threads_have_none():
    with denizen.Runtime(sample.program(), "cpu:1", partition=3) as rt:
        assert rt.description["partition"] == 0
    with pytest.raises(denizen.ArgumentError, match="partition = 0; use a whole number from 1"):
        denizen.Runtime(sample.program(), "cpu:1", partition=0)
