# SPDX-License-Identifier: Apache-2.0
"""Messages to actors and back: send, ask and receive; a part of Runtime."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from denizen.actor import ActorType
from denizen.errors import ArgumentError, MessageError
from denizen.message import METADATA, MessageType, fields_of
from denizen.values import address as _address
from denizen.values import seconds as _seconds
from denizen.values import whole as _whole

if TYPE_CHECKING:
    from denizen import _core
    from denizen.program import Program
    from denizen.replies import AsyncReplies

Messages = NDArray[np.void]
Addresses = NDArray[np.uint32]


@dataclass(frozen=True)
class Received:
    """A message that an actor sent to the host."""

    type: str
    message: np.void
    sender: int


class Messaging:
    """The part of Runtime that is about messages."""

    _core: _core.Runtime
    _async: AsyncReplies

    if TYPE_CHECKING:

        def _actor(self, actor: str | ActorType) -> int: ...

    def _know(self, program: Program) -> None:
        """The program whose messages these are."""
        self._types = list(program.messages.values())
        self._ids = {m.name: i for i, m in enumerate(self._types)}
        # By the dtypes themselves, which the types keep: what most messages are made with.
        self._by_dtype = {id(m.dtype): i for i, m in enumerate(self._types)}

    # ---- messages

    def send(
        self,
        address: int,
        message: np.void | Messages | str,
        *,
        timeout: float = 1.0,
        **fields: Any,
    ) -> None:
        """Sends one message: a record of a message dtype, or a type's name with its fields."""
        kind, record = self._one(message, fields)
        self._core.send(_address(address), kind, record, _seconds(timeout))

    def send_many(self, addresses: ArrayLike, messages: Messages, *, timeout: float = 60.0) -> None:
        """Sends an array of messages of one type, shape (n,), to one address or to n of them.

        An error says how many were accepted before it. Ctrl-C cannot: those before the full ring
        that it waited for are sent, in order.
        """
        kind, array = self._array(messages)
        self._core.send_many(
            _addresses(addresses),
            kind,
            array.view(np.uint8),
            array.dtype.itemsize,
            array.size,
            _seconds(timeout),
        )

    def broadcast(
        self,
        actor: str | ActorType,
        message: np.void | Messages | str,
        *,
        timeout: float = 1.0,
        **fields: Any,
    ) -> None:
        """Sends one message to every actor of a type."""
        kind, record = self._one(message, fields)
        self._core.broadcast(self._actor(actor), kind, record, _seconds(timeout))

    def ask(
        self,
        address: int,
        message: np.void | Messages | str,
        *,
        timeout: float = 1.0,
        **fields: Any,
    ) -> np.void:
        """Sends a message and waits for the reply, which it returns as a record."""
        kind, record = self._one(message, fields)
        reply, data = self._core.ask(_address(address), kind, record, _seconds(timeout))
        return self._types[reply].read(data)

    def ask_many(
        self,
        addresses: ArrayLike,
        messages: np.void | Messages | str,
        reply: MessageType | str,
        *,
        timeout: float = 10.0,
    ) -> Messages:
        """Asks n actors and waits for all replies.

        Args:
            addresses: one, or n.
            messages: one for all, or n.
            reply: the type of every reply.

        Returns the replies in the order of the addresses, shape (n,).
        """
        to = _addresses(addresses)
        if isinstance(messages, str):
            messages = self._own(messages)()
        one = isinstance(messages, np.void) or np.ndim(messages) == 0
        kind, array = self._array(np.atleast_1d(np.asarray(messages)))
        count = to.size if one else array.size
        answer = self._own(reply)
        replies = np.zeros(count, answer.dtype)
        self._core.ask_many(
            to,
            kind,
            array.view(np.uint8),
            array.dtype.itemsize,
            one,
            count,
            self._ids[answer.name],
            replies.view(np.uint8),
            answer.dtype.itemsize,
            _seconds(timeout),
        )
        return replies

    async def ask_async(
        self,
        address: int,
        message: np.void | Messages | str,
        *,
        timeout: float = 1.0,
        **fields: Any,
    ) -> np.void:
        """As ask, for asyncio: other coroutines run until the reply is there."""
        kind, record = self._one(message, fields)
        address = _address(address)
        seconds, name = _seconds(timeout), self._types[kind].name
        reply, data = await self._async.ask(
            lambda: self._core.ask_begin(address, kind, record, 0.0),
            seconds,
            lambda: (
                f"ask {name} to {self._core.error_name(address)} was not answered within "
                f"{seconds:g} s"
            ),
        )
        return self._types[reply].read(data)

    def receive(self, *, timeout: float = 1.0) -> Received:
        """The next message that an actor sent to the host (`ctx.send(denizen::host, ...)`)."""
        kind, data, sender = self._core.receive(_seconds(timeout))
        own = self._types[kind]
        return Received(own.name, own.read(data), sender)

    def receive_many(self, type: MessageType | str, count: int) -> tuple[Messages, Addresses]:
        """Messages of one type that have arrived, at most `count`, and their senders."""
        wanted, count = self._own(type), _whole("count", count)
        messages = np.empty(count, wanted.dtype)
        senders = np.empty(count, np.uint32)
        n = self._core.receive_many(
            self._ids[wanted.name], messages.view(np.uint8), wanted.dtype.itemsize, count, senders
        )
        return messages[:n], senders[:n]

    # ---- types

    def _own(self, given: MessageType | str) -> MessageType:
        """The program's message type of that name; one with other fields is refused."""
        if isinstance(given, str):
            if given not in self._ids:
                raise MessageError(
                    f'the program has no message "{given}"; it has {", ".join(self._ids)}'
                )
            return self._types[self._ids[given]]
        if not isinstance(given, MessageType):
            raise MessageError(f"{given!r} is no message type; use one of {', '.join(self._ids)}")
        return self._types[self._id_of(given.dtype)]

    def _one(
        self, message: np.void | Messages | str, fields: dict[str, Any]
    ) -> tuple[int, np.void | Messages]:
        if isinstance(message, str):
            own = self._own(message)
            return self._ids[own.name], own(**fields)
        if fields:
            raise ArgumentError("fields belong to a message given by its name")
        if not isinstance(message, np.void | np.ndarray):
            raise MessageError(_no_message(message))
        return self._id_of(message.dtype), message

    def _array(self, messages: Messages) -> tuple[int, Messages]:
        if not isinstance(messages, np.ndarray):
            raise MessageError(f"{messages!r} is no array of messages; give one, shape (n,)")
        if messages.ndim != 1:
            raise MessageError(f"messages have shape {messages.shape}; give one dimension")
        return self._id_of(messages.dtype), np.ascontiguousarray(messages)

    def _id_of(self, dtype: np.dtype[Any]) -> int:
        own = self._by_dtype.get(id(dtype))
        if own is not None:
            return own
        name = dtype.metadata.get(METADATA) if dtype.metadata else None
        if name in self._ids:
            # Defined anew with the same fields, it is the same message.
            own = self._ids[name]
            if dtype != self._types[own].dtype:
                raise MessageError(
                    f"this {name} is not the program's: it has {fields_of(dtype)}, the program's "
                    f"has {fields_of(self._types[own].dtype)}; make it with the program's type"
                )
            return own
        if name is not None:
            raise MessageError(
                f"{name} is no message of this program; it has {', '.join(self._ids)}"
            )
        same = [m.name for m in self._types if m.dtype == dtype]
        alike = [m for m in self._types if m.dtype.names == dtype.names]
        if not same and len(alike) == 1 and dtype.names:
            raise MessageError(
                f"the array has {fields_of(dtype)}, and {alike[0].name} has "
                f"{fields_of(alike[0].dtype)}: make it with {alike[0].name}.zeros() or its dtype"
            )
        if len(same) != 1:
            which = "the same for " + ", ".join(same) if same else "no message"
            raise MessageError(
                f"dtype {dtype} is {which} of this program; make the array with the message's own"
            )
        return self._ids[same[0]]


def _no_message(given: object) -> str:
    if isinstance(given, MessageType):
        return f"{given!r} is a type, not a message; call it: {given.name}(...)"
    return f"{given!r} is no message; call a message type, or use its array of records"


def _addresses(addresses: ArrayLike) -> Addresses:
    array = np.atleast_1d(np.asarray(addresses))
    if array.ndim != 1:
        raise ArgumentError(f"addresses have shape {array.shape}; give one dimension")
    if array.dtype != np.uint32 and array.size > 0:
        outside = array.dtype.kind not in "iu" or array.min() < 0 or array.max() >= 2**32
        if outside:
            raise ArgumentError(
                f"these {array.dtype} are no addresses; use those that spawn() returned"
            )
    return np.ascontiguousarray(array, np.uint32)
