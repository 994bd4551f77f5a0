# SPDX-License-Identifier: Apache-2.0
"""The part of the experiment ``handlers`` that waits for a program's first answer: seconds from
``denizen.Runtime(program)`` to it, in a process that has run none.

Each process has the cache of its arm: cold, where nothing is kept, or cached, where one process has
run the program before. Importing denizen is not in it; importing Numba is. On a GPU a cold start is
measured with the quick code, which is optimised while it runs, and with the optimised code; beside
them is what the driver takes of each, to open the GPU's context, and a cached start with the host's
rings in pinned memory: the rest is what the driver takes for memory that the CPU maps. The first
process of each way is not counted: it reads the compilers' files from the disk.

    python -m denizen.lab.first "Python" cpu:1 wait
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

import numpy as np

import denizen
from denizen.device import parse_device
from denizen.lab import programs
from denizen.lab.context import open_context
from denizen.lab.handlers import WAYS, Ping
from denizen.lab.record import LabError, Measured, Scalar

log = logging.getLogger(__name__)

_TIMEOUT = 120.0
_PINNED = "optimised, pinned rings"
_STARTS = {"quick": "background", "optimised": "wait", _PINNED: "pinned", "": "wait"}
_CONTEXT = "context"  # the way of a process that opens the GPU's, and does nothing else


def measure(device: str, *, quick: bool) -> list[Measured]:
    on_gpu = not device.startswith("cpu") and denizen.gpu_problem() == ""
    case = "first answer" if on_gpu else "first answer on CPU threads"
    ways = [(way, code) for way in WAYS for code in (("quick", "optimised") if on_gpu else ("",))]
    cold, cached = (1, 2) if quick else (9, 9)  # so many have an interval
    # Forth and back: a machine's speed changes within the minutes that this takes.
    found: dict[tuple[str, str, str, str], list[tuple[float, bool]]] = {}
    for way, code in ways:  # what the disk is slow to give for the first time is no start's
        with tempfile.TemporaryDirectory() as new:
            _once(way, device, _STARTS[code], f"{new}/cache")
    for count, cache in ((cold, "cold"), (cached, "cached")):
        log.info("first answers, %s", cache)
        if cache == "cached":  # what is kept is the optimised code
            ways = [(way, code) for way, code in ways if code != "quick"]
            ways += [("Python", _PINNED)] if on_gpu else []
        with tempfile.TemporaryDirectory() as kept:
            again = ("A/A",) if cache == "cached" else ()
            arms = [(*way, arm) for way in ways for arm in ("", *again)]
            if cache == "cached":
                for way in WAYS:
                    _once(way, device, "wait", f"{kept}/cache")
            for i in range(count):
                for way, code, arm in arms if i % 2 == 0 else reversed(arms):
                    with tempfile.TemporaryDirectory() as new:
                        folder = f"{kept if cache == 'cached' else new}/cache"
                        got = _once(way, device, _STARTS[code], folder)
                    found.setdefault((way, cache, code, arm), []).append(got)
    made = []
    for (way, cache, code, arm), runs in found.items():
        params: dict[str, Scalar] = {"handlers": way, "cache": cache}
        if code:
            params["code"] = code
        seconds = np.array([s for s, _ in runs])
        right = all(r for _, r in runs)
        made.append(Measured(case, params, "s", seconds, len(runs), right, arm=arm))
    if on_gpu:
        runs = [_once(_CONTEXT, device, "wait", "") for _ in range(cold)]
        seconds = np.array([s for s, _ in runs])
        made.append(Measured("the driver's context alone", {}, "s", seconds, cold, True))
    return made


def _once(way: str, device: str, optimise: str, cache: str) -> tuple[float, bool]:
    command = [sys.executable, "-m", "denizen.lab.first", way, device, optimise]
    what = " ".join(command[1:])
    try:
        status, out, said = programs.finished(
            command,
            _TIMEOUT,
            env={**os.environ, "DENIZEN_CACHE": cache},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    except subprocess.TimeoutExpired as error:
        raise LabError(f"{what} did not end in {_TIMEOUT:g} s") from error
    if status != 0:
        raise LabError(f"{what} ended with {status}: {said[-400:].decode(errors='replace')}")
    seconds, right = json.loads(out)
    return float(seconds), bool(right)


def main(arguments: Sequence[str]) -> None:
    way, device, start = arguments
    optimise = "wait" if start == "pinned" else start
    if way == _CONTEXT:
        begin = time.perf_counter()
        open_context(parse_device(device).first)
        print(json.dumps([time.perf_counter() - begin, True]))
        return
    program = WAYS[way]()
    begin = time.perf_counter()
    mapped = start != "pinned"
    with denizen.Runtime(program, device, optimise=optimise, mapped=mapped) as rt:  # type: ignore[arg-type]
        (walker,) = rt.spawn("Walker")
        right = int(rt.ask(walker, Ping(41), timeout=_TIMEOUT)["value"]) == 42
        seconds = time.perf_counter() - begin
    print(json.dumps([seconds, right]))


if __name__ == "__main__":
    main(sys.argv[1:])
