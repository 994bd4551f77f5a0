# SPDX-License-Identifier: Apache-2.0
"""The loop: queues of letters, their delivery to handlers, and what becomes of the rest."""

from __future__ import annotations

import sys
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from denizen.actor import ActorType
from denizen.errors import ArgumentError, ClosedError, MessageError
from denizen.handlers import ops, views
from denizen.handlers.interpreter.blocks import Blocks
from denizen.handlers.interpreter.context import Context
from denizen.handlers.interpreter.parts import Actor, Letter, Supervisor
from denizen.handlers.interpreter.timers import Timers
from denizen.handlers.plan import Plan, build
from denizen.life import FAILED_DEADLINE, FAILED_INVARIANT, HOST, TASK_FAILED
from denizen.message import MessageType, sent_later
from denizen.task_type import TaskType

BATCH = 10_000  # messages that a call handles at most, unless it waits
_REASONS = ("no actor", "stopped", "wrong type", "failed", "dropped", "oversize")
_ENDS = {"no actor": "there is no such actor", "stopped": "it has stopped"}
_ERRORS = ("no actor", "stopped", "wrong type")  # which are the program's
_SHOWN = 24  # bytes of a dead letter


class Loop(ABC):
    """Has the state of all parts of the interpreter."""

    def __init__(
        self,
        plan: Plan,
        actors: Sequence[str],
        messages: Sequence[MessageType],
        dead_letter_slots: int = 4096,
    ) -> None:
        missing = set(actors) - {a.name for a in plan.actors}
        if missing:
            raise ArgumentError(
                f'device="python" runs handlers in Python; {", ".join(sorted(missing))} is in C++'
            )
        self._types: list[ActorType] = plan.actors
        self._messages = list(messages)
        self._numbers = {m.name: i for i, m in enumerate(messages)}
        self._handlers = {
            (a.name, self._numbers[m]): build(r, ops.names(), views.new) for a, m, r in plan.each()
        }
        self._invariants = {a: build(r, ops.names(), views.new) for a, r in plan.invariants.items()}
        self._task_types = plan.tasks
        self._functions = {n: build(r, ops.names(), views.new) for n, r in plan.functions.items()}
        self._tasks: deque[tuple[int, views.State]] = deque()  # who asked, and the task
        self._turn = False  # a task's, if there is one
        self._actors: dict[int, Actor | Supervisor] = {}
        self._names: dict[str, int] = {}
        self._timers = Timers()
        self.blocks = Blocks()
        self._urgent: deque[Letter] = deque()
        self._data: deque[Letter] = deque()
        self._egress: deque[tuple[int, bytes, int]] = deque()
        self._asks: dict[int, tuple[int, bytes] | None] = {}
        self._asked = 0
        self._topics: dict[tuple[tuple[int, ...], int], None] = {}
        self._dead: deque[tuple[Any, ...]] = deque(maxlen=dead_letter_slots)
        self._died = dict.fromkeys(_REASONS, 0)
        self._unread = 0
        self._errors = 0
        self._first_error = ""
        self._handled = 0
        self._sent = {"worker": 0, "host": 0}
        self._paused = False
        self._closed = False
        self._busy = False
        self._begun = time.perf_counter()
        self._lock = threading.RLock()

    @abstractmethod
    def _context(self, actor: int, sender: int) -> Context: ...

    @abstractmethod
    def _fail(self, a: Actor | Supervisor, code: int) -> None: ...

    # ---- the loop

    def _step(self) -> bool:
        """Handles one message; False if there is none."""
        for letter in [] if self._paused else self._timers.due():
            self._post(letter.sender, letter.to, letter.type, letter.data)
        if self._paused:
            return False
        queue = self._urgent or self._data
        self._turn = not self._turn or not queue  # a message and a task in turn
        if self._tasks and self._turn:
            self._run_task(*self._tasks.popleft())
            return True
        if not queue:
            return False
        letter = queue.popleft()
        if letter.order is not None:
            letter.order()
        else:
            self._deliver(letter)
        return True

    def _run(self, done: Callable[[], bool] | None = None, timeout: float = 0.0) -> bool:
        """Handles a batch, or until `done` or the deadline. Returns whether it is done."""
        with self._lock:
            self._check()
            if self._busy:  # a handler that calls the runtime: later
                return done is None or done()
            self._busy = True
            try:
                end = time.monotonic() + timeout
                count = 0
                while done is None or not done():  # ends: nothing is left, a batch or the deadline
                    if not self._step():
                        if done is None or self._paused or not self._timers.doze(end):
                            break
                        continue
                    count += 1
                    if count >= BATCH and (done is None or time.monotonic() >= end):
                        break
                return done is None or done()
            finally:
                self._busy = False

    def _check(self) -> None:
        if self._closed:
            raise ClosedError("the runtime is closed")

    def _deliver(self, letter: Letter) -> None:
        actor = self._actors.get(letter.to)
        if actor is None:
            return self._bury("no actor", letter)
        if actor.life == "stopped":
            return self._bury("stopped", letter)
        if isinstance(actor, Supervisor):
            return self._bury("wrong type", letter)
        if actor.life == "failed" and actor.supervisor is None:
            return self._bury("failed", letter, actor.failure)
        if actor.life in ("created", "paused", "failed"):
            actor.waiting.append(letter)
            return None
        return self._handle(actor, letter)

    def _handle(self, actor: Actor, letter: Letter) -> None:
        type = self._types[actor.kind]
        handler = self._handlers.get((type.name, letter.type))
        if handler is None:
            return self._bury("wrong type", letter)
        own = self._messages[letter.type]
        message = views.Message(np.frombuffer(letter.data, own.dtype)[0:1].reshape(()).copy(), own)
        context = self._context(actor.address, letter.sender)
        state = views.Record(actor.state, type.name)
        self._handled += 1
        begin = time.monotonic_ns()
        handler(state, message, context)
        taken = time.monotonic_ns() - begin
        code = context.failure
        if code == 0 and 0 < type.deadline_ns < taken and sys.gettrace() is None:
            code = FAILED_DEADLINE
        invariant = self._invariants.get(type.name)
        if code == 0 and invariant is not None and not invariant(state):
            code = FAILED_INVARIANT
        if code != 0:
            self._bury("failed", letter, code)
            self._fail(actor, code)
        return None

    # ---- tasks

    def put_task(self, asker: int, state: views.State) -> bool:
        """For a handler or a task."""
        assert isinstance(state.type, TaskType)
        self._tasks.append((asker, views.State(state._array.copy(), state.type)))
        return True

    def _run_task(self, asker: int, task: views.State) -> None:
        context = self._context(asker, asker)
        self._functions[task.type.name](task, context)
        number = self._numbers.get(TASK_FAILED.name)
        if context.failure and number is not None:
            place = next(i for i, t in enumerate(self._task_types) if t is task.type)
            self._post(asker, asker, number, TASK_FAILED(place, context.failure).tobytes())

    def _quiet(self) -> bool:
        """Whether nothing is under way."""
        return not (self._urgent or self._data or self._tasks)

    # ---- sending

    def later(self, owner: int, ns: int, every: int, to: int, message: views.Message) -> int:
        if not sent_later(message.type.dtype):
            raise MessageError(
                "what is sent later is a message of at most 36 bytes and without buffers, not "
                f"{message.type.name}"
            )
        number = self._numbers[message.type.name]
        letter = Letter(ops.to_u4(to), owner, number, message._array.tobytes())
        return self._timers.arm(ns, every, letter)

    def cancel(self, owner: int, timer: int) -> bool:
        return self._timers.cancel(owner, timer)

    def _queue(self, letter: Letter) -> None:
        urgent = self._messages[letter.type].priority == "urgent"
        (self._urgent if urgent else self._data).append(letter)

    def post(self, sender: int, to: int, message: views.Message) -> None:
        number = self._numbers.get(message.type.name)
        if number is None:
            raise MessageError(f"{message.type.name} is no message of this program")
        self._post(sender, to, number, message._array.tobytes())

    def _post(self, sender: int, to: int, number: int, data: bytes) -> None:
        if to >> 29 != 7:
            self._sent["worker"] += 1
            self._queue(Letter(to, sender, number, data))
            return
        self._sent["host"] += 1
        if to in self._asks:
            if self._asks[to] is None:
                self._asks[to] = (number, data)
        elif to == HOST:
            self._egress.append((number, data, sender))

    # ---- what is not handled

    def _bury(self, reason: str, letter: Letter, code: int = 0) -> None:
        self._died[reason] += 1
        if reason in _ERRORS:
            self._errors += 1
        self._unread += 1
        name = self._messages[letter.type].name
        why = _ENDS.get(reason, reason) + (f" with code {code}" if code else "")
        text = f"{name} to {self._named(letter.to)} from {self._named(letter.sender)}: {why}"
        if reason in _ERRORS:
            what = "no handler for it" if reason == "wrong type" else "no such actor"
            self._first_error = self._first_error or f"{name} to {self._named(letter.to)}: {what}"
        self._dead.append(
            (
                reason,
                code,
                letter.sender,
                letter.to,
                letter.type,
                len(letter.data),
                0,
                time.monotonic_ns() & ((1 << 53) - 1),
                letter.data[:_SHOWN],
                text,
            )
        )

    def dead_letters(self) -> tuple[list[tuple[Any, ...]], int]:
        self._run()
        letters = list(self._dead)
        lost = self._unread - len(letters)
        self._dead.clear()
        self._unread = lost
        return letters, lost

    def _named(self, address: int) -> str:
        if address >> 29 == 7:
            return "the host"
        actor = self._actors.get(address)
        kind = f" {self._types[actor.kind].name}" if isinstance(actor, Actor) else ""
        return f"actor{kind} #{address} of worker 0"
