# SPDX-License-Identifier: Apache-2.0
"""Blocks and their ports."""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable
from types import MethodType
from typing import Any, Generic, NamedTuple, TypeVar
from weakref import WeakMethod

import numpy as np
from numpy.typing import DTypeLike, NDArray

from denizen import _core, values
from denizen.errors import ArgumentError, ClosedError
from denizen.shown import Shown

T = TypeVar("T")

_MOST = 2**63 - 1  # samples of a stream


class Tag(NamedTuple):
    """Metadata at an exact sample, counted from the first of what it is found in."""

    sample: int
    key: str
    value: int | float | str


def checked_tag(tag: Tag | tuple[int, str, int | float | str]) -> Tag:
    """A Tag, also if it is given as a tuple. Raises ArgumentError."""
    try:
        sample, key, value = tag
    except (TypeError, ValueError):
        raise ArgumentError(f"{tag!r:.60} is no tag; use flow.Tag(sample, key, value)") from None
    sample = values.whole("a tag's sample", sample, _MOST)
    key = values.text("a tag's key", key)
    if isinstance(value, str):
        return Tag(sample, key, values.text("a tag's text", value))
    try:
        whole = _index(value)
    except TypeError:
        return Tag(sample, key, values.number("a tag's value, which is no text,", value))
    if not -(2**63) <= whole < 2**63:
        raise ArgumentError(
            f"a tag's value = {whole!r:.60}; use a whole number of 64 bits, a float or text"
        )
    return Tag(sample, key, whole)


def _index(given: Any) -> int:
    return operator.index(given)


def core_of(port: Port) -> _core.FlowPort:
    """What a port is made of. Raises ArgumentError for what is none."""
    if not isinstance(port, Port):
        hint = ""
        if isinstance(port, AnyBlock):
            names = [name for name, value in vars(port).items() if isinstance(value, Port)]
            hint = f" of block {port.name!r}: " + ", ".join(names)
        raise ArgumentError(f"{port!r:.60} is no port; use one{hint}")
    return port._core


class Port(Shown):
    """What all ports have. Made by a block's methods, used in its ``work()`` and to connect it."""

    def __init__(self, core: _core.FlowPort, dtype: np.dtype[Any]) -> None:
        self._core = core
        self.dtype = dtype

    def _facts(self) -> list[tuple[str, str]]:
        try:
            label = self.label
        except ClosedError:  # the graph has gone
            label = "of no graph"
        return [("port", label), ("of", str(self.dtype))]

    @property
    def label(self) -> str:
        """``block.port``."""
        return self._core.label

    @property
    def loaded(self) -> bool:
        """Whether it has a quantum: if ``work_on_any_input()``, it may not."""
        return self._core.loaded

    @property
    def position(self) -> int:
        """Samples of the stream before the current quantum (a source: sent or filled so far)."""
        return self._core.position

    def needs(self, samples: int) -> None:
        """A quantum with room for fewer samples is of no use: such a graph is refused."""
        self._core.needs(_samples(samples))


class InputPort(Port):
    """Reads quanta by reference; several such ports can read one output."""

    @property
    def array(self) -> NDArray[Any]:
        """What has not been consumed of the current quantum: a view, read-only, until then.

        In ``work()`` only. After it the memory is still there, but holds other samples: copy what
        you keep. Raises ArgumentError if there is no quantum.
        """
        return self._core.array

    @property
    def tags(self) -> list[Tag]:
        """Those of ``array``."""
        return [Tag(*tag) for tag in self._core.tags]

    def consume(self, samples: int | None = None) -> None:
        """These samples are read (all, if not said); a quantum that is read goes back."""
        self._core.consume(len(self._core.array) if samples is None else _samples(samples))


class SourcePort(Port):
    """Begins a circuit: its buffers come here empty and leave filled."""

    @property
    def array(self) -> NDArray[Any]:
        """The room that is left in the current quantum: a view to fill. See InputPort.array."""
        return self._core.array

    def produce(self, samples: int | None = None) -> None:
        """So many samples of ``array`` are filled (all, if not said); a full quantum leaves."""
        self._core.produce(len(self._core.array) if samples is None else _samples(samples))

    def flush(self) -> None:
        """Sends what there is although the quantum is not full."""
        self._core.flush()

    def tag(self, ahead: int, key: str, value: int | float | str) -> None:
        """A tag at ``ahead`` samples after the last one produced."""
        self._core.tag(*checked_tag((ahead, key, value)))

    def follow(self, port: InputPort | InPlacePort, *, out: int = 1, into: int = 1) -> None:
        """Tags of an input go with the samples made of them, ``out`` from every ``into``."""
        out, into = values.whole("out", out), values.whole("into", into)
        self._core.follow(core_of(port), out, into)

    def leave_margin(self, samples: int) -> None:
        """The first samples of every buffer stay free: room to grow into."""
        self._core.leave_margin(_samples(samples))


class InPlacePort(Port):
    """Changes quanta and passes them on.

    ``becomes``: the dtype of what it sends, that of what it gets for blocks in Python.
    """

    def __init__(
        self, core: _core.FlowPort, dtype: np.dtype[Any], becomes: np.dtype[Any] | None = None
    ) -> None:
        super().__init__(core, dtype)
        self.becomes = dtype if becomes is None else becomes

    @property
    def array(self) -> NDArray[Any]:
        """The window of the current quantum: a view to change. See InputPort.array."""
        return self._core.array

    @property
    def tags(self) -> list[Tag]:
        """Those of ``array``."""
        return [Tag(*tag) for tag in self._core.tags]

    def trim(self, left: int, right: int) -> None:
        """Samples leave the window, with their tags."""
        self._core.trim(_samples(left), _samples(right))

    def grow(self, left: int, right: int) -> None:
        """Margins come back into the window; what lies there was last written there."""
        self._core.grow(_samples(left), _samples(right))

    def pass_on(self) -> None:
        """Sends the quantum on; an empty one goes back."""
        self._core.pass_on()


def _samples(given: int) -> int:
    return values.whole("samples", given, _MOST)


class Messages(Generic[T]):
    """Control of a running block: its handler runs between two calls of ``work()``."""

    def __init__(self, core: _core.FlowBlock, number: int) -> None:
        self._core = core
        self._number = number

    def post(self, value: T) -> None:
        """From any thread. RingFullError when 64 wait, ClosedError when the block has finished."""
        self._core.post(self._number, value)


class AnyBlock(Shown):
    """What a graph is made of: a Block in Python, or one of the library (Fir, Multiply, ...)."""

    def __init__(self, name: str, core: _core.FlowHandle) -> None:
        self.name = name
        self._handle = core

    def _facts(self) -> list[tuple[str, str]]:
        return [
            ("called", self.name),
        ]


class Block(AnyBlock):
    """A block in Python: make ports in ``__init__``, say in ``work()`` what it does.

    ``work()`` is called on a thread of the graph, when every input has a quantum and every source
    has room. It must move something; one that did not is called again after 50 us. What it raises
    ends the graph, and comes out of ``Flowgraph.wait()`` as FailedError with the block's name.
    """

    def __init__(self, name: str) -> None:
        self._core = _core.FlowBlock(values.text("a block's name", name))
        self._ports: set[str] = set()
        self._working: set[int] = set()  # the threads that are in its work() or a handler of it
        super().__init__(name, self._core)

    def work(self) -> None:
        """What it does with the quanta at its ports."""
        raise NotImplementedError(f"block {self.name!r} has no work()")

    def input(self, name: str, dtype: DTypeLike) -> InputPort:
        """A port that reads samples of ``dtype``: integers, floats or complex numbers."""
        kind = values.element("dtype", dtype)
        return InputPort(self._port("in", name, kind), kind)

    def source(self, name: str, dtype: DTypeLike) -> SourcePort:
        """A port that begins a circuit."""
        kind = values.element("dtype", dtype)
        return SourcePort(self._port("source", name, kind), kind)

    def in_place(self, name: str, dtype: DTypeLike) -> InPlacePort:
        """A port that changes quanta and passes them on."""
        kind = values.element("dtype", dtype)
        return InPlacePort(self._port("in place", name, kind), kind)

    def messages(self, name: str, handler: Callable[[T], object]) -> Messages[T]:
        """A port for control: ``handler`` is called with each value posted to it."""
        if not callable(handler):
            raise ArgumentError(f"messages {name!r}: {handler!r:.60} is no function to handle them")
        working = self._working
        # A method would keep this block alive from C++, where the collector does not look.
        found: Callable[[], Callable[[T], object] | None]
        found = WeakMethod(handler) if isinstance(handler, MethodType) else lambda: handler

        def handle(value: T) -> None:
            working.add(threading.get_ident())
            try:
                if (call := found()) is not None:
                    call(value)
            finally:
                working.discard(threading.get_ident())

        name = self._own_name(name)
        made: Messages[T] = Messages(self._core, self._core.messages(name, handle))
        self._ports.add(name)
        return made

    def work_on_any_input(self) -> None:
        """``work()`` is called when one input has a quantum; the block ends when all have ended."""
        self._core.work_on_any_input()

    def finish(self) -> None:
        """In ``work()``: this was the last call."""
        self._core.finish()

    def _port(self, kind: str, name: str, dtype: np.dtype[Any]) -> _core.FlowPort:
        name = self._own_name(name)
        made = self._core.port(kind, name, f"{dtype.kind}{dtype.itemsize}")
        self._ports.add(name)
        return made

    def _own_name(self, name: str) -> str:
        """A port's, by which errors tell it from the others."""
        name = values.text("a port's name", name)
        if name in self._ports:
            raise ArgumentError(
                f"block {self.name!r:.60} has a port {name!r:.60}; use another name"
            )
        return name
