# SPDX-License-Identifier: Apache-2.0
"""How long a program takes to start, each time in a process of its own.

From `denizen.Runtime(...)` to the first answer: with what is imported only then (Numba), without
`import denizen`. On a GPU the driver's own start is in it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

import denizen
from denizen.lab.record import LabError, Measured

_DEADLINE = 300.0

Ping = denizen.message("Ping", [("value", "u4")])
Pong = denizen.message("Pong", [("value", "u4")])


class Adder:
    STEP = 0
    asked: np.uint64 = 0  # type: ignore[assignment]

    def on_ping(self, m: Ping, ctx):  # type: ignore
        self.asked += 1
        ctx.reply(Pong(m.value + self.STEP))  # type: ignore[attr-defined]


def _in_python(step: int) -> denizen.Program:
    Adder.STEP = step
    return denizen.Program(actors=[denizen.actor(Adder)], name="adder in Python")


def _as_text(step: int) -> denizen.Program:
    text = f"""
struct Adder {{
    uint64_t asked = 0;
    void on(const Ping& m, auto& ctx) {{ ++asked; ctx.reply(Pong{{m.value + {step}u}}); }}
}};
"""
    return denizen.Program(text, actors=["Adder"], messages=[Ping, Pong], name="adder")


_WAYS: Mapping[str, Callable[[int], denizen.Program]] = {
    "C++ text": _as_text,
    "Python": _in_python,
}


def measure(device: str, *, quick: bool) -> list[Measured]:
    """Seconds of the first program that this user starts (`first`), of a new one behind it (`new`),
    and of that one once more (`cached`)."""
    rounds = 1 if quick else 7
    found: dict[tuple[str, str], list[tuple[float, bool]]] = {}
    on = "CPU"
    for _ in range(rounds):
        for way in _WAYS:
            with tempfile.TemporaryDirectory() as folder:
                # Steps that no other has: the driver and NVRTC have caches of their own.
                first, new = (time.time_ns() % 2**30 + k for k in range(2))
                for how, step in (("first", first), ("new", new), ("cached", new)):
                    on, seconds, right = _child(way, device, step, Path(folder) / "cache")
                    found.setdefault((how, way), []).append((seconds, right))
    return [
        Measured(
            f"start, {how}",
            {"handlers": way, "on": on},
            "s",
            np.array([seconds for seconds, _ in runs]),
            len(runs),
            all(right for _, right in runs),
        )
        for (how, way), runs in found.items()
    ]


def _child(way: str, device: str, step: int, cache: Path) -> tuple[str, float, bool]:
    command = [sys.executable, "-m", "denizen.lab.starts", way, device, str(step)]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=_DEADLINE,
            check=True,
            env={**os.environ, "DENIZEN_CACHE": str(cache)},
        )
    except subprocess.TimeoutExpired as error:
        raise LabError(f"a program of {way} did not start in {_DEADLINE:g} s") from error
    except subprocess.CalledProcessError as error:
        raise LabError(
            f"a program of {way} ended with {error.returncode}: {error.stderr[-800:]}"
        ) from error
    on, seconds, answer = done.stdout.split()[-3:]
    return on, float(seconds), int(answer) == 5 + step


def _once(way: str, device: str, step: int) -> None:
    program = _WAYS[way](step)
    begin = time.perf_counter()
    with denizen.Runtime(program, device) as rt:
        (adder,) = rt.spawn("Adder")
        answer = int(rt.ask(adder, Ping(5), timeout=_DEADLINE)["value"])
        seconds = time.perf_counter() - begin
        on = "GPU" if rt.description["on_gpu"] else "CPU"
    print(on, seconds, answer)


if __name__ == "__main__":
    _once(sys.argv[1], sys.argv[2], int(sys.argv[3]))
