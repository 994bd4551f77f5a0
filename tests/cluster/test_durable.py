# SPDX-License-Identifier: Apache-2.0
"""Durable actors: what they were sent since the snapshot is sent again after their host's end."""

import os
import signal
import time

import numpy as np
import pytest

import denizen
from denizen import ArgumentError, Cluster, RingFullError

U4 = np.uint32
TEXT = """
struct Account {
    uint32_t next[4] = {};
    uint32_t count = 0, wrong = 0;
    void on(const Number& m, auto&) {
        if (m.value != next[m.source]) { ++wrong; }
        next[m.source] = m.value + 1;
        ++count;
    }
    void on(const Look&, auto& ctx) { ctx.reply(Seen{count, wrong}); }
};
struct Sink {
    uint32_t count = 0;
    void on(const Number&, auto&) { ++count; }
    void on(const Look&, auto& ctx) { ctx.reply(Seen{count, 0}); }
};
struct Source {
    uint32_t sent = 0;
    void on(const Go& m, auto& ctx) {
        const uint32_t n = m.left < 64 ? m.left : 64;
        for (uint32_t i = 0; i < n; ++i) { ctx.send(m.to, Number{m.source, sent++}); }
        if (m.left != n) { ctx.send(ctx.self(), Go{m.to, m.left - n, m.source}); }
    }
    void on(const Look&, auto& ctx) { ctx.reply(Seen{sent, 0}); }
};
"""


def program(priority="data"):
    """Its Numbers are of that priority."""
    return denizen.Program(
        TEXT,
        actors=["Account", "Sink", "Source"],
        messages=[
            denizen.message("Number", [("source", U4), ("value", U4)], priority=priority),
            denizen.message("Look"),
            denizen.message("Seen", [("count", U4), ("wrong", U4)]),
            denizen.message("Go", [("to", denizen.ADDRESS), ("left", U4), ("source", U4)]),
        ],
        name="durable actors",
    )


PROGRAM = program()
OPTIONS = {"max_actors": 256, "dead_letter_slots": 1 << 16, "outbox_slots": 1 << 16}


def look(cluster, address):
    seen = cluster.ask(address, "Look", timeout=30.0)
    return int(seen["count"]), int(seen["wrong"])


def kill(cluster, host):
    os.kill(cluster.hosts[host].pid, signal.SIGKILL)
    end = time.monotonic() + 60
    while host not in cluster.lost:
        assert time.monotonic() < end
        time.sleep(0.005)


@pytest.mark.parametrize("transport", ["rings", "tcp"])
def test_what_was_acknowledged_since_the_snapshot_is_handled_again_once(
    transport, device, tmp_path
):
    """Twice: the log outlives a restart. Only what was not acknowledged is missing: it is lost."""
    how = {"device": device, "transport": transport, "durable": ["Account"]}
    with Cluster(PROGRAM, 3, **how, **OPTIONS) as cluster:
        (account,) = cluster.spawn("Account", host=1)
        (sink,) = cluster.spawn("Sink", host=1)
        sources = [int(cluster.spawn("Source", host=h)[0]) for h in (0, 2)]
        (other,) = cluster.spawn("Source", host=2)
        for i, source in enumerate(sources):
            cluster.send(source, "Go", to=account, left=100, source=i)
        cluster.send(other, "Go", to=sink, left=50, source=3)
        cluster.drain()
        cluster.save(tmp_path)
        for i, source in enumerate(sources):
            cluster.send(source, "Go", to=account, left=300 + i, source=i)
        cluster.send(other, "Go", to=sink, left=70, source=3)
        cluster.send(account, "Number", source=2, value=0)  # from this process
        cluster.drain()
        for turn in (1, 2):
            kill(cluster, 1)
            (restart,) = cluster.restart_lost()
            cluster.drain()
            assert look(cluster, account) == (100 + 100 + 300 + 301 + 1 + turn - 1, 0)
            assert look(cluster, sink) == (50, 0)
            assert restart.replayed[2] == 301 + 70
            assert restart.replayed[0] >= 301
            cluster.send(account, "Number", source=2, value=turn)  # goes behind all of them
            cluster.drain()
        # Under load: what is missing is dead letters, and no other.
        for i, source in enumerate(sources):
            cluster.send(source, "Go", to=account, left=40_000, source=i)
        time.sleep(0.003)  # or all of them have come
        kill(cluster, 1)
        cluster.drain()
        cluster.restart_lost()
        cluster.drain()
        stats = cluster.stats()
        assert stats[1]["errors"] == 0
        count, _ = look(cluster, account)
        sent = sum(look(cluster, s)[0] for s in sources)
        lost = sum(stats[h]["dead_letters"] for h in (0, 2))
        assert lost > 0
        assert count == sent + 3 - lost
        cluster.save(tmp_path)
        kill(cluster, 1)
        (restart,) = cluster.restart_lost()
        assert set(restart.replayed.values()) == {0}
        assert look(cluster, account)[0] == count


def test_urgent_messages_wait_for_the_log_of_a_host_that_comes_back(tmp_path):
    with Cluster(program("urgent"), 2, durable=["Account"], **OPTIONS) as cluster:
        (account,) = cluster.spawn("Account", host=1)
        (source,) = cluster.spawn("Source", host=0)
        cluster.save(tmp_path)
        cluster.send(source, "Go", to=account, left=60_000, source=0)
        cluster.drain()
        kill(cluster, 1)
        cluster.restart_lost()
        cluster.send(source, "Go", to=account, left=1000, source=0)  # the log is on its way
        cluster.drain()
        assert look(cluster, account) == (61_000, 0)


def test_a_log_that_is_full_holds_its_senders_back_until_the_cluster_is_saved(tmp_path):
    with Cluster(PROGRAM, 2, durable=["Account"], log_bytes=4096, **OPTIONS) as cluster:
        (account,) = cluster.spawn("Account", host=1)
        (source,) = cluster.spawn("Source", host=0)
        count = 3000
        cluster.send(source, "Go", to=account, left=count, source=0)
        with pytest.raises(RingFullError, match=r"log of what durable actors of host 1 .*\(4096 b"):
            for value in range(10_000):
                cluster.send(account, "Number", source=1, value=value, timeout=0.3)
        sent = value
        handled = cluster.stats()[1]["handled"]
        assert handled < count
        end = time.monotonic() + 60
        while cluster.stats()[1]["handled"] < count + sent:  # ends: each save lets some through
            assert time.monotonic() < end
            cluster.save(tmp_path)
        cluster.save(tmp_path)
        assert look(cluster, account) == (count + sent, 0)
        kill(cluster, 1)
        cluster.restart_lost()
        cluster.drain()
        assert look(cluster, account) == (count + sent, 0)


def test_durable_names_actor_types():
    with pytest.raises(ArgumentError, match='"Bank" is no actor type of durable actors'):
        Cluster(PROGRAM, 2, durable=["Bank"])
    with pytest.raises(ArgumentError, match="give a list of actor types"):
        Cluster(PROGRAM, 2, durable="Account")
    with pytest.raises(ArgumentError, match="log_bytes = 0"):
        Cluster(PROGRAM, 2, durable=["Account"], log_bytes=0, **OPTIONS)
