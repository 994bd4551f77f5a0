# SPDX-License-Identifier: Apache-2.0
"""A slice of a running simulation as a local web page, which also sends it commands.

Served on 127.0.0.1 alone, by :mod:`denizen.serving`: to requests that name this machine as their
host, and not to pages of another origin. A command must come as JSON.
"""

from __future__ import annotations

import json
import math
import threading
from importlib.resources import files
from typing import Any

import numpy as np

from denizen import style, threads
from denizen.errors import ArgumentError, ClosedError, DenizenError
from denizen.serving import Answer, Request, Server
from denizen.wave import Ricker, Simulation, Steered
from denizen.wave.simulation import Index, Place

_JSON = "application/json"
_TURN = 0.02  # seconds between two words of how far to go
_MOST_BEHIND = 0.2  # seconds of steps that a slow machine may try to catch up with
_FASTEST = 1e6  # steps a second


def index_of(axis: int, at: int) -> Index:
    """The slice across ``axis`` (0: z, 1: y, 2: x) at ``at``."""
    whole = slice(None)
    return (
        at if axis == 0 else whole,
        at if axis == 1 else whole,
        at if axis == 2 else whole,
    )


class Pacer:
    """Lets a run do ``rate`` steps a second, or all it can (0), while it is not paused."""

    def __init__(self, run: Steered, rate: float) -> None:
        self._run = run
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._paused = False
        self.rate = rate
        self._wanted = float(run.pause())
        if rate == 0:
            run.resume()
        self._thread = threads.start(self._go, "pacer")

    def close(self) -> None:
        """The run stays as it is."""
        self._over.set()
        self._thread.join()  # ends: a turn has no wait but that for a command's answer

    def set(self, rate: float) -> int:
        """From now on so many steps a second. Raises ArgumentError."""
        if not 0 <= rate <= _FASTEST:
            raise ArgumentError(f"{rate} steps a second; 0 (all it can) to {_FASTEST:,.0f}")
        with self._lock:
            self.rate = rate
            step = self._run.pause()
            self._wanted = float(step)
            if not self._paused and rate == 0:
                self._run.resume()
            return step

    def pause(self) -> int:
        with self._lock:
            self._paused = True
            return self._run.pause()

    def resume(self) -> int:
        with self._lock:
            self._paused = False
            step = self._run.resume() if self.rate == 0 else self._run.pause()
            self._wanted = float(step)
            return step

    def _go(self) -> None:
        while not self._over.wait(_TURN):  # ends at close(), or with the run
            with self._lock:
                if self._paused or self.rate == 0:
                    continue
                self._wanted += self.rate * _TURN
                try:
                    step = self._run.resume(max(1, int(self._wanted)))
                except ClosedError:
                    return
                except ArgumentError:  # the first step is not due
                    continue
                # Who cannot keep up is not hurried on.
                self._wanted = min(self._wanted, step + max(2.0, self.rate * _MOST_BEHIND))


class Live:
    """Serves the slice across ``axis`` at ``at`` of ``run``; ``frequency``: of sources it adds.

    ``port``: 0 for any that is free. The page is at ``url`` until close(). ``pace``: steps a
    second, 0: all it can. ``damping``: that it begins with; ``cells``: kinds, as of Simulation.
    """

    def __init__(
        self,
        simulation: Simulation,
        run: Steered,
        axis: int,
        at: int,
        *,
        frequency: float,
        port: int,
        pace: float = 0.0,
        damping: float = 0.0,
        cells: np.ndarray[Any, Any] | None = None,
    ) -> None:
        self.simulation = simulation
        self.run = run
        self.axis = axis
        self.at = at
        self.frequency = frequency
        self.ended = threading.Event()  # the page has asked for the end
        self._damping = damping
        self._block: tuple[slice, slice, slice] | None = None
        self._lock = threading.Lock()
        solid = solid_of(cells, index_of(axis, at))
        shape = [n for k, n in enumerate(simulation.shape) if k != axis]
        self._walls = np.zeros(shape, bool) if solid is None else np.array(solid, bool)
        self._walls_version = 0
        self._pacer = Pacer(run, pace)
        self._server = Server(self._answer, port)
        self.url = f"{self._server.url}/"

    def close(self) -> None:
        """Stop serving."""
        self._server.close()
        self._pacer.close()

    def slice(self) -> tuple[int, bytes, tuple[int, int]]:
        """The step, float32 values row by row, and (rows, columns)."""
        step, values = self.run.read(index_of(self.axis, self.at))
        return step, values.astype("<f4").tobytes(), (values.shape[0], values.shape[1])

    def command(self, words: dict[str, Any]) -> int:
        """Do what the page says; the step in front of which it was done. Raises ArgumentError."""
        match words.get("do"):
            case "pause":
                return self._pacer.pause()
            case "resume":
                return self._pacer.resume()
            case "pace":
                return self._pacer.set(float(words["value"]))
            case "damping":
                damping = float(words["value"])
                if not math.isfinite(damping):
                    raise ArgumentError(f"a damping of {damping}; give a finite number")
                return self.run.set_damping(damping)
            case "source":
                return self.run.add_source(Ricker(self.frequency), self._place(words))
            case "obstacle":
                return self._obstacle(self._place(words))
            case "end":
                self.ended.set()
                return self.simulation.steps
        raise ArgumentError(f"{words.get('do')!r} is no command")

    def _place(self, words: dict[str, Any]) -> Place:
        place = [int(words["row"]), int(words["column"])]
        place.insert(self.axis, self.at)
        return place[0], place[1], place[2]

    # A block of a twelfth of the grid; the one that was there before goes.
    def _obstacle(self, middle: Place) -> int:
        parts = []
        for n, i in zip(self.simulation.shape, middle, strict=True):
            half = max(1, n // 24)
            parts.append(slice(max(0, i - half), min(n, i + half + 1)))
        block = (parts[0], parts[1], parts[2])
        with self._lock:
            if self._block is None:
                step = self.run.set_cells(block, "reflector")
            else:
                step = self.run.move(self._block, block)
            self._block = block
            self._walls_version += 1
        return step

    def walls(self) -> tuple[int, bytes]:
        """A number that changes with them, and a byte for each cell of the slice: 1 is solid."""
        with self._lock:
            here = self._walls.copy()
            block = self._block
            version = self._walls_version
        if block is not None and self.at in range(*block[self.axis].indices(1 << 20)):
            rows, columns = (part for k, part in enumerate(block) if k != self.axis)
            here[rows, columns] = True
        return version, here.astype(np.uint8).tobytes()

    def _page(self) -> bytes:
        text = files("denizen.apps.wave").joinpath("live.html").read_text(encoding="utf-8")
        about = {
            "damping": self._damping,
            "pace": self._pacer.rate,
            "device": self.simulation.device,
            "grid": list(self.simulation.shape),
            "slice": f"{'zyx'[self.axis]} = {self.at}",
        }
        told = json.dumps(about).replace("<", "\\u003c")
        return style.fill(text, {"style": style.sheet(), "data": told}).encode()

    def _answer(self, request: Request) -> Answer:
        match request.method, request.path:
            case "GET", "/":
                return Answer(200, self._page(), "text/html; charset=utf-8")
            case "GET", "/slice":
                return self._shown()
            case "GET", "/walls":
                version, walls = self.walls()
                told = {"X-Walls": str(version)}
                return Answer(200, walls, "application/octet-stream", told)
            case "POST", "/command":
                return self._ordered(request)
        return _refusal(404, "there is /, /slice and /walls, and /command to post to")

    def _shown(self) -> Answer:
        try:
            step, values, (rows, columns) = self.slice()
        except DenizenError as error:
            return _refusal(409, str(error))
        told = {
            "X-Step": str(step),
            "X-Rows": str(rows),
            "X-Columns": str(columns),
            "X-Walls": str(self._walls_version),
            "X-Seconds": f"{step * self.simulation.dt:.9g}",
        }
        return Answer(200, values, "application/octet-stream", told)

    def _ordered(self, request: Request) -> Answer:
        if request.headers.get("content-type", "").partition(";")[0].strip() != _JSON:
            return _refusal(403, "commands are JSON from the page on 127.0.0.1")
        try:
            words = json.loads(request.body)
            if not isinstance(words, dict):
                raise ValueError("a command is an object")
            step = self.command(words)
        except KeyError as error:
            return _refusal(400, f"the command lacks {error}")
        except RecursionError:
            return _refusal(400, "the command is nested too deep")
        except (DenizenError, OverflowError, TypeError, ValueError) as error:
            return _refusal(400, str(error))
        return Answer(200, json.dumps({"step": step}).encode(), _JSON)


def _refusal(status: int, why: str) -> Answer:
    return Answer(status, json.dumps({"error": why}).encode(), _JSON)


def solid_of(cells: np.ndarray[Any, np.dtype[np.uint8]] | None, index: Index) -> Any:
    """Which cells of a slice are solid, or None."""
    return None if cells is None else cells[index] >= 2
