# SPDX-License-Identifier: Apache-2.0
"""The part of the experiment ``driver`` that holds the lens to its word: that it sees every
doorbell of the dispatch benchmark's loops, and what a doorbell costs under it.

The program runs several times, without the lens and in each of its modes, forth and back. The same
loops of launches count on the device: doorbells, calls and that count must agree.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from denizen import machine, terminal
from denizen.lab import driver, programs
from denizen.lab.record import LabError, Measured, Scalar
from denizen.lens.log import Capture, LensError

_DEADLINE = 60.0
_MODES = ("none", "count", "full")


@dataclass(slots=True)
class Loop:
    """One loop of one run. ``counted``: launches by the device's counter; ``samples``: round trips
    in microseconds; ``doorbells``: those between its moments, None without the lens."""

    way: str
    mode: str
    calls: int
    counted: int
    samples: NDArray[np.float64]
    doorbells: int | None = None
    handler_us: float | None = None  # of the run, per doorbell
    whole: bool = True  # nothing is missing in the capture

    @property
    def right(self) -> bool:
        return self.whole and self.calls == self.counted


def measure(device: str, *, quick: bool, beside: Sequence[Measured]) -> list[Measured]:
    """Doorbells beside launches, and what the lens adds to each; nothing without a GPU.

    What keeps them from being measured is told on stderr: the other rows do not need them.
    """
    if machine.gpu_index(device) is None or not any(one.case == "copy" for one in beside):
        return []
    command = [str(programs.find("driver")), "--device", device, *(["--quick"] if quick else [])]
    turns = _MODES if quick else (*_MODES, *reversed(_MODES))
    try:
        loops = [loop for mode in turns for loop in run([*command, "--doorbells"], mode)]
    except (LabError, LensError) as error:
        terminal.error(f"driver: no doorbells counted: {error}")
        return []
    return rows(loops)


def run(command: Sequence[str], mode: str) -> list[Loop]:
    """The loops of one run of ``command`` in a mode of the lens, or without it ("none")."""
    with tempfile.TemporaryDirectory(prefix="denizen-driver-") as name:
        folder = Path(name)
        text = driver.output(command, folder, None if mode == "none" else mode, _DEADLINE)
        capture = None if mode == "none" else driver.the_capture(folder, command[0])
        return list(parse(text, mode, capture))


def parse(text: str, mode: str, capture: Capture | None) -> Iterator[Loop]:
    """The loops that the lines of ``text`` tell of; LabError for a line that does not."""
    for line in filter(str.strip, text.splitlines()):
        try:
            value = json.loads(line)
            if "loop" not in value:
                continue
            samples = np.array(value["samples"], dtype=np.float64)
            found = Loop(value["loop"], mode, value["calls"], value["counted"], samples)
            begin, end = value["begin"], value["end"]
        except (ValueError, TypeError, KeyError) as error:
            raise LabError(f"driver: its loops printed no count: {line:.80}") from error
        if capture is not None:
            found.doorbells = sum(
                begin <= submission.doorbell.time_ns <= end for submission in capture.submissions
            )
            found.whole = whole(capture)
            if capture.overhead is not None and capture.overhead.doorbells:
                found.handler_us = capture.overhead.ns / capture.overhead.doorbells * 1e-3
        yield found


def whole(capture: Capture) -> bool:
    """Whether every doorbell of the process is in its capture: numbered without a gap up to the
    total that the library counted."""
    numbers = [submission.doorbell.sequence for submission in capture.submissions]
    return capture.end is not None and numbers == list(range(capture.end.doorbells))


def rows(loops: Sequence[Loop]) -> list[Measured]:
    """Round trips and doorbells by loop and mode, and what each mode adds to a doorbell."""
    made: list[Measured] = []
    for way in dict.fromkeys(loop.way for loop in loops):
        by_mode = {
            mode: [loop for loop in loops if (loop.way, loop.mode) == (way, mode)]
            for mode in _MODES
        }
        if any(not same for same in by_mode.values()):
            raise LabError(f'driver: loop "{way}" did not run in every mode of the lens')
        trips = {
            mode: np.concatenate([loop.samples for loop in same]) for mode, same in by_mode.items()
        }
        for mode, same in by_mode.items():
            right = all(loop.right for loop in same)
            params: dict[str, Scalar] = {"way": way, "mode": mode}
            made.append(
                Measured("round trip beside the lens", params, "us", trips[mode], trips[mode].size,
                         right)
            )  # fmt: skip
            if mode == "none":
                continue
            bells = np.array([loop.doorbells for loop in same], dtype=np.float64)
            counted = np.array([loop.counted for loop in same], dtype=np.float64)
            calls = sum(loop.calls for loop in same)
            made += [
                Measured("loop's doorbells", {**params, "launches": same[0].calls}, "doorbells",
                         bells, calls, right and bool((bells == counted).all())),
                Measured("doorbells other than one a launch", params, "doorbells",
                         np.abs(bells - counted), calls, right),
                # By the place in the loop: both runs have the same history there.
                Measured("added to a doorbell", params, "us", trips[mode] - trips["none"], calls,
                         right and all(loop.right for loop in by_mode["none"])),
            ]  # fmt: skip
            if all(loop.handler_us is not None for loop in same):
                own = np.array([loop.handler_us for loop in same], dtype=np.float64)
                made.append(Measured("in the lens's handler", params, "us", own, calls, right))
    return made
