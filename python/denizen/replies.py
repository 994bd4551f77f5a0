# SPDX-License-Identifier: Apache-2.0
"""Answers to the asks of coroutines: one thread waits for all of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from denizen import threads
from denizen.errors import (
    ClosedError,
    DeadlineError,
    DenizenError,
    ExhaustedError,
    RingFullError,
)

if TYPE_CHECKING:
    import asyncio

Reply = tuple[int, bytes]


class Asked(Protocol):
    """What answers: the part of the extension module's objects that is used here."""

    def ask_ready(self, tickets: Sequence[int], timeout: float) -> list[int]: ...
    def ask_end(self, ticket: int) -> Reply: ...
    def ask_abandon(self, ticket: int) -> None: ...


class AsyncReplies:
    """A thread, started at the first ask, that waits for all asks of coroutines.

    ``name``: what answers, for errors.
    """

    def __init__(self, core: Asked, name: str = "the runtime") -> None:
        self._core = core
        self._name = name
        self._lock = threading.Condition()
        self._open: dict[int, tuple[asyncio.AbstractEventLoop, asyncio.Future[Reply]]] = {}
        self._closed = False
        self._thread: threading.Thread | None = None

    async def ask(self, begin: Callable[[], int], timeout: float, late: Callable[[], str]) -> Reply:
        """The answer to what ``begin()`` asks, which returns a ticket.

        ``timeout``: seconds. Raises what begin() does for want of room until then, and
        DeadlineError(late()) without an answer.
        """
        import asyncio  # noqa: PLC0415  (a sixth of the time of `import denizen`)

        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        while True:  # ends by room for the question or by the deadline
            try:
                ticket = begin()
                break
            except (RingFullError, ExhaustedError):
                if loop.time() >= deadline:
                    raise
            await asyncio.sleep(0.0005)
        try:
            return await asyncio.wait_for(self._wait(ticket), max(deadline - loop.time(), 0.0))
        except (TimeoutError, asyncio.CancelledError) as error:
            self._forget(ticket)
            if isinstance(error, asyncio.CancelledError):
                raise
            raise DeadlineError(late()) from None

    async def _wait(self, ticket: int) -> Reply:
        import asyncio  # noqa: PLC0415  (see ask())

        loop = asyncio.get_running_loop()
        future: asyncio.Future[Reply] = loop.create_future()
        with self._lock:
            if self._closed:
                raise ClosedError(f"{self._name} is closed")
            if self._thread is None:
                self._thread = threads.start(self._run, "denizen asks")
            self._open[ticket] = (loop, future)
            self._lock.notify()
        return await future

    def _forget(self, ticket: int) -> None:
        with self._lock:
            if self._open.pop(ticket, None) is not None:
                self._core.ask_abandon(ticket)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._lock.notify()
        if self._thread is not None:
            self._thread.join()
        error = ClosedError(f"{self._name} was closed before the answer came")
        for loop, future in self._open.values():
            _tell(loop, future, error)
        self._open.clear()

    def _run(self) -> None:
        while True:  # ends by close()
            with self._lock:
                self._lock.wait_for(lambda: self._open or self._closed)
                if self._closed:
                    return
                tickets = list(self._open)
            # Briefly: asks that begin meanwhile are not among these.
            for ticket in self._core.ask_ready(tickets, 0.0005):
                with self._lock:
                    entry = self._open.pop(ticket, None)
                    if entry is None:
                        continue
                    try:
                        reply: Reply | Exception = self._core.ask_end(ticket)
                    except DenizenError as error:  # another host's, which cannot answer
                        reply = error
                _tell(*entry, reply)


def _tell(
    loop: asyncio.AbstractEventLoop, future: asyncio.Future[Reply], outcome: Reply | Exception
) -> None:
    # A loop that has been closed has nobody left to tell.
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(_settle, future, outcome)


def _settle(future: asyncio.Future[Reply], outcome: Reply | Exception) -> None:
    if future.done():
        return
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
