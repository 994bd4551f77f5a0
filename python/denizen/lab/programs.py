# SPDX-License-Identifier: Apache-2.0
"""Runs a C++ benchmark program and reads what it prints.

A program prints JSON lines on stdout and nothing else: one ``{"environment": {...}}`` and one
``{"case": ...}`` per case (see :func:`parse`). What it measures can hang, so it gets a deadline, at
which its whole process group is killed.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from denizen import machine, terminal
from denizen.lab.record import LabError, Measured, Scalar

log = logging.getLogger(__name__)

Environment = dict[str, str | int | float | bool | None]

# What a program says on stderr of an arm or a case that it leaves out; the rest says how far it is.
_LEFT_OUT = re.compile(r"no [^:]+: |.* is left out\b|one core: ")
_LAST_WORDS = 2.0  # seconds to wait for them, once the program has ended


def find(experiment: str) -> Path:
    """The program ``bench_<experiment>``. Raises LabError that says where it was looked for."""
    return find_program(f"bench_{experiment}")


def find_program(name: str) -> Path:
    """The program ``name`` of this project: in DENIZEN_BENCH_DIR, or in the build tree.

    Raises LabError that says where it was looked for.
    """
    places = []
    if given := os.environ.get("DENIZEN_BENCH_DIR"):
        places.append(Path(given))
    if top := machine.checkout():
        places.append(top / "build" / "release" / "benchmarks")
    for place in places:
        if os.access(place / name, os.X_OK):
            return place / name
    looked = ", ".join(map(str, places)) or "(no checkout, and no DENIZEN_BENCH_DIR)"
    raise LabError(
        f"benchmark program {name} is in none of: {looked}; `make bench` in a checkout builds it, "
        "DENIZEN_BENCH_DIR names another folder"
    )


def run(command: list[str], timeout: float) -> tuple[Environment, list[Measured]]:
    """Run ``command`` for at most ``timeout`` seconds; its environment and its cases.

    Each line of its stderr is logged when it comes, but what it leaves out is told as an error.
    Raises LabError if it cannot start, overruns, fails, or prints something else than cases.
    """
    name = Path(command[0]).name
    words: list[str] = []
    try:
        with _listening(name, words) as stderr:
            status, out, _ = finished(command, timeout, stdout=subprocess.PIPE, stderr=stderr)
    except OSError as error:
        raise LabError(f"{name} cannot be started: {error}") from error
    except subprocess.TimeoutExpired as error:
        raise LabError(f"{name} was stopped after {timeout:g} s{_last(words)}") from error
    if status != 0:
        raise LabError(f"{name} ended with {_ending(status)}{_last(words)}")
    return parse(out.decode(errors="replace"), name)


@contextlib.contextmanager
def _listening(name: str, words: list[str]) -> Iterator[int]:
    """The end of a pipe for the stderr of program ``name``, whose lines are added to ``words``."""
    read, write = os.pipe()

    def listen() -> None:
        with open(read, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if word := line.strip():
                    words.append(word)
                    if _LEFT_OUT.match(word):
                        terminal.error(f"{name}: {word}")
                    else:
                        log.info("%s: %s", name, word)

    thread = threading.Thread(target=listen, daemon=True, name="listening")
    thread.start()
    try:
        yield write
    finally:
        os.close(write)
        thread.join(_LAST_WORDS)  # a child that has left the program's group may keep the pipe


def finished(command: Sequence[str], timeout: float, **popen: Any) -> tuple[int, bytes, bytes]:
    """Run ``command`` to its end: its status, and what it wrote where ``popen`` makes a pipe.

    It is in a session of its own, so that what it has started goes with it: its group is killed
    after ``timeout`` seconds, which raises subprocess.TimeoutExpired, and by what ends this process
    (Ctrl-C). OSError if it cannot start.
    """
    with contextlib.ExitStack() as starting:
        # The program is there before Popen returns: an end in between would leave it behind.
        starting.enter_context(_signals_wait())
        with subprocess.Popen(
            command, stdin=subprocess.DEVNULL, start_new_session=True, **popen
        ) as process:
            try:
                starting.close()  # raises what has come meanwhile
                out, err = process.communicate(timeout=timeout)
            except BaseException:
                with contextlib.suppress(ProcessLookupError):  # it has just ended
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                raise
    return process.returncode, out or b"", err or b""


@contextlib.contextmanager
def _signals_wait() -> Iterator[None]:
    """What asks this process to end within is told at its end (main thread)."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    come: list[int] = []
    usual = {
        number: signal.signal(number, lambda number, _: come.append(number))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in usual.items():
            signal.signal(number, handler)
    for arrived in come:
        signal.raise_signal(arrived)


def _ending(code: int) -> str:
    return f"exit code {code}" if code > 0 else f"signal {signal.Signals(-code).name}"


def _last(words: Sequence[str]) -> str:
    return f": {words[-1]}" if words else ""


def parse(text: str, name: str) -> tuple[Environment, list[Measured]]:
    """The lines that program ``name`` printed; LabError with the line number if one is wrong.

    A case has ``case``, ``unit``, ``samples`` (in the order of measurement), ``n`` (the events
    behind them), ``verified``, and may have ``params``, ``ratio_base`` (a case or a list of them),
    ``arm`` ("A/A" for a second measurement of the same case), and ``rounds`` (the samples are so
    many equal groups in a row, each one pass over all cases).
    """
    environment: Environment = {}
    measured: list[Measured] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line, parse_constant=_no_constant)
            if not isinstance(value, dict):
                raise ValueError("not a JSON object")
            if "environment" in value:
                environment.update(_environment(value["environment"]))
            else:
                measured.append(_measured(value))
        except (ValueError, TypeError) as error:
            raise LabError(f"{name}, line {number} of its output: {error}: {line:.80}") from error
    if not measured:
        raise LabError(f"{name} printed no case")
    return environment, measured


def _environment(value: Any) -> Environment:
    scalar = (str, int, float, bool, type(None))
    if not isinstance(value, dict) or not all(isinstance(v, scalar) for v in value.values()):
        raise ValueError("environment must be an object of text, numbers, booleans and nulls")
    return value


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no measurement")


def _measured(value: dict[str, Any]) -> Measured:
    known = {"case", "params", "unit", "samples", "n", "verified", "ratio_base", "arm", "rounds"}
    if unknown := value.keys() - known:
        raise ValueError(f'field "{sorted(unknown)[0]}" is not known')
    for field in ("case", "unit", "samples", "n", "verified"):
        if field not in value:
            raise ValueError(f'field "{field}" is missing')
    case, unit, n, verified = value["case"], value["unit"], value["n"], value["verified"]
    if not (isinstance(case, str) and case and isinstance(unit, str) and unit):
        raise ValueError("case and unit must be text")
    if not isinstance(verified, bool) or not isinstance(n, int) or n < 1:
        raise ValueError("verified must be a boolean and n a count")
    params: dict[str, Scalar] = value.get("params", {})
    if not all(isinstance(item, (str, int, float, bool)) for item in params.values()):
        raise ValueError("params must be text, numbers and booleans")
    base = value.get("ratio_base") or []
    rounds = value.get("rounds")
    if rounds is not None and (not isinstance(rounds, int) or rounds < 1):
        raise ValueError("rounds must be a count")
    samples = np.asarray(value["samples"], dtype=np.float64)
    if samples.ndim != 1 or samples.size == 0:
        raise ValueError("samples must be a list of numbers")
    return Measured(
        case=case,
        params=params,
        unit=unit,
        samples=samples,
        n=n,
        verified=verified,
        ratio_base=(base,) if isinstance(base, str) else tuple(base),
        arm=value.get("arm", ""),
        rounds=rounds,
    )
