# SPDX-License-Identifier: Apache-2.0
"""device="python": handlers under a debugger, coverage and print, one step at a time."""

import linecache
import sys

import numpy as np
import pytest

import denizen


@denizen.message
class Number:
    n: np.int64


@denizen.message
class Ask:
    pass


def doubled(x):
    return x * 2


@denizen.actor
class Keeper:
    last: np.int64 = 0
    count: np.uint8 = 254

    def on_number(self, m: Number, ctx):
        self.count += 1
        if m.n < 0:
            breakpoint()
        self.last = doubled(m.n)
        if m.n > 100:
            print("large", m.n, self)

    def on_ask(self, m: Ask, ctx):
        ctx.reply(Number(self.last))


@denizen.actor
class Endless:
    rounds: np.uint64 = 0

    def on_number(self, m: Number, ctx):
        self.rounds += 1
        ctx.send(ctx.self, m)

    def on_ask(self, m: Ask, ctx):
        ctx.reply(Number(self.rounds))


@denizen.actor
class Careless:
    cells: (np.int32, 3)

    def on_number(self, m: Number):
        self.cells[m.n] = 1


@pytest.fixture
def rt():
    with denizen.Runtime([Keeper, Endless, Careless], "python") as runtime:
        yield runtime


def line_of(text):
    with open(__file__) as file:
        return next(i for i, line in enumerate(file, 1) if line.strip() == text)


def test_print(rt, capsys):
    (keeper,) = rt.spawn(Keeper)
    rt.send(keeper, Number(n=1000))
    rt.send(keeper, Number(n=101))
    assert capsys.readouterr().out == (
        "large 1000 Keeper(last=2000, count=255)\nlarge 101 Keeper(last=202, count=0)\n"
    )


def test_a_breakpoint_stops_in_the_handler(rt, monkeypatch):
    seen = []

    def hook(*args, **kwargs):
        frame = sys._getframe(1)
        seen.append((frame.f_code.co_filename, frame.f_lineno, frame.f_locals["m"].n))

    monkeypatch.setattr(sys, "breakpointhook", hook)
    (keeper,) = rt.spawn(Keeper)
    rt.send(keeper, Number(n=-7))
    assert seen == [(__file__, line_of("breakpoint()"), -7)]


def test_coverage_counts_the_lines_of_handlers_and_functions(rt):
    lines = set()

    def trace(frame, event, arg):
        if frame.f_code.co_filename == __file__:
            lines.add(frame.f_lineno)
        return trace

    (keeper,) = rt.spawn(Keeper)
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        rt.send(keeper, Number(n=5))
    finally:
        sys.settrace(before)
    for text in ("self.count += 1", "self.last = doubled(m.n)", "return x * 2"):
        assert line_of(text) in lines
    assert line_of("breakpoint()") not in lines


def test_what_a_handler_raises_reaches_the_caller(rt):
    (careless,) = rt.spawn(Careless)
    with pytest.raises(IndexError):
        rt.send(careless, Number(n=3))
    rt.send(careless, Number(n=2))  # and the runtime can be used on


def test_a_program_that_never_ends_ends_its_calls(rt):
    (endless,) = rt.spawn(Endless)
    rt.send(endless, Number(n=1))
    first = rt.ask(endless, Ask(), timeout=20)["n"]
    assert first > 1000
    assert rt.ask(endless, Ask(), timeout=20)["n"] > first
    with pytest.raises(denizen.DeadlineError, match="still being handled"):
        rt.drain(timeout=0.1)
    rt.stop(endless)
    rt.drain()


def test_a_wait_that_nothing_can_end_says_so_at_once(rt):
    (keeper,) = rt.spawn(Keeper)
    with pytest.raises(denizen.DeadlineError, match="within 60 s: nothing is under way"):
        rt.receive(timeout=60)
    rt.pause()
    with pytest.raises(denizen.DeadlineError, match="within 60 s: the program is paused"):
        rt.ask(keeper, Ask(), timeout=60)
    rt.resume()
    assert rt.ask(keeper, Ask())["n"] == 0


def test_two_runs_are_the_same():
    def run():
        with denizen.Runtime([Keeper, Endless], "python") as rt:
            endless = rt.spawn(Endless, 3)
            for i, actor in enumerate(endless):
                rt.send(actor, Number(n=i))
            return [int(rt.ask(a, Ask(), timeout=20)["n"]) for a in endless]

    assert run() == run()


def test_what_it_lacks_is_named(rt):
    for call in (rt.telemetry, lambda: rt.save("file"), lambda: rt.buffer(4), rt.arena):
        with pytest.raises(
            denizen.ArgumentError, match=r'device="python" has no .*; use device="cpu"'
        ):
            call()
    program = denizen.Program(
        "struct A { void on(const Ask&, auto&) {} };", actors=["A"], messages=[Ask]
    )
    with pytest.raises(denizen.ArgumentError, match="A is in C"):
        denizen.Runtime(program, "python")


def test_a_cell_that_is_run_again_replaces_its_types():
    """As IPython runs cells: their text is in linecache alone."""
    names = {"denizen": denizen, "np": np}

    def cell(number, text):
        name = f"<ipython-input-{number}>"
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        names["__name__"] = "__main__"
        exec(compile(text, name, "exec"), names)

    text = """
@denizen.message
class Tick:
    n: np.uint32

@denizen.actor
class Counter:
    sum: np.uint64 = START
    def on_tick(self, m: Tick, ctx):
        self.sum += m.n
        ctx.reply(Tick(self.sum))
"""
    for number, start in enumerate((0, 100)):
        cell(number, text.replace("START", str(start)))
        for device in ("python", "cpu:1"):
            with denizen.Runtime(names["Counter"], device) as rt:
                (counter,) = rt.spawn(names["Counter"])
                assert rt.ask(counter, names["Tick"](5), timeout=20)["n"] == start + 5
    assert "Counter" in names["Counter"]._repr_html_()
