# SPDX-License-Identifier: Apache-2.0
"""What ``denizen tour`` does: stop after stop, then the page."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from denizen import machine, terminal
from denizen.device import capability, parse_device
from denizen.errors import ArgumentError, CompileError, DenizenError, MissingPackageError
from denizen.files import Part
from denizen.tour import page
from denizen.tour.step import Found, Place, Step
from denizen.tour.steps import STEPS


@dataclass(frozen=True, slots=True)
class Stop:
    """One that was made, or could not be: ``lacks`` says why; ``broke``: what was raised."""

    step: Step
    seconds: float
    found: Found | None = None
    lacks: str = ""
    broke: str = ""

    @property
    def wrong(self) -> str:
        """Why it counts as failed; empty if it does not."""
        return self.broke or (self.found.wrong if self.found and self.found.wrong else "")


def show_list() -> int:
    """Print the stops; the exit status."""
    rows = [(step.name, step.title, step.shows) for step in STEPS]
    terminal.table("denizen tour --only STOP", ("stop", "title", "shows"), rows)
    return 0


def run(device: str, out: Path, only: Sequence[str]) -> int:
    """The whole tour; the exit status: 1 if a check failed or none was made.

    Raises ArgumentError for a stop that there is not, DeviceError for a GPU that is not there,
    OSError for a page that cannot be written.
    """
    names = [step.name for step in STEPS]
    for name in only:
        if name not in names:
            raise ArgumentError(f'--only "{name}"; the stops are {", ".join(names)}')
    where = parse_device(device)
    if where.nodes != 1:
        raise ArgumentError(f'device "{device}"; the tour uses one GPU or the CPU')
    if where.on_gpu:
        capability(where)  # refuses a GPU that is not there
    Part(out).discard()  # refuses a place where the page cannot be, not only at the end
    place = f"gpu:{where.first}" if where.on_gpu else device if where.threads else "cpu"
    about, _ = machine.describe(place)
    terminal.line(f"denizen tour on {about.device}")
    steps = [step for step in STEPS if not only or step.name in only]
    begin = time.perf_counter()
    ahead = _compile_ahead(steps, capability(where)) if where.on_gpu else {}
    stops = []
    for number, step in enumerate(steps, 1):
        print(f"\n{number}/{len(steps)} {step.title} ({step.shows})", flush=True)
        stops.append(_stop(step, place, ahead.get(step.name)))
        _show(stops[-1])
    seconds = time.perf_counter() - begin
    page.write(out, stops, about, seconds)
    return _end(stops, seconds, out)


def _compile_ahead(steps: Sequence[Step], architecture: int) -> dict[str, threading.Thread]:
    """By the names of the stops: the threads that have their programs compiled into the cache."""

    def make(ahead: Callable[[int], object]) -> None:
        with suppress(DenizenError):  # the stop itself finds it again, and says so
            ahead(architecture)

    threads = {
        step.name: threading.Thread(target=make, args=(step.ahead,), daemon=True)
        for step in steps
        if step.ahead is not None
    }
    for thread in threads.values():
        thread.start()
    return threads


def _stop(step: Step, device: str, ahead: threading.Thread | None = None) -> Stop:
    begin = time.perf_counter()
    found, lacks, broke = None, "", ""
    try:
        with terminal.working(step.title, lines=True) as tell:
            if ahead is not None:
                tell("compiling, since the tour began")
                ahead.join()  # ends: with the compiler, which ends or dies
            found = step.run(Place(device, tell))
    except MissingPackageError as error:
        lacks = str(error)
    except CompileError as error:
        # Without a compiler there is nothing to check; what does not compile is a failure.
        text = str(error).splitlines()[0]
        if "no C++ compiler found" in text:
            lacks = text
        else:
            broke = " ".join(str(error).split())
    except DenizenError as error:
        broke = str(error)
    return Stop(step, time.perf_counter() - begin, found, lacks, broke)


def _show(stop: Stop) -> None:
    if stop.lacks:
        terminal.line(f"  not made: {stop.lacks}")
        return
    if stop.found is None:
        terminal.line(f"  FAILED: {terminal.plain(stop.broke)}")
        return
    found = stop.found
    terminal.line(f"  {found.did}")
    if found.wrong:
        terminal.line(f"  FAILED: {found.wrong}")
    else:
        terminal.line(f"  ✓ {found.checked} ({stop.seconds:.1f} s)")
    for line in found.screen:
        print(f"  {line}")
    if found.table is not None:
        title, header, rows = found.table
        right = [i for i in range(len(header)) if all(row[i][:1].isdigit() for row in rows)]
        terminal.table(title, header, rows, right)
    sys.stdout.flush()


def _end(stops: Sequence[Stop], seconds: float, out: Path) -> int:
    passed = [stop for stop in stops if stop.found is not None and not stop.wrong]
    missing = [stop for stop in stops if stop.lacks]
    failed = [stop for stop in stops if stop.wrong]
    print()
    terminal.line(
        f"{len(passed)} of {len(stops)} stops passed their checks in {seconds:.0f} s; "
        f"the page: {out}"
    )
    for stop in missing:
        terminal.line(f"not made: {stop.step.name}: {stop.lacks}")
    for stop in failed:
        terminal.error(f"{stop.step.name}: {stop.wrong}")
    if not passed and not failed:
        terminal.error("no stop could be made, so nothing was checked")
    return 0 if passed and not failed else 1
