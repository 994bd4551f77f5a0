# SPDX-License-Identifier: Apache-2.0
"""The part of the experiment ``driver`` that says what it costs a program to be watched.

One program launches alone, with the lens asleep in it, while somebody is attached and after the
detach, with CUPTI's records of kernels, and under Nsight Systems. Each way has a process of its
own; they take turns, forth and back. Who watches must have seen as many launches as were made.
"""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from denizen import machine, terminal
from denizen.lab import doorbells, programs
from denizen.lab.observed import Program, Run, Wrapped
from denizen.lab.record import LabError, Measured, Scalar
from denizen.lens import launch, log
from denizen.lens.attach import Attachment
from denizen.lens.log import LensError

ALONE, ASLEEP = "launches, alone", "launches, lens asleep"
ATTACHED, DETACHED = "launches, lens attached", "launches, lens detached"
RECORDS, FINALIZED = "launches, CUPTI records", "launches, CUPTI finalized"
NSIGHT = "launches, Nsight Systems"
_LOOPS = ("kernels", "graphs")
_MODES = ("count", "full")
_WARM = 500  # launches before those that count: where others had their turns, the core has slept
_UNDER_WAY = 2e-3  # seconds of launches before an attach or detach, and behind it


@dataclass(slots=True)
class Taken:
    """A case under way: a sample of each round."""

    case: str
    params: dict[str, Scalar]
    unit: str
    samples: list[float] = field(default_factory=list)
    n: int = 0
    right: bool = True

    def add(self, sample: float, n: int, right: bool) -> None:
        self.samples.append(sample)
        self.n += n
        self.right &= right


class Results:
    """What one way has measured so far."""

    def __init__(self) -> None:
        self.cases: dict[tuple[Scalar, ...], Taken] = {}

    def of(self, case: str, params: dict[str, Scalar], unit: str) -> Taken:
        return self.cases.setdefault((case, *params.values()), Taken(case, params, unit))

    def rate(self, case: str, loop: str, run: Run, *, right: bool = True, **more: Scalar) -> None:
        params: dict[str, Scalar] = {"of": loop, "kernels": run.kernels, **more}
        self.of(case, params, "k/s").add(run.k_per_s, run.made, run.right and right)


class Way:
    """A way to be watched: a process, and what is done when its turn comes. Here nobody watches."""

    case = ALONE
    arm = ""

    def __init__(self, command: Sequence[str], launches: int, results: Results) -> None:
        self.launches, self.results = launches, results
        self.program = self.start(command)

    def start(self, command: Sequence[str]) -> Program:
        return Program(command)

    def warm_up(self) -> None:
        for loop in _LOOPS:
            self.run(loop, _WARM)

    def run(self, loop: str, launches: int) -> Run:
        return self.program.run(loop, launches)

    def warm_run(self, loop: str) -> Run:
        self.run(loop, _WARM)
        return self.run(loop, self.launches)

    def turn(self, number: int) -> None:
        del number
        for loop in _LOOPS:
            self.results.rate(self.case, loop, self.warm_run(loop))

    def close(self) -> None:
        self.program.close()


class Again(Way):
    """The same in another process (A/A)."""

    arm = "A/A"


class Asleep(Way):
    """Started by ``denizen lens --sleep``; nobody attaches."""

    case = ASLEEP

    def start(self, command: Sequence[str]) -> Program:
        return Program([sys.executable, "-m", "denizen", "lens", "--sleep", "--", *command])


class Attached(Asleep):
    """As ``denizen lens attach`` does it, in each mode: attached and detached while the program
    launches, and its loops in between and behind."""

    case = ATTACHED

    def turn(self, number: int) -> None:
        for mode in _MODES if number % 2 == 0 else reversed(_MODES):
            with tempfile.TemporaryDirectory(prefix="denizen-observers-") as folder:
                self._attached(Path(folder), mode)
            for loop in _LOOPS:
                self.results.rate(DETACHED, loop, self.warm_run(loop), mode=mode)

    def _attached(self, folder: Path, mode: str) -> None:
        made: list[Attachment] = []
        coming = self._meanwhile(lambda: made.append(Attachment(self.program.pid, folder, mode)))
        runs = {loop: self.warm_run(loop) for loop in _LOOPS}
        going = self._meanwhile(made[0].detach)
        (path,) = launch.logs(folder)
        capture = log.read(path)
        end = capture.end
        nothing_lost = doorbells.whole(capture) and end is not None and not end.lost_records
        moments = np.array([one.doorbell.time_ns for one in capture.submissions])

        def seen(run: Run) -> int:
            return int(((run.begin <= moments) & (moments <= run.end)).sum())

        for loop, run in runs.items():
            # A graph that is launched again while it runs may need more than one doorbell.
            all_seen = seen(run) == run.made if run.kernels == 1 else seen(run) >= run.made
            self.results.rate(ATTACHED, loop, run, right=nothing_lost and all_seen, mode=mode)
        for what, (seconds, run) in (("attach", coming), ("detach", going)):
            some = nothing_lost and run.right and 0 < seen(run) < run.made
            self.results.of(f"lens, {what} under launches", {"mode": mode}, "ms").add(
                1e3 * seconds, 1, some
            )

    def _meanwhile(self, do: Callable[[], None]) -> tuple[float, Run]:
        """How long ``do`` took, and the launches that were made before, within and after it."""
        self.program.tell("go kernels")
        self.program.answer()  # it has begun
        time.sleep(_UNDER_WAY)
        begin = time.perf_counter()
        do()
        seconds = time.perf_counter() - begin
        time.sleep(_UNDER_WAY)
        self.program.tell("stop")
        return seconds, self.program.finish()


class Records(Way):
    """CUPTI in the process from its start: a callback around each call, a record of each kernel."""

    case = RECORDS

    def start(self, command: Sequence[str]) -> Program:
        found = cupti()
        return Program(command, {} if found is None else {"DENIZEN_LENS_CUPTI": str(found)})

    def warm_up(self) -> None:
        self.program.cupti("on")
        super().warm_up()


class Finalized(Records):
    """CUPTI comes and goes, by cuptiFinalize(), before each turn."""

    case = FINALIZED

    def warm_up(self) -> None:
        Way.warm_up(self)

    def turn(self, number: int) -> None:
        self.program.cupti("on")
        Way.warm_up(self)
        self.program.cupti("off")
        super().turn(number)


class Nsight(Way):
    """Started by ``nsys profile``, which traces calls and kernels, and samples nothing."""

    case = NSIGHT

    def start(self, command: Sequence[str]) -> Program:
        self._folder = tempfile.TemporaryDirectory(prefix="denizen-observers-")
        self._runs: list[Run] = []
        before = ["nsys", "profile", "--trace=cuda", "--sample=none", "--cpuctxsw=none"]
        folder = Path(self._folder.name)
        return Wrapped([*before, f"--output={folder / 'seen'}"], command, folder)

    def warm_up(self) -> None:
        self._runs.append(self.program.finish())  # it has begun with a launch
        super().warm_up()

    def run(self, loop: str, launches: int) -> Run:
        self._runs.append(super().run(loop, launches))
        return self._runs[-1]

    def close(self) -> None:
        with self._folder:
            super().close()
            seen, ran = self._seen(Path(self._folder.name)), sum(run.counted for run in self._runs)
            if seen != ran:
                terminal.error(f"driver: Nsight Systems saw {seen} of {ran} kernels")
                for one in self.results.cases.values():
                    one.right = False

    def _seen(self, folder: Path) -> int:
        """How many kernels are in its report. A graph may be one line there, not one a kernel."""
        report, tables = folder / "seen.nsys-rep", folder / "seen.sqlite"
        command = ["nsys", "export", "--type=sqlite", f"--output={tables}", str(report)]
        with suppress(subprocess.TimeoutExpired, OSError):
            subprocess.run(command, capture_output=True, timeout=60, check=False)
        if not tables.exists() or not self._runs:
            return 0
        with closing(sqlite3.connect(tables)) as base:
            there = {name for (name,) in base.execute("SELECT name FROM sqlite_master")}
            counts = [
                base.execute(f"SELECT COUNT(*) FROM {name}").fetchone()[0] if name in there else 0
                for name in (f"CUPTI_ACTIVITY_KIND_{kind}" for kind in ("KERNEL", "GRAPH_TRACE"))
            ]
        return int(counts[0] + max(run.kernels for run in self._runs) * counts[1])


WAYS: tuple[type[Way], ...] = (Way, Asleep, Attached, Records, Finalized, Nsight, Again)


def cupti() -> Path | None:
    """The newest libcupti: of DENIZEN_LENS_CUPTI, or of a wheel of NVIDIA's; None where there is
    neither, and the loader may know one."""
    if given := os.environ.get("DENIZEN_LENS_CUPTI"):
        return Path(given)
    found = [
        path
        for folder in sys.path
        for path in Path(folder or ".").glob("nvidia/*/lib/libcupti.so.*")
        if re.fullmatch(r"libcupti\.so\.\d+", path.name)
    ]
    return max(found, key=lambda path: int(path.suffix[1:]), default=None)


def measure(device: str, *, quick: bool, beside: Sequence[Measured]) -> list[Measured]:
    """Launches a second by who watches; nothing without a GPU.

    What keeps a way from being measured is told on stderr: the other rows do not need it.
    """
    if machine.gpu_index(device) is None or not any(one.case == "copy" for one in beside):
        return []
    command = [str(programs.find("driver")), "--device", device, "--observed"]
    ways = [way for way in WAYS if way is not Nsight or shutil.which("nsys")]
    if Nsight not in ways:
        terminal.error(f"driver: no {NSIGHT}: there is no nsys here")
    # Two processes of each way: what one happens to get in memory is not the way's.
    generations, rounds, launches = (1, 2, 500) if quick else (2, 10, 2000)
    try:
        results = observe(command, ways, generations, rounds, launches)
    except LabError as error:
        terminal.error(f"driver: nobody watched: {error}")
        return []
    return rows(results)


def observe(
    command: Sequence[str],
    ways: Sequence[type[Way]],
    generations: int,
    rounds: int,
    launches: int,
) -> dict[type[Way], Results]:
    """What each of ``ways`` measured by turns, with new processes in each generation.

    A way that fails is told and left out. LabError where the program does not even run alone.
    """
    results = {way: Results() for way in ways}

    @contextmanager
    def left_out_if_it_fails(way: type[Way]) -> Iterator[None]:
        try:
            yield
        except (LabError, LensError) as error:
            if way is Way:
                raise
            terminal.error(f"driver: no {way.case}{way.arm and ', '}{way.arm}: {error}")
            results.pop(way, None)

    for _ in range(generations):
        with ExitStack() as stack:
            started: list[Way] = []
            for way in list(results):
                with left_out_if_it_fails(way):
                    started.append(way(command, launches, results[way]))
                    stack.callback(started[-1].close)
            for one in started:
                with left_out_if_it_fails(type(one)):
                    one.warm_up()
            for number in range(rounds):
                for one in started if number % 2 == 0 else reversed(started):
                    if type(one) not in results:
                        continue
                    with left_out_if_it_fails(type(one)):
                        one.turn(number)
    return results


def rows(results: dict[type[Way], Results]) -> list[Measured]:
    """The cases: each beside the program alone, those with somebody attached beside rivals, too."""
    rivals = tuple(way.case for way in (Records, Nsight) if way in results)
    return [
        Measured(
            one.case,
            one.params,
            one.unit,
            np.array(one.samples, dtype=np.float64),
            one.n,
            one.right,
            ratio_base=()
            if one.unit == "ms" or one.case == ALONE
            else (ALONE, *(rivals if one.case == ATTACHED else ())),
            arm=way.arm,
            rounds=len(one.samples),
        )
        for way, of in results.items()
        for one in of.cases.values()
    ]
