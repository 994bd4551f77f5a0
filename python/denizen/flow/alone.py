# SPDX-License-Identifier: Apache-2.0
"""One block by itself, for its tests: samples and tags in, samples and tags out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Generic, TypeVar

from numpy.typing import NDArray

from denizen.flow.block import AnyBlock, InPlacePort, InputPort, SourcePort, Tag, core_of
from denizen.flow.blocks import ArraySink, ArraySource
from denizen.flow.graph import Flowgraph

B = TypeVar("B", bound=AnyBlock)


class Alone(Generic[B]):
    """Runs one block with arrays at its ports.

    test = flow.Alone(Gain("gain", 2))
    test.feed(test.block.samples, np.arange(10, dtype="f4"))
    out = test.collect(test.block.samples)
    test.run()
    assert (out.samples == 2 * np.arange(10)).all()
    """

    def __init__(self, block: B) -> None:
        self._graph = Flowgraph()
        self.block = self._graph.add(block)

    def feed(
        self,
        port: InputPort | InPlacePort,
        samples: NDArray[Any],
        tags: Iterable[Tag] = (),
        *,
        quantum: int = 64,
    ) -> None:
        """What the port will receive, in quanta of ``quantum`` samples."""
        core_of(port)
        source = self._graph.add(ArraySource(f"feeds {port.label}", samples, tags))
        self._graph.circuit(f"of {source.name}", source.out, 2, quantum)
        self._graph.connect(source.out, port)

    def collect(self, port: SourcePort | InPlacePort) -> ArraySink:
        """What the port will send: look at its ``samples`` and ``tags`` after ``run()``."""
        core_of(port)
        dtype = port.becomes if isinstance(port, InPlacePort) else port.dtype
        sink = self._graph.add(ArraySink(f"collects {port.label}", dtype))
        self._graph.connect(port, sink.port)
        return sink

    def circuit(self, port: SourcePort, *, quanta: int = 2, samples: int = 64) -> None:
        """The buffers of a port of the block that begins a circuit."""
        core_of(port)
        self._graph.circuit(f"of {port.label}", port, quanta, samples)

    def run(self, timeout: float = 10) -> None:
        """Until the block and its ends have finished. Raises as ``Flowgraph.wait()`` does."""
        self._graph.run(timeout)
