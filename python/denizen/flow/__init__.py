# SPDX-License-Identifier: Apache-2.0
"""Flow graphs: circuits of owned buffers through blocks that are written in Python.

from denizen import flow

class Gain(flow.Block):
    def __init__(self, name, gain):
        super().__init__(name)
        self.samples = self.in_place("samples", "f4")
        self.gain = gain
        self.retune = self.messages("gain", self._set)

    def _set(self, gain):
        self.gain = gain

    def work(self):
        self.samples.array[:] *= self.gain  # a NumPy view of the quantum: nothing is copied
        self.samples.pass_on()

with flow.Flowgraph() as graph:
    source = graph.add(flow.ArraySource("source", np.arange(10, dtype="f4")))
    gain = graph.add(Gain("gain", 2))
    sink = graph.add(flow.ArraySink("sink", "f4"))
    graph.circuit("samples", source.out, quanta=4, samples=1024)
    graph.connect(source.out, gain.samples)
    graph.connect(gain.samples, sink.port)
    graph.start()
    graph.wait()
print(sink.samples)

What ports, tags, circuits and executors are is told in docs/flow.md.
"""

from denizen.flow.alone import Alone
from denizen.flow.block import Block, InPlacePort, InputPort, Messages, Port, SourcePort, Tag
from denizen.flow.blocks import ArraySink, ArraySource
from denizen.flow.graph import Circuit, Flowgraph

__all__ = [
    "Alone",
    "ArraySink",
    "ArraySource",
    "Block",
    "Circuit",
    "Flowgraph",
    "InPlacePort",
    "InputPort",
    "Messages",
    "Port",
    "SourcePort",
    "Tag",
]
