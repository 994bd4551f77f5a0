# SPDX-License-Identifier: Apache-2.0
"""Runs each arm of an experiment once under a profiler, nsys or ncu, beside the measurement.

No verdict rests on it: a profiler's times are its own.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from denizen.ab import profiler
from denizen.ab.experiment import ExperimentError
from denizen.lab import programs

# (tool, kernel or "copy", begin, end) in seconds; of ncu, which tells no beginnings, from 0.
Profile = list[tuple[str, str, float, float]]


def require(tool: str) -> str:
    """The path of the profiler; ExperimentError if it is not there."""
    found = shutil.which(tool)
    if found is None:
        raise ExperimentError(
            f"--profile {tool}: {tool} is not on PATH; it comes with NVIDIA's Nsight tools"
        )
    return found


def cell(tool: str, experiment: Path, index: int, folder: Path, deadline: float) -> Profile:
    """What ``tool`` saw of one operation of each arm of the sweep's cell ``index``."""
    program = require(tool)
    out = folder / f"{tool}-{index}"
    once = [sys.executable, "-m", "denizen.ab.measure", "--once", str(experiment), str(index)]
    if tool == "nsys":
        options = ["profile", "--trace=cuda", "--sample=none", "--cpuctxsw=none"]
        options += ["--force-overwrite=true", "--export=sqlite", "-o", str(out)]
        _run([program, *options, *once], tool, deadline)
        spans = profiler.nsys_spans(out.with_suffix(".sqlite"))
        return [(tool, span.track, span.begin, span.end) for span in spans]
    options = ["--csv", "--metrics", "gpu__time_duration.sum", "--target-processes", "all"]
    _run([program, *options, "--log-file", str(out), *once], tool, deadline)
    return [
        (tool, kernel, 0.0, seconds)
        for kernel, durations in profiler.ncu_durations(out).items()
        for seconds in durations
    ]


def _run(command: Sequence[str], tool: str, deadline: float) -> None:
    try:
        status, said, _ = programs.finished(
            command, deadline, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
    except subprocess.TimeoutExpired as error:
        raise ExperimentError(f"{tool} was stopped after {deadline:g} s") from error
    if status != 0:
        last = said.decode(errors="replace").strip().splitlines()[-1:] or ["and said nothing"]
        raise ExperimentError(f"{tool} ended with {status}: {last[0]}")
