# SPDX-License-Identifier: Apache-2.0
"""The life of actors: pause, restart, drain, supervision, watches, dead letters."""

import numpy as np
import pytest

import denizen
from denizen.life import FAILED_DEADLINE, FAILED_INVARIANT, LIVES

WORK = denizen.message("Work", [("number", "u4"), ("fails", "u4")])
LOOK = denizen.message("Look")
SEEN = denizen.message("Seen", [("count", "u4"), ("disorder", "u4"), ("downs", "u4")])
KEEP = denizen.message("Keep")
SEND = denizen.message("Send", [("to", "u4"), ("count", "u4")])
TOIL = denizen.message("Toil", [("ns", "u8")])

TEXT = r"""
struct Worker {
    static constexpr bool can_fail = true;
    uint32_t count = 0;
    uint32_t next = 0;
    uint32_t disorder = 0;
    void on(const Work& m, auto& ctx) {
        ++count;
        disorder += m.number < next ? 1 : 0;
        next = m.number + 1;
        if (m.fails != 0) ctx.fail(m.fails);
    }
    void on(const Look&, auto& ctx) { ctx.reply(Seen{count, disorder, 0}); }
};

struct Saver {
    static constexpr auto restart_from = denizen::RestartFrom::snapshot;
    uint32_t count = 0;
    void on(const Work&, auto&) { ++count; }
    void on(const Keep&, auto& ctx) { ctx.checkpoint(); }
    void on(const Look&, auto& ctx) { ctx.reply(Seen{count, 0, 0}); }
};

struct Strict {
    static constexpr uint64_t deadline_ns = 50'000'000;
    uint32_t count = 0;
    bool invariant() const { return count < 3; }
    void on(const Work&, auto&) { ++count; }
    void on(const Toil& m, auto& ctx) {
        const uint64_t begin = ctx.now_ns();
        while (ctx.now_ns() - begin < m.ns) {}
    }
    void on(const Look&, auto& ctx) { ctx.reply(Seen{count, 0, 0}); }
};

struct Watcher {
    uint32_t downs = 0;
    void on(const Down&, auto&) { ++downs; }
    void on(const Send& m, auto& ctx) {
        for (uint32_t i = 0; i < m.count; ++i) ctx.send(denizen::Address{m.to}, Work{i, 0});
    }
    void on(const Look&, auto& ctx) { ctx.reply(Seen{0, 0, downs}); }
};
"""


@pytest.fixture(scope="module")
def plant():
    return denizen.Program(
        TEXT,
        actors=["Worker", "Saver", "Strict", "Watcher"],
        messages=[WORK, LOOK, SEEN, KEEP, SEND, TOIL, denizen.DOWN],
        name="plant",
    )


@pytest.fixture
def rt(plant, device):
    with denizen.Runtime(plant, device) as runtime:
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


def test_dead_letters(plant, device):
    with denizen.Runtime(plant, device, dead_letter_slots=8) as rt:
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
