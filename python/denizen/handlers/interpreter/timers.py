# SPDX-License-Identifier: Apache-2.0
"""What is sent later."""

from __future__ import annotations

import time
from dataclasses import dataclass

from denizen.handlers.interpreter.parts import Letter


@dataclass
class _Timer:
    due: int  # time.monotonic_ns()
    every: int  # 0: once
    letter: Letter


class Timers:
    """Letters, and when they are sent."""

    def __init__(self) -> None:
        self._all: dict[int, _Timer] = {}
        self._last = 0  # number

    def arm(self, ns: int, every: int, letter: Letter) -> int:
        """The timer's number. It is its sender's."""
        self._last += 1
        self._all[self._last] = _Timer(time.monotonic_ns() + ns, every, letter)
        return self._last

    def cancel(self, owner: int, number: int) -> bool:
        found = self._all.get(number)
        if found is None or found.letter.sender != owner:
            return False
        del self._all[number]
        return True

    def cancel_all(self, owner: int) -> None:
        self._all = {n: t for n, t in self._all.items() if t.letter.sender != owner}

    def due(self) -> list[Letter]:
        """Those whose time has come."""
        if not self._all:
            return []
        now = time.monotonic_ns()
        out = []
        for number, timer in list(self._all.items()):
            if timer.due > now:
                continue
            if timer.every == 0:
                del self._all[number]
            else:  # what was missed is not made up for
                timer.due = now + timer.every - (now - timer.due) % timer.every
            out.append(timer.letter)
        return out

    def doze(self, end: float) -> bool:
        """Waits for the next one, if it is due before `end`."""
        if not self._all:
            return False
        wait = (min(t.due for t in self._all.values()) - time.monotonic_ns()) * 1e-9
        if time.monotonic() + wait >= end:
            return False
        time.sleep(max(wait, 0.0))
        return True
