# SPDX-License-Identifier: Apache-2.0
"""device="python": a program whose handlers Python runs, one after the other, in the thread that
calls the runtime.

It stands in for denizen._core.Runtime and keeps what is promised of it: messages of one sender to
one actor in order, urgent ones before others, replies, topics, lives and supervision. Every call
handles what is queued, at most BATCH messages, and one that waits goes on until it has what it
waits for. Nothing else decides the order, so a run can be repeated. An exception in a handler
reaches the caller.

It has one worker and no limits of room, and no snapshots, buffers, telemetry or traces. A
deadline_ns is not kept while a debugger or coverage looks on.
"""

from __future__ import annotations

from typing import Any, NoReturn

from denizen.errors import DeadlineError
from denizen.handlers.interpreter.context import Context, missing
from denizen.handlers.interpreter.supervision import Supervision
from denizen.handlers.interpreter.topics import Topics

__all__ = ["Context", "Interpreter"]


class Interpreter(Topics, Supervision):
    """See the module. The methods are those of denizen._core.Runtime."""

    def _context(self, actor: int, sender: int) -> Context:
        return Context(self, actor, sender)

    def drain(self, timeout: float) -> None:
        if not self._run(self._quiet, timeout):
            raise DeadlineError(f"messages are still being handled after {timeout:g} s")

    def pause(self, timeout: float) -> None:
        self._check()
        self._paused = True

    def resume(self) -> None:
        self._check()
        self._paused = False
        self._run()

    def park(self, timeout: float) -> None:
        self._check()

    def parked(self) -> bool:
        return False

    @property
    def description(self) -> dict[str, Any]:
        return {
            "device": "Python, one step at a time",
            "on_gpu": False,
            "nodes": 1,
            "workers": 1,
            "cluster": 1,
            "per_sm": 1,
            "worker_threads": 1,
            "partition": 0,
            "geometry": "one worker, which is the caller",
            "shared_bytes": 0,
            "host_ring_memory": "none",
            "why_not_mapped": "",
            "device_bytes": 0,
            "host_bytes": 0,
            "start_ms": 0.0,
        }

    def stats(self) -> dict[str, Any]:
        self._run()
        return {
            "handled": self._handled,
            "dead_letters": sum(self._died.values()),
            "dead_letters_by_reason": dict(self._died),
            "stashed": sum(len(a.waiting) for a in self._actors.values()),
            "errors": self._errors,
            "first_error": self._first_error,
            "mode": "paused" if self._paused else "running",
            "launches": 1,
            "incarnations": 1,
            "handover_ns": dict.fromkeys(
                (
                    "count",
                    "min",
                    "mean",
                    "max",
                    "attempts",
                    "mean_asking",
                    "mean_leaving",
                    "mean_carrying",
                ),
                0,
            ),
            "handled_by_worker": [self._handled],
            "sent_by_route": {
                **dict.fromkeys(("worker", "sm", "cluster", "gpu", "peer", "host"), 0),
                **self._sent,
            },
        }

    def observe(self, on: bool) -> None:
        self._check()

    def stuck(self, at_least: float) -> str:
        return ""

    def close(self, timeout: float) -> None:
        if not self._closed:
            try:
                self._run(self._quiet, timeout)
            finally:
                self._closed = True

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        raise missing(name)
