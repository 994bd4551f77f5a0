# SPDX-License-Identifier: Apache-2.0
"""Devices and options: what is out of range is refused with the range."""

import os
import re
import time

import numpy as np
import pytest
import sample

import denizen
from denizen import _core


@pytest.mark.parametrize("text", ["tpu", "cpu:", "cpu:x", "gpu:-1", "gpu:", "", "CPU", "cpu:2 "])
def test_devices_that_do_not_exist(text):
    with pytest.raises(denizen.ArgumentError, match='; use "auto", "cpu", "cpu:THREADS", "gpu"'):
        denizen.Runtime(sample.program(), text)


def test_a_device_without_threads():
    with pytest.raises(denizen.ArgumentError, match='"cpu:0" has no threads; use "cpu:1" or more'):
        denizen.Runtime(sample.program(), "cpu:0")
    with pytest.raises(denizen.ArgumentError, match="workers = 4096; use 1 to 2048"):
        denizen.Runtime(sample.program(), "cpu:4096")


def test_threads_given_twice():
    with pytest.raises(denizen.ArgumentError, match='"cpu:2" and workers = 3; give one of the two'):
        denizen.Runtime(sample.program(), "cpu:2", workers=3)
    with denizen.Runtime(sample.program(), "cpu:2", workers=2) as rt:
        assert rt.description["workers"] == 2
    with denizen.Runtime(sample.program(), "cpu", workers=3) as rt:
        assert rt.description["workers"] == 3


def test_workers_that_are_not_given_leave_the_caller_a_core():
    cores = len(os.sched_getaffinity(0))
    with denizen.Runtime(sample.program(), "cpu") as rt:
        assert rt.description["workers"] == max(1, cores - 1)
        assert f"each of {cores} cores but one" in rt.description["geometry"]
    with denizen.Runtime(sample.program(), "cpu:2") as rt:
        assert rt.description["geometry"] == "as given"


def test_a_gpu_that_is_not_there():
    with pytest.raises(denizen.DeviceError, match=r'there is no GPU 99: .*; use device="cpu"'):
        denizen.Runtime(sample.program(), "gpu:99")


def test_auto_takes_the_gpu_if_there_is_one():
    for device in ("auto", None):
        with denizen.Runtime(sample.program(), device) as rt:
            assert rt.description["on_gpu"] == (_core.gpu_count() > 0)
    with pytest.raises(denizen.ArgumentError, match='device 0; use "auto"'):
        denizen.Runtime(sample.program(), 0)
    assert (denizen.gpu_problem() == "") == (_core.gpu_count() > 0)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"workers": 0}, "workers = 0; use a whole number from 1"),
        ({"workers": -1}, "workers = -1; use a whole number from 1"),
        ({"workers": 1.5}, "workers = 1.5; use a whole number"),
        ({"workers": "2"}, "workers = '2'; use a whole number"),
        ({"workers": 2049}, "workers = 2049; use 1 to 2048"),
        ({"idle_ms": 0}, "idle_ms = 0; use a whole number from 1"),
        ({"sms": 0}, "sms = 0; use a whole number from 1"),
        ({"breath_us": -1}, "breath_us = -1; use a whole number from 0"),
        ({"breath_us": "long"}, "breath_us = 'long'; use a whole number from 0"),
        ({"breath_us": 1_000_001}, "breath = 1000001 us; use 1 to 1,000,000, or 0 for one kernel"),
        ({"host_ring_slots": 100}, "host_ring_slots = 100; use a power of two from 2 to 65536"),
        (
            {"host_ring_slots": 1 << 17},
            "host_ring_slots = 131072; use a power of two from 2 to 65536",
        ),
        (
            {"host_ring_slots": 2**32 + 256},
            "host_ring_slots = 4294967552; use a whole number from 0",
        ),
        ({"inbox_slots": 1}, "inbox_slots = 1; use a power of two from 2 to 65536"),
        ({"egress_slots": 3}, "egress_slots = 3; use a power of two from 2 to 1048576"),
        ({"asks": 0}, "asks = 0; use 1 to 65,536"),
        ({"asks": 65_537}, "asks = 65537; use 1 to 65,536"),
        ({"max_actors": 0}, "max_actors = 0 on .* workers; use 1 to 262,144 per worker"),
        ({"rings": 3}, 'no option is called "rings"; sizes are host_ring_slots, inbox_slots'),
    ],
)
def test_options_out_of_range(options, text):
    with pytest.raises(denizen.ArgumentError, match=text):
        denizen.Runtime(sample.program(), "cpu", **options)


@pytest.mark.gpu
def test_more_sms_than_the_gpu_has():
    _, _, _, sms, _ = _core.gpu_info(0)
    with pytest.raises(denizen.ArgumentError, match=rf"sms = {sms + 1}; .* has {sms}"):
        denizen.Runtime(sample.program(), "gpu", sms=sms + 1)


def test_the_smallest_sizes_work(device):
    workers = {"workers": 1} if device == "gpu" else {}
    smallest = {
        "host_ring_slots": 2, "inbox_slots": 2, "outbox_slots": 1, "egress_slots": 2, "asks": 1,
        "max_actors": 64,
    }  # fmt: skip
    with denizen.Runtime(sample.program(), device, **workers, **smallest) as rt:
        a, b = rt.spawn("Hopper", 2)
        rt.send(a, "Hop", to=int(b), left=200)
        rt.drain()
        assert int(rt.ask(a, "Ask")["sum"]) + int(rt.ask(b, "Ask")["sum"]) == 201
        (counter,) = rt.spawn("Counter")
        rt.send(counter, sample.BLOCK(words=np.ones(100, "u4")))
        assert rt.ask(counter, "Ask").tolist() == (100, 1)


def test_options_may_be_numpy_numbers():
    with denizen.Runtime(sample.program(), "cpu", workers=np.int64(2), asks=np.uint16(8)) as rt:
        assert rt.description["workers"] == 2


@pytest.mark.gpu
def test_messages_through_pinned_memory():
    with denizen.Runtime(sample.program(), "gpu", mapped=False) as rt:
        assert rt.description["host_ring_memory"] == "pinned"
        assert rt.description["why_not_mapped"] == "switched off"
        counters = rt.spawn("Counter", 1000)
        rt.send_many(np.tile(counters, 50), sample.ADD.zeros(50_000))
        rt.drain()
        assert set(rt.ask_many(counters, "Ask", "Total")["count"].tolist()) == {50}


def memory_of(device, **sizes):
    """Bytes that a program takes, all places together; it works."""
    with denizen.Runtime(sample.program(), device, **sizes) as rt:
        a, b = rt.spawn("Hopper", 2)
        rt.send(a, "Hop", to=int(b), left=20)
        rt.drain()
        assert int(rt.ask(a, "Ask")["sum"]) + int(rt.ask(b, "Ask")["sum"]) == 21
        return rt.description["device_bytes"] + rt.description["host_bytes"]


@pytest.mark.parametrize(
    ("name", "small", "large", "least"),
    [  # so many bytes more, for two workers, but for the page that all of it is rounded to
        ("near_slots", 64, 4096, 2 * 64 * 4032),
        ("urgent_slots", 64, 4096, 2 * 64 * 4032),
        ("stash_slots", 64, 4096, 2 * 64 * 4032),
        ("watch_slots", 64, 4096, 2 * 8 * 4032),
        ("trace_slots", 64, 4096, 2 * 64 * 4032),
    ],
)
def test_sizes_are_memory(name, small, large, least):
    taken = [memory_of("cpu:2", **{name: slots}) for slots in (small, large)]
    assert taken[1] - taken[0] > least - 4096


@pytest.mark.gpu
def test_many_workers_have_shorter_outboxes():
    # 1 MiB each for few workers, a quarter of it for 256.
    few = {"max_actors": 512, "state_bytes": 1 << 16}
    each = [memory_of("gpu", workers=n, **few) / n for n in (32, 256)]
    assert each[0] - each[1] > 1 << 19


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"near_slots": 8192}, "near_slots = 8192; use a power of two from 2 to 4096"),
        ({"urgent_slots": 3}, "urgent_slots = 3; use a power of two from 2 to 4096"),
        ({"stash_slots": 0}, "stash_slots = 0, watch_slots = 1024; use 1 to 1,048,576"),
        ({"watch_slots": 2**21}, "stash_slots = 2048, watch_slots = 2097152; use 1 to 1,048,576"),
        ({"trace_slots": 100}, "trace_slots = 100; use a power of two from 2 to 1048576"),
        ({"pool_bytes": -1}, "pool_bytes = -1; use a whole number from 0"),
        ({"pool_bytes": 2**48 + 1}, "pool_bytes = 281474976710657; use a whole number from 0"),
    ],
)
def test_sizes_out_of_range(options, text):
    with pytest.raises(denizen.ArgumentError, match=text):
        denizen.Runtime(sample.program(), "cpu", **options)


def test_stash_slots_are_what_a_paused_actor_can_gather(device):
    workers = {"workers": 1} if device == "gpu" else {}
    with denizen.Runtime(
        sample.program(), device, **workers, stash_slots=20, host_ring_slots=4
    ) as rt:
        (counter,) = rt.spawn("Counter")
        rt.pause(counter)
        sent = 0
        with pytest.raises(denizen.RingFullError):
            while True:  # ends when stash and host ring are full
                rt.send(counter, "Add", n=1, timeout=0.2)
                sent += 1
        assert rt.inspect(counter).stashed == rt.stats()["stashed"] == 20
        assert 20 < sent <= 20 + 32 + 4  # and the host ring, and what the worker has in hand
        rt.resume(counter)
        assert rt.ask(counter, "Ask", timeout=20)["count"] == sent


def test_pool_bytes_is_room_for_buffers_without_leaving_the_device(device):
    with denizen.Runtime(sample.program(), device, pool_bytes=2**20) as rt:
        buffers = [rt.buffer(2**18, "u1") for _ in range(20)]  # more than the pool had at first
        assert rt.buffers()["bytes"] == 20 * 2**18
        (counter,) = rt.spawn("Counter")
        rt.send(counter, "Add", n=1)
        assert rt.ask(counter, "Ask", timeout=20)["count"] == 1
        for buffer in buffers:
            buffer.close()


def test_a_breath():
    with denizen.Runtime(sample.program(), "cpu:2") as rt:
        assert rt.stats()["incarnations"] == 1
        assert set(rt.stats()["handover_ns"].values()) == {0}
    for none in (None, 0):
        with denizen.Runtime(sample.program(), "cpu:2", breath_us=none) as rt:
            assert rt.stats()["incarnations"] == 1
    with denizen.Runtime(sample.program(), "cpu:2", breath_us=100) as rt:
        (counter,) = rt.spawn("Counter")
        sent = 0
        until = time.monotonic() + 60
        while rt.stats()["handover_ns"]["count"] < 5 and time.monotonic() < until:
            rt.send(counter, "Add", n=1)
            sent += 1
        assert rt.ask(counter, "Ask").tolist() == (sent, sent)
        stats = rt.stats()
        times = stats["handover_ns"]
        assert stats["incarnations"] > times["count"] >= 5
        assert times["min"] <= times["mean"] <= times["max"]
        assert times["attempts"] >= times["count"]
        assert 0 < times["mean_leaving"] <= times["mean"]
        assert times["mean_asking"] > 0
        assert times["mean_carrying"] > 0


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (42, "42 is no program: give a denizen.Program, an actor or several"),
        (None, "None is no program"),
        ([], "an empty list is no program"),
        (int, "int is a class; decorate it with @denizen.actor"),
    ],
)
def test_what_is_no_program_is_refused_by_name(given, says):
    with pytest.raises(denizen.ArgumentError, match=re.escape(says)):
        denizen.Runtime(given, "cpu:1")
