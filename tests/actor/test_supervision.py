# SPDX-License-Identifier: Apache-2.0
"""The life of actors: pause, restart, drain, supervision, watches, dead letters."""

from functools import partial

import numpy as np
import plant
import plant_handlers
import pytest
from backends import BOTH, begin, choose
from plant import SEEN, WORK

import denizen
from denizen.life import FAILED_DEADLINE, FAILED_INVARIANT, LIVES


@pytest.fixture(params=BOTH)
def both(request):
    return request.param


@pytest.fixture
def start(both):
    """Starts the plant, with options."""
    program, where = choose(both, plant.program, plant_handlers.program)
    return partial(begin, program(), where)


@pytest.fixture
def rt(start):
    with start() as runtime:
        yield runtime


def work(first, count, fails=0):
    notes = WORK.zeros(count)
    notes["number"] = np.arange(first, first + count)
    notes["fails"] = fails
    return notes


def look(rt, address):
    return rt.ask(address, "Look", timeout=20)


def test_a_paused_actor_keeps_its_messages(rt):
    a, b = rt.spawn("Worker", 2)
    assert rt.inspect(a) == denizen.ActorStatus("running", 1, 0, 0, None)
    rt.pause(a)
    rt.send_many(a, work(0, 50))
    rt.send_many(b, work(0, 5))
    rt.drain()
    assert rt.state(a) == "paused"
    assert rt.inspect(a).stashed == rt.stats()["stashed"] == 50
    assert look(rt, b)["count"] == 5
    rt.resume(a)
    rt.send_many(a, work(50, 5))
    assert look(rt, a).tolist() == (55, 0, 0)
    assert rt.state(a) == "running"
    assert rt.stats()["dead_letters"] == 0
    with pytest.raises(denizen.NoActorError):
        rt.state(5000)


def test_restart_and_checkpoint(rt):
    (worker,) = rt.spawn("Worker")
    (saver,) = rt.spawn("Saver")
    rt.send_many([worker, saver], work(0, 2))
    rt.checkpoint(saver)
    rt.send_many([worker, saver], work(1, 2))
    rt.drain()
    rt.restart(worker)
    rt.restart(saver)
    assert look(rt, worker)["count"] == 0
    assert look(rt, saver)["count"] == 1
    assert rt.inspect(saver).incarnation == 2
    rt.send(saver, "Keep")
    with pytest.raises(denizen.ArgumentError, match="keeps no checkpoint; its type declares"):
        rt.checkpoint(worker)


def test_drain_comes_behind_what_was_sent(rt):
    (worker,) = rt.spawn("Worker")
    (sender,) = rt.spawn("Watcher")
    rt.send(sender, "Send", to=int(worker), count=200)
    look(rt, sender)
    rt.stop(worker, drain=True, timeout=20)
    assert rt.state(worker) == "stopped"
    assert rt.stats()["dead_letters"] == 0
    with pytest.raises(denizen.NoActorError):
        rt.send(worker, "Work")


@pytest.mark.parametrize(
    ("strategy", "incarnations"),
    [
        ("one_for_one", [1, 2, 1, 1]),
        ("one_for_all", [2, 2, 2, 2]),
        ("rest_for_one", [1, 2, 2, 2]),
        ("resume", [1, 1, 1, 1]),
    ],
)
def test_strategies(rt, strategy, incarnations):
    children = rt.spawn("Worker", 4)
    supervisor = rt.supervise(children, strategy)
    assert rt.inspect(children[1]).supervisor == supervisor
    rt.send(children[1], "Work", fails=7)
    rt.drain()
    assert [rt.inspect(c).incarnation for c in children] == incarnations
    assert {rt.state(c) for c in children} == {"running"}
    assert rt.inspect(children[1]).failure == 7
    assert rt.stats()["dead_letters_by_reason"]["failed"] == 1


def test_escalation(rt):
    a = rt.spawn("Worker", 2)
    b = rt.spawn("Worker", 2)
    inner = [rt.supervise(c, max_restarts=0) for c in (a, b)]
    outer = rt.supervise(inner, max_restarts=1, window=3600)
    rt.send(a[0], "Work", fails=1)
    rt.drain()
    assert [rt.inspect(c).incarnation for c in (*a, *b)] == [2, 2, 1, 1]
    rt.send(b[0], "Work", fails=1)
    rt.drain()
    assert {rt.state(c) for c in (*a, *b)} == {"stopped"}
    assert rt.state(outer) == "failed"


def test_deadline_and_invariant(rt):
    actors = rt.spawn("Strict", 2)
    rt.supervise(actors)
    rt.send(actors[0], "Toil", ns=100_000_000)
    rt.send_many(actors[1], work(0, 3))
    rt.drain()
    assert rt.inspect(actors[0]).failure == FAILED_DEADLINE
    assert rt.inspect(actors[1]).failure == FAILED_INVARIANT
    assert [look(rt, a)["count"] for a in actors] == [0, 0]


def test_without_a_supervisor_a_failure_is_final(rt):
    (a,) = rt.spawn("Worker")
    rt.send(a, "Work", number=0, fails=9)
    rt.send_many(a, work(1, 2))
    rt.drain()
    assert rt.state(a) == "failed"
    dead = rt.dead_letters()
    assert [(d.reason, d.code, d.type) for d in dead] == [("failed", 9, "Work")] * 3
    with pytest.raises(denizen.FailedError, match="has failed with code 9; restart or resume it"):
        rt.pause(a)
    rt.restart(a)
    assert look(rt, a)["count"] == 0


def test_watchers(rt):
    (a,) = rt.spawn("Worker")
    (watcher,) = rt.spawn("Watcher")
    rt.watch(watcher, a)
    rt.watch(denizen.HOST, a)
    rt.send(a, "Work", fails=3)
    rt.drain()
    assert look(rt, watcher)["downs"] == 1
    down = rt.receive(timeout=20)
    assert (down.type, down.sender) == ("Down", a)
    assert LIVES[down.message["life"]] == "failed"
    assert down.message["code"] == 3
    rt.unwatch(watcher, a)
    rt.restart(a)
    rt.drain()
    assert look(rt, watcher)["downs"] == 1
    assert LIVES[rt.receive(timeout=20).message["life"]] == "running"
    with pytest.raises(denizen.MessageError, match="no handler for Down"):
        rt.watch(a, watcher)


def test_dead_letters(start):
    with start(dead_letter_slots=8) as rt:
        (a,) = rt.spawn("Worker")
        (sender,) = rt.spawn("Watcher")
        rt.stop(a)
        rt.send(sender, "Send", to=int(a), count=3)
        rt.drain()
        dead = rt.dead_letters()
        assert dead.lost == 0
        assert len(dead) == 3
        first = dead[0]
        assert (first.reason, first.type, first.length) == ("stopped", "Work", 8)
        assert (first.sender, first.destination) == (sender, a)
        assert [np.frombuffer(d.payload, WORK.dtype)["number"][0] for d in dead] == [0, 1, 2]
        assert first.text.startswith("Work to actor")
        assert first.text.endswith("it has stopped")
        rt.send(sender, "Send", to=int(a), count=20)
        rt.drain()
        dead = rt.dead_letters()
        assert [np.frombuffer(d.payload, "u4")[0] for d in dead] == list(range(12, 20))
        assert dead.lost == 12
        assert rt.stats()["dead_letters_by_reason"]["stopped"] == 23


def test_arguments(rt):
    with pytest.raises(denizen.ArgumentError, match='strategy "never"; use one_for_one, '):
        rt.supervise(rt.spawn("Worker", 2), "never")
    with pytest.raises(denizen.ArgumentError, match="0 children; give 1"):
        rt.supervise([])
    with pytest.raises(denizen.ArgumentError, match="max_restarts = 5000; use 0 to 4096"):
        rt.supervise(rt.spawn("Worker"), max_restarts=5000)


def test_every_message_is_accounted_for(rt):
    rng = np.random.default_rng(1)
    children = rt.spawn("Worker", 20)
    rt.supervise(children, "resume")
    n = 20_000
    messages = work(0, n)
    messages["fails"] = rng.random(n) < 0.01
    rt.send_many(rng.choice(children, n), messages)
    rt.drain()
    failed = int(np.count_nonzero(messages["fails"]))
    answers = rt.ask_many(children, "Look", SEEN)
    assert answers["count"].sum() == n  # failed ones too: they count before they fail
    assert answers["disorder"].sum() == 0
    assert rt.stats()["dead_letters"] == failed
    assert {d.reason for d in rt.dead_letters()} == {"failed"}
