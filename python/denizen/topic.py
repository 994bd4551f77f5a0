# SPDX-License-Identifier: Apache-2.0
"""Topics: messages to whoever subscribes; a part of Runtime.

rt.subscribe(actor, "market/*")          # all topics that begin so; "market/EURUSD": that one
rt.publish("market/EURUSD", "Quote", bid=1.09)

A topic is 1 to 255 bytes without "*". Handlers do the same with ctx.subscribe("market/*"),
ctx.unsubscribe("market/*") and ctx.publish("market/EURUSD", Quote{1.09f}).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from denizen import values
from denizen.errors import ArgumentError
from denizen.values import address as _address
from denizen.values import seconds as _seconds

if TYPE_CHECKING:
    import numpy as np

    from denizen import _core
    from denizen.messaging import Messages


class Topics:
    """The part of Runtime that is about topics."""

    _core: _core.Runtime

    if TYPE_CHECKING:

        def _one(
            self, message: np.void | Messages | str, fields: dict[str, Any]
        ) -> tuple[int, np.void | Messages]: ...

    def subscribe(self, address: int, pattern: str, *, timeout: float = 1.0) -> None:
        """From now on an actor (or HOST, see receive) gets what is published to a topic.

        Args:
            address: whose subscription it is. It ends when the actor stops.
            pattern: a topic of 1 to 255 bytes, or what topics begin with (0 to 255 bytes) and "*".

        An actor gets a message once for each of its subscriptions that match. ExhaustedError if the
        table is full (`subscriptions`), ArgumentError if that is no pattern.
        """
        self._core.subscribe(_address(address), _text(pattern), _seconds(timeout))

    def unsubscribe(self, address: int, pattern: str, *, timeout: float = 1.0) -> None:
        """Ends that subscription, if there is one."""
        self._core.unsubscribe(_address(address), _text(pattern), _seconds(timeout))

    def publish(
        self,
        topic: str,
        message: np.void | Messages | str,
        *,
        timeout: float = 1.0,
        **fields: Any,
    ) -> int:
        """Sends a message to all subscribers of a topic; returns to how many, once that is done.

        What the host publishes reaches an actor in its order, but in none with what the host sends
        it directly. After DeadlineError it may still be published.
        """
        kind, record = self._one(message, fields)
        return self._core.publish(_text(topic), kind, record, _seconds(timeout))


def _text(topic: str) -> str:
    if not isinstance(topic, str):
        raise ArgumentError(f'{topic!r} is no topic; use text such as "market/EURUSD"')
    return values.text("topic", topic)
