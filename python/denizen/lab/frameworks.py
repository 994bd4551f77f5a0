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
import logging
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import IO, Any

import numpy as np

from denizen import terminal
from denizen.device import parse_device
from denizen.handlers import compiled
from denizen.lab import neighbours, walkers
from denizen.lab.context import open_context
from denizen.lab.record import LabError, Measured

log = logging.getLogger(__name__)

_DEADLINE = 180.0  # seconds, for the import and for the program
_ROUNDS = 9  # the fewest samples whose median has an interval
_MOST_ROUNDS = 11  # of a program that is soon over; each waits with its framework in memory
_BUDGET = 30.0  # seconds that the runs of a program may take, where these are more than the fewest
_ALONE, _BESIDE, _AGAIN = "alone", "beside", "A/A"

_Told = dict[str, Any]


def run(name: str, device: str, *, beside: bool) -> _Told:
    """The program's result and seconds; beside: the rate of messages and whether all ended once."""
    program, _ = neighbours.ALL[name]
    told: _Told = {}

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

    def go(self) -> _Told:
        """Runs the program: what :func:`run` returns. Raises LabError as ready() does."""
        told: _Told = json.loads(self._answer(b"go\n"))
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


def rounds_of(seconds: float, arms: int) -> int:
    """How often each of ``arms`` runs a program that takes so long: the shorter, the more often."""
    fitting = int(_BUDGET / (seconds * arms))
    return min(max(fitting, _ROUNDS), _MOST_ROUNDS)


def _runs(name: str, device: str, arms: Sequence[str], *, quick: bool) -> dict[str, list[_Told]]:
    """What each run told: rounds of one run of each arm.

    All have imported before the first is run: an import keeps cores busy. Each is gone once it has
    told: ``torch.compile`` keeps a worker for each core in every process. Two first runs alone are
    not counted: one reads files and compiles what the frameworks keep for later runs, the other
    tells how long these will take.
    """
    with tempfile.TemporaryDirectory() as cache, ExitStack() as stack:

        def begin(arm: str) -> tuple[ExitStack, Process]:
            ending = stack.enter_context(ExitStack())
            one = process(name, device, cache, beside=arm == _BESIDE)
            return ending, ending.enter_context(one)

        for _ in range(1 if quick else 2):
            ending, first = begin(_ALONE)
            with ending:
                first.ready()
                took = first.go()["seconds"]
        rounds = 1 if quick else rounds_of(took, len(arms))
        waiting = [(arm, *begin(arm)) for _ in range(rounds) for arm in arms]
        for _, _, one in waiting:
            one.ready()
        told: dict[str, list[_Told]] = {arm: [] for arm in arms}
        for arm, ending, one in waiting:
            with ending:
                told[arm].append(one.go())
    return told


def _rows(name: str, told: dict[str, list[_Told]]) -> list[Measured]:
    expected = told[_ALONE][0]["result"]
    same = all(
        np.allclose(one["result"], expected, rtol=1e-4) for runs in told.values() for one in runs
    )
    beside = told[_BESIDE]
    flows = all(one["audited"] and one["messages_per_second"] >= 1e6 for one in beside)

    def row(arm: str, right: bool, base: tuple[str, ...] = ()) -> Measured:
        seconds = np.array([one["seconds"] for one in told[arm]])
        again = _AGAIN if arm == _AGAIN else ""
        case = f"{name}, {_ALONE if again else arm}"
        n = seconds.size  # one run in each round
        return Measured(case, {}, "s", seconds, n, right, base, arm=again, rounds=n)

    rows = [row(_ALONE, same), row(_BESIDE, same and flows, (f"{name}, {_ALONE}",))]
    if _AGAIN in told:
        rows.append(row(_AGAIN, same))
    rates = np.array([one["messages_per_second"] * 1e-6 for one in beside])
    n = rates.size
    rows.append(Measured(f"messages beside {name}", {}, "M/s", rates, n, flows, rounds=n))
    return rows


def measure(device: str, *, quick: bool) -> list[Measured]:
    """Seconds of each program alone and beside, and the messages beside it in M/s.

    The first is run alone once more in each round (A/A). Verified: the results are those it has
    alone, every token ended once, and a million messages were handled each second. What is not
    installed or does not run is said and has no rows. Raises LabError without a GPU.
    """
    if not parse_device(device).on_gpu:
        raise LabError(
            "programs of other frameworks are run beside a program on a GPU; this is none"
        )
    measured: list[Measured] = []
    arms = [_ALONE, _BESIDE, _AGAIN]
    for name, (_, modules) in neighbours.ALL.items():
        if importlib.util.find_spec(modules[0]) is None:
            terminal.error(f"no arm of {name}: there is no Python package {modules[0]}")
            continue
        log.info("%s, alone and beside", name)
        try:
            measured += _rows(name, _runs(name, device, arms, quick=quick))
        except LabError as error:
            terminal.error(f"no arm of {name}: {error}")
            continue
        arms = [_ALONE, _BESIDE]
    return measured


def main(arguments: list[str]) -> None:
    """The process of one run; see above."""
    name, device = arguments[:2]
    answers, sys.stdout = sys.stdout, sys.stderr  # what a framework says is no answer
    with compiled.row_stack():
        for module in neighbours.ALL[name][1]:
            importlib.import_module(module)
    where = parse_device(device)
    if where.on_gpu:
        open_context(where.first)
    print("ready", file=answers, flush=True)
    if sys.stdin.readline():
        told = run(name, device, beside="--beside" in arguments[2:])
        print(json.dumps(told), file=answers, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
