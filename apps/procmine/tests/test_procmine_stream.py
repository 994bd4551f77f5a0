# SPDX-License-Identifier: Apache-2.0
"""Mining as a stream: the end equals the log mined at once, for any order within the bound."""

import threading

import numpy as np
import pytest

import denizen
from denizen import procmine
from denizen.procmine import stream

DEVICES = ["cpu:1", "cpu:3", pytest.param("gpu", marks=pytest.mark.gpu)]


def reordered(log, bound, seed):
    """The log in an order of arrival in which no event is more than ``bound`` late."""
    delay = np.random.default_rng(seed).integers(0, bound, len(log))
    order = np.argsort(log.time + delay, kind="stable")
    return procmine.Log(
        "x", log.cases, log.activities, log.case[order], log.activity[order], log.time[order]
    )


@pytest.mark.parametrize("device", DEVICES)
def test_the_end_equals_the_log_mined_at_once(device):
    log = procmine.generate(30_000, activities=8, seed=2)
    # No two events of a case at one time: in another order they would be another path.
    found = stream.replay(log, device=device)
    assert found.differences(procmine.mine(log)) == []
    assert (found.events, found.late) == (len(log), 0)
    assert found.glances > 0


@pytest.mark.parametrize("device", DEVICES)
def test_events_out_of_order_within_the_bound(device):
    log = procmine.generate(12_000, activities=8, seed=5)
    bound = 3_600_000_000
    other = reordered(log, bound, seed=1)
    assert (np.diff(other.time) < 0).any()
    mined = procmine.mine(other)
    found = stream.replay(other, late=bound, device=device)
    assert found.differences(mined) == []
    assert found.late == 0
    # Without patience some come too late; they are counted and left out, and that is told.
    hasty = stream.replay(other, device=device)
    assert hasty.late > 0 and hasty.events == len(log) - hasty.late
    assert hasty.differences(mined) != []


def test_the_graph_while_it_grows():
    with stream.Stream(8, 4, late=10, device="cpu:2") as s:
        s.feed(np.array([0, 1], np.uint32), np.array([0, 0], np.uint32), np.array([100, 101]))
        s.flush()
        assert s.edges().starts.sum() == 0  # both may still be preceded
        s.feed(np.array([0, 0], np.uint32), np.array([2, 1], np.uint32), np.array([130, 125]))
        s.flush()
        assert s.edges().starts.tolist()[:3] == [1, 0, 0]  # of case 0; nothing woke case 1
        assert s.cases()["waiting"].tolist() == [2, 1, 0, 0]
        assert s.edges().count.size == 0
        s.finish()
        s.finish()  # harmless
        now = s.edges()
        assert (now.source.tolist(), now.to.tolist()) == ([0, 1], [1, 2])
        assert (now.mean.tolist(), now.least.tolist(), now.most.tolist()) == (
            [25, 5], [25, 5], [25, 5],
        )  # fmt: skip
        assert now.starts.tolist()[:3] == [2, 0, 0]
        assert now.ends.tolist()[:3] == [1, 0, 1]
        assert s.quantile([(0, 1), (2, 2)], 0.5) == pytest.approx([25, np.nan], nan_ok=True)
        with pytest.raises(denizen.ArgumentError, match="finished"):
            s.feed(np.zeros(1, np.uint32), np.zeros(1, np.uint32), np.zeros(1, np.int64))


def test_the_graph_is_read_by_another_thread_while_it_grows():
    log = procmine.generate(20_000, activities=8, seed=3)
    seen, ended = [], threading.Event()
    with stream.Stream(8, len(log.cases), device="cpu:2") as s:

        def watch():
            while not ended.is_set():
                seen.append(int(s.edges().count.sum()))

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            for part in np.array_split(np.arange(len(log)), 20):
                s.feed(log.case[part], log.activity[part], log.time[part])
            s.finish()
        finally:
            ended.set()
            watcher.join()
        mined = procmine.mine(log)
        assert seen == sorted(seen) and seen[-1] <= mined.edge_count.sum()
        assert s.edges().count.tolist() == mined.edge_count.tolist()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("late", [0, 3_600_000_000])
def test_many_activities(device, late):
    # More than 16 bits of a message hold, with too many pairs for a table of all of them.
    rng = np.random.default_rng(1)
    case = rng.integers(0, 300, 5_000)
    activity = np.where(rng.random(5_000) < 0.5, rng.integers(0, 70_000, 5_000), case % 7)
    log = procmine.from_columns(case, activity, np.arange(5_000) * 1_000_000)
    assert len(log.activities) > 2_000
    plenty = np.concatenate([log.activities, [f"x{i}" for i in range(70_000)]]).tolist()
    log = procmine.Log("x", log.cases, plenty, log.case, log.activity[::1] + 68_000, log.time)
    found = stream.replay(log, late=late, device=device, edges=10_000)
    assert found.differences(procmine.mine(log)) == []
    with pytest.raises(denizen.ExhaustedError, match="give edges="):
        stream.replay(log, late=late, device=device, edges=64)


def test_events_far_apart_and_before_1970():
    times = np.array([-(2**60), 0, 2**60, 2**61])
    for late in (0, 5):
        with stream.Stream(2, 1, late=late, device="cpu:1") as s:
            s.feed(np.zeros(4, np.uint32), np.array([0, 1, 0, 1], np.uint32), times)
            s.finish()
            now = s.edges()
            assert (now.least.tolist(), now.most.tolist()) == ([2**60, 2**60], [2**60, 2**60])
            assert (now.source.tolist(), now.count.tolist()) == ([0, 1], [2, 1])


def test_more_events_wait_than_there_is_room():
    case, activity = np.zeros(6, np.uint32), np.arange(6, dtype=np.uint32)
    with stream.Stream(6, 1, late=1000, waiting=2, device="cpu:1") as s:
        s.feed(case, activity, np.array([10, 20, 30, 40, 5, 50]))
        s.finish()
        (told,) = s.cases()
        assert (told["events"], told["late"], told["pushed_out"]) == (5, 1, 3)


def test_what_is_refused():
    for arguments in ((2**31, 1), (0, 1), (1, 0)):
        with pytest.raises(denizen.ArgumentError, match="activities"):
            stream.Stream(*arguments, device="cpu")
    with pytest.raises(denizen.ArgumentError, match="waiting = 0"):
        stream.Stream(2, 2, waiting=0, device="cpu")
    with stream.Stream(8, 2, device="cpu:1") as s:
        one = np.zeros(1, np.uint32)
        with pytest.raises(denizen.ArgumentError, match="out of range"):
            s.feed(one + 2, one, np.zeros(1, np.int64))
        with pytest.raises(denizen.ArgumentError, match="length"):
            s.feed(one, one, np.zeros(2, np.int64))


@pytest.mark.usefixtures("unoptimised")
def test_the_actors_compile_for_a_gpu():
    try:
        image = stream.program(16).compile_gpu(90)
    except denizen.CompileError as error:
        if "libnvrtc" not in str(error):
            raise
        pytest.skip(str(error).splitlines()[0])
    assert len(image.state_sizes) == 2
