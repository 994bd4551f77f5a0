# SPDX-License-Identifier: Apache-2.0
"""Signals at the ends of a graph: files, networks and receivers (denizen.iq)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from denizen.errors import ArgumentError
from denizen.flow.block import Block
from denizen.iq import Sink, Source


class IqSource(Block):
    """Sends what ``iq.open(...)`` reads, complex64, at its port ``out``; ends with it.

    Quanta leave when they are full, and when a source that is ``live`` has no more at the moment. A
    DataError ends the graph: ``wait()`` raises FailedError with its text. Close the source when the
    graph has ended.
    """

    def __init__(self, name: str, source: Source) -> None:
        super().__init__(name)
        if not isinstance(source, Source):
            raise ArgumentError(f"block {name!r}: {source!r:.60} is no source; use iq.open(...)")
        self.out = self.source("out", np.complex64)
        self._live = source.live
        self._blocks = source.blocks()
        self._rest: NDArray[np.complex64] = np.empty(0, np.complex64)

    def work(self) -> None:
        if len(self._rest) == 0:
            more = next(self._blocks, None)
            if more is None:
                self.finish()
                return
            self._rest = more
        room = self.out.array
        n = min(len(room), len(self._rest))
        room[:n] = self._rest[:n]
        self._rest = self._rest[n:]
        self.out.produce(n)
        if self._live and len(self._rest) == 0 and n < len(room):
            self.out.flush()


class IqSink(Block):
    """Writes what it reads at ``port``, complex64, to what ``iq.create(...)`` made.

    Close that when the graph has ended.
    """

    def __init__(self, name: str, sink: Sink) -> None:
        super().__init__(name)
        if not isinstance(sink, Sink):
            raise ArgumentError(f"block {name!r}: {sink!r:.60} is no sink; use iq.create(...)")
        self.port = self.input("in", np.complex64)
        self._sink = sink

    def work(self) -> None:
        self._sink.write(self.port.array)
        self.port.consume()
