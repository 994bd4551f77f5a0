# SPDX-License-Identifier: Apache-2.0
"""Samples of actors as a source of a graph: what handlers make, or read through an io.Service.

    @denizen.actor
    class Reader:
        file: np.uint32

        def on_begin(self, m: Begin):
            self.file = m.file

        def on_free(self, m: flow.Free, ctx):      # a piece of the source's buffer to fill
            ctx.send(denizen.HOST, io.ReadInto(file=self.file, tag=m.number, offset=io.NEXT,
                                               buffer=m.buffer, begin=m.begin, length=m.length))

        def on_done(self, m: io.Done, ctx):
            ctx.send(denizen.HOST, flow.Filled(number=m.tag, error=m.error, length=m.bytes))

    with denizen.Runtime(Reader) as rt, io.Service(rt, "data") as files, flow.Flowgraph() as graph:
        (reader,) = rt.spawn(Reader)
        rt.send(reader, Begin(files.open("samples")))
        source = graph.add(flow.ActorSource("file", rt, reader, "f4"))

The pieces of the buffer go round between the two, as quanta do in a circuit: that is how far the
actor may be ahead of the graph.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import DTypeLike, NDArray

from denizen import io, values
from denizen.errors import ArgumentError, DataError, DeadlineError
from denizen.flow.block import Block
from denizen.message import BUFFER, MessageType
from denizen.messaging import Received
from denizen.runtime import Runtime

Free = MessageType(
    "FlowFree",
    [("number", "u4"), ("unused", "u4"), ("buffer", BUFFER), ("begin", "u8"), ("length", "u8")],
)
"""To the actor: `length` bytes of the buffer from its byte `begin` on are to be filled."""
Filled = MessageType("FlowFilled", [("number", "u4"), ("error", "u4"), ("length", "u8")])
"""From the actor to the host: so many bytes of that piece are there; 0: the stream has ended."""

_PATIENCE = 0.1  # seconds in one work()
_MOST = 2**32 - 1


class ActorSource(Block):
    """Sends what an actor puts into a buffer, piece by piece, at its port ``out``.

    Each of the ``pieces`` goes to ``actor`` as a Free, and comes back as a Filled that it sends to
    the host, in the order of the stream; once its samples have left, it goes to the actor again.
    Each Free has one Filled. One of length 0 is the end, and so are those that are still to come.
    Quanta leave when they are full, and when nothing has come for 0.1 s.

    The graph has ended before ``runtime`` is closed. While it runs the source receives all messages
    to the host: one source for each runtime, and no receive() beside it. A graph that ends early
    leaves pieces with the actor: make another runtime for the next. A Filled with an error
    (of io.Error), one that was not free, and bytes that are no whole samples end the graph:
    ``wait()`` raises FailedError with the text.

    Args:
        dtype: of the samples: integers, floats or complex numbers.
        pieces: how many there are.
        samples: that a piece has room for.

    Raises ArgumentError.
    """

    def __init__(
        self,
        name: str,
        runtime: Runtime,
        actor: int,
        dtype: DTypeLike,
        *,
        pieces: int = 4,
        samples: int = 16384,
    ) -> None:
        super().__init__(name)
        if not isinstance(runtime, Runtime):
            raise ArgumentError(
                f"block {name!r}: {runtime!r:.60} is no denizen.Runtime, whose actor fills buffers"
            )
        for needed in (Free, Filled):
            if needed.name not in runtime.program.messages:
                raise ArgumentError(
                    f"block {name!r}: program {runtime.program.name} has no message {needed.name}; "
                    "its actor handles flow.Free, and sends flow.Filled to the host"
                )
        self.out = self.source("out", dtype)
        pieces = values.whole("pieces", pieces, _MOST, least=1)
        samples = values.whole("samples", samples, _MOST, least=1)
        self._runtime = runtime
        self._actor = values.address(actor)
        self._buffer = runtime.buffer((pieces, samples), self.out.dtype, "pinned")
        self._memory = self._buffer.numpy()
        self._away: set[int] = set()  # pieces that the actor has
        self._number = -1  # of the piece that is being sent on; -1: none
        self._rest: NDArray[Any] = self._memory[0, :0]  # of that
        self._begun = self._ended = False

    def work(self) -> None:
        if not self._begun:
            self._begun = True
            for number in range(len(self._memory)):
                self._free(number)
        if self._number < 0 and not self._next():
            return
        room = self.out.array
        n = min(len(room), len(self._rest))
        room[:n] = self._rest[:n]
        self._rest = self._rest[n:]
        if len(self._rest) == 0:
            self._free(self._number)
            self._number = -1
        self.out.produce(n)

    def _free(self, number: int) -> None:
        length = self._memory[number].nbytes
        free = Free(number=number, buffer=self._buffer, begin=number * length, length=length)
        self._runtime.send(self._actor, free)
        self._away.add(number)

    def _next(self) -> bool:
        """Whether there is a piece to send on."""
        try:
            received = self._runtime.receive(timeout=_PATIENCE)
        except DeadlineError:
            self.out.flush()
            return False
        number, length = self._checked(received)
        self._away.remove(number)
        self._ended |= length == 0
        if self._ended:
            if not self._away:
                self.finish()
            return False
        self._number = number
        self._rest = self._memory[number, : length // self.out.dtype.itemsize]
        return True

    def _checked(self, received: Received) -> tuple[int, int]:
        """The piece's number, and the bytes that are there."""
        message, sender = received.message, received.sender
        if received.type != Filled.name or sender != self._actor:
            raise ArgumentError(
                f"{received.type} from actor {sender:#x} came to the host, where block "
                f"{self.name!r} waits for {Filled.name} from actor {self._actor:#x}; let only that "
                "one send to the host while the graph runs, and give another source a Runtime of "
                "its own"
            )
        number, length, error = (int(message[f]) for f in ("number", "length", "error"))
        if number not in self._away:
            raise DataError(
                f"piece {number} was filled, which the actor did not have; each flow.Free has one "
                "flow.Filled"
            )
        if error != io.Error.NONE:
            known = error in io.Error._value2member_map_
            raise DataError(
                f"piece {number} was not filled: {io.Error(error).name if known else error}"
            )
        size = self.out.dtype.itemsize
        if length > self._memory[number].nbytes or length % size != 0:
            raise DataError(
                f"piece {number} was filled with {length} bytes; it has room for "
                f"{self._memory.shape[1]} samples of {size} bytes each, and holds whole ones"
            )
        return number, length
