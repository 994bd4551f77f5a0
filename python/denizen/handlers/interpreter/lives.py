# SPDX-License-Identifier: Apache-2.0

"""Lives of actors: what begins, pauses and ends them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from denizen.errors import ArgumentError, ExhaustedError, FailedError, NoActorError
from denizen.handlers import views
from denizen.handlers.interpreter.asks import Asks
from denizen.handlers.interpreter.parts import Actor, Letter, Supervisor

MAX_NAME = 255  # bytes of an actor's name, as in src/actor/core.hpp


class Lives(Asks):
    """Calls of denizen._core.Runtime, and those of a handler."""

    @abstractmethod
    def _tell(self, a: Actor | Supervisor, code: int) -> None: ...

    def spawn(self, type: int, count: int, timeout: float) -> NDArray[np.uint32]:
        return np.array(self._make(type, count, "running"), np.uint32)

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

    def _named_actor(self, name: str) -> Actor | Supervisor | None:
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
                    self._types[a.kind].name if isinstance(a, Actor) else "supervisor",
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
        return self._make(type, count, "created")

    def _make(self, type: int, count: int, life: str) -> list[int]:
        """All of them or none."""
        with self._lock:
            self._check()
            self._check_room(count)
            return [self._new(type, life) for _ in range(count)]

    def _check_room(self, count: int) -> None:
        if len(self._actors) + count > 1 << 18:
            raise ExhaustedError("a program has at most 262,144 actors here; use another device")

    def _new(self, type: int, life: str) -> int:
        with self._lock:
            self._check()
            self._check_room(1)
            address = len(self._actors)
            state = self._types[type].initial.copy()
            self._actors[address] = Actor(address, type, state, life)
            return address

    def spawn_with(self, state: views.State) -> int:
        """For a handler."""
        made = self._new(self._types.index(state.type), "running")
        actor = self._actors[made]
        assert isinstance(actor, Actor)
        actor.state[()] = state._array[()]
        return made

    def _known(self, address: int) -> Actor | Supervisor:
        self._run()
        actor = self._actors.get(address)
        if actor is None:
            raise NoActorError(f"{self._named(address)} was never spawned")
        return actor

    def _alive(self, address: int) -> Actor | Supervisor:
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

        letter = Letter(actor, sender, 0, b"", do)
        (self._data if name == "drain_actor" else self._urgent).append(letter)

    def stop(self, actor: int, timeout: float) -> None:
        a = self._alive(actor)
        for child in a.children if isinstance(a, Supervisor) else []:
            if self._actors[child].life != "stopped":
                self.stop(child, timeout)
        a.life = "stopped"
        self._timers.cancel_all(actor)
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
        if isinstance(a, Supervisor) or a.life != "running":
            raise ArgumentError(f"{self._named(actor)} is {a.life}; drain one that runs")
        self._run(lambda: not any(x.to == actor for q in (self._urgent, self._data) for x in q), 60)
        self.stop(actor, timeout)

    def pause_actor(self, actor: int, timeout: float) -> None:
        a = self._alive(actor)
        if a.life == "failed":
            raise FailedError(
                f"{self._named(actor)} has failed with code {a.failure}; restart or resume it"
            )
        if isinstance(a, Supervisor):
            self._each(a, self.pause_actor)
        else:
            a.life = "paused"

    def resume_actor(self, actor: int, timeout: float) -> None:
        a = self._alive(actor)
        if isinstance(a, Supervisor):
            a.life = "running"
            self._each(a, self.resume_actor)
        else:
            self._go_on(a)
        self._run()

    def _each(self, supervisor: Supervisor, order: Callable[[int, float], None]) -> None:
        for child in supervisor.children:
            if self._actors[child].life not in ("stopped", "failed"):
                order(child, 0.0)

    def _go_on(self, a: Actor) -> None:
        """What waited goes first."""
        a.life = "running"
        for letter in reversed(a.waiting):
            urgent = self._messages[letter.type].priority == "urgent"
            (self._urgent if urgent else self._data).appendleft(letter)
        a.waiting.clear()

    def restart(self, actor: int, timeout: float) -> None:
        self._restart(self._alive(actor))
        self._run()

    def _restart(self, a: Actor | Supervisor) -> None:
        a.incarnation += 1
        if isinstance(a, Supervisor):
            a.life = "running"
            a.restarts.clear()
            for child in a.children:
                if self._actors[child].life != "stopped":
                    self._restart(self._actors[child])
        else:
            self._timers.cancel_all(a.address)
            kept = a.kept if a.kept is not None else self._types[a.kind].initial
            a.state[()] = kept[()]
            self._go_on(a)
        self._tell(a, a.failure)

    def checkpoint(self, actor: int, timeout: float) -> None:
        a = self._known(actor) if not self._busy else self._actors[actor]
        if not isinstance(a, Actor) or self._types[a.kind].restart_from != "snapshot":
            raise ArgumentError(
                f"{self._named(actor)} keeps no checkpoint; its type declares "
                'restart_from = "snapshot"'
            )
        a.kept = a.state.copy()
