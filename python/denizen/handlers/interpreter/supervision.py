# SPDX-License-Identifier: Apache-2.0

"""Who is told that an actor has failed, and what is done about it."""

from __future__ import annotations

import time
from collections.abc import Sequence

from denizen.errors import ArgumentError, MessageError
from denizen.handlers.interpreter.lives import Lives
from denizen.handlers.interpreter.parts import Actor, Supervisor
from denizen.life import DOWN, HOST, LIVES, STRATEGIES


class Supervision(Lives):
    """Calls of denizen._core.Runtime."""

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

    def _tell(self, a: Actor | Supervisor, code: int) -> None:
        for watcher in a.watchers:
            self._post(a.address, watcher, self._numbers[DOWN.name], self._down(a, code))

    def _down(self, a: Actor | Supervisor, code: int) -> bytes:
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
        s = Supervisor(address, list(children), STRATEGIES[strategy], max_restarts, window)
        self._actors[address] = s
        for child in children:
            self._actors[child].supervisor = s
        return address

    def _fail(self, a: Actor | Supervisor, code: int) -> None:
        a.life, a.failure = "failed", code
        self._tell(a, code)
        above = a.supervisor
        if above is not None and above.life == "running":
            self._decide(above, a)
        elif isinstance(a, Supervisor) and above is None:
            for child in a.children:  # nobody is left to restart them
                if self._actors[child].life != "stopped":
                    self.stop(child, 0.0)

    def _decide(self, s: Supervisor, failed: Actor | Supervisor) -> None:
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
            if isinstance(failed, Actor):
                self._go_on(failed)
            else:
                failed.life = "running"
        elif s.strategy == "stop":
            self.stop(failed.address, 0.0)
        else:
            self._fail(s, failed.failure)
        return None
