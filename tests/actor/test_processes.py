# SPDX-License-Identifier: Apache-2.0
"""Pools of processes: types, programs and messages are sent to them, and what runs is not."""

import copy
import multiprocessing
import pickle

import pytest
import sample
import sample_handlers

import denizen
from denizen import flow, tasks


@denizen.actor
class Door:
    """With a behaviour and an invariant, which are functions too."""

    opened: "u4"  # noqa: F821

    def on_add(self, m: sample.ADD, ctx):
        ctx.become(self.Open)

    class Open:
        def on_add(self, m: sample.ADD):
            self.opened += m.n

    def invariant(self):
        return self.opened < 100


def _asked(counter, add, ask):
    """In another process: by the interpreter, which needs nothing."""
    with denizen.Runtime(counter, "python") as rt:
        (actor,) = rt.spawn(counter)
        rt.send(actor, add)
        return rt.ask(actor, ask)


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_a_pool_is_given_types_and_messages_and_returns_messages(method):
    given = sample_handlers.Counter, sample.ADD(5), sample.ASK()
    with multiprocessing.get_context(method).Pool(1) as pool:
        (total,) = pool.starmap_async(_asked, [given]).get(60)
    assert repr(total) == "Total(sum=5, count=1)"


@pytest.mark.parametrize("protocol", [pickle.DEFAULT_PROTOCOL, pickle.HIGHEST_PROTOCOL])
def test_actor_types_and_programs_stay_what_they_are(protocol):
    for thing in (Door, sample.ADD, denizen.Program(actors=[Door])):
        assert repr(pickle.loads(pickle.dumps(thing, protocol))) == repr(thing)
    back = pickle.loads(pickle.dumps(Door, protocol))
    assert back.functions() == Door.functions()
    assert len(back.functions()) == 3
    assert pickle.loads(pickle.dumps(denizen.DOWN, protocol)) is denizen.DOWN


@pytest.mark.parametrize("do", [pickle.dumps, copy.copy, copy.deepcopy])
def test_what_runs_stays_in_its_process(do):
    with (
        denizen.Runtime(Door, "python") as interpreted,
        denizen.Runtime(sample.program(), "cpu:1") as rt,
        tasks.Runtime(
            tasks.Program("struct Idle { void run(auto&) const {} };", tasks=[tasks.task("Idle")]),
            "cpu:1",
        ) as of_tasks,
        rt.buffer(4) as buffer,
        flow.Flowgraph() as graph,
    ):
        for thing in (interpreted, rt, of_tasks, buffer, graph):
            with pytest.raises(TypeError, match=f"a {type(thing).__name__} has threads .* there"):
                do(thing)
