# SPDX-License-Identifier: Apache-2.0
"""A slice of a running simulation as a local web page, which also sends it commands.

Served on 127.0.0.1 alone, by :mod:`denizen.serving`: to requests that name this machine as their
host, and not to pages of another origin. A command must come as JSON.
"""

from __future__ import annotations

import json
import math
import threading
from pathlib import Path
from typing import Any

import numpy as np

from denizen.errors import ArgumentError, DenizenError
from denizen.serving import Answer, Request, Server
from denizen.wave import Ricker, Simulation, Steered
from denizen.wave.simulation import Index, Place

_PAGE = Path(__file__).with_name("live.html")
_JSON = "application/json"


def index_of(axis: int, at: int) -> Index:
    """The slice across ``axis`` (0: z, 1: y, 2: x) at ``at``."""
    whole = slice(None)
    return (
        at if axis == 0 else whole,
        at if axis == 1 else whole,
        at if axis == 2 else whole,
    )


class Live:
    """Serves the slice across ``axis`` at ``at`` of ``run``; ``frequency``: of sources it adds.

    ``port``: 0 for any that is free. The page is at ``url`` until close().
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
    ) -> None:
        self.simulation = simulation
        self.run = run
        self.axis = axis
        self.at = at
        self.frequency = frequency
        self.ended = threading.Event()  # the page has asked for the end
        self._block: tuple[slice, slice, slice] | None = None
        self._lock = threading.Lock()
        self._server = Server(self._answer, port)
        self.url = f"{self._server.url}/"

    def close(self) -> None:
        """Stop serving."""
        self._server.close()

    def slice(self) -> tuple[int, bytes, tuple[int, int]]:
        """The step, float32 values row by row, and (rows, columns)."""
        step, values = self.run.read(index_of(self.axis, self.at))
        return step, values.astype("<f4").tobytes(), (values.shape[0], values.shape[1])

    def command(self, words: dict[str, Any]) -> int:
        """Do what the page says; the step in front of which it was done. Raises ArgumentError."""
        match words.get("do"):
            case "pause":
                return self.run.pause()
            case "resume":
                return self.run.resume()
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
        return step

    def _answer(self, request: Request) -> Answer:
        match request.method, request.path:
            case "GET", "/":
                return Answer(200, _PAGE.read_bytes(), "text/html; charset=utf-8")
            case "GET", "/slice":
                return self._shown()
            case "POST", "/command":
                return self._ordered(request)
        return _refusal(404, "there is / and /slice, and /command to post to")

    def _shown(self) -> Answer:
        try:
            step, values, (rows, columns) = self.slice()
        except DenizenError as error:
            return _refusal(409, str(error))
        told = {
            "X-Step": str(step),
            "X-Rows": str(rows),
            "X-Columns": str(columns),
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
