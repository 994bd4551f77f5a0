# SPDX-License-Identifier: Apache-2.0
"""The half of the experiment ``driver`` that needs the lens: what each call submits.

The benchmark program runs a second time, under the preload library, with a deadline. It prints when
each call began and ended; the doorbells between are that call's. Without a GPU, how fast captures
are read and decoded is measured instead.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from denizen import machine, terminal
from denizen.lab import fits, programs
from denizen.lab.record import LabError, Measured, Scalar
from denizen.lens import launch, log, summary
from denizen.lens.decode import Stream

_DEADLINE = 240.0


@dataclass(slots=True)
class Counted:
    """What a call submitted, each time that it was made."""

    case: str
    params: dict[str, Scalar]
    bytes: list[int] = field(default_factory=list)
    entries: list[int] = field(default_factory=list)
    doorbells: list[int] = field(default_factory=list)
    operations: Counter[str] = field(default_factory=Counter)
    moved: list[int] = field(default_factory=list)  # bytes, by copies and fills in the streams
    verified: bool = False  # the calls did their work, and their streams were read whole

    @property
    def right(self) -> bool:
        """Whether what was counted agrees with what is known of the call from elsewhere.

        Each launch of a straight chain is a doorbell; a copy's bytes are in its streams.
        """
        if self.case == "launches, a chain":
            return self.verified and set(self.doorbells) == {self.params["kernels"]}
        if self.case == "copy":
            return self.verified and set(self.moved) == {self.params["bytes"]}
        return self.verified

    @property
    def path(self) -> str:
        """How the data of a copy went, by what the streams hold."""
        ways = [way for way in ("inline copy", "copy", "fill") if self.operations[way]]
        return " + ".join(ways).replace("inline copy", "inline").replace("copy", "copy engine")


def count(command: Sequence[str], deadline: float = _DEADLINE) -> list[Counted]:
    """Run ``command`` under the lens and count its calls' submissions.

    Raises LabError (with what the program said) if it fails or overruns, and
    :class:`denizen.lens.log.LensError` where there is no library or nothing was recorded.
    """
    with tempfile.TemporaryDirectory(prefix="denizen-driver-") as name:
        folder = Path(name)
        text = output([*command, "--counts"], folder, "full", deadline)
        capture = the_capture(folder, command[0])
        for warning in summary.warnings(capture):
            terminal.error(f"driver, under the lens: {warning}")
        if not capture.complete or (capture.end and capture.end.lost_doorbells):
            raise LabError("driver: the capture has gaps, so nothing can be counted")
        return attribute(text, capture)


def the_capture(folder: Path, program: str) -> log.Capture:
    """The capture in ``folder`` of the process with most doorbells; LensError if there is none."""
    logs = launch.logs(folder)
    if not logs:
        raise log.LensError(f"nothing was recorded: {launch.why_nothing(program)}")
    return max((log.read(path) for path in logs), key=lambda c: len(c.submissions))


def output(command: Sequence[str], folder: Path, mode: str | None, deadline: float) -> str:
    """What ``command`` prints under the lens, whose logs go to ``folder``; without the lens if no
    mode is given.

    Raises LabError (with what the program said) if it fails or overruns, and
    :class:`denizen.lens.log.LensError` without a library.
    """
    name, under = Path(command[0]).name, " under the lens" if mode else ""
    try:
        status, out, err = programs.finished(
            command,
            deadline,
            env={**os.environ, **(launch.environment(folder, mode) if mode else {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    except subprocess.TimeoutExpired as error:
        raise LabError(f"{name}{under} was stopped after {deadline:g} s") from error
    if status != 0:
        last = err.decode(errors="replace").strip().splitlines()[-1:]
        raise LabError(f"{name}{under} ended with {status}: {' '.join(last)}")
    return out.decode(errors="replace")


def attribute(text: str, capture: log.Capture) -> list[Counted]:
    """The doorbells of ``capture`` within the calls that the lines of ``text`` tell of."""
    found = list(summary.decoded(capture))
    found.sort(key=lambda item: item[0].doorbell.time_ns)
    times = [submission.doorbell.time_ns for submission, _ in found]
    counted = []
    for line in filter(str.strip, text.splitlines()):
        try:
            value = json.loads(line)
            if "counted" not in value:
                continue
            one = Counted(value["counted"], value["params"])
            moments = value["windows"]
            one.verified = value["verified"] is True
        except (ValueError, TypeError, KeyError) as error:
            raise LabError(f"driver, under the lens, printed no count: {line:.80}") from error
        for begin, end in zip(moments[::2], moments[1::2], strict=True):
            first, last = bisect_left(times, begin), bisect_left(times, end + 1)
            inside = found[first:last]
            bells = [submission.doorbell for submission, _ in inside]
            one.bytes.append(sum(bell.bytes for bell in bells))
            one.entries.append(sum(bell.entries for bell in bells))
            one.doorbells.append(len(bells))
            one.moved.append(0)
            for submission, decoded in inside:
                if decoded is None or submission.doorbell.unreadable or not decoded.recorded:
                    one.verified = False
                    continue
                one.verified &= not decoded.problems
                for operation in decoded.operations:
                    one.operations[operation.kind] += 1
                    one.moved[-1] += operation.bytes
        counted.append(one)
    return counted


def rows(counted: Sequence[Counted], beside: Sequence[Measured]) -> list[Measured]:
    """What was counted as cases: bytes and doorbells per call, where copies change their path, and
    how the time of a graph's launch goes with its bytes."""
    made: list[Measured] = []
    for one in counted:
        params: dict[str, Scalar] = dict(one.params)
        if one.case == "copy" and one.path:
            params["path"] = one.path
        for unit, values in (
            ("B", one.bytes), ("entries", one.entries), ("doorbells", one.doorbells),
        ):  # fmt: skip
            samples = np.array(values, dtype=np.float64)
            made.append(Measured(f"{one.case}, submitted", {**params, "of": unit}, unit, samples,
                                 len(values), one.right))  # fmt: skip
    made += _switches(counted)
    made += fits.fits(counted, beside)
    return made


def _switches(counted: Sequence[Counted]) -> list[Measured]:
    """The largest copy that goes inline, and the smallest that does not, by kind of copy."""
    made = []
    kinds: dict[tuple[Scalar, Scalar], list[Counted]] = {}
    for one in counted:
        if one.case == "copy":
            kinds.setdefault((one.params["direction"], one.params["memory"]), []).append(one)
    for (direction, memory), copies in kinds.items():
        sizes = sorted((int(one.params["bytes"]), one.path) for one in copies)
        inline = [size for size, path in sizes if path == "inline"]
        if not inline:
            continue
        above = [size for size, path in sizes if path != "inline" and size > max(inline)]
        params: dict[str, Scalar] = {"direction": direction, "memory": memory}
        if above:
            params["next_measured"] = above[0]
        samples = np.array([max(inline)], dtype=np.float64)
        right = all(one.right for one in copies)
        made.append(Measured("largest inline copy", params, "B", samples, len(sizes), right))
    return made


def counts(device: str, *, quick: bool, beside: Sequence[Measured]) -> list[Measured]:
    """Bytes, entries and doorbells of each call on a GPU; the decoder's speed without one."""
    index = machine.gpu_index(device)
    if index is None or not any(one.case == "copy" for one in beside):
        return decoding(quick=quick)
    command = [str(programs.find("driver")), "--device", device, *(["--quick"] if quick else [])]
    try:
        counted = count(command)
    except log.LensError as error:
        terminal.error(f"driver: no counts: {error}")
        return []
    return rows(counted, beside)


def decoding(*, quick: bool) -> list[Measured]:
    """How fast streams like those of kernel launches and inline copies are decoded, on one core.

    The words are made here from the formats' description, so this says nothing of a driver.
    """
    rounds = 5 if quick else 21
    launch_words = np.zeros(2 + 3 + 97, np.uint32)
    launch_words[0] = (
        1 << 29 | 2 << 16 | 1 << 13 | 0x318 >> 2
    )  # two words to an inline QMD's address
    launch_words[3] = 1 << 29 | 1 << 16 | 1 << 13 | 0x1B0C >> 2  # a release
    launch_words[5] = 1 << 29 | 96 << 16 | 1 << 13 | 0x320 >> 2  # the QMD
    launch_words[6] = 2 << 23  # a grid of blocks
    launch_words[6 + 32], launch_words[6 + 33], launch_words[6 + 34] = 1, 1, 1
    launch_words[6 + 18] = 4 << 4  # its version
    copy_words = np.zeros(6 + 8192, np.uint32)
    copy_words[0] = 1 << 29 | 2 << 16 | 1 << 13 | 0x180 >> 2
    copy_words[1:3] = 4 * 8191, 1
    copy_words[3] = 1 << 29 | 1 << 16 | 1 << 13 | 0x1B0 >> 2
    copy_words[5] = 3 << 29 | 8191 << 16 | 1 << 13 | 0x1B4 >> 2
    made = []
    for what, words, kind in (
        ("kernel launches", launch_words, "launch"),
        ("inline copies", copy_words[: 6 + 8191], "inline copy"),
    ):
        entries = [len(words) << 42]
        repeats = 200
        samples, right = np.empty(rounds), True
        for i in range(rounds):
            stream = Stream(0xC86F)
            begin = time.perf_counter()
            for _ in range(repeats):
                found = stream.submission(entries, [words])
            seconds = time.perf_counter() - begin
            right &= sum(operation.kind == kind for operation in found.operations) == 1
            samples[i] = repeats * words.nbytes / seconds * 1e-6
        params: dict[str, Scalar] = {"stream": what}
        made.append(Measured("decode", params, "MB/s", samples, rounds * repeats, right))
    return made
