# SPDX-License-Identifier: Apache-2.0
"""What is none is refused by name, in one line: an argument of another kind than is asked for."""

import numpy as np
import pytest

import denizen
from denizen import iq, tasks


@denizen.message
class Tick:
    n: np.uint32


@denizen.actor
class Counter:
    sum: np.uint32

    def on_tick(self, m: Tick):
        self.sum += m.n


@denizen.task
class Add:
    sum: np.uint64

    def run(self, ctx):
        ctx.set(1)


@pytest.fixture(scope="module")
def rt():
    with denizen.Runtime(Counter, "python") as runtime:
        yield runtime


@pytest.fixture(scope="module")
def on_threads():
    one = denizen.Program(
        "struct One { void on(const Tick&, auto&) {} };", actors=["One"], messages=[Tick]
    )
    with denizen.Runtime(one, "cpu:1") as runtime:
        yield runtime


REFUSED = [
    ("rt.supervise(5)", "children = 5; use a list of addresses"),
    ("rt.supervise(None)", "children = None; use a list of addresses"),
    ("rt.serve_metrics('x')", "port = 'x'; use a whole number from 0 to 65535"),
    ("denizen.Runtime(Counter, 'cpu:1', mapped='x')", "mapped = 'x'; use True or False"),
    ("denizen.Runtime(Counter, 'cpu:1', prefer_l1=[])", r"prefer_l1 = \[\]; use True or False"),
    ("denizen.Program(actors=Counter)", "actors = <actor Counter.*>; give a list"),
    ("denizen.Program(actors=[Counter], messages=5)", "messages = 5; give a list"),
    ("denizen.message('X', 5)", "message X: 5 are no fields; give a list of them"),
    ("denizen.actor(5)", "5 is no class; @denizen.actor decorates one"),
    ("denizen.actor(Counter)", "is no class; @denizen.actor decorates one"),
    ("denizen.record(None)", "None is no class; @denizen.record decorates one"),
    ("Tick.zeros(-1)", "count = -1; use a whole number"),
    ("Tick.zeros('x')", "count = 'x'; use a whole number"),
    ("Tick.read(5)", "int are no Tick; give the 4 bytes of one"),
    ("Tick.read(b'x')", "1 bytes are no Tick; give the 4 bytes of one"),
    ("Tick.read(b'')", "0 bytes are no Tick; give the 4 bytes of one"),
    ("tasks.Runtime(5)", "5 is no program of tasks; give a tasks.Program, or what @denizen.task"),
    ("tasks.Runtime([Add])", "is no program of tasks; give a tasks.Program"),
    ("iq.open(5)", "5 is no name of signals; use text"),
    ("iq.create(None)", "None is no name of signals; use text"),
    ("iq.create('x.sigmf-data', rate='x')", "rate = 'x'; use a whole number from 1"),
    ("iq.create('x.sigmf-data', rate=-5)", "rate = -5; use a whole number from 1"),
    ("denizen.Arena('x')", "nbytes = 'x'; use a whole number"),
    ("on_threads.buffer(np.ones((2, 2)))", r"shape = array\(\[\[1., 1.\], \[1., 1.\]\]\); use"),
]


@pytest.mark.parametrize(("call", "text"), REFUSED, ids=[call for call, _ in REFUSED])
def test_what_is_none_is_refused_by_name(call, text, rt, on_threads):
    names = {"denizen": denizen, "iq": iq, "tasks": tasks, "np": np, "rt": rt}
    names |= {"on_threads": on_threads, "Tick": Tick, "Counter": Counter, "Add": Add}
    with pytest.raises(denizen.DenizenError, match=text) as caught:
        eval(call, names)
    assert "\n" not in str(caught.value)
