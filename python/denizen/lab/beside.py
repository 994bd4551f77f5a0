# SPDX-License-Identifier: Apache-2.0
"""What breathing costs, and gives: loads with a breath and without, programs of other frameworks
beside a runtime, and what a killed one leaves behind.

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
from denizen.lab import neighbours, programs
from denizen.lab.record import LabError, Measured

_DEADLINE = 180.0
# So few that no worker's rings fill up: a full ring keeps the host's messages out.
_TOKENS = 64
_WALK = "--walk"
_A_TURN = 5e-4  # seconds: an ask that took longer has waited for another process's program

FOR_EVER = ", one kernel for ever"
_AGAIN = "A/A"
LOADS = {
    "tasks": ("thread tasks", "warp tasks", "fork-join tree", "chain, one hop"),
    "transactions": ("streamed", "resident in device memory"),
}

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


def _all_end(rt: denizen.Runtime, actors: Any) -> bool:
    """Stops the walkers; whether each token ended once."""
    rt.broadcast("Walker", STOP())
    rt.drain()
    return int(rt.ask_many(actors, QUERY(), TALLY)["ended"].sum()) == _TOKENS


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
        told["messages_per_second"] = handled / flowed
        told["audited"] = _all_end(rt, actors) and rt.stats()["errors"] == 0
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
    were handled each second. What is not installed or does not run alone is said and has no rows;
    on a CPU nothing has.
    """
    if device.startswith("cpu"):
        return []
    measured: list[Measured] = []
    warm: set[str] = set()
    for name, (_, module) in neighbours.ALL.items():
        if importlib.util.find_spec(module) is None:
            terminal.error(f"no arm of {name}: there is no Python package {module}")
            continue
        runs = 1 if quick else 3
        alone, beside = [], []
        if module not in warm:  # its files are read for the first time
            warm.add(module)
            try:
                _child(name, device, beside=False)
            except LabError as error:
                terminal.error(f"no arm of {name}, which does not run alone: {error}")
                continue
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


def _killed(device: str) -> tuple[float, float, bool]:
    """Milliseconds from SIGKILL of a process with messages under way until it is gone, and until
    its program no longer shares the device.

    Who shares it is seen by asks of a runtime beside it: the GPU takes turns between processes, of
    some milliseconds each, and an ask of a microsecond waits for its turn. Last, whether one waited
    before the kill: else nothing was seen.
    """
    with (
        subprocess.Popen(
            _command(_WALK, device), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process,
        _walking(device) as rt,
    ):
        watchdog = threading.Timer(_DEADLINE, process.kill)
        watchdog.start()
        try:
            if process.stdout is None or process.stdout.readline() != "walking\n":
                raise LabError("the process to be killed had no messages under way")
            (walker,) = rt.spawn("Walker").tolist()
            before = _waits(rt, walker, 0.1)
            killed = time.perf_counter()
            process.kill()
            gone: list[float] = []

            def reap() -> None:
                process.wait()
                gone.append(time.perf_counter())

            reaper = threading.Thread(target=reap)
            reaper.start()
            after = _waits(rt, walker, 0.3)
            reaper.join()
        finally:
            watchdog.cancel()
    free = max([at for at in after if at > killed], default=killed)
    seen = bool(before) or device.startswith("cpu")
    return (gone[0] - killed) * 1e3, (free - killed) * 1e3, seen


def _waits(rt: denizen.Runtime, walker: int, seconds: float) -> list[float]:
    """When asks ended that took longer than half a millisecond, of those made for so long."""
    ends = []
    begin = at = time.perf_counter()
    while at - begin < seconds:
        rt.ask(walker, QUERY())
        now = time.perf_counter()
        if now - at > _A_TURN:
            ends.append(now)
        at = now
    return ends


def kills(device: str, *, quick: bool) -> list[Measured]:
    """A process with messages under way is killed, again and again.

    Milliseconds until the GPU is free of its program and until the process is gone, and seconds
    from then until the next runtime has started, answered and been closed. Verified: each was seen
    to share the GPU before, and the tokens of each next program all ended.
    """
    times = 3 if quick else 20
    gone, free, started = np.empty(times), np.empty(times), np.empty(times)
    right = True
    for i in range(times):
        gone[i], free[i], seen = _killed(device)
        begin = time.perf_counter()
        with _walking(device) as rt:
            actors = _spawn(rt)
            right = _all_end(rt, actors) and right
        started[i] = time.perf_counter() - begin
        right = right and seen
    return [
        Measured(f"killed under load: {what}", {}, unit, samples, times, right)
        for what, unit, samples in (
            ("the GPU is free", "ms", free),
            ("the process is gone", "ms", gone),
            ("the next program, start to end", "s", started),
        )
    ]


def loads(device: str, *, quick: bool) -> list[Measured]:
    """Cases of other experiments, with the breath they have by default and as one kernel for ever.

    By runs of their programs that take turns, those with a breath twice (A/A); a sample is a run's
    median.
    """
    if device.startswith("cpu"):
        return []
    runs = 2 if quick else 5
    arms: dict[str, tuple[str, ...]] = {"": (), FOR_EVER: ("--breath", "0"), _AGAIN: ()}
    rows: dict[tuple[str, tuple[str, str]], Measured] = {}
    for program, cases in LOADS.items():
        command = [str(programs.find(program)), "--device", device, "--quick"]
        for _ in range(runs):
            for arm, breath in arms.items():
                _, measured = programs.run([*command, *breath], _DEADLINE)
                for one in measured:
                    if one.case not in cases or one.arm:
                        continue
                    name = f"{program}: {one.case}"
                    again = arm if arm == _AGAIN else ""
                    case = name if again else name + arm
                    new = Measured(case, one.params, one.unit, np.empty(0), 0, True, arm=again)
                    row = rows.setdefault((again, new.key), new)
                    row.samples = np.append(row.samples, np.median(one.samples))
                    row.n += one.n
                    row.verified = row.verified and one.verified
                    row.ratio_base = () if arm else (name + FOR_EVER,)
    return list(rows.values())


if __name__ == "__main__":
    if sys.argv[1] == _WALK:
        _walk(sys.argv[2])
    else:
        print(json.dumps(run(sys.argv[1], sys.argv[2], beside="--beside" in sys.argv[3:])))
