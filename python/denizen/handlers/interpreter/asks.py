# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PLR0917  (the methods are the core's)
"""Messages of the host: what it sends, what it asks, what it gets."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from denizen.errors import ArgumentError, DeadlineError, MessageError, NoActorError
from denizen.handlers.interpreter.loop import Loop
from denizen.handlers.interpreter.parts import Actor, Letter
from denizen.life import HOST

_ASK = HOST | 1 << 28  # of the address of a question


class Asks(Loop):
    """Calls of denizen._core.Runtime."""

    def send(self, to: int, type: int, message: Any, timeout: float) -> None:
        with self._lock:
            self._check()
            self._refuse(to, type)
            self._queue(Letter(to, HOST, type, self._bytes(type, message)))
            self._run()

    def _bytes(self, type: int, message: Any) -> bytes:
        data = bytes(message.tobytes() if isinstance(message, np.generic | np.ndarray) else message)
        own = self._messages[type]
        if len(data) != own.dtype.itemsize:
            raise MessageError(f"{own.name} has {own.dtype.itemsize} bytes, not {len(data)}")
        return data

    def _refuse(self, to: int, type: int) -> None:
        actor = self._actors.get(to)
        if actor is None:
            raise NoActorError(
                f"address {to:#010x} names no actor; spawn it first and use its address"
            )
        if actor.life == "stopped":
            raise NoActorError(
                f"{self._named(to)} has stopped; an address is not given out again, spawn another"
            )
        name = self._types[actor.kind].name if isinstance(actor, Actor) else ""
        if (name, type) not in self._handlers:
            raise MessageError(f"{self._named(to)} has no handler for {self._messages[type].name}")

    def send_many(
        self,
        to: NDArray[np.uint32],
        type: int,
        messages: NDArray[np.uint8],
        length: int,
        count: int,
        timeout: float,
    ) -> None:
        if to.size not in (1, count):
            raise ArgumentError(f"{to.size} addresses for {count} messages; give one or as many")
        data = messages.tobytes()
        own = self._messages[type]
        if length != own.dtype.itemsize:
            raise MessageError(f"{own.name} has {own.dtype.itemsize} bytes, not {length}")
        with self._lock:
            self._check()
            for i in range(count):
                address = int(to[0] if to.size == 1 else to[i])
                try:
                    self._refuse(address, type)
                except (NoActorError, MessageError) as error:
                    raise error.__class__(
                        f"{error} ({i} of {count} messages were accepted before)"
                    ) from None
                self._queue(Letter(address, HOST, type, data[i * length : (i + 1) * length]))
            self._run()

    def broadcast(self, actor_type: int, type: int, message: Any, timeout: float) -> None:
        name = self._types[actor_type].name
        if (name, type) not in self._handlers:
            raise MessageError(f"actor {name} has no handler for {self._messages[type].name}")
        data = self._bytes(type, message)
        with self._lock:
            self._check()
            for actor in self._actors.values():
                own = isinstance(actor, Actor) and actor.kind == actor_type
                if own and actor.life != "stopped":
                    self._queue(Letter(actor.address, HOST, type, data))
            self._run()

    def ask_begin(self, to: int, type: int, message: Any, timeout: float) -> int:
        with self._lock:
            self._check()
            self._refuse(to, type)
            ticket = _ASK | self._asked & ((1 << 28) - 1)
            self._asked += 1
            self._asks[ticket] = None
            self._queue(Letter(to, ticket, type, self._bytes(type, message)))
            return ticket

    def ask_ready(self, tickets: Sequence[int], timeout: float) -> list[int]:
        self._run()
        ready = [t for t in tickets if self._asks.get(t) is not None]
        if not ready:
            time.sleep(timeout)  # it is asked again and again
        return ready

    def ask_end(self, ticket: int) -> tuple[int, bytes]:
        answer = self._asks.pop(ticket)
        assert answer is not None
        return answer

    def ask_abandon(self, ticket: int) -> None:
        self._asks.pop(ticket, None)

    def error_name(self, actor: int) -> str:
        return self._named(actor)

    def ask(self, to: int, type: int, message: Any, timeout: float) -> tuple[int, bytes]:
        ticket = self.ask_begin(to, type, message, timeout)
        try:
            if not self._run(lambda: self._asks[ticket] is not None, timeout):
                raise DeadlineError(
                    f"ask {self._messages[type].name} to {self._named(to)} was not answered within "
                    f"{timeout:g} s{self._why()}"
                )
            return self.ask_end(ticket)
        finally:
            self.ask_abandon(ticket)

    def ask_many(
        self,
        to: NDArray[np.uint32],
        type: int,
        messages: NDArray[np.uint8],
        length: int,
        one_message: bool,
        count: int,
        reply_type: int,
        replies: NDArray[np.uint8],
        reply_length: int,
        timeout: float,
    ) -> None:
        if to.size not in (1, count):
            raise ArgumentError(f"{to.size} addresses for {count} messages; give one or as many")
        data = messages.tobytes()
        out = replies.reshape(-1)
        for i in range(count):
            at = 0 if one_message else i * length
            address = int(to[0] if to.size == 1 else to[i])
            kind, answer = self.ask(address, type, data[at : at + length], timeout)
            if kind != reply_type:
                raise MessageError(
                    f"{self._named(address)} answered with {self._messages[kind].name}, not "
                    f"{self._messages[reply_type].name}"
                )
            out[i * reply_length : (i + 1) * reply_length] = np.frombuffer(answer, np.uint8)

    def receive(self, timeout: float) -> tuple[int, bytes, int]:
        if not self._run(lambda: bool(self._egress), timeout):
            raise DeadlineError(
                f"no actor sent a message to the host within {timeout:g} s{self._why()}"
            )
        return self._egress.popleft()

    def _why(self) -> str:
        """Why a wait has ended, if before its deadline."""
        if self._paused:
            return ": the program is paused"
        return "" if self._urgent or self._data else ": nothing is under way"

    def receive_many(
        self,
        type: int,
        messages: NDArray[np.uint8],
        length: int,
        count: int,
        senders: NDArray[np.uint32],
    ) -> int:
        self._run()
        out = messages.reshape(-1)
        n = 0
        while n < count and self._egress and self._egress[0][0] == type:
            _, data, sender = self._egress.popleft()
            out[n * length : (n + 1) * length] = np.frombuffer(data, np.uint8)
            senders[n] = sender
            n += 1
        return n
