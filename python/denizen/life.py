# SPDX-License-Identifier: Apache-2.0
"""The life of actors: pause, restart, supervision, watches and dead letters.

An actor whose handlers can fail says so in its struct, by any of

    static constexpr bool can_fail = true;           // it calls ctx.fail(code)
    static constexpr uint64_t deadline_ns = 50'000;  // a handler that took longer has failed
    bool invariant() const { return ...; }           // false after a handler: it has failed

and, if a restart is to go back to its last ctx.checkpoint() and not to its initial state,

    static constexpr auto restart_from = denizen::RestartFrom::snapshot;
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from denizen.actor import ActorType
from denizen.errors import ArgumentError
from denizen.message import MessageType
from denizen.values import address as _address
from denizen.values import seconds as _seconds

if TYPE_CHECKING:
    from denizen import _core
    from denizen.program import Program

# As the enumerators of denizen::Strategy.
STRATEGIES = ("one_for_one", "one_for_all", "rest_for_one", "resume", "stop", "escalate")

# Codes of failures that the runtime finds itself (include/denizen/actor/life.hpp).
FAILED_DEADLINE = 0xFFFFFFFF
FAILED_INVARIANT = 0xFFFFFFFE
FAILED_ABOVE = 0xFFFFFFFD
FAILED_HOST = 0xFFFFFFFC

HOST = 7 << 29
"""The host's address: of who watches an actor, or sends to the host from a handler in Python."""

NOWHERE = 6 << 29
"""No actor's address: what ``ctx.spawn`` gives where there is no place."""

_UNLIMITED = 0xFFFFFFFF


class _Down(MessageType):
    def _struct(self) -> str:
        return "using denizen::Down;\n"


class _TaskFailed(MessageType):
    def _struct(self) -> str:
        return "using denizen::TaskFailed;\n"


TASK_FAILED = _TaskFailed("TaskFailed", [("task", "u4"), ("code", "u4")])
"""What an actor gets when a task that it has asked for calls ``ctx.fail(code)``.

`task` is an index of the program's `tasks`. A program that lists it, or handles it, is told.
"""

DOWN = _Down("Down", [("actor", "u4"), ("life", "u4"), ("code", "u4"), ("incarnation", "u4")])
"""What a watcher gets when the watched actor stops, fails, or has been restarted.

`life` is an index of LIVES. A program that watches lists DOWN among its messages.
"""

LIVES = (
    "running",
    "created",
    "paused",
    "draining",
    "stopped",
    "failed",
    "running",
    "moving",
    "moved",
)


@dataclass(frozen=True)
class ActorStatus:
    """What an actor is doing."""

    life: str
    """One of LIVES."""
    incarnation: int
    """1, and one more for each restart."""
    failure: int
    """Code of the last failure, 0 if there was none."""
    stashed: int
    """Messages that wait for it."""
    supervisor: int | None
    """Its address."""


@dataclass(frozen=True)
class DeadLetter:
    """A message that no handler took, or whose handler failed."""

    reason: str
    """"no actor", "stopped", "wrong type", "failed", "dropped", "oversize" or "lost"."""
    code: int
    """Of the failure, if that is the reason."""
    sender: int
    destination: int
    type: str
    length: int
    """Bytes of the message."""
    worker: int
    """Whose it was."""
    time_ns: int
    """The device's clock, modulo 2**53: only differences mean anything."""
    payload: bytes
    """The message's first bytes, at most 24."""
    text: str
    """The same in words."""


class DeadLetters(list[DeadLetter]):
    """Dead letters in the order in which they died; `lost` were overwritten before, ever."""

    lost: int = 0


class Lives:
    """The part of Runtime that is about the life of actors."""

    program: Program
    _core: _core.Runtime

    if TYPE_CHECKING:

        def _actor(self, actor: str | ActorType) -> int: ...

    def create(
        self, actor: str | ActorType, count: int = 1, *, timeout: float = 10.0
    ) -> NDArray[np.uint32]:
        """As spawn, but the actors' messages wait until resume(actor).

        For instance until they have a supervisor. Returns their addresses, shape (count,).
        """
        kind = self._actor(actor)
        return np.array(
            self._core.create(kind, operator.index(count), _seconds(timeout)), np.uint32
        )

    def inspect(self, actor: int, *, timeout: float = 1.0) -> ActorStatus:
        """What an actor is doing. NoActorError if there never was one at this address."""
        return ActorStatus(*self._core.inspect(_address(actor), _seconds(timeout)))

    def state(self, actor: int, *, timeout: float = 1.0) -> str:
        """One of LIVES."""
        return self.inspect(actor, timeout=timeout).life

    def restart(self, actor: int, *, timeout: float = 1.0) -> None:
        """Creates the actor's state anew; what waited is handled first."""
        self._core.restart(_address(actor), _seconds(timeout))

    def checkpoint(self, actor: int, *, timeout: float = 1.0) -> None:
        """Keeps a copy of the actor's state for a restart."""
        self._core.checkpoint(_address(actor), _seconds(timeout))

    def watch(self, watcher: int, watched: int, *, timeout: float = 1.0) -> None:
        """Has DOWN sent to `watcher` (an actor, or HOST) when `watched` stops, fails or restarts.

        At once if it has stopped already. ExhaustedError if the table of watches is full.
        """
        self._core.watch(_address(watcher), _address(watched), _seconds(timeout))

    def unwatch(self, watcher: int, watched: int, *, timeout: float = 1.0) -> None:
        """Ends a watch."""
        self._core.unwatch(_address(watcher), _address(watched), _seconds(timeout))

    def supervise(
        self,
        children: Iterable[int],
        strategy: str = "one_for_one",
        *,
        max_restarts: int | None = 3,
        window: float = 5.0,
        timeout: float = 10.0,
    ) -> int:
        """Makes a supervisor: an actor on the device that decides what to do about failures.

        Args:
            children: addresses of actors, or of supervisors, that have no supervisor yet. Their
                order is the one of "rest_for_one".
            strategy: what it does when a child has failed: "one_for_one" restarts it,
                "one_for_all" all children, "rest_for_one" it and those behind it; "resume" goes on
                with its state, "stop" stops it; "escalate" fails the supervisor itself, so that its
                own supervisor decides. One without a supervisor stops all of its children then.
            max_restarts: more than these in `window` seconds, and it escalates. None: no limit.

        Returns its address.
        """
        if strategy not in STRATEGIES:
            raise ArgumentError(f'strategy "{strategy}"; use {", ".join(STRATEGIES)}')
        return self._core.supervise(
            [_address(c) for c in children],
            STRATEGIES.index(strategy),
            _UNLIMITED if max_restarts is None else max_restarts,
            window,
            timeout,
        )

    def dead_letters(self) -> DeadLetters:
        """The dead letters since the last call."""
        letters, lost = self._core.dead_letters()
        types = list(self.program.messages)
        dead = DeadLetters(
            DeadLetter(reason, code, sender, to, types[kind], *rest)
            for reason, code, sender, to, kind, *rest in letters
        )
        dead.lost = lost
        return dead
