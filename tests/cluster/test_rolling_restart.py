# SPDX-License-Identifier: Apache-2.0
"""A changed program, host by host, under load."""

import os
import signal
import threading
import time

import numpy as np
import pytest

import denizen
from denizen import ArgumentError, Cluster, SnapshotError

U4 = np.uint32
# Each version counts by its own number, so who has handled how much is known.
TEXT = """
struct Sink {
    uint32_t next[4] = {};
    uint32_t count = 0, wrong = 0, by[4] = {};
    void on(const Number& m, auto& ctx) {
        if (m.value != next[m.source]) { ++wrong; }
        next[m.source] = m.value + 1;
        ++count;
        ++by[VERSION];
        if (m.more != 0) { ctx.reply(More{}); }
    }
    void on(const Look&, auto& ctx) { ctx.reply(Seen{count, wrong, by[1], by[2], VERSION}); }
};
struct Source {
    denizen::Address to{};
    uint32_t source = 0, sent = 0, halted = 0;
    MORE
    void on(const Go& m, auto& ctx) {
        to = m.to;
        source = m.source;
        for (uint32_t i = 0; i < m.window; ++i) { ctx.send(to, Number{source, sent++, 1}); }
    }
    void on(const More&, auto& ctx) {
        if (halted == 0) { ctx.send(to, Number{source, sent++, 1}); }
    }
    void on(const Halt&, auto&) { halted = 1; }
    void on(const Look&, auto& ctx) { ctx.reply(Seen{sent, 0, 0, 0, VERSION}); }
};
"""
OPTIONS = {"max_actors": 256}


def program(version, more="", window=U4, actors=("Sink", "Source")):
    seen = [(name, U4) for name in ("count", "wrong", "first", "second", "version")]
    return denizen.Program(
        TEXT.replace("VERSION", str(version)).replace("MORE", more),
        actors=list(actors),
        messages=[
            denizen.message("Number", [("source", U4), ("value", U4), ("more", U4)]),
            denizen.message("More"),
            denizen.message("Halt"),
            denizen.message("Look"),
            denizen.message("Seen", seen),
            denizen.message("Go", [("to", denizen.ADDRESS), ("window", window), ("source", U4)]),
        ],
        name=f"version {version}",
    )


def look(cluster, address):
    return cluster.ask(address, "Look", timeout=30.0)


@pytest.mark.parametrize("transport", ["rings", "tcp"])
def test_hosts_take_over_a_changed_program_in_turn_and_no_message_is_lost(
    transport, device, tmp_path
):
    """Each source sends to the sink of the next host, and a thread of this process to all."""
    with Cluster(program(1), 3, device=device, transport=transport, **OPTIONS) as cluster:
        sinks = [int(cluster.spawn("Sink", host=h)[0]) for h in range(3)]
        sources = [int(cluster.spawn("Source", host=h)[0]) for h in range(3)]
        ends = threading.Event()
        sent = [0] * 3
        wrong = []

        def pour():
            try:
                while not ends.is_set():  # ends with the test's restart
                    for h, sink in enumerate(sinks):
                        cluster.send(sink, "Number", source=3, value=sent[h], timeout=60.0)
                        sent[h] += 1
                    time.sleep(0.0005)
            except Exception as error:
                wrong.append(error)

        for h in range(3):
            cluster.send(sources[h], "Go", to=sinks[(h + 1) % 3], window=64, source=h)
        thread = threading.Thread(target=pour)
        thread.start()
        before = [h.pid for h in cluster.hosts]
        try:
            cluster.rolling_restart(program(2), tmp_path)
        finally:
            ends.set()
            thread.join()
        assert wrong == []
        assert [h.pid == pid for h, pid in zip(cluster.hosts, before, strict=True)] == [
            *(True, False, False)
        ]
        assert cluster.lost == {}
        for source in sources:
            cluster.send(source, "Halt")
        cluster.drain()
        for h, sink in enumerate(sinks):
            seen = look(cluster, sink)
            count = look(cluster, sources[(h + 2) % 3])["count"]
            assert (seen["count"], seen["wrong"]) == (count + sent[h], 0)
            assert (seen["first"] + seen["second"], seen["version"]) == (seen["count"], 2)
            assert min(seen["first"], seen["second"]) > 0
        for host, stats in cluster.stats().items():
            assert stats["dead_letters"] == stats["errors"] == 0
            for other, link in stats["links"].items():
                assert link["taken"] == cluster.stats()[other]["links"][host]["delivered"]
        # What was saved on the way has the new program's hosts, too.
        os.kill(cluster.hosts[1].pid, signal.SIGKILL)
        while 1 not in cluster.lost:  # ends: its links do
            time.sleep(0.01)
        (restart,) = cluster.restart_lost()
        assert all(n >= 0 for n in [*restart.received.values(), *restart.sent.values()])
        assert look(cluster, sinks[1])["version"] == 2


def test_a_program_that_does_not_agree_is_refused_and_the_old_one_goes_on(tmp_path):
    with Cluster(program(1), 2, **OPTIONS) as cluster:
        (sink,) = cluster.spawn("Sink", host=1)
        pids = [h.pid for h in cluster.hosts]
        with pytest.raises(ArgumentError, match=r"message Go has .*window"):
            cluster.rolling_restart(program(2, window=np.uint64), tmp_path)
        with pytest.raises(ArgumentError, match="actors are Sink, Source; those of version 2 are"):
            cluster.rolling_restart(program(2, actors=("Source", "Sink")), tmp_path)
        with pytest.raises(SnapshotError, match=r"host 1: .*its actor Source has 16 bytes"):
            cluster.rolling_restart(program(2, "uint32_t more = 0;"), tmp_path)
        cluster.send(sink, "Number", source=0, value=0)
        (source,) = cluster.spawn("Source", host=1)
        (home,) = cluster.spawn("Sink", host=0)
        cluster.send(source, "Halt")
        cluster.send(source, "Go", to=home, window=100, source=1)
        cluster.drain()
        assert [h.pid for h in cluster.hosts] == pids
        assert (look(cluster, sink)["count"], look(cluster, sink)["version"]) == (1, 1)
        assert (look(cluster, home)["count"], look(cluster, home)["wrong"]) == (100, 0)
        cluster.rolling_restart(program(2), tmp_path)
        assert (look(cluster, sink)["count"], look(cluster, sink)["version"]) == (1, 2)
