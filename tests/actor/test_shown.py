# SPDX-License-Identifier: Apache-2.0
"""What a shell and a notebook show of the package's objects: their name and what they are."""

import importlib
import inspect
import re

import numpy as np
import pytest

import denizen
from denizen import dsp, flow, graph, group, iq, procmine, radio, tasks, wave

PARTS = [
    "denizen", "denizen.ab", "denizen.dsp", "denizen.flow", "denizen.graph", "denizen.group",
    "denizen.infer", "denizen.io", "denizen.iq", "denizen.lens", "denizen.procmine",
    "denizen.radio", "denizen.tasks", "denizen.wave", "denizen.apps.transactions",
]  # fmt: skip
# They have no facts that the object beside them does not tell.
PLAIN = {"Alone", "Circuit", "Control", "FmDemodulator", "Messages", "Reference", "Program"}


class Doubler(flow.Block):
    def __init__(self):
        super().__init__("twice")
        self.samples = self.in_place("samples", "f4")

    def work(self):
        self.samples.pass_on()


def test_every_public_class_says_what_it_is():
    for part in PARTS:
        module = importlib.import_module(part)
        for name in module.__all__ if hasattr(module, "__all__") else dir(module):
            one = getattr(module, name)
            own = inspect.isclass(one) and one.__module__.startswith("denizen")
            if own and not name.startswith("_") and not issubclass(one, BaseException):
                plain = one.__repr__ is object.__repr__
                assert not plain or name in PLAIN | {"Closing"}, f"{part}.{name}"


def mined():
    return procmine.mine(procmine.generate(1000), device="cpu:1")


def searched():
    return graph.Search(graph.chain(10), "cpu:1")


def circuit():
    made = flow.Flowgraph()
    made.add(Doubler())
    return made


MADE = {
    "denizen.Arena": (lambda: denizen.Arena(1 << 20, "cpu"), "of 1,048,576 bytes; on the CPU"),
    "denizen.graph.Graph": (lambda: graph.chain(10), "vertices 10; arcs 18; weights none"),
    "denizen.graph.Search": (searched, "of 10 vertices; on CPU, 1 thread"),
    "denizen.wave.Simulation": (
        lambda: wave.Simulation((8, 8, 16), device="cpu:1"),
        "cells 8 x 8 x 16; of float32; on CPU, 1 thread",
    ),
    "denizen.procmine.Mined": (mined, r"events 1,000; cases \d+; edges \d+; variants \d+; on .+"),
    "denizen.flow.Flowgraph": (circuit, "blocks twice; is not started"),
    "Doubler": (Doubler, "called twice"),
    "denizen.flow.InPlacePort": (lambda: Doubler().samples, "port of no graph; of float32"),
    "denizen.group.Group": (lambda: group.local(2, "cpu")[1], "rank 1 of 2; on .+"),
    "denizen.radio.Receiver": (radio.Receiver, "on this thread"),
    "denizen.dsp.Fir": (lambda: dsp.Fir(np.ones(5, "f4")), "taps 5; rate 1/1; of complex64"),
    "denizen.dsp.Fft": (lambda: dsp.Fft(64), "points 64"),
}


@pytest.mark.parametrize("name", MADE)
def test_an_object_is_shown_by_its_public_name_and_its_facts(name):
    make, facts = MADE[name]
    made = make()
    assert re.fullmatch(f"<{re.escape(name)}: {facts}>", repr(made)), repr(made)
    table = made._repr_html_()
    assert table.startswith(f"<table><caption>{name}</caption>") and table.count("<tr>") >= 1


def test_what_is_closed_is_shown_and_a_name_is_text(tmp_path):
    task = tasks.task("Idle")
    program = tasks.Program("struct Idle { void run(auto&) const {} };", tasks=[task])
    assert repr(program) == "<denizen.tasks.Program: called tasks; tasks Idle>"
    held = Doubler()
    assert repr(held.samples) == "<denizen.flow.InPlacePort: port twice.samples; of float32>"
    name = tmp_path / "<b>.cu8"
    name.write_bytes(bytes(1000))
    with iq.open(str(name), form="u8", rate=2_000_000) as source:
        assert "at 2,000,000 Hz" in repr(source)
        assert "&lt;b&gt;.cu8" in source._repr_html_()
    assert "2,000,000 Hz" in repr(source)
