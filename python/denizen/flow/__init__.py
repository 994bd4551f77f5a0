# SPDX-License-Identifier: Apache-2.0
"""Flow graphs: circuits of owned buffers through blocks, on CPU threads and on a resident GPU.

Blocks are written in Python, or are those of the library: Agc, Channelizer, Fft, Fir, Fm,
MagnitudeSquared, Mixer, Multiply, Resampler, Saxpy, which run on the graph's threads or as resident
blocks.

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

from denizen.flow.actors import ActorSource, Filled, Free
from denizen.flow.alone import Alone
from denizen.flow.block import (
    AnyBlock,
    Block,
    InPlacePort,
    InputPort,
    Messages,
    Port,
    SourcePort,
    Tag,
)
from denizen.flow.blocks import ArraySink, ArraySource
from denizen.flow.ends import IqSink, IqSource
from denizen.flow.graph import Circuit, Flowgraph
from denizen.flow.kind import KindBlock, KindType, kind
from denizen.flow.resident import Resident
from denizen.flow.signal import Agc, Control, Fir, Fm, MagnitudeSquared, Mixer, Multiply, Saxpy
from denizen.flow.signal_circuits import Channelizer, Fft, Resampler

__all__ = [
    "ActorSource",
    "Agc",
    "Alone",
    "AnyBlock",
    "ArraySink",
    "ArraySource",
    "Block",
    "Channelizer",
    "Circuit",
    "Control",
    "Fft",
    "Filled",
    "Fir",
    "Flowgraph",
    "Fm",
    "Free",
    "InPlacePort",
    "InputPort",
    "IqSink",
    "IqSource",
    "KindBlock",
    "KindType",
    "MagnitudeSquared",
    "Messages",
    "Mixer",
    "Multiply",
    "Port",
    "Resampler",
    "Resident",
    "Saxpy",
    "SourcePort",
    "Tag",
    "kind",
]
