# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PLR0917  (the methods are the core's)
"""device="python": a program whose handlers Python runs, one after the other, in the thread that
calls the runtime.

It stands in for denizen._core.Runtime and keeps what is promised of it: messages of one sender to
one actor in order, urgent ones before others, replies, topics, lives and supervision. Every call
handles what is queued, at most BATCH messages, and one that waits goes on until it has what it
waits for. Nothing else decides the order, so a run can be repeated. An exception in a handler
reaches the caller.

It has one worker and no limits of room, and no snapshots, arenas, buffers, telemetry or traces. A
deadline_ns is not kept while a debugger or coverage looks on.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from denizen.actor import ActorType
from denizen.errors import (
    ArgumentError,
    ClosedError,
    DeadlineError,
    ExhaustedError,
    FailedError,
    MessageError,
    NoActorError,
)
from denizen.handlers import ops, views
from denizen.handlers.plan import Plan, build
from denizen.handlers.rewrite import topic_words
from denizen.life import DOWN, FAILED_DEADLINE, FAILED_INVARIANT, HOST, LIVES, STRATEGIES
from denizen.message import MessageType, sent_later

MAX_NAME = 255  # bytes of an actor's name, as in src/actor/core.hpp
BATCH = 10_000  # messages that a call handles at most, unless it waits
_ASK = HOST | 1 << 28  # of the address of a question
_REASONS = ("no actor", "stopped", "wrong type", "failed", "dropped", "oversize")
_ENDS = {"no actor": "there is no such actor", "stopped": "it has stopped"}
_ERRORS = ("no actor", "stopped", "wrong type")  # which are the program's
_SHOWN = 24  # bytes of a dead letter


@dataclass
class _Actor:
    address: int
    kind: int
    state: NDArray[Any]
    life: str = "running"
    incarnation: int = 1
    failure: int = 0
    supervisor: _Supervisor | None = None
    waiting: deque[_Letter] = field(default_factory=deque)
    watchers: list[int] = field(default_factory=list)
    kept: NDArray[Any] | None = None  # its checkpoint


@dataclass
class _Supervisor:
    address: int
    children: list[int]
    strategy: str
    most: int
    window: float
    life: str = "running"
    incarnation: int = 1
    failure: int = 0
    supervisor: _Supervisor | None = None
    restarts: list[float] = field(default_factory=list)
    waiting: deque[_Letter] = field(default_factory=deque)
    watchers: list[int] = field(default_factory=list)


@dataclass
class _Letter:
    to: int
    sender: int
    type: int
    data: bytes
    order: Callable[[], None] | None = None  # in place of a message


@dataclass
class _Timer:
    due: int  # time.monotonic_ns()
    every: int  # 0: once
    owner: int
    letter: _Letter


class Context:
    """What a handler has while it runs."""

    worker, workers, node, lane, lanes = 0, 1, 0, 0, 1

    def __init__(self, runtime: Interpreter, self_: int, sender: int) -> None:
        self._runtime = runtime
        self.self = self_
        self.sender = sender
        self.failure = 0

    @property
    def now_ns(self) -> int:
        return time.monotonic_ns()

    def send(self, to: int, message: views.Message) -> bool:
        self._runtime.post(self.self, ops.index(to) & 0xFFFFFFFF, message)
        return True

    def reply(self, message: views.Message) -> None:
        self.send(self.sender, message)

    def send_after(self, ns: int, to: int, message: views.Message) -> int:
        return self._runtime.later(self.self, ns, 0, to, message)

    def send_every(self, ns: int, to: int, message: views.Message) -> int:
        return self._runtime.later(self.self, ns, max(ops.to_u8(ns), 1), to, message)

    def cancel(self, timer: int) -> bool:
        return self._runtime.cancel(self.self, ops.to_u4(timer))

    def publish(self, *given: Any) -> int:
        *words, message = given
        return self._runtime.publish_from(self.self, tuple(words), message)

    def subscribe(self, *words: int) -> None:
        self._runtime.change(self.self, words, True)

    def unsubscribe(self, *words: int) -> None:
        self._runtime.change(self.self, words, False)

    def fail(self, code: int) -> None:
        self.failure = ops.to_u4(code) or 1

    def checkpoint(self) -> None:
        self._runtime.checkpoint(self.self, 0.0)

    def sync(self) -> None:
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
        raise _missing("buffers")

    keep = release = data


def _missing(what: str) -> ArgumentError:
    return ArgumentError(f'device="python" has no {what}; use device="cpu"')


class Interpreter:
    """See the module. The methods are those of denizen._core.Runtime."""

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
        self._actors: dict[int, _Actor | _Supervisor] = {}
        self._names: dict[str, int] = {}
        self._timers: dict[int, _Timer] = {}
        self._timer = 0  # the last one's number
        self._urgent: deque[_Letter] = deque()
        self._data: deque[_Letter] = deque()
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

    # ---- the loop

    def _step(self) -> bool:
        """Handles one message; False if there is none."""
        if self._timers and not self._paused:
            self._fire()
        queue = self._urgent or self._data
        if not queue or self._paused:
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
                        if done is None or not self._doze(end):
                            break
                        continue
                    count += 1
                    if count >= BATCH and (done is None or time.monotonic() >= end):
                        break
                return done is None or done()
            finally:
                self._busy = False

    # ---- what is sent later

    def later(self, owner: int, ns: int, every: int, to: int, message: views.Message) -> int:
        if not sent_later(message.type.dtype):
            raise MessageError(
                "what is sent later is a message of at most 36 bytes and without buffers, not "
                f"{message.type.name}"
            )
        number = self._numbers[message.type.name]
        letter = _Letter(ops.to_u4(to), owner, number, message._array.tobytes())
        self._timer += 1
        due = time.monotonic_ns() + ops.to_u8(ns)
        self._timers[self._timer] = _Timer(due, every, owner, letter)
        return self._timer

    def cancel(self, owner: int, timer: int) -> bool:
        found = self._timers.get(timer)
        if found is None or found.owner != owner:
            return False
        del self._timers[timer]
        return True

    def _cancel_all(self, owner: int) -> None:
        self._timers = {n: t for n, t in self._timers.items() if t.owner != owner}

    def _fire(self) -> None:
        now = time.monotonic_ns()
        for number, timer in list(self._timers.items()):
            if timer.due > now:
                continue
            if timer.every == 0:
                del self._timers[number]
            else:  # what was missed is not made up for
                timer.due = now + timer.every - (now - timer.due) % timer.every
            letter = timer.letter
            self._post(letter.sender, letter.to, letter.type, letter.data)

    def _doze(self, end: float) -> bool:
        """Waits for the next timer, if it is due before `end`."""
        if not self._timers or self._paused:
            return False
        wait = (min(t.due for t in self._timers.values()) - time.monotonic_ns()) * 1e-9
        if time.monotonic() + wait >= end:
            return False
        time.sleep(max(wait, 0.0))
        return True

    def _check(self) -> None:
        if self._closed:
            raise ClosedError("the runtime is closed")

    def _deliver(self, letter: _Letter) -> None:
        actor = self._actors.get(letter.to)
        if actor is None:
            return self._bury("no actor", letter)
        if actor.life == "stopped":
            return self._bury("stopped", letter)
        if isinstance(actor, _Supervisor):
            return self._bury("wrong type", letter)
        if actor.life == "failed" and actor.supervisor is None:
            return self._bury("failed", letter, actor.failure)
        if actor.life in ("created", "paused", "failed"):
            actor.waiting.append(letter)
            return None
        return self._handle(actor, letter)

    def _handle(self, actor: _Actor, letter: _Letter) -> None:
        type = self._types[actor.kind]
        handler = self._handlers.get((type.name, letter.type))
        if handler is None:
            return self._bury("wrong type", letter)
        own = self._messages[letter.type]
        message = views.Message(np.frombuffer(letter.data, own.dtype)[0:1].reshape(()).copy(), own)
        context = Context(self, actor.address, letter.sender)
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

    def _bury(self, reason: str, letter: _Letter, code: int = 0) -> None:
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

    def _named(self, address: int) -> str:
        if address >> 29 == 7:
            return "the host"
        actor = self._actors.get(address)
        kind = f" {self._types[actor.kind].name}" if isinstance(actor, _Actor) else ""
        return f"actor{kind} #{address} of worker 0"

    # ---- sending

    def _queue(self, letter: _Letter) -> None:
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
            self._queue(_Letter(to, sender, number, data))
            return
        self._sent["host"] += 1
        if to in self._asks:
            if self._asks[to] is None:
                self._asks[to] = (number, data)
        elif to == HOST:
            self._egress.append((number, data, sender))

    def send(self, to: int, type: int, message: Any, timeout: float) -> None:
        with self._lock:
            self._check()
            self._refuse(to, type)
            self._queue(_Letter(to, HOST, type, self._bytes(type, message)))
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
        name = self._types[actor.kind].name if isinstance(actor, _Actor) else ""
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
                self._queue(_Letter(address, HOST, type, data[i * length : (i + 1) * length]))
            self._run()

    def broadcast(self, actor_type: int, type: int, message: Any, timeout: float) -> None:
        name = self._types[actor_type].name
        if (name, type) not in self._handlers:
            raise MessageError(f"actor {name} has no handler for {self._messages[type].name}")
        data = self._bytes(type, message)
        with self._lock:
            self._check()
            for actor in self._actors.values():
                own = isinstance(actor, _Actor) and actor.kind == actor_type
                if own and actor.life != "stopped":
                    self._queue(_Letter(actor.address, HOST, type, data))
            self._run()

    # ---- questions and what the host gets

    def ask_begin(self, to: int, type: int, message: Any, timeout: float) -> int:
        with self._lock:
            self._check()
            self._refuse(to, type)
            ticket = _ASK | self._asked & ((1 << 28) - 1)
            self._asked += 1
            self._asks[ticket] = None
            self._queue(_Letter(to, ticket, type, self._bytes(type, message)))
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

    def ask(self, to: int, type: int, message: Any, timeout: float) -> tuple[int, bytes]:
        ticket = self.ask_begin(to, type, message, timeout)
        try:
            if not self._run(lambda: self._asks[ticket] is not None, timeout):
                raise DeadlineError(
                    f"ask {self._messages[type].name} to {self._named(to)} was not answered within "
                    f"{timeout:g} s{'' if self._urgent or self._data else ': nothing is under way'}"
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
            raise DeadlineError(f"no actor sent a message to the host within {timeout:g} s")
        return self._egress.popleft()

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

    # ---- topics

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
        topic = np.array(words, "<u4").tobytes()
        count = 0
        for (pattern, subscriber), _ in list(self._topics.items()):
            key = np.array(pattern, "<u4").tobytes()
            length = key[15] & 127
            whole = key[15] < 128
            if topic == key if whole else topic[:length] == key[:length]:
                self._post(sender, subscriber, number, data)
                count += 1
        return count

    # ---- lives

    def spawn(self, type: int, count: int, timeout: float) -> NDArray[np.uint32]:
        return np.array([self._new(type, "running") for _ in range(count)], np.uint32)

    def spawn_named(self, type: int, name: str, timeout: float) -> NDArray[np.uint32]:
        size = len(name.encode())
        if not 1 <= size <= MAX_NAME:
            raise ArgumentError(f"a name of {size} bytes; use 1 to {MAX_NAME}")
        with self._lock:
            self._run()
            found = self._named_actor(name)
            if found is not None and found.life != "stopped":
                raise ArgumentError(
                    f'"{name}" is the name of {self._named(found.address)}, which lives; use '
                    "another, or stop it first"
                )
            self._names[name] = self._new(type, "running")
            return np.array([self._names[name]], np.uint32)

    def _named_actor(self, name: str) -> _Actor | _Supervisor | None:
        return self._actors[self._names[name]] if name in self._names else None

    def find(self, name: str, timeout: float) -> int:
        with self._lock:
            self._run()
            found = self._named_actor(name)
            if found is None:
                raise NoActorError(f'no actor is called "{name}"')
            if found.life == "stopped":
                raise NoActorError(f'the actor called "{name}" has stopped')
            return found.address

    def actors(self) -> list[tuple[int, str, str, int, int, str]]:
        with self._lock:
            self._run()
            names = {address: name for name, address in self._names.items()}
            return [
                (
                    a.address,
                    self._types[a.kind].name if isinstance(a, _Actor) else "supervisor",
                    names.get(a.address, ""),
                    0,
                    0,
                    a.life,
                )
                for a in self._actors.values()
                if a.life != "stopped"
            ]

    def spawn_near(
        self, type: int, count: int, beside: int, how: int, timeout: float
    ) -> NDArray[np.uint32]:
        return self.spawn(type, count, timeout)

    def spawn_on_node(self, type: int, count: int, node: int, timeout: float) -> NDArray[np.uint32]:
        return self.spawn(type, count, timeout)

    def create(self, type: int, count: int, timeout: float) -> list[int]:
        return [self._new(type, "created") for _ in range(count)]

    def _new(self, type: int, life: str) -> int:
        with self._lock:
            self._check()
            address = len(self._actors)
            if address >= 1 << 18:
                raise ExhaustedError(
                    "a program has at most 262,144 actors here; use another device"
                )
            state = self._types[type].initial.copy()
            self._actors[address] = _Actor(address, type, state, life)
            return address

    def _known(self, address: int) -> _Actor | _Supervisor:
        self._run()
        actor = self._actors.get(address)
        if actor is None:
            raise NoActorError(f"{self._named(address)} was never spawned")
        return actor

    def _alive(self, address: int) -> _Actor | _Supervisor:
        actor = self._known(address)
        if actor.life == "stopped":
            raise NoActorError(f"{self._named(address)} has stopped")
        return actor

    def inspect(self, actor: int, timeout: float) -> tuple[str, int, int, int, int | None]:
        a = self._known(actor)
        above = a.supervisor.address if a.supervisor is not None else None
        return a.life, a.incarnation, a.failure, len(a.waiting), above

    def order(self, name: str, actor: int, sender: int) -> None:
        """What a handler asks for: the urgent way, a drain behind what it has sent."""

        def do() -> None:
            try:
                if name in ("watch", "unwatch"):
                    getattr(self, name)(sender, actor, 0.0)
                else:
                    getattr(self, name)(actor, 0.0)
            except (NoActorError, FailedError, ArgumentError):
                return  # as on a device: nobody waits for the answer

        letter = _Letter(actor, sender, 0, b"", do)
        (self._data if name == "drain_actor" else self._urgent).append(letter)

    def stop(self, actor: int, timeout: float) -> None:
        a = self._alive(actor)
        for child in a.children if isinstance(a, _Supervisor) else []:
            if self._actors[child].life != "stopped":
                self.stop(child, timeout)
        a.life = "stopped"
        self._cancel_all(actor)
        for letter in a.waiting:
            self._bury("stopped", letter)
        a.waiting.clear()
        for key in [k for k in self._topics if k[1] == actor]:
            del self._topics[key]
        self._tell(a, a.failure)

    def drain_actor(self, actor: int, timeout: float) -> None:
        a = self._alive(actor)
        if a.life == "failed":
            raise FailedError(f"{self._named(actor)} has failed with code {a.failure}")
        if isinstance(a, _Supervisor) or a.life != "running":
            raise ArgumentError(f"{self._named(actor)} is {a.life}; drain one that runs")
        self._run(lambda: not any(x.to == actor for q in (self._urgent, self._data) for x in q), 60)
        self.stop(actor, timeout)

    def pause_actor(self, actor: int, timeout: float) -> None:
        a = self._alive(actor)
        if a.life == "failed":
            raise FailedError(
                f"{self._named(actor)} has failed with code {a.failure}; restart or resume it"
            )
        if isinstance(a, _Supervisor):
            self._each(a, self.pause_actor)
        else:
            a.life = "paused"

    def resume_actor(self, actor: int, timeout: float) -> None:
        a = self._alive(actor)
        if isinstance(a, _Supervisor):
            a.life = "running"
            self._each(a, self.resume_actor)
        else:
            self._go_on(a)
        self._run()

    def _each(self, supervisor: _Supervisor, order: Callable[[int, float], None]) -> None:
        for child in supervisor.children:
            if self._actors[child].life not in ("stopped", "failed"):
                order(child, 0.0)

    def _go_on(self, a: _Actor) -> None:
        """What waited goes first."""
        a.life = "running"
        for letter in reversed(a.waiting):
            urgent = self._messages[letter.type].priority == "urgent"
            (self._urgent if urgent else self._data).appendleft(letter)
        a.waiting.clear()

    def restart(self, actor: int, timeout: float) -> None:
        self._restart(self._alive(actor))
        self._run()

    def _restart(self, a: _Actor | _Supervisor) -> None:
        a.incarnation += 1
        if isinstance(a, _Supervisor):
            a.life = "running"
            a.restarts.clear()
            for child in a.children:
                if self._actors[child].life != "stopped":
                    self._restart(self._actors[child])
        else:
            self._cancel_all(a.address)
            kept = a.kept if a.kept is not None else self._types[a.kind].initial
            a.state[()] = kept[()]
            self._go_on(a)
        self._tell(a, a.failure)

    def checkpoint(self, actor: int, timeout: float) -> None:
        a = self._known(actor) if not self._busy else self._actors[actor]
        if not isinstance(a, _Actor) or self._types[a.kind].restart_from != "snapshot":
            raise ArgumentError(
                f"{self._named(actor)} keeps no checkpoint; its type declares "
                'restart_from = "snapshot"'
            )
        a.kept = a.state.copy()

    def watch(self, watcher: int, watched: int, timeout: float) -> None:
        number = self._numbers.get(DOWN.name)
        if number is None:
            raise MessageError(
                "the program has no message denizen.DOWN; a program that watches lists it among "
                "its messages"
            )
        if watcher != HOST:
            self._refuse(watcher, number)
        a = self._known(watched)
        if a.life == "stopped":
            self._post(watched, watcher, number, self._down(a, a.failure))
        elif watcher not in a.watchers:
            a.watchers.append(watcher)
        self._run()

    def unwatch(self, watcher: int, watched: int, timeout: float) -> None:
        a = self._known(watched)
        if watcher in a.watchers:
            a.watchers.remove(watcher)

    def _tell(self, a: _Actor | _Supervisor, code: int) -> None:
        for watcher in a.watchers:
            self._post(a.address, watcher, self._numbers[DOWN.name], self._down(a, code))

    def _down(self, a: _Actor | _Supervisor, code: int) -> bytes:
        life = LIVES.index(a.life)
        return DOWN(actor=a.address, life=life, code=code, incarnation=a.incarnation).tobytes()

    def supervise(
        self,
        children: Sequence[int],
        strategy: int,
        max_restarts: int,
        window: float,
        timeout: float,
    ) -> int:
        if not children:
            raise ArgumentError("0 children; give 1 to 268,435,455")
        if 4096 < max_restarts < 0xFFFFFFFF:
            raise ArgumentError(f"max_restarts = {max_restarts}; use 0 to 4096, or unlimited")
        for child in children:
            a = self._alive(child)
            if a.supervisor is not None:
                raise ArgumentError(
                    f"{self._named(child)} has a supervisor already: "
                    f"{self._named(a.supervisor.address)}"
                )
        address = len(self._actors)
        s = _Supervisor(address, list(children), STRATEGIES[strategy], max_restarts, window)
        self._actors[address] = s
        for child in children:
            self._actors[child].supervisor = s
        return address

    def _fail(self, a: _Actor | _Supervisor, code: int) -> None:
        a.life, a.failure = "failed", code
        self._tell(a, code)
        above = a.supervisor
        if above is not None and above.life == "running":
            self._decide(above, a)
        elif isinstance(a, _Supervisor) and above is None:
            for child in a.children:  # nobody is left to restart them
                if self._actors[child].life != "stopped":
                    self.stop(child, 0.0)

    def _decide(self, s: _Supervisor, failed: _Actor | _Supervisor) -> None:
        now = time.monotonic()
        if s.strategy in ("one_for_one", "one_for_all", "rest_for_one"):
            s.restarts = [t for t in s.restarts if now - t < s.window]
            if s.most != 0xFFFFFFFF and len(s.restarts) >= s.most:
                return self._fail(s, failed.failure)
            s.restarts.append(now)
            place = s.children.index(failed.address)
            chosen = {
                "one_for_one": [failed.address],
                "one_for_all": s.children,
                "rest_for_one": s.children[place:],
            }[s.strategy]
            for child in chosen:
                if self._actors[child].life != "stopped":
                    self._restart(self._actors[child])
        elif s.strategy == "resume":
            if isinstance(failed, _Actor):
                self._go_on(failed)
            else:
                failed.life = "running"
        elif s.strategy == "stop":
            self.stop(failed.address, 0.0)
        else:
            self._fail(s, failed.failure)
        return None

    def dead_letters(self) -> tuple[list[tuple[Any, ...]], int]:
        self._run()
        letters = list(self._dead)
        lost = self._unread - len(letters)
        self._dead.clear()
        self._unread = lost
        return letters, lost

    # ---- the program

    def drain(self, timeout: float) -> None:
        if not self._run(lambda: not self._urgent and not self._data, timeout):
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
                ("count", "min", "mean", "max", "attempts", "mean_asking", "mean_leaving"), 0
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
                self._run(lambda: not self._urgent and not self._data, timeout)
            finally:
                self._closed = True

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        raise _missing(name)
