# SPDX-License-Identifier: Apache-2.0
"""What a handler has while the interpreter runs it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from denizen.errors import ArgumentError
from denizen.handlers import ops, views
from denizen.handlers.interpreter.blocks import Calls
from denizen.handlers.teams import Alone
from denizen.task_type import TaskType

if TYPE_CHECKING:
    from denizen.handlers.interpreter import Interpreter


def missing(what: str) -> ArgumentError:
    return ArgumentError(f'device="python" has no {what}; use device="cpu"')


def missing_ranks() -> ArgumentError:
    return missing("other ranks: it runs one thing at a time, and a collective waits for all")


class OneRank:
    """What a ctx of an interpreter has of a group, whether a handler's or a task's: nothing."""

    def collective(self, *_given: Any) -> NoReturn:
        raise missing_ranks()

    barrier = collective


class Context(Alone, Calls, OneRank):
    """What a handler has while it runs."""

    worker, workers, node = 0, 1, 0

    def __init__(self, runtime: Interpreter, self_: int, sender: int) -> None:
        self._runtime: Interpreter = runtime
        self.self = self_
        self.sender = sender
        self.failure = 0

    @property
    def now_ns(self) -> int:
        return time.monotonic_ns()

    def send(self, to: int, message: views.Message) -> bool:
        self._runtime.post(self.self, ops.index(to) & 0xFFFFFFFF, _sent(message))
        return True

    def send_each(self, to: int, message: views.Message, mine: Any) -> bool:
        return self.send(to, message) if ops.true(mine) else True

    def spawn(self, state: views.State) -> int:
        """A new actor's address; of a task, that it was taken."""
        if not isinstance(state, views.State):
            raise TypeError(f"a new actor's state or a task is needed here, not {state!r}")
        if isinstance(state.type, TaskType):
            return self._runtime.put_task(self.self, state)
        return self._runtime.spawn_with(state)

    def reply(self, message: views.Message) -> None:
        self.send(self.sender, message)

    def send_after(self, ns: int, to: int, message: views.Message) -> int:
        return self._runtime.later(self.self, _delay(ns), 0, to, _sent(message))

    def send_every(self, ns: int, to: int, message: views.Message) -> int:
        delay = _delay(ns)
        return self._runtime.later(self.self, delay, max(delay, 1), to, _sent(message))

    def cancel(self, timer: int) -> bool:
        return self._runtime.cancel(self.self, ops.to_u4(timer))

    def publish(self, *given: Any) -> int:
        *words, message = given
        return self._runtime.publish_from(self.self, tuple(words), _sent(message))

    def subscribe(self, *words: int) -> None:
        self._runtime.change(self.self, words, True)

    def unsubscribe(self, *words: int) -> None:
        self._runtime.change(self.self, words, False)

    def fail(self, code: int) -> None:
        self.failure = ops.to_u4(code) or 1

    def checkpoint(self) -> None:
        self._runtime.checkpoint(self.self, 0.0)

    def fence(self) -> None:
        pass

    def _order(self, name: str, actor: int) -> None:
        self._runtime.order(name, ops.to_u4(actor), self.self)

    def stop(self, actor: int) -> None:
        self._order("stop", actor)

    def pause(self, actor: int) -> None:
        self._order("pause_actor", actor)

    def resume(self, actor: int) -> None:
        self._order("resume_actor", actor)

    def restart(self, actor: int) -> None:
        self._order("restart", actor)

    def drain(self, actor: int) -> None:
        self._order("drain_actor", actor)

    def watch(self, actor: int) -> None:
        self._order("watch", actor)

    def unwatch(self, actor: int) -> None:
        self._order("unwatch", actor)

    def data(self, ref: int, dtype: np.dtype[Any]) -> NoReturn:
        raise missing("buffers")

    keep = release = data


def _delay(ns: int) -> int:
    """2^63 ns or more are a difference below 0, of a time that has passed."""
    delay = ops.to_u8(ns)
    return 0 if delay >> 63 else delay


def _sent(message: Any) -> views.Message:
    if not isinstance(message, views.Message):
        raise TypeError(f"a message is needed here, not {message!r}")
    return message
