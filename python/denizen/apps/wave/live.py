# SPDX-License-Identifier: Apache-2.0
"""A slice of a running simulation as a local web page, which also sends it commands.

Served on 127.0.0.1 alone. A request must name that address as its host, and a command must come as
JSON, so that pages from elsewhere can neither read nor steer.
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np

from denizen import threads
from denizen.errors import ArgumentError, DenizenError, ExhaustedError
from denizen.wave import Ricker, Simulation, Steered
from denizen.wave.simulation import Index, Place

_PAGE = Path(__file__).with_name("live.html")
_MOST = 1 << 16  # bytes of a command


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
        live = self

        class Handler(_Handler):
            of = live

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/"
        try:
            self._thread = threads.start(self._server.serve_forever, "wave live")
        except ExhaustedError:
            self._server.server_close()
            raise

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

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
                return self.run.set_damping(float(words["value"]))
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


class _Handler(BaseHTTPRequestHandler):
    of: Live

    def log_message(self, format: str, *args: Any) -> None:
        """The terminal is the program's."""

    def _from_here(self) -> bool:
        host = self.headers.get("Host", "").rpartition(":")[0]
        return host in ("127.0.0.1", "localhost")

    def _answer(
        self, status: int, body: bytes, kind: str, headers: dict[str, str] | None = None
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _refuse(self, status: int, why: str) -> None:
        self._answer(status, json.dumps({"error": why}).encode(), "application/json")

    def do_GET(self) -> None:
        if not self._from_here():
            self._refuse(403, "this page is served to 127.0.0.1 alone")
            return
        if self.path == "/":
            self._answer(200, _PAGE.read_bytes(), "text/html; charset=utf-8")
            return
        if self.path != "/slice":
            self._refuse(404, "there is / and /slice")
            return
        try:
            step, values, (rows, columns) = self.of.slice()
        except DenizenError as error:
            self._refuse(409, str(error))
            return
        told = {
            "X-Step": str(step),
            "X-Rows": str(rows),
            "X-Columns": str(columns),
            "X-Seconds": f"{step * self.of.simulation.dt:.9g}",
        }
        self._answer(200, values, "application/octet-stream", told)

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        json_alone = self.headers.get("Content-Type", "").startswith("application/json")
        if not self._from_here() or not json_alone or self.path != "/command" or length > _MOST:
            self._refuse(403, "commands are JSON from the page on 127.0.0.1")
            return
        try:
            words = json.loads(self.rfile.read(length))
            if not isinstance(words, dict):
                raise ValueError("a command is an object")
            step = self.of.command(words)
        except (DenizenError, KeyError, TypeError, ValueError) as error:
            self._refuse(400, str(error))
            return
        self._answer(200, json.dumps({"step": step}).encode(), "application/json")


def solid_of(cells: np.ndarray[Any, np.dtype[np.uint8]] | None, index: Index) -> Any:
    """Which cells of a slice are solid, or None."""
    return None if cells is None else cells[index] >= 2
