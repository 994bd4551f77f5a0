# SPDX-License-Identifier: Apache-2.0
"""Programs of other frameworks beside a runtime whose messages flow, and alone.

Each run is a process of its own: ``python -m denizen.lab.frameworks NAME DEVICE [--beside]``. It
imports the framework, says "ready" and waits for a line; then it starts the runtime, runs the
program and prints one JSON object. The import is not timed: it uses no GPU, and takes longer than
most of the programs.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import IO, Any

import numpy as np

from denizen import terminal
from denizen.lab import neighbours, walkers
from denizen.lab.record import LabError, Measured

_DEADLINE = 180.0  # seconds, for the import and for the program
_RUNS = 9  # the fewest samples whose median has an interval


def run(name: str, device: str, *, beside: bool) -> dict[str, Any]:
    """The program's result and seconds; beside: the rate of messages and whether all ended once."""
    program, _ = neighbours.ALL[name]
    told: dict[str, Any] = {}

    def go() -> None:
        begin = time.perf_counter()
        told["result"] = program()
        told["seconds"] = time.perf_counter() - begin

    if not beside:
        go()
        return told
    with walkers.walking(device) as rt:
        actors = walkers.spawn(rt)
        began = time.perf_counter()
        go()
        flowed = time.perf_counter() - began
        handled = int(rt.ask_many(actors, walkers.QUERY(), walkers.TALLY)["handled"].sum())
        told["messages_per_second"] = handled / flowed
        told["audited"] = walkers.all_end(rt, actors) and rt.stats()["errors"] == 0
    return told


class Process:
    """A process that has imported a framework, or still does, and waits to run its program."""

    def __init__(self, name: str, child: subprocess.Popen[bytes], errors: IO[bytes]) -> None:
        self._name = name
        self._child = child
        self._errors = errors

    def ready(self) -> None:
        """Waits for the import. Raises LabError if it fails or takes too long."""
        self._answer(b"")

    def go(self) -> dict[str, Any]:
        """Runs the program: what :func:`run` returns. Raises LabError as ready() does."""
        told: dict[str, Any] = json.loads(self._answer(b"go\n"))
        return told

    def _answer(self, question: bytes) -> bytes:
        if self._child.stdin is None or self._child.stdout is None:
            raise LabError(f"{self._name} has no pipes")
        late = threading.Event()

        def end() -> None:
            late.set()
            self._child.kill()

        watchdog = threading.Timer(_DEADLINE, end)
        watchdog.start()
        try:
            self._child.stdin.write(question)
            line = self._child.stdout.readline()
        except BrokenPipeError:
            line = b""
        finally:
            watchdog.cancel()
        if late.is_set():
            raise LabError(f"{self._name} did not end in {_DEADLINE:g} s")
        if not line:
            status = self._child.wait()
            self._errors.seek(0)
            said = self._errors.read()[-800:].decode(errors="replace")
            raise LabError(f"{self._name} ended with {status}: {said}")
        return line


@contextmanager
def process(name: str, device: str, cache: str, *, beside: bool) -> Iterator[Process]:
    """A process that imports the framework of ``name``; it is killed at the end.

    ``cache`` is the folder of what frameworks compile.
    """
    caches = {
        "TORCHINDUCTOR_CACHE_DIR": cache,
        "TRITON_CACHE_DIR": cache + "/triton",
        "CUPY_CACHE_DIR": cache + "/cupy",
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    }
    command = [sys.executable, "-X", "faulthandler", "-m", "denizen.lab.frameworks", name, device]
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(
            [*command, *(["--beside"] if beside else [])],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env={**os.environ, **caches},
        ) as child,
    ):
        try:
            yield Process(name, child, errors)
        finally:
            child.kill()


def _measure(
    name: str, device: str, runs: int
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """What each run told, alone and beside, by turns.

    All have imported before the first is run: an import keeps cores busy. A first run alone is not
    counted: it reads files and compiles what the frameworks keep for later runs.
    """
    with tempfile.TemporaryDirectory() as cache, ExitStack() as stack:

        def begin(*, beside: bool) -> Process:
            return stack.enter_context(process(name, device, cache, beside=beside))

        first = begin(beside=False)
        first.ready()
        first.go()
        pairs = [(begin(beside=False), begin(beside=True)) for _ in range(runs)]
        for pair in pairs:
            for one in pair:
                one.ready()
        told = [(alone.go(), beside.go()) for alone, beside in pairs]
    return [alone for alone, _ in told], [beside for _, beside in told]


def measure(device: str, *, quick: bool) -> list[Measured]:
    """Seconds of each program alone and beside, and the messages beside it in M/s.

    Verified: the results are those it has alone, every token ended once, and a million messages
    were handled each second. What is not installed or does not run is said and has no rows; on a
    CPU nothing has.
    """
    if device.startswith("cpu"):
        return []
    measured: list[Measured] = []
    runs = 1 if quick else _RUNS
    for name, (_, module) in neighbours.ALL.items():
        if importlib.util.find_spec(module) is None:
            terminal.error(f"no arm of {name}: there is no Python package {module}")
            continue
        try:
            alone, beside = _measure(name, device, runs)
        except LabError as error:
            terminal.error(f"no arm of {name}: {error}")
            continue
        same = all(
            np.allclose(one["result"], alone[0]["result"], rtol=1e-4) for one in alone + beside
        )
        flows = all(one["audited"] and one["messages_per_second"] >= 1e6 for one in beside)
        base = f"{name}, alone"
        for title, of, right, bases in (
            (base, alone, same, ()),
            (f"{name}, beside", beside, same and flows, (base,)),
        ):
            seconds = np.array([one["seconds"] for one in of])
            measured.append(Measured(title, {}, "s", seconds, runs, right, bases))
        rates = np.array([one["messages_per_second"] * 1e-6 for one in beside])
        measured.append(Measured(f"messages beside {name}", {}, "M/s", rates, runs, flows))
    return measured


def main(arguments: list[str]) -> None:
    """The process of one run; see above."""
    name, device = arguments[:2]
    answers, sys.stdout = sys.stdout, sys.stderr  # what a framework says is no answer
    importlib.import_module(neighbours.ALL[name][1])
    print("ready", file=answers, flush=True)
    if sys.stdin.readline():
        told = run(name, device, beside="--beside" in arguments[2:])
        print(json.dumps(told), file=answers, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
