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
def cluster(request):
    with Cluster(program(), 4, transport=request.param, max_actors=256) as made:
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
