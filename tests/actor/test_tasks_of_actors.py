# SPDX-License-Identifier: Apache-2.0
"""Tasks that handlers spawn, in a program of actors: in Python on every backend, and C++ text."""

import numpy as np
import pytest
from backends import HANDLERS, begin

import denizen

ADDED = 40


@denizen.message
class Begin:
    pieces: np.uint32


@denizen.message
class Grow:
    depth: np.uint32


@denizen.message
class Bad:
    code: np.uint32


@denizen.message
class Found:
    value: np.uint64


@denizen.message
class Hatch:
    pass


@denizen.message
class Ask:
    pass


@denizen.message
class Total:
    sum: np.uint64
    found: np.uint32
    failed: np.uint32
    code: np.uint32
    task: np.uint32


@denizen.actor
class Chick:
    at: np.uint32

    def on_found(self, m: Found, ctx):
        ctx.send(ctx.sender, Found(m.value + self.at))


def square(n):
    return n * n


@denizen.task
class Square:
    n: np.uint32
    more: np.float64 = 0.25
    LIMIT = 1000

    def run(self, ctx):
        if self.n < self.LIMIT:
            ctx.reply(Found(square(self.n) + int(self.more * 4)))


@denizen.task
class Branch:
    depth: np.uint32
    path: (np.uint8, 8)

    def run(self, ctx):
        if self.depth == 0:
            ctx.send(ctx.self, Found(1))
            return
        for i in range(2):
            child = Branch(self.depth - 1)
            child.path[0] = i
            if not ctx.spawn(child):
                ctx.reply(Found(1_000_000))


@denizen.task
class Breaks:
    code: np.uint32

    def run(self, ctx):
        ctx.fail(self.code)


@denizen.task
class Egg:
    at: np.uint32

    def run(self, ctx):
        ctx.send(ctx.spawn(Chick(self.at)), Found(2))


@denizen.actor
class Boss:
    sum: np.uint64
    found: np.uint32
    failed: np.uint32
    code: np.uint32
    task: np.uint32

    def on_begin(self, m: Begin, ctx):
        for i in range(m.pieces):
            if not ctx.spawn(Square(i)):
                ctx.fail(1)

    def on_grow(self, m: Grow, ctx):
        ctx.spawn(Branch(m.depth))

    def on_bad(self, m: Bad, ctx):
        ctx.spawn(Breaks(m.code))

    def on_hatch(self, m: Hatch, ctx):
        ctx.spawn(Egg(40))

    def on_found(self, m: Found):
        self.sum += m.value
        self.found += 1

    def on_failed(self, m: denizen.TASK_FAILED):
        self.failed += 1
        self.code = m.code
        self.task = m.task

    def on_ask(self, m: Ask, ctx):
        ctx.reply(Total(self.sum, self.found, self.failed, self.code, self.task))


@pytest.fixture(scope="module", params=HANDLERS)
def rt(request):
    with begin(denizen.Program(actors=[Boss]), request.param) as runtime:
        yield runtime


def after_all(rt, boss):
    rt.drain(timeout=60)
    return rt.ask(boss, Ask(), timeout=20)


def test_answers_come_to_who_has_asked(rt):
    bosses = rt.spawn(Boss, 5)
    for boss in bosses:
        rt.send(boss, Begin(300))
    for boss in bosses:
        total = after_all(rt, boss)
        assert (total["found"], total["sum"]) == (300, sum(n * n + 1 for n in range(300)))


def test_tasks_spawn_tasks_and_a_drain_waits_for_them(rt):
    (boss,) = rt.spawn(Boss)
    rt.send(boss, Grow(9))
    total = after_all(rt, boss)
    assert (total["found"], total["sum"]) == (512, 512)


def test_a_failure_is_told_with_its_code_and_task(rt):
    (boss,) = rt.spawn(Boss)
    for _ in range(3):
        rt.send(boss, Bad(77))
    total = after_all(rt, boss)
    assert (total["failed"], total["code"]) == (3, 77)
    assert denizen.Program(actors=[Boss]).tasks[total["task"]] == "Breaks"
    assert rt.inspect(boss).life == "running"


def test_a_task_spawns_an_actor(rt):
    (boss,) = rt.spawn(Boss)
    rt.send(boss, Hatch())
    assert after_all(rt, boss)["sum"] == 42


def test_tasks_are_counted(rt):
    if rt.description["device"].startswith("Python"):
        pytest.skip("the interpreter has no telemetry")
    (boss,) = rt.spawn(Boss)
    before = rt.telemetry().tasks
    rt.send(boss, Begin(123))
    rt.drain(timeout=60)
    now = rt.telemetry()
    assert now.tasks - before == 123
    assert now.tasks_refused == 0


def test_a_queue_that_is_full_says_so():
    @denizen.actor
    class Many:
        made: np.uint32
        refused: np.uint32

        def on_begin(self, m: Begin, ctx):
            for i in range(m.pieces):
                if ctx.spawn(Square(i)):
                    self.made += 1
                else:
                    self.refused += 1

        def on_found(self, m: Found):
            pass

        def on_ask(self, m: Ask, ctx):
            ctx.reply(Total(self.made, self.refused))

    with begin(denizen.Program(actors=[Many]), "cpu:1", task_slots=8) as rt:
        (many,) = rt.spawn(Many)
        rt.send(many, Begin(20))
        assert rt.ask(many, Ask(), timeout=20).tolist()[:2] == (8, 12)
        rt.drain(timeout=20)
        assert (rt.telemetry().tasks, rt.telemetry().tasks_refused) == (8, 12)


TEXT = """
struct Piece {
    uint32_t n;
    void run(auto& ctx) const { ctx.reply(Found{n}); }
};
struct Boss {
    uint64_t sum = 0;
    uint32_t found = 0;
    void on(const Begin& m, auto& ctx)
    {
        for (uint32_t i = 0; i < m.pieces; ++i) {
            ctx.spawn(Piece{i});
        }
    }
    void on(const Found& m, auto&) { sum += m.value; ++found; }
    void on(const Ask&, auto& ctx) { ctx.reply(Total{sum, found, 0, 0, 0}); }
};
"""


def test_tasks_of_a_text(device):
    program = denizen.Program(
        TEXT, actors=["Boss"], messages=[Begin, Found, Ask, Total], tasks=["Piece"]
    )
    with denizen.Runtime(program, device) as rt:
        (boss,) = rt.spawn("Boss")
        rt.send(boss, Begin(100))
        total = after_all(rt, boss)
        assert (total["found"], total["sum"]) == (100, 4950)


def refusal(task):
    @denizen.actor
    class Own:
        def on_ask(self, m: Ask, ctx):
            ctx.spawn(task())

    with pytest.raises(denizen.CompileError) as error:
        denizen.Program(actors=[Own])
    return str(error.value)


def test_what_a_task_has_not_is_refused():
    @denizen.task
    class Later:
        def run(self, ctx):
            ctx.send_after(1000, ctx.self, Ask())

    line = Later.run.__code__.co_firstlineno + 1
    assert f".py:{line}: a task has no ctx.send_after; it may call" in refusal(Later)

    @denizen.task
    class Large:
        a: (np.uint8, 44)

        def run(self, ctx):
            ctx.reply(Ask())

    assert "task Large has 44 bytes, the limit is 40" in refusal(Large)

    @denizen.task
    class Changes:
        n: np.uint32

        def run(self, ctx):
            self.n = 1

    assert "a task's fields stay as they are" in refusal(Changes)
