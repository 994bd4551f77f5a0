# SPDX-License-Identifier: Apache-2.0
"""What actors need, from Python: names, the list of actors, what handlers spawn and send later."""

import re
import runpy
import time
from pathlib import Path

import clock_handlers
import numpy as np
import pytest
import sample
from backends import HANDLERS, begin

import denizen

DOCS = Path(__file__).resolve().parents[2] / "docs"

HATCH = denizen.message("Hatch", [("count", "u4")])
HATCHED = denizen.message("Hatched", [("made", "u4"), ("last", denizen.ADDRESS)])
WHO = denizen.message("Who")
ME = denizen.message("Me", [("number", "u4")])
LATER = denizen.message("Later", [("ns", "u8"), ("every", "u4")])
END = denizen.message("End")

TEXT = """
struct Egg {
    static constexpr bool spawned = true;
    uint32_t number;
    void on(const Who&, auto& ctx) { ctx.reply(Me{number}); }
};
struct Hen {
    uint32_t beats = 0;
    denizen::Timer timer;
    void on(const Hatch& m, auto& ctx) {
        uint32_t made = 0;
        denizen::Address last = denizen::nowhere;
        for (uint32_t i = 0; i < m.count; ++i) {
            last = ctx.template spawn<Egg>(i);
            made += last == denizen::nowhere ? 0 : 1;
        }
        ctx.reply(Hatched{made, last});
    }
    void on(const Later& m, auto& ctx) {
        timer = m.every ? ctx.send_every(m.ns, ctx.self(), End{})
                        : ctx.send_after(m.ns, ctx.self(), End{});
    }
    void on(const End&) { ++beats; }
    void on(const Who&, auto& ctx) { ctx.reply(Me{beats}); }
};
"""

PROGRAM = denizen.Program(
    TEXT, actors=["Hen", "Egg"], messages=[HATCH, HATCHED, WHO, ME, LATER, END], name="hens"
)


def test_what_a_handler_spawns_is_an_actor_like_others(device):
    with denizen.Runtime(PROGRAM, device, spawn_room=8) as rt:
        (hen,) = rt.spawn("Hen", name="hen")
        hatched = rt.ask(hen, HATCH(count=8))
        assert hatched["made"] == 8
        assert rt.ask(int(hatched["last"]), WHO())["number"] == 7
        assert rt.ask(hen, HATCH(count=1))["last"] == denizen.NOWHERE
        telemetry = rt.telemetry()
        assert (telemetry.spawned, telemetry.not_spawned) == (8, 1)
        eggs = [actor for actor in rt.actors() if actor.type == "Egg"]
        assert len(eggs) == 8
        assert {egg.worker for egg in eggs} == {rt.actors()[-1].worker}
        rt.stop(eggs[3].address)
        with pytest.raises(denizen.NoActorError, match="has stopped, or was never spawned"):
            rt.send(eggs[3].address, WHO())
        assert rt.ask(hen, HATCH(count=1))["last"] == eggs[3].address
        assert rt.inspect(eggs[3].address).incarnation == 1


def test_what_is_sent_later_comes_later(device):
    with denizen.Runtime(PROGRAM, device, timer_slots=2) as rt:
        (hen,) = rt.spawn("Hen")
        rt.send(hen, LATER(ns=1_000_000, every=1))
        rt.send(hen, LATER(ns=3_600_000_000_000))
        rt.send(hen, LATER(ns=1))
        while rt.ask(hen, WHO())["number"] < 3:
            time.sleep(0.001)
        telemetry = rt.telemetry()
        assert (telemetry.timers, telemetry.timers_refused) == (2, 1)
        assert telemetry.timers_fired >= 3
        rt.stop(hen)
        assert rt.telemetry().timers == 0


def test_an_actor_is_found_by_its_name(rt):
    (counter,) = rt.spawn("Counter", name="total")
    others = rt.spawn("Counter", 3)
    assert rt.find("total") == counter
    rt.send(rt.find("total"), "Add", n=5)
    assert rt.ask(rt.find("total"), "Ask")["sum"] == 5
    with pytest.raises(denizen.NoActorError, match=r'^no actor is called "sum"$'):
        rt.find("sum")
    with pytest.raises(
        denizen.ArgumentError,
        match=r'^"total" is the name of actor Counter #0 of worker 0, which lives; use another, or '
        r"stop it first$",
    ):
        rt.spawn("Hopper", name="total")
    for wrong in ({"count": 2}, {"near": int(counter)}, {"node": 0}):
        with pytest.raises(denizen.ArgumentError, match="a name is a str and of one actor"):
            rt.spawn("Counter", name="more", **wrong)
    with pytest.raises(denizen.ArgumentError, match="use a str"):
        rt.find(3)
    rt.pause(others[0])
    listed = {actor.address: actor for actor in rt.actors()}
    assert set(listed) == {int(counter), *map(int, others)}
    assert listed[int(counter)].name == "total"
    assert listed[int(counter)].type == "Counter"
    assert listed[int(others[0])].life == "paused"
    assert listed[int(others[1])].life == "running"
    rt.stop(counter)
    assert len(rt.actors()) == 3
    with pytest.raises(denizen.NoActorError, match=r'^the actor called "total" has stopped$'):
        rt.find("total")
    rt.spawn("Hopper", name="total")


@denizen.message
class Increment:
    n: np.uint32


@denizen.actor
class Sum:
    sum: np.uint64 = 0

    def on_increment(self, m: Increment):
        self.sum += m.n


@pytest.mark.parametrize("where", HANDLERS)
def test_handlers_in_python_send_later(where):
    with begin(clock_handlers.program(), where) as rt:
        one, two = rt.spawn(clock_handlers.Clock, 2)

        def times(clock):
            return rt.ask(clock, clock_handlers.Struck(), timeout=20)["times"]

        rt.send(one, clock_handlers.Begin(ns=1, every=False))
        while times(one) == 0:
            time.sleep(0.001)
        assert rt.ask(one, clock_handlers.Quit(), timeout=20).tolist() == (1, False)
        rt.send(one, clock_handlers.Begin(ns=1_000_000, every=True))
        while times(one) < 5:
            time.sleep(0.001)
        assert rt.ask(one, clock_handlers.Quit(), timeout=20)["armed"]
        rt.drain(timeout=20)
        before = times(one)
        rt.send(two, clock_handlers.Begin(ns=3_600_000_000_000, every=False))
        assert rt.ask(two, clock_handlers.Struck(), timeout=20).tolist() == (0, True)
        time.sleep(0.01)
        assert times(one) == before
        rt.restart(two)
        rt.send(two, clock_handlers.Begin(ns=2_000_000, every=True))
        while times(two) < 3:
            time.sleep(0.001)
        rt.stop(two)
        (late,) = rt.spawn(clock_handlers.Clock)
        for now, then, comes in ((5, 3, 1), (2**62, -(2**62), 2), (0, 2**62, 2), (0, 0, 3)):
            rt.send(late, clock_handlers.Until(now, then))
            end = time.monotonic() + 20
            while times(late) < comes and time.monotonic() < end:
                time.sleep(0.001)
            assert times(late) == comes
        for every, comes in ((False, 1), (True, 5)):  # NumPy's difference of two np.uint64
            before = times(late)
            rt.send(late, clock_handlers.Begin(ns=np.uint64(2**64 - 5), every=every))
            end = time.monotonic() + 20
            while times(late) < before + comes and time.monotonic() < end:
                time.sleep(0.001)
            assert times(late) >= before + comes


@pytest.mark.parametrize("where", ["python", "cpu:2"])
def test_actors_whose_handlers_are_in_python_have_names_too(where):
    if where != "python":
        pytest.importorskip("numba")
    with denizen.Runtime(Sum, where) as rt:
        (total,) = rt.spawn(Sum, name="total")
        (other,) = rt.spawn(Sum)
        assert rt.find("total") == total
        with pytest.raises(denizen.ArgumentError, match="which lives; use another, or stop it"):
            rt.spawn(Sum, name="total")
        with pytest.raises(denizen.ArgumentError, match=r"^a name of 0 bytes; use 1 to 255$"):
            rt.spawn(Sum, name="")
        with pytest.raises(denizen.NoActorError, match=r'^no actor is called "sum"$'):
            rt.find("sum")
        assert [(a.address, a.type, a.name, a.life) for a in rt.actors()] == [
            (total, "Sum", "total", "running"),
            (other, "Sum", "", "running"),
        ]
        rt.stop(total)
        with pytest.raises(denizen.NoActorError, match=r'^the actor called "total" has stopped$'):
            rt.find("total")
        assert rt.spawn(Sum, name="total") == [rt.find("total")]


def test_names_are_in_a_snapshot(device, tmp_path):
    path = tmp_path / "state.dzs"
    with denizen.Runtime(sample.program(), device) as rt:
        (counter,) = rt.spawn("Counter", name="total")
        rt.spawn("Counter", name="ümlaut and spaces")
        rt.send(counter, "Add", n=7)
        rt.save(path)
    with denizen.Runtime(sample.program(), device, restore=path) as rt:
        assert rt.find("total") == counter
        assert rt.ask(rt.find("total"), "Ask")["sum"] == 7
        assert {actor.name for actor in rt.actors()} == {"total", "ümlaut and spaces"}
        with pytest.raises(denizen.ArgumentError, match="which lives"):
            rt.spawn("Counter", name="total")


def test_the_docs_of_ctx_run_as_printed(device, tmp_path):
    pytest.importorskip("numba")
    text = (DOCS / "context.md").read_text()
    snippets = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    whole = [snippet for snippet in snippets if "denizen.Runtime(" in snippet]
    assert len(whole) == 3
    for number, snippet in enumerate(whole):
        path = tmp_path / f"snippet{number}.py"  # a handler's text is read from its file
        path.write_text(snippet)
        runpy.run_path(path, {"denizen": denizen, "np": np, "device": device, "time": time})


def test_the_docs_of_ctx_have_every_method():
    header = DOCS.parent / "include" / "denizen" / "actor" / "context.hpp"
    public = header.read_text().split("class Context {")[1].split("protected:")[0]
    methods = set(re.findall(r"^    DENIZEN_HD [\w:<> ]+ (\w+)\(", public, re.MULTILINE))
    methods = {m for m in methods if m != "failure" and not m.endswith("_raw")}  # not for users
    text = (DOCS / "context.md").read_text()
    told = set(re.findall(r"ctx\.(?:template )?(\w+)", text))
    assert len(methods) > 30
    assert methods <= told, methods - told
