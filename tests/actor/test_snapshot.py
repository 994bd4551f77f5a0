# SPDX-License-Identifier: Apache-2.0
"""Snapshots of programs and actors, and actors that move, from Python."""

import fcntl
import os
import threading

import pytest
import sample

import denizen


def test_a_program_goes_on_from_its_snapshot(device, tmp_path):
    path = tmp_path / "state.dzs"
    with denizen.Runtime(sample.program(), device) as rt:
        counters = rt.spawn("Counter", 100)
        for n, address in enumerate(counters):
            rt.send(address, "Add", n=n)
        rt.save(path)
        rt.send(counters[0], "Add", n=1000)
        assert rt.ask(counters[0], "Ask")["sum"] == 1000
    with denizen.Runtime(sample.program(), device, restore=path) as rt:
        replies = rt.ask_many(counters, "Ask", reply="Total")
        assert replies["sum"].tolist() == list(range(100))
        (another,) = rt.spawn("Counter", 1)
        assert another not in counters


def test_lengths_of_rings_come_from_the_snapshot(device, tmp_path):
    path = tmp_path / "state.dzs"
    with denizen.Runtime(sample.program(), device, inbox_slots=512, outbox_slots=1024) as rt:
        (counter,) = rt.spawn("Counter")
        rt.send(counter, "Add", n=7)
        rt.save(path)
    with denizen.Runtime(sample.program(), device, restore=path) as rt:
        assert rt.ask(counter, "Ask")["sum"] == 7
    with pytest.raises(denizen.SnapshotError, match="outbox_slots is 1024 in it, 4096 here"):
        denizen.Runtime(sample.program(), device, outbox_slots=4096, restore=path)


def test_a_snapshot_under_load_holds_what_had_been_sent(device, tmp_path):
    path = tmp_path / "state.dzs"
    sent = 0
    over = threading.Event()

    with denizen.Runtime(sample.program(), device) as rt:
        (counter,) = rt.spawn("Counter")

        def send():
            nonlocal sent
            while not over.is_set():
                rt.send(counter, "Add", n=1)
                sent += 1

        sender = threading.Thread(target=send)
        sender.start()
        while sent < 100:
            pass
        least = sent
        rt.save(str(path))
        most = sent + 1
        over.set()
        sender.join()
        assert rt.ask(counter, "Ask")["sum"] == sent
    with denizen.Runtime(sample.program(), device, restore=path) as rt:
        rt.drain()
        assert least <= rt.ask(counter, "Ask")["sum"] <= most


def test_one_actor(device, tmp_path):
    path = tmp_path / "counter.dzs"
    with denizen.Runtime(sample.program(), device) as rt:
        one, two = rt.spawn("Counter", 2)
        rt.send(one, "Add", n=7)
        rt.drain()
        rt.save_actor(one, path)
        rt.load_actor(two, path)
        assert rt.ask(two, "Ask")["sum"] == 7
        (hopper,) = rt.spawn("Hopper")
        with pytest.raises(denizen.SnapshotError, match="is of an actor Counter"):
            rt.load_actor(hopper, path)


def test_a_file_that_is_no_snapshot_of_this_program_is_refused_by_name(device, tmp_path):
    path = tmp_path / "state.dzs"
    with denizen.Runtime(sample.program(), device, asks=64) as rt:
        rt.spawn("Counter", 3)
        rt.save(path)
    with pytest.raises(denizen.SnapshotError, match="asks is 64 in it, 128 here"):
        denizen.Runtime(sample.program(), device, asks=128, restore=path)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(denizen.SnapshotError, match=r"state\.dzs.*is altered"):
        denizen.Runtime(sample.program(), device, asks=64, restore=path)
    path.write_bytes(content[:100])
    with pytest.raises(denizen.SnapshotError, match=r"is truncated: 100 of \d+ bytes"):
        denizen.Runtime(sample.program(), device, asks=64, restore=path)
    with pytest.raises(denizen.SnapshotError, match="cannot be opened: No such file"):
        denizen.Runtime(sample.program(), device, restore=tmp_path / "none")


def test_an_actor_moves_and_keeps_its_address(device):
    with denizen.Runtime(sample.program(), device) as rt:
        workers = rt.description["workers"]
        (counter,) = rt.spawn("Counter")
        for worker in (1, 0, workers - 1, 0):
            rt.send(counter, "Add", n=1)
            rt.migrate(counter, worker=worker % workers)
        assert rt.ask(counter, "Ask")["sum"] == 4
        with pytest.raises(denizen.ArgumentError, match=f"worker {workers} of node 0"):
            rt.migrate(counter, worker=workers)
        with pytest.raises(denizen.ArgumentError, match="to where"):
            rt.migrate(counter)
        with pytest.raises(denizen.NoActorError):
            rt.migrate(counter + 5, worker=0)


def test_an_actor_moves_to_another_node_and_back():
    with denizen.Runtime(sample.program(), "cpu:2x2") as rt:
        (counter,) = rt.spawn("Counter")
        for node in (1, 0, 1):
            rt.send(counter, "Add", n=1)
            rt.migrate(counter, node=node)
        assert rt.ask(counter, "Ask")["sum"] == 3


def test_only_a_plain_file_with_a_whole_name_is_a_snapshot(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(denizen.SnapshotError, match='fifo" is not a file'):
        denizen.Runtime(sample.program(), "cpu:1", restore=tmp_path / "fifo")
    nul = pytest.raises(denizen.ArgumentError, match="has a NUL in its name")
    with denizen.Runtime(sample.program(), "cpu:1") as rt, nul:
        rt.save(f"{tmp_path}/a\0b")
    assert [p.name for p in tmp_path.iterdir()] == ["fifo"]


def test_what_is_there_and_not_a_file_stays(tmp_path):
    """Of a user who may replace a device as well as of one who may not."""
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("fifo")
    before = {p: p.lstat().st_ino for p in tmp_path.iterdir()}
    with denizen.Runtime(sample.program(), "cpu:1") as rt:
        (counter,) = rt.spawn("Counter")
        for place in before:
            with pytest.raises(denizen.ArgumentError, match="what is there is not a file"):
                rt.save(place)
            with pytest.raises(denizen.ArgumentError, match="what is there is not a file"):
                rt.save_actor(counter, place)
        rt.save(os.fsencode(tmp_path / "state.dzs"))
    assert {p: p.lstat().st_ino for p in before} == before
    denizen.Runtime(sample.program(), "cpu:1", restore=tmp_path / "state.dzs").close()


@pytest.mark.parametrize("path", ["", 5, None, "half\ud800"], ids=repr)
def test_what_is_no_path(path):
    with denizen.Runtime(sample.program(), "cpu:1") as rt:
        (counter,) = rt.spawn("Counter")
        for call in (
            lambda: rt.save(path),
            lambda: rt.save_actor(counter, path),
            lambda: rt.load_actor(counter, path),
        ):
            with pytest.raises(denizen.ArgumentError, match=r"^path "):
                call()
    if path is not None:
        with pytest.raises(denizen.ArgumentError, match=r"^restore "):
            denizen.Runtime(sample.program(), "cpu:1", restore=path)


def test_a_save_waits_for_another_until_its_time_out(tmp_path):
    path = tmp_path / "state.dzs"
    with denizen.Runtime(sample.program(), "cpu:1") as rt, open(f"{path}.part", "w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(denizen.DeadlineError, match=r"another process is writing it"):
            rt.save(path, timeout=1)
        assert not path.exists()
    with denizen.Runtime(sample.program(), "cpu:1") as rt:
        rt.save(path)
    assert [p.name for p in tmp_path.iterdir()] == ["state.dzs"]
