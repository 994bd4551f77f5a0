# SPDX-License-Identifier: Apache-2.0
"""Snapshots of a whole cluster, and hosts that are started again from the last one."""

import json
import os
import signal

import numpy as np
import pytest
from waiting import until

import denizen
from denizen import ArgumentError, Cluster, HostLostError, SnapshotError

TEXT = """
struct Sink {
    uint32_t next[4] = {};
    uint32_t count = 0, wrong = 0, downs = 0, life = 0;
    void on(const Number& m, auto&) {
        if (m.value != next[m.source]) { ++wrong; }
        next[m.source] = m.value + 1;
        ++count;
    }
    void on(const Mind& m, auto& ctx) { ctx.watch(m.other); }
    void on(const Join&, auto& ctx) { ctx.subscribe("numbers"); }
    void on(const denizen::Down& m, auto&) { ++downs; life = m.life; }
    void on(const Look&, auto& ctx) { ctx.reply(Seen{count, wrong, downs, life}); }
};
struct Source {
    uint32_t sent = 0;
    void on(const Go& m, auto& ctx) {
        const uint32_t n = m.left < 64 ? m.left : 64;
        for (uint32_t i = 0; i < n; ++i) { ctx.send(m.to, Number{m.source, sent++}); }
        if (m.left != n) { ctx.send(ctx.self(), Go{m.to, m.left - n, m.source}); }
    }
    void on(const Look&, auto& ctx) { ctx.reply(Seen{sent, 0, 0, 0}); }
};
"""

U4 = np.uint32
RUNNING, STOPPED = (denizen.life.LIVES.index(n) for n in ("running", "stopped"))
OPTIONS = {"max_actors": 256, "dead_letter_slots": 1 << 16, "outbox_slots": 1 << 16}


def program():
    return denizen.Program(
        TEXT,
        actors=["Sink", "Source"],
        messages=[
            denizen.DOWN,
            denizen.message("Number", [("source", U4), ("value", U4)]),
            denizen.message("Mind", [("other", denizen.ADDRESS)]),
            denizen.message("Join"),
            denizen.message("Look"),
            denizen.message("Seen", [("count", U4), ("wrong", U4), ("downs", U4), ("life", U4)]),
            denizen.message("Go", [("to", denizen.ADDRESS), ("left", U4), ("source", U4)]),
        ],
        name="snapshots of a cluster",
    )


def look(cluster, address):
    return cluster.ask(address, "Look", timeout=30.0)


def kill(cluster, host):
    os.kill(cluster.hosts[host].pid, signal.SIGKILL)


@pytest.mark.parametrize("transport", ["rings", "tcp"])
def test_a_cluster_that_is_saved_under_load_goes_on_from_there(transport, device, tmp_path):
    """Each source sends to the sink of the next host; no number is lost or doubled."""
    count = 30_000
    path = tmp_path / "saved"
    with Cluster(program(), 3, device=device, transport=transport, **OPTIONS) as cluster:
        sinks = [int(cluster.spawn("Sink", host=h, name=f"sink {h}")[0]) for h in range(3)]
        sources = [int(cluster.spawn("Source", host=h)[0]) for h in range(3)]
        for h in range(3):
            cluster.send(sources[h], "Go", to=sinks[(h + 1) % 3], left=count, source=h)
        until(lambda: look(cluster, sinks[1])["count"] > 1000)
        cluster.save(path)
        cluster.drain()
        for sink in sinks:
            assert (look(cluster, sink)["count"], look(cluster, sink)["wrong"]) == (count, 0)
    with Cluster(program(), restore=path, transport=transport, **OPTIONS) as again:
        assert [again.find(f"sink {h}") for h in range(3)] == sinks
        again.drain()
        assert [int(look(again, s)["count"]) for s in sources] == [count] * 3
        for sink in sinks:
            assert (look(again, sink)["count"], look(again, sink)["wrong"]) == (count, 0)
        assert all(s["dead_letters"] == s["errors"] == 0 for s in again.stats().values())


@pytest.mark.parametrize("transport", ["rings", "tcp"])
def test_a_killed_host_is_started_again_and_every_message_is_accounted_for(
    transport, device, tmp_path
):
    with Cluster(program(), 3, device=device, transport=transport, **OPTIONS) as cluster:
        (sink,) = cluster.spawn("Sink", host=1)
        guards = [int(cluster.spawn("Sink", host=h)[0]) for h in (0, 2)]
        sources = [int(cluster.spawn("Source", host=h)[0]) for h in (0, 2)]
        (back,) = cluster.spawn("Source", host=1)
        (home,) = cluster.spawn("Sink", host=0)
        for guard in guards:
            cluster.send(guard, "Mind", other=sink)
        cluster.send(sink, "Join")
        for i, source in enumerate(sources):
            cluster.send(source, "Go", to=sink, left=500, source=i)
        cluster.send(back, "Go", to=home, left=70, source=3)
        cluster.drain()
        cluster.save(tmp_path)
        for i, source in enumerate(sources):  # the snapshot does not have these
            cluster.send(source, "Go", to=sink, left=300 + i, source=i)
        cluster.send(back, "Go", to=home, left=20, source=3)
        cluster.drain()
        assert look(cluster, sink)["count"] == 1601
        cluster.dead_letters()
        before = cluster.stats()
        for i, source in enumerate(sources):  # and of these some may arrive
            cluster.send(source, "Go", to=sink, left=2000, source=i)
        kill(cluster, 1)
        until(lambda: 1 in cluster.lost)
        for i, source in enumerate(sources):
            cluster.send(source, "Go", to=sink, left=100, source=i)
        cluster.drain()
        assert [int(look(cluster, g)["downs"]) for g in guards] == [1, 1]
        letters = cluster.dead_letters()
        stats = cluster.stats()
        (restart,) = cluster.restart_lost()
        assert cluster.restarts == [restart]
        assert restart.host == 1
        for host in (0, 2):
            link = stats[host]["links"][1]
            assert link["taken"] == link["acknowledged"] + link["lost"]
            lost = [d for d in letters[host] if d["type"] == "Number"]
            assert all(d["reason"] == "lost" for d in lost)
            sent = link["taken"] - before[host]["links"][1]["taken"]
            assert sent == 2100
            acknowledged = link["acknowledged"] - before[host]["links"][1]["acknowledged"]
            assert acknowledged + len(lost) == sent
            # Between the snapshot and `before`: 300 or 301 numbers, and what asked and answered.
            assert restart.received[host] >= acknowledged + 300 + (host == 2)
        assert restart.sent[0] >= 20

        assert cluster.lost == {}
        assert look(cluster, sink)["count"] == 1000
        assert look(cluster, back)["count"] == 70
        cluster.drain()  # what tells the guards may come behind what asks them
        assert [int(look(cluster, g)["downs"]) for g in guards] == [2, 2]
        assert {int(look(cluster, g)["life"]) for g in guards} == {RUNNING}
        assert look(cluster, home)["wrong"] == 0
        cluster.send(back, "Go", to=home, left=20, source=3)  # it does not know that it has
        cluster.drain()
        assert (look(cluster, home)["count"], look(cluster, home)["wrong"]) == (110, 1)
        assert cluster.publish("numbers", "Number", source=2, value=0) == 1
        cluster.drain()
        assert look(cluster, sink)["count"] == 1001
        stats = cluster.stats()
        for host in (0, 2):
            link, there = stats[host]["links"][1], stats[1]["links"][host]
            assert link["taken"] == there["delivered"] + there["refused"]
            assert there["taken"] == link["delivered"] + link["refused"]
        cluster.stop(sink)
        cluster.drain()
        assert {int(look(cluster, g)["life"]) for g in guards} == {STOPPED}


def test_hosts_that_are_killed_come_back_by_themselves(tmp_path):
    with Cluster(program(), 3, restart="snapshot", **OPTIONS) as cluster:
        sinks = [int(cluster.spawn("Sink", host=h)[0]) for h in range(3)]
        for host, sink in enumerate(sinks):
            cluster.send(sink, "Number", source=0, value=0)
            assert cluster.host_of(sink) == host
        cluster.drain()
        cluster.save(tmp_path)
        for times in (1, 2):
            kill(cluster, times)
            until(lambda n=times: len(cluster.restarts) == n)
            assert cluster.restarts[-1].host == times
            (source,) = cluster.spawn("Source", host=times)
            cluster.send(source, "Go", to=sinks[3 - times], left=10, source=times)
            cluster.drain()
        # Host 2 was killed after it had got its ten.
        assert [int(look(cluster, s)["count"]) for s in sinks] == [1, 11, 1]
        assert all(look(cluster, s)["wrong"] == 0 for s in sinks)
        assert cluster.restarts[1].received == {0: 0, 1: 10}


def _restart_from_a_file_that_is_cut(cluster, folder):
    file = next(folder.glob("*-host-1.dzs"))
    whole = file.read_bytes()
    try:
        file.write_bytes(whole[: len(whole) // 2])
        cluster.restart_lost()
    finally:
        file.write_bytes(whole)


def test_without_a_snapshot_nothing_is_started_again():
    with Cluster(program(), 2, **OPTIONS) as cluster:
        kill(cluster, 1)
        until(lambda: cluster.lost)
        with pytest.raises(ArgumentError, match="no snapshot of this cluster yet"):
            cluster.restart_lost()


def test_several_hosts_that_are_lost_at_once_are_started_again_together(tmp_path):
    with Cluster(program(), 3, **OPTIONS) as cluster:
        sinks = cluster.spawn("Sink", 3)
        cluster.save(tmp_path)
        kill(cluster, 1)
        kill(cluster, 2)
        until(lambda: len(cluster.lost) == 2)
        with pytest.raises(HostLostError):
            cluster.save(tmp_path)
        with pytest.raises(SnapshotError, match="host 1: "):
            _restart_from_a_file_that_is_cut(cluster, tmp_path)
        assert sorted(cluster.lost) == [1, 2]
        with pytest.raises(HostLostError):
            cluster.ask(sinks[1], "Look")
        assert [r.host for r in cluster.restart_lost()] == [1, 2]
        for sink in sinks:
            cluster.send(sink, "Mind", other=sinks[1])
        cluster.drain()
        cluster.stop(sinks[1])
        cluster.drain()
        lives = [int(look(cluster, s)["downs"]) for s in sinks if s != sinks[1]]
        assert lives == [1, 1]
        cluster.save(tmp_path)


INDEX = {
    "format": 1,
    "number": 1,
    "devices": ["cpu:1"],
    "files": [{"name": "1-host-0.dzs", "sha256": "0" * 64}],
}


@pytest.mark.parametrize(
    "index",
    [
        "[" * 100_000,
        "\xff",
        "[]",
        json.dumps({**INDEX, "number": None}),
        json.dumps({**INDEX, "number": "2"}),
        json.dumps({**INDEX, "devices": 1, "files": 2}),
        json.dumps({**INDEX, "devices": [3]}),
        json.dumps({**INDEX, "files": [[]]}),
        json.dumps({**INDEX, "files": [{"name": "../../passwd", "sha256": ""}]}),
        json.dumps({**INDEX, "files": [{"name": "1-host-0.dzs"}]}),
    ],
    ids=range(10),
)
def test_an_index_that_is_none_is_refused_by_name(index, tmp_path):
    (tmp_path / "cluster.json").write_text(index, "latin-1")
    with pytest.raises(SnapshotError, match=r"cluster\.json is damaged"):
        Cluster(program(), restore=tmp_path)


def test_a_fifo_is_no_host_s_file(tmp_path):
    (tmp_path / "cluster.json").write_text(json.dumps(INDEX))
    os.mkfifo(tmp_path / "1-host-0.dzs")
    with pytest.raises(SnapshotError, match=r"1-host-0\.dzs is not a file"):
        Cluster(program(), restore=tmp_path)


def test_a_snapshot_replaces_the_last_and_a_damaged_one_is_refused(tmp_path):
    path = tmp_path / "saved"
    with Cluster(program(), 2, **OPTIONS) as cluster:
        assert cluster.restart_lost() == []
        cluster.save(path)
        cluster.save(path)
    names = sorted(p.name for p in path.iterdir())
    assert names == ["2-host-0.dzs", "2-host-1.dzs", "cluster.json"]
    with pytest.raises(ArgumentError, match="3 hosts; the snapshot is of 2"):
        Cluster(program(), 3, restore=path)
    with pytest.raises(ArgumentError, match='restart = "always"'):
        Cluster(program(), 2, restart="always")
    with pytest.raises(SnapshotError, match="no snapshot of a cluster"):
        Cluster(program(), restore=tmp_path)
    with pytest.raises(SnapshotError, match=r"is of a host of a cluster"):
        denizen.Runtime(program(), "cpu:1", restore=path / "2-host-1.dzs", **OPTIONS)
    index = json.loads((path / "cluster.json").read_text())
    index["files"].reverse()
    (path / "cluster.json").write_text(json.dumps(index))
    with pytest.raises(SnapshotError, match="this is host 0 of 2"):
        Cluster(program(), restore=path, **OPTIONS)
    (path / "2-host-1.dzs").write_bytes(b"something else")
    with pytest.raises(SnapshotError, match="not the one that was saved"):
        Cluster(program(), restore=path, **OPTIONS)
