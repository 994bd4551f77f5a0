# SPDX-License-Identifier: Apache-2.0
"""Who has subscribed to what."""

from __future__ import annotations

from typing import Any

from denizen.errors import ArgumentError
from denizen.handlers import views
from denizen.handlers.interpreter.asks import Asks
from denizen.handlers.topic_key import matches, name_of, topic_words
from denizen.life import HOST


class Topics(Asks):
    """Calls of denizen._core.Runtime, and those of a handler."""

    def change(self, subscriber: int, words: tuple[int, ...], on: bool) -> None:
        key = (tuple(words), subscriber)
        if on:
            self._topics[key] = None
        else:
            self._topics.pop(key, None)

    def _key(self, text: str, pattern: bool) -> tuple[int, ...]:
        words = topic_words(text, pattern)
        if isinstance(words, str):
            raise ArgumentError(f'{"pattern" if pattern else "topic"} "{text}" {words}')
        return tuple(words)

    def subscribe(self, subscriber: int, pattern: str, timeout: float) -> None:
        self._check()
        self.change(subscriber, self._key(pattern, True), True)

    def unsubscribe(self, subscriber: int, pattern: str, timeout: float) -> None:
        self._check()
        self.change(subscriber, self._key(pattern, True), False)

    def publish(self, topic: str, type: int, message: Any, timeout: float) -> int:
        with self._lock:
            data = self._bytes(type, message)
            count = self._publish(HOST, self._key(topic, False), type, data)
            self._run()
            return count

    def publish_from(self, sender: int, words: tuple[int, ...], message: views.Message) -> int:
        number = self._numbers[message.type.name]
        return self._publish(sender, words, number, message._array.tobytes())

    def _publish(self, sender: int, words: tuple[int, ...], number: int, data: bytes) -> int:
        topic = name_of(words)
        count = 0
        for (pattern, subscriber), _ in list(self._topics.items()):
            if matches(pattern, topic):
                self._post(sender, subscriber, number, data)
                count += 1
        return count
