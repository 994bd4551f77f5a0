# SPDX-License-Identifier: Apache-2.0
"""Graphs of blocks."""

from __future__ import annotations

import atexit
import operator
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from denizen import _core
from denizen.closing import Closing
from denizen.errors import ArgumentError, ClosedError, DeadlineError, FailedError
from denizen.flow.block import AnyBlock, Block, InPlacePort, InputPort, SourcePort, core_of
from denizen.flow.kind import KindBlock
from denizen.shown import Shown
from denizen.values import seconds as _seconds
from denizen.values import text as _text
from denizen.values import whole as _whole

B = TypeVar("B", bound=AnyBlock)

_SLICE = 0.1  # seconds between two looks at signals


class Circuit:
    """A number of buffers that begin at one source port and come back to it."""

    def __init__(self, graph: _core.FlowGraph, address: int) -> None:
        self._graph = graph
        self._address = address

    def at_home(self) -> int:
        """How many are back. After the graph has ended, and not before: all of them."""
        return self._graph.at_home(self._address)


class Flowgraph(Shown, Closing):
    """Blocks, the circuits between them, and the threads that run them; built and run once.

    A ``with`` statement ends it as ``close()`` does. One that runs is kept alive until ``wait()``
    has returned or it is closed.
    """

    def __init__(self) -> None:
        self._core = _core.FlowGraph()
        self._blocks: list[AnyBlock] = []
        self._circuits: set[str] = set()  # their names
        self._started = False
        self._raised: BaseException | None = None  # by the first work() that did
        self._lock = threading.Lock()  # held while it is started

    def _facts(self) -> list[tuple[str, str]]:
        return [
            ("blocks", ", ".join(block.name for block in self._blocks) or "none"),
            ("is", "started" if self._started else "not started"),
        ]

    def add(self, block: B) -> B:
        """The block, which belongs to this graph now. Its name must be the only one."""
        self._core.add(_handle(block))
        self._blocks.append(block)
        return block

    def circuit(self, name: str, source: SourcePort, quanta: int, samples: int) -> Circuit:
        """``quanta`` buffers of ``samples`` samples each, which begin at ``source``."""
        quanta, samples = _whole("quanta", quanta), _whole("samples", samples)
        name = _text("a circuit's name", name)
        if name in self._circuits:
            raise ArgumentError(f"the graph has a circuit {name!r:.60}; use another name")
        made = Circuit(self._core, self._core.circuit(name, core_of(source), quanta, samples))
        self._circuits.add(name)
        return made

    def connect(self, source: SourcePort | InPlacePort, to: InputPort | InPlacePort) -> None:
        """Raises ArgumentError if the dtypes differ, or they are connected already."""
        self._core.connect(core_of(source), core_of(to))

    def validate(self) -> None:
        """Raises ArgumentError with the port and the reason if the graph cannot work."""
        self._core.validate()

    def start(
        self,
        *,
        sequences: Iterable[tuple[Sequence[AnyBlock], int]] = (),
        pools: Iterable[tuple[Sequence[AnyBlock], Sequence[int]]] = (),
    ) -> None:
        """Runs it: a thread for each block that is not named here.

        ``sequences``: blocks that one thread runs in turn, and the core it is pinned to (-1: any).
        ``pools``: blocks that a few threads share, and the core of each thread (-1: any).
        """
        seats = _seats("sequences", sequences, "a core", _core_number)
        shared = _seats("pools", pools, "cores", lambda cores: [_core_number(c) for c in cores])
        with self._lock:
            if self._started:
                raise ArgumentError("the graph has been started before: build a new one")
            for block in self._in_python():
                block._core.set_work(self._noting(block))
            try:
                self._core.start(seats, shared)
            except BaseException:
                self._let_go()
                raise
            self._started = True
            _running.add(self)

    def run(self, timeout: float = float("inf")) -> None:
        """``start()`` and ``wait()``."""
        self.start()
        self.wait(timeout)

    def wait(self, timeout: float = float("inf")) -> None:
        """Until all blocks have finished.

        Raises DeadlineError, with the text of ``starved()``, after ``timeout`` seconds (the graph
        goes on), and FailedError with the block's name if a ``work()`` has raised. Ctrl-C gets
        through. The exception of a ``work()`` in Python is the error's ``__cause__``.
        """
        self._check_outside("wait")
        until = time.monotonic() + _seconds(timeout)
        while True:  # ends: by the graph or by the clock
            left = until - time.monotonic()
            try:
                self._core.wait(min(max(left, 0.0), _SLICE))
            except DeadlineError:
                if left <= _SLICE:
                    raise
                continue
            except FailedError as error:
                self._let_go()
                raised, self._raised = self._raised, None
                raise error from raised
            break
        self._let_go()
        for block in self._blocks:
            if isinstance(block, KindBlock) and block.raised is not None:
                raise FailedError(
                    f'block "{block.name}" has failed: {block.raised}'
                ) from block.raised

    def stop(self) -> None:
        """Sources finish; what they have sent is processed. Returns at once."""
        self._core.stop()

    def abort(self) -> None:
        """All blocks leave after the ``work()`` they are in; samples under way are lost."""
        self._core.abort()

    def starved(self) -> str:
        """Which blocks wait, at which port, for how long, and where the quanta are."""
        return self._core.starved()

    def close(self) -> None:
        """Ends it as ``abort()`` does, and waits for that. Harmless when called again.

        Not from a ``work()``, which it would wait for: that calls ``stop()`` or ``abort()``.
        """
        self._check_outside("close")
        self._core.close()
        _running.discard(self)

    def _check_outside(self, call: str) -> None:
        me = threading.get_ident()
        if any(me in block._working for block in self._in_python()):
            raise ArgumentError(
                f"{call}() in a work() of this graph would wait for itself; stop() and abort() end "
                "the graph, and finish() the block"
            )

    def _noting(self, block: Block) -> Callable[[], None]:
        """Its work; what it raises is kept, with its traceback, for wait()."""
        work, working = block.work, block._working

        def noting() -> None:
            working.add(threading.get_ident())
            try:
                work()
            except BaseException as error:
                if self._raised is None:
                    self._raised = error
                raise
            finally:
                working.discard(threading.get_ident())

        return noting

    def _in_python(self) -> list[Block]:
        return [block for block in self._blocks if isinstance(block, Block)]

    def _let_go(self) -> None:
        for block in self._in_python():
            with suppress(ClosedError):  # another thread has closed the graph
                block._core.drop_work()
        _running.discard(self)


def _handle(block: AnyBlock) -> _core.FlowHandle:
    if isinstance(block, AnyBlock):
        if hasattr(block, "_handle"):
            return block._handle
        raise ArgumentError(
            f"{type(block).__name__}.__init__() has not called super().__init__(name), which makes "
            "the block"
        )
    way_out = "use an instance of flow.Block, or a block of the library"
    if isinstance(block, type) and issubclass(block, AnyBlock):
        way_out = f"make one: {block.__name__}(...)"
    raise ArgumentError(f"{block!r:.60} is no block; {way_out}")


def _core_number(given: int) -> int:
    try:
        core = operator.index(given)
    except TypeError:
        core = -(2**31)
    if not -(2**31) < core < 2**31:
        raise ArgumentError(f"core {given!r:.60}; use the number of a core, or -1 for any")
    return core


def _seats(
    name: str,
    given: Iterable[tuple[Sequence[AnyBlock], Any]],
    where: str,
    number: Callable[[Any], Any],
) -> list[tuple[list[_core.FlowHandle], Any]]:
    """Which blocks go where."""
    seats = []
    try:
        for blocks, cores in given:
            seats.append(([_handle(block) for block in blocks], number(cores)))
    except ArgumentError:
        raise
    except (TypeError, ValueError):
        raise ArgumentError(
            f"{name} = {given!r:.60}; use a list of pairs: a list of blocks, and {where}"
        ) from None
    return seats


# The threads of these refer to their blocks from C++, where the collector does not look.
_running: set[Flowgraph] = set()


@atexit.register
def _end_all() -> None:
    """No thread of a graph may call into an interpreter that is going."""
    for graph in list(_running):
        graph.close()
