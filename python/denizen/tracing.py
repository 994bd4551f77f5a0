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


class Tracer:
    """One trace, from entering it, or begin(), to leaving it, or end(), which writes the file.

    ``overwritten`` is how many records were lost, known at the end: workers that handled more than
    TRACE_SLOTS messages between two readings. The records wait in this process's memory, 48 bytes
    each, two for a message.
    """

    def __init__(self, runtime: Traces, path: Path) -> None:
        self._runtime = runtime
        self._path = path
        self._parts: list[NDArray[np.void]] = []
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self.overwritten = 0
        self.records = 0

    def begin(self) -> None:
        """Traces what is sent from now on."""
        require_perfetto()  # not only at the end
        core = self._runtime._core
        core.take_trace()  # what an earlier trace has left
        core.trace(True)
        try:
            self._thread = threads.start(self._run, "denizen trace")
        except ExhaustedError:
            core.trace(False)
            raise
        self._runtime._tracer = self

    def end(self) -> None:
        """Ends the trace and writes the file.

        It has the handlers that have ended by now: drain() first for those of all messages.
        """
        if not self._stop():
            return
        self._take()
        records = np.concatenate(self._parts)
        self.records = records.size
        program = self._runtime.program
        write_perfetto(
            self._path,
            records,
            actors=list(program.actors),
            messages=list(program.messages),
            workers_per_node=self._runtime._core.description["workers"],
        )
        self._parts.clear()

    def drop(self) -> None:
        """Ends the trace and writes nothing."""
        if self._stop():
            self._parts.clear()

    def _stop(self) -> bool:
        """False if it has ended already."""
        if self._ended.is_set():
            return False
        self._ended.set()
        self._runtime._tracer = None
        if self._thread is not None:
            self._thread.join()  # ends: a reading takes milliseconds
        self._runtime._core.trace(False)
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

    def _take(self) -> None:
        data, overwritten = self._runtime._core.take_trace()
        self._parts.append(np.frombuffer(data, TRACE_RECORD))
        self.overwritten += overwritten

    def _run(self) -> None:
        while not self._ended.wait(_PERIOD):  # ends with the trace, or with the program
            try:
                self._take()
            except ClosedError:
                return


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
