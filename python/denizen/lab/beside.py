# SPDX-License-Identifier: Apache-2.0
"""What breathing costs, and what a killed host leaves behind: loads with a breath and without, and
processes that are killed while messages flow.
"""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import time
from collections.abc import Sequence

import numpy as np

import denizen
from denizen.lab import programs, walkers
from denizen.lab.record import LabError, Measured

log = logging.getLogger(__name__)

_DEADLINE = 180.0
_A_TURN = 5e-4  # seconds: an ask that took longer has waited for another process's program
_NO_TURN = 25e-3  # seconds without such an ask: two programs that share a GPU take turns more often

FOR_EVER = ", one kernel for ever"
LOADS = ("tasks", "transactions")  # whose programs know --breaths


def _killed(device: str) -> tuple[float, float, float, bool]:
    """Milliseconds from SIGKILL of a process with messages under way until it is gone, until an ask
    of another was held up last, and until the turns of the two have ended.

    Who shares it is seen by asks of a runtime beside it: the GPU takes turns between processes, of
    some milliseconds each, and an ask of a microsecond waits for its turn. One that is held up when
    the turns have ended waited for something else. Last, whether one waited before the kill: else
    nothing was seen.
    """
    with (
        subprocess.Popen(
            [sys.executable, "-m", "denizen.lab.walkers", device],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process,
        walkers.walking(device) as rt,
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
    free = max([end for _, end in after], default=killed)
    turns = shared_until(killed, after)
    seen = bool(before) or device.startswith("cpu")
    return (gone[0] - killed) * 1e3, (free - killed) * 1e3, (turns - killed) * 1e3, seen


def shared_until(killed: float, waits: Sequence[tuple[float, float]]) -> float:
    """When the last of the turns ended that go on after ``killed``: ``waits`` are beginning and end
    of the asks that waited for one, in this order."""
    last = killed
    for begin, end in waits:
        if begin - last > _NO_TURN:
            break
        last = end
    return last


def _waits(rt: denizen.Runtime, walker: int, seconds: float) -> list[tuple[float, float]]:
    """Beginning and end of the asks that took longer than half a millisecond, of those made for so
    long."""
    waits = []
    begin = at = time.perf_counter()
    while at - begin < seconds:
        rt.ask(walker, walkers.QUERY())
        now = time.perf_counter()
        if now - at > _A_TURN:
            waits.append((at, now))
        at = now
    return waits


def kills(device: str, *, quick: bool) -> list[Measured]:
    """A process with messages under way is killed, again and again.

    Milliseconds until nothing holds up the asks of another on its GPU, until the two take turns no
    more, and until the process is gone, and seconds from then until the next runtime has started,
    answered and been closed. Verified: each was seen to share the GPU before, and the tokens of
    each next program all ended.
    """
    times = 3 if quick else 20
    log.info("killed under load, %d times", times)
    gone, free, turns, started = np.empty((4, times))
    right = True
    for i in range(times):
        gone[i], free[i], turns[i], seen = _killed(device)
        begin = time.perf_counter()
        with walkers.walking(device) as rt:
            actors = walkers.spawn(rt)
            right = walkers.all_end(rt, actors) and right
        started[i] = time.perf_counter() - begin
        right = right and seen
    return [
        Measured(f"killed under load: {what}", {}, unit, samples, times, right)
        for what, unit, samples in (
            ("the GPU is free", "ms", free),
            ("the last turn is over", "ms", turns),
            ("the process is gone", "ms", gone),
            ("the next program, start to end", "s", started),
        )
    ]


def loads(device: str, *, quick: bool) -> list[Measured]:
    """Cases of other experiments, with the breath they have by default and as one kernel for ever.

    The program of each takes turns between the two, and those with a breath again (A/A).
    """
    if device.startswith("cpu"):
        return []
    rows: list[Measured] = []
    for program in LOADS:
        log.info("%s, with a breath and as one kernel for ever", program)
        command = [str(programs.find(program)), "--device", device, "--breaths"]
        _, measured = programs.run([*command, *(["--quick"] if quick else [])], _DEADLINE)
        for one in measured:
            one.case = f"{program}: {one.case}"
            one.ratio_base = tuple(f"{program}: {base}" for base in one.ratio_base)
            rows.append(one)
    return rows
