# SPDX-License-Identifier: Apache-2.0
"""Programs of other frameworks beside a runtime, and what a killed one leaves behind.

Each program runs in a process of its own, alone or after a runtime was started there and messages
flow. ``python -m denizen.lab.beside NAME [--beside]`` is that process; it prints one JSON object.
``--walk`` is a process that only has the messages flow, until it is killed.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any

import numpy as np

import denizen
from denizen import terminal
from denizen.lab import neighbours
from denizen.lab.record import LabError, Measured

_DEADLINE = 180.0
# So few that no worker's rings fill up: a full ring keeps the host's messages out.
_TOKENS = 64
_WALK = "--walk"

TOKEN = denizen.message("Token", [("left", "u4")])
STOP = denizen.message("Stop")
QUERY = denizen.message("Query")
TALLY = denizen.message("Tally", [("handled", "u8"), ("ended", "u8")])

_WALKERS = """
struct Walker {
    uint64_t handled = 0;
    uint64_t ended = 0;
    uint32_t stopped = 0;
    void on(const Token& token, auto& ctx) {
        ++handled;
        if (stopped != 0) {
            ++ended;
            return;
        }
        const auto next = (ctx.worker() + 1) % ctx.workers();
        ctx.send(denizen::Address::actor(next, ctx.self().local() % 2), token);
    }
    void on(const Stop&, auto&) { stopped = 1; }
    void on(const Query&, auto& ctx) { ctx.reply(Tally{handled, ended}); }
};
"""


def _walking(device: str) -> denizen.Runtime:
    walkers = denizen.Program(
        _WALKERS, actors=["Walker"], messages=[TOKEN, STOP, QUERY, TALLY], name="walkers"
    )
    return denizen.Runtime(walkers, device=device)


def _spawn(rt: denizen.Runtime) -> Any:
    """Two walkers a worker, and the tokens that hop from worker to worker."""
    actors = rt.spawn("Walker", 2 * rt.description["workers"])
    rt.send_many(np.resize(actors, _TOKENS), TOKEN.zeros(_TOKENS))
    return actors


def _walk(device: str) -> None:
    """Has the messages flow and says so; ends by a signal, or when stdin does."""
    with _walking(device) as rt:
        actors = _spawn(rt)
        while rt.ask(actors[0], QUERY())["handled"] == 0:
            time.sleep(0.001)
        print("walking", flush=True)
        sys.stdin.read()


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
    with _walking(device) as rt:
        actors = _spawn(rt)
        began = time.perf_counter()
        go()
        flowed = time.perf_counter() - began
        handled = int(rt.ask_many(actors, QUERY(), TALLY)["handled"].sum())
        rt.broadcast("Walker", STOP())
        rt.drain()
        ended = int(rt.ask_many(actors, QUERY(), TALLY)["ended"].sum())
        told["messages_per_second"] = handled / flowed
        told["audited"] = ended == _TOKENS and rt.stats()["errors"] == 0
    return told


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-X", "faulthandler", "-m", "denizen.lab.beside", *arguments]


def _child(name: str, device: str, *, beside: bool) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as cache:  # what it compiles is compiled anew in each
        caches = {"TORCHINDUCTOR_CACHE_DIR": cache, "TRITON_CACHE_DIR": cache + "/triton"}
        caches["CUPY_CACHE_DIR"] = cache + "/cupy"
        caches["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
        try:
            done = subprocess.run(
                _command(name, device, *(["--beside"] if beside else [])),
                capture_output=True,
                text=True,
                timeout=_DEADLINE,
                check=True,
                env={**os.environ, **caches},
            )
        except subprocess.TimeoutExpired as error:
            raise LabError(f"{name} did not end in {_DEADLINE:g} s") from error
        except subprocess.CalledProcessError as error:
            raise LabError(
                f"{name} ended with {error.returncode}: {error.stderr[-800:]}"
            ) from error
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def frameworks(device: str, *, quick: bool) -> list[Measured]:
    """Seconds of each program alone and beside, and the messages beside it in M/s.

    Verified: the results are those it has alone, every token ended once, and a million messages
    were handled each second. What is not installed is said and has no rows; on a CPU nothing has.
    """
    if device.startswith("cpu"):
        return []
    measured = []
    for name, (_, module) in neighbours.ALL.items():
        if importlib.util.find_spec(module) is None:
            terminal.error(f"no arm of {name}: there is no Python package {module}")
            continue
        runs = 1 if quick else 3
        alone, beside = [], []
        for _ in range(runs):
            alone.append(_child(name, device, beside=False))
            beside.append(_child(name, device, beside=True))
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


def _killed(device: str) -> tuple[float, bool]:
    """Milliseconds from SIGKILL until the process is gone; whether it had messages flowing.

    A process is gone when the driver has taken its channels off the GPU: its files are closed
    before whoever waits for it is told.
    """
    with subprocess.Popen(
        _command(_WALK, device), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        watchdog = threading.Timer(_DEADLINE, process.kill)
        watchdog.start()
        try:
            walking = process.stdout is not None and process.stdout.readline() == "walking\n"
            begin = time.perf_counter()
            process.kill()
            process.wait()
            return (time.perf_counter() - begin) * 1e3, walking
        finally:
            watchdog.cancel()


def kills(device: str, *, quick: bool) -> list[Measured]:
    """A process with messages under way is killed, again and again.

    Milliseconds until it is gone, and seconds until the next runtime has started, answered and been
    closed. Verified: each of them walked, and the next one's tokens all ended once.
    """
    times = 3 if quick else 20
    gone, started = np.empty(times), np.empty(times)
    right = True
    for i in range(times):
        gone[i], walked = _killed(device)
        begin = time.perf_counter()
        with _walking(device) as rt:
            actors = _spawn(rt)
            rt.broadcast("Walker", STOP())
            rt.drain()
            ended = int(rt.ask_many(actors, QUERY(), TALLY)["ended"].sum())
        started[i] = time.perf_counter() - begin
        right = right and walked and ended == _TOKENS
    return [
        Measured("killed under load: gone", {}, "ms", gone, times, right),
        Measured(
            "killed under load: the next program, start to end", {}, "s", started, times, right
        ),
    ]


if __name__ == "__main__":
    if sys.argv[1] == _WALK:
        _walk(sys.argv[2])
    else:
        print(json.dumps(run(sys.argv[1], sys.argv[2], beside="--beside" in sys.argv[3:])))
