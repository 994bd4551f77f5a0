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

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from denizen import _core
from denizen.actor import ActorType
from denizen.errors import ArgumentError
from denizen.message import MessageType
from denizen.values import address as _address
from denizen.values import seconds as _seconds
from denizen.values import text as _text
from denizen.values import whole as _whole

if TYPE_CHECKING:
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
    def __reduce__(self) -> str:  # there is one in each process, which programs are asked for
        return "DOWN"

    def _struct(self) -> str:
        return "using denizen::Down;\n"


class _TaskFailed(MessageType):
    def __reduce__(self) -> str:
        return "TASK_FAILED"

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


@dataclass(frozen=True)
class ListedActor:
    """One of what :meth:`Runtime.actors` lists.

    ``node`` and ``worker`` are where it is: after a migration not where its address says. ``life``
    is one of ``denizen.life.LIVES``.
    """

    address: int
    type: str
    name: str  # empty: it has none
    node: int
    worker: int
    life: str


class Lives:
    """The part of Runtime that is about the life of actors."""

    program: Program
    _actors: dict[str, int]
    _core: _core.Runtime

    def spawn(
        self,
        actor: str | ActorType,
        count: int = 1,
        *,
        timeout: float = 10.0,
        near: int | None = None,
        how: str = "worker",
        node: int | None = None,
        name: str | None = None,
    ) -> NDArray[np.uint32]:
        """Spawns actors over all workers of all nodes; they exist when the call returns.

        Args:
            name: of one actor, by which :meth:`find` finds it, also after a restore. ArgumentError
                if another that lives has it.
            near: an address: near that actor. `how` says what near is: "worker": on the same
                worker; "sm": on the other workers of its SM; "cluster": on the other SMs of its
                cluster; "node": on its GPU outside its cluster, if there is anything outside.
            node: only on this node (GPU, or group of CPU threads), counted from 0.

        Returns their addresses: uint32, shape (count,).
        """
        count = _whole("count", count)
        if near is not None and node is not None:
            raise ArgumentError(f"near = {near} and node = {node}; give one of the two")
        if how not in _core.near:
            raise ArgumentError(f'how = "{how}"; use {", ".join(_core.near)}')
        kind = self._actor(actor)
        if name is not None:
            if not isinstance(name, str) or count != 1 or near is not None or node is not None:
                raise ArgumentError(
                    f"name = {name!r} with count = {count}, near = {near}, node = {node}; a name "
                    "is a str and of one actor, which is placed anywhere"
                )
            return self._core.spawn_named(kind, _text("name", name), _seconds(timeout))
        if near is not None:
            return self._core.spawn_near(
                kind, count, _address(near), _core.near.index(how), _seconds(timeout)
            )
        if node is not None:
            nodes = self._core.description["nodes"]
            if not isinstance(node, int | np.integer) or not 0 <= node < nodes:
                raise ArgumentError(f"node = {node!r}; the program has {nodes}, counted from 0")
            return self._core.spawn_on_node(kind, count, int(node), _seconds(timeout))
        return self._core.spawn(kind, count, _seconds(timeout))

    def find(self, name: str, *, timeout: float = 1.0) -> int:
        """The address of the actor that was spawned by this name; NoActorError if none lives."""
        if not isinstance(name, str):
            raise ArgumentError(f"name = {name!r}; use a str")
        return self._core.find(_text("name", name), _seconds(timeout))

    def actors(self) -> list[ListedActor]:
        """All actors that have not stopped, worker by worker.

        Also those that handlers have spawned, and supervisors (type ``supervisor``). Read while the
        program goes on.
        """
        return [ListedActor(*one) for one in self._core.actors()]

    def stop(self, actor: int, *, drain: bool = False, timeout: float = 1.0) -> None:
        """Ends an actor; no handler of it runs once the call has returned.

        `drain`: only when all that had been sent to it before has been handled. The whole program
        ends by close().
        """
        end = self._core.drain_actor if drain else self._core.stop
        end(_address(actor), _seconds(timeout))

    def create(
        self, actor: str | ActorType, count: int = 1, *, timeout: float = 10.0
    ) -> NDArray[np.uint32]:
        """As spawn, but the actors' messages wait until resume(actor).

        For instance until they have a supervisor. Returns their addresses, shape (count,).
        """
        kind = self._actor(actor)
        return np.array(
            self._core.create(kind, _whole("count", count), _seconds(timeout)), np.uint32
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
        if not isinstance(children, Iterable):
            raise ArgumentError(f"children = {children!r:.60}; use a list of addresses")
        if strategy not in STRATEGIES:
            raise ArgumentError(f'strategy "{strategy}"; use {", ".join(STRATEGIES)}')
        if (within := _seconds(window, "window")) < 0:
            raise ArgumentError(f"window = {window!r}; use seconds from 0")
        return self._core.supervise(
            [_address(c) for c in children],
            STRATEGIES.index(strategy),
            _UNLIMITED
            if max_restarts is None
            else _whole("max_restarts", max_restarts, _UNLIMITED - 1),
            within,
            _seconds(timeout),
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

    # ---- types

    def _actor(self, actor: str | ActorType) -> int:
        name = actor.name if isinstance(actor, ActorType) else actor
        if name not in self._actors:
            raise ArgumentError(
                f'the program has no actor "{name}"; it has {", ".join(self._actors)}'
            )
        return self._actors[name]
