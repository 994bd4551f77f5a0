# SPDX-License-Identifier: Apache-2.0
"""Watches of actors on other hosts: they stop, fail or are restarted, or their host is lost."""

import os
import signal

import numpy as np
import pytest

import denizen
from denizen import Cluster
from denizen.life import FAILED_HOST, LIVES

TEXT = """
struct Worker {
    static constexpr bool can_fail = true;
    void on(const Break& m, auto& ctx) { ctx.fail(m.code); }
};
struct Guard {
    uint32_t downs = 0, actor = 0, life = 0, code = 0;
    void on(const Mind& m, auto& ctx) {
        if (m.end != 0) { ctx.unwatch(m.other); } else { ctx.watch(m.other); }
    }
    void on(const denizen::Down& m, auto&) {
        ++downs;
        actor = m.actor;
        life = m.life;
        code = m.code;
    }
    void on(const Look&, auto& ctx) { ctx.reply(Seen{downs, actor, life, code}); }
};
"""


def program():
    return denizen.Program(
        TEXT,
        actors=["Worker", "Guard"],
        messages=[
            denizen.DOWN,
            denizen.message("Break", [("code", np.uint32)]),
            denizen.message("Mind", [("other", denizen.ADDRESS), ("end", np.uint32)]),
            denizen.message("Look"),
            denizen.message(
                "Seen",
                [
                    ("downs", np.uint32),
                    ("actor", np.uint32),
                    ("life", np.uint32),
                    ("code", np.uint32),
                ],
            ),
        ],
        name="watches of a cluster",
    )


@pytest.fixture(params=["rings", "tcp"], scope="module")
def cluster(request, device):
    with Cluster(program(), 4, device=device, transport=request.param, max_actors=256) as made:
        yield made


def told(cluster, guard):
    seen = cluster.ask(guard, "Look", timeout=10.0)
    return int(seen["downs"]), int(seen["actor"]), LIVES[seen["life"]], int(seen["code"])


def test_a_handler_learns_that_an_actor_elsewhere_failed_is_restarted_and_stops(cluster):
    (guard,) = cluster.spawn("Guard", host=1)
    (worker,) = cluster.spawn("Worker", host=2)
    cluster.send(guard, "Mind", other=worker)
    cluster.drain()
    cluster.send(worker, "Break", code=17)
    cluster.drain()
    assert told(cluster, guard) == (1, worker, "failed", 17)
    cluster.restart(worker)
    cluster.drain()
    assert told(cluster, guard)[:3] == (2, worker, "running")
    cluster.stop(worker)
    cluster.drain()
    assert told(cluster, guard)[:3] == (3, worker, "stopped")
    cluster.send(guard, "Mind", other=worker)  # it has stopped already
    cluster.drain()
    assert told(cluster, guard)[:3] == (4, worker, "stopped")
    errors = {host: of_host["errors"] for host, of_host in cluster.stats().items()}
    assert errors == {0: 0, 1: 0, 2: 1, 3: 0}  # the message at which it failed


def test_who_no_longer_watches_is_not_told(cluster):
    (guard,) = cluster.spawn("Guard", host=0)
    (worker,) = cluster.spawn("Worker", host=2)
    cluster.send(guard, "Mind", other=worker)
    cluster.drain()
    cluster.send(guard, "Mind", other=worker, end=1)
    cluster.drain()
    cluster.stop(worker)
    cluster.drain()
    assert told(cluster, guard)[0] == 0


def test_the_address_is_the_same_where_both_are_on_one_host(cluster):
    guard, worker = (cluster.spawn(kind, host=1)[0] for kind in ("Guard", "Worker"))
    cluster.watch(guard, worker)
    cluster.stop(worker)
    cluster.drain()
    assert told(cluster, guard)[:3] == (1, worker, "stopped")


def test_this_process_watches_actors_of_every_host(cluster):
    for host in range(3):
        (worker,) = cluster.spawn("Worker", host=host)
        cluster.watch(denizen.HOST, worker)
        cluster.drain()
        cluster.stop(worker)
        got = cluster.receive(timeout=10.0)
        assert (got.type, got.message["actor"], got.sender) == ("Down", worker, worker)
    with pytest.raises(denizen.ArgumentError, match="no address of this cluster"):
        cluster.watch(denizen.HOST, 5)


def test_who_watches_learns_that_the_host_is_lost(cluster):
    """Host 3 is killed: a guard of each other host and this process are told."""
    workers = cluster.spawn("Worker", 2, host=3)
    guards = [cluster.spawn("Guard", host=h)[0] for h in range(3)]
    for guard in guards:
        cluster.send(guard, "Mind", other=workers[0])
    cluster.watch(denizen.HOST, workers[1])
    cluster.drain()
    cluster.send(guards[1], "Mind", other=workers[1])
    cluster.send(guards[1], "Mind", other=workers[1], end=1)
    cluster.drain()
    os.kill(cluster.hosts[3].pid, signal.SIGKILL)
    got = cluster.receive(timeout=10.0)
    assert (got.type, got.message["actor"]) == ("Down", workers[1])
    assert (LIVES[got.message["life"]], got.message["code"]) == ("stopped", FAILED_HOST)
    cluster.drain()
    for guard in guards:
        assert told(cluster, guard) == (1, workers[0], "stopped", FAILED_HOST)
    for guard in guards:  # and who begins now, at once
        cluster.send(guard, "Mind", other=workers[1])
    cluster.drain()
    for guard in guards:
        assert told(cluster, guard) == (2, workers[1], "stopped", FAILED_HOST)


SUPERVISED = """
struct Worker {
    static constexpr bool can_fail = true;
    uint32_t done = 0;
    void on(const Break& m, auto& ctx) {
        if (m.code != 0) { ctx.fail(m.code); } else { ++done; }
    }
    void on(const Look&, auto& ctx) { ctx.reply(Seen{done, 0}); }
};
struct Boss {
    uint32_t failed = 0, stopped = 0;
    void on(const Mind& m, auto& ctx) {
        if (m.verb == 0) { ctx.watch(m.other); }
        if (m.verb == 1) { ctx.pause(m.other); }
        if (m.verb == 2) { ctx.resume(m.other); }
        if (m.verb == 3) { ctx.stop(m.other); }
        if (m.verb == 4) { ctx.drain(m.other); }
    }
    void on(const denizen::Down& m, auto& ctx) {
        if (m.life == FAILED) {
            ++failed;
            if (m.code == 9) { ctx.fail(7); return; } // its own boss decides
            ctx.restart({m.actor});
        }
        if (m.life == STOPPED) { ++stopped; }
    }
    static constexpr bool can_fail = true;
    void on(const Look&, auto& ctx) { ctx.reply(Seen{failed, stopped}); }
};
"""


@pytest.mark.parametrize("transport", ["rings", "tcp"])
def test_supervision_spans_hosts(transport, device):
    """A boss on each of two hosts: one's child is elsewhere, and so is the boss above it."""
    text = SUPERVISED
    for life in ("failed", "stopped"):
        text = text.replace(life.upper(), str(LIVES.index(life)))
    supervised = denizen.Program(
        text,
        actors=["Worker", "Boss"],
        messages=[
            denizen.DOWN,
            denizen.message("Break", [("code", np.uint32)]),
            denizen.message("Mind", [("other", denizen.ADDRESS), ("verb", np.uint32)]),
            denizen.message("Look"),
            denizen.message("Seen", [("count", np.uint32), ("stopped", np.uint32)]),
        ],
        name="supervision of a cluster",
    )

    with Cluster(supervised, 3, device=device, transport=transport, max_actors=256) as cluster:
        (top,) = cluster.spawn("Boss", host=0)
        (boss,) = cluster.spawn("Boss", host=1)
        (worker,) = cluster.spawn("Worker", host=2)

        def mind(who, other, verb):
            cluster.send(who, "Mind", other=other, verb=verb)
            cluster.drain()

        def look(actor):
            seen = cluster.ask(actor, "Look", timeout=30.0)
            return int(seen["count"]), int(seen["stopped"])

        def work(code=0):
            cluster.send(worker, "Break", code=code)
            cluster.drain()

        mind(boss, worker, 0)
        mind(top, boss, 0)
        work()
        assert look(worker) == (1, 0)
        work(code=5)  # its boss restarts it
        assert (look(boss), look(worker)) == ((1, 0), (0, 0))
        work()
        work(code=9)  # its boss fails over it, and is restarted by the one above
        assert (look(top), look(boss)) == ((1, 0), (0, 0))
        cluster.restart(worker)
        mind(boss, worker, 1)
        cluster.send(worker, "Break", code=0)
        cluster.drain()
        mind(boss, worker, 2)
        assert look(worker) == (1, 0)
        mind(boss, worker, 4)
        assert look(boss)[1] == 1
        mind(boss, worker, 3)  # there is none any more
        mind(top, boss, 3)
        assert look(top) == (1, 1)
