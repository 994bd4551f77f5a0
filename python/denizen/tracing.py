# SPDX-License-Identifier: Apache-2.0
"""Tracing a running program to a file: a part of Runtime.

with denizen.Runtime(program, trace=True) as rt:
    with rt.trace("out.perfetto"):
        ...                            # what is sent in here is traced
"""

from __future__ import annotations

import threading
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from denizen import threads
from denizen.errors import ArgumentError, ClosedError, ExhaustedError
from denizen.trace import TRACE_RECORD, require_perfetto, write_perfetto

if TYPE_CHECKING:
    from denizen import _core
    from denizen.program import Program
    from denizen.snapshot import Path

TRACE_SLOTS = 4096  # records of a worker: 256 KB each
_PERIOD = 0.02  # seconds between two readings: 5 us a record before one is lost


class Collector:
    """Has a program traced from begin() to end(), and gathers its records meanwhile."""

    def __init__(self, core: _core.Runtime) -> None:
        self._core = core
        self._parts: list[NDArray[np.void]] = []
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self.overwritten = 0

    def begin(self) -> None:
        """From now on what is sent is traced."""
        self._core.take_trace()  # what an earlier trace has left
        self._core.trace(True)
        try:
            self._thread = threads.start(self._run, "denizen trace")
        except ExhaustedError:
            self._core.trace(False)
            raise

    def stop(self) -> bool:
        """Nothing is traced any more. False if it has ended already."""
        if self._ended.is_set():
            return False
        self._ended.set()
        if self._thread is not None:
            self._thread.join()  # ends: a reading takes milliseconds
        self._core.trace(False)
        return True

    def records(self) -> NDArray[np.void]:
        """All, once it has stopped: shape (n,), dtype TRACE_RECORD."""
        self._take()
        records = np.concatenate(self._parts)
        self._parts.clear()
        return records

    def _take(self) -> None:
        data, overwritten = self._core.take_trace()
        self._parts.append(np.frombuffer(data, TRACE_RECORD))
        self.overwritten += overwritten

    def _run(self) -> None:
        while not self._ended.wait(_PERIOD):  # ends with the trace, or with the program
            try:
                self._take()
            except ClosedError:
                return


class Tracer:
    """One trace, from entering it, or begin(), to leaving it, or end(), which writes the file.

    ``overwritten`` is how many records were lost, known at the end: workers that handled more than
    TRACE_SLOTS messages between two readings. The records wait in this process's memory, 48 bytes
    each, two for a message.
    """

    def __init__(self, runtime: Traces, path: Path) -> None:
        self._runtime = runtime
        self._path = path
        self._collector: Collector | None = None
        self.overwritten = 0
        self.records = 0

    def begin(self) -> None:
        """Traces what is sent from now on."""
        require_perfetto()  # not only at the end
        self._collector = Collector(self._runtime._core)
        self._collector.begin()
        self._runtime._tracer = self

    def end(self) -> None:
        """Ends the trace and writes the file.

        It has the handlers that have ended by now: drain() first for those of all messages.
        """
        if self._collector is None or not self._stop():
            return
        records = self._collector.records()
        self.overwritten = self._collector.overwritten
        self.records = records.size
        program = self._runtime.program
        write_perfetto(
            self._path,
            records,
            actors=list(program.actors),
            messages=list(program.messages),
            workers_per_node=self._runtime._core.description["workers"],
        )

    def drop(self) -> None:
        """Ends the trace and writes nothing."""
        self._stop()

    def _stop(self) -> bool:
        """False if it has ended already, or not begun."""
        if self._collector is None or not self._collector.stop():
            return False
        self._runtime._tracer = None
        return True

    def __enter__(self) -> Tracer:
        self.begin()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()


class Traces:
    """The part of Runtime that is about tracing."""

    _core: _core.Runtime
    _tracer: Tracer | None
    program: Program

    def trace(self, path: Path) -> Tracer:
        """Traces what is sent inside `with rt.trace(path):` and writes it for ui.perfetto.dev.

        Each message carries a stamp of a hybrid logical clock, and leaves a record of its sending
        and one of its handling, with device times. The file has a span for each handler, an instant
        for each send, and a flow from one to the other. Traced messages cost more, so what is
        measured is slower than it would be; a program that is not being traced pays nothing.

        The runtime must have been started with `trace=True` (ArgumentError otherwise); one trace at
        a time. MissingPackageError without the package perfetto.
        """
        if self._tracer is not None:
            raise ArgumentError(f'a trace to "{self._tracer._path}" is being taken; end it first')
        return Tracer(self, path)


def slots(trace: bool, sizes: dict[str, Any]) -> dict[str, Any]:
    """The sizes, with rings for tracing if that is wanted and they do not say how large."""
    return {"trace_slots": TRACE_SLOTS, **sizes} if trace else sizes
