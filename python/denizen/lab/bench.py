# SPDX-License-Identifier: Apache-2.0
"""One experiment from start to record: the C++ program, the Python cases, statistics, goals."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence

from denizen import machine, terminal
from denizen.group import nccl
from denizen.lab import beside, cases, goals, idle, programs
from denizen.lab.record import EXPERIMENTS, IN_PYTHON, LabError, Measured, Record, rows_of
from denizen.lab.sampler import Sampler
from denizen.quick import optimised_only

# Seconds a C++ program may take. Every experiment is made to end well before.
DEADLINE = 600.0
DEADLINE_QUICK = 180.0
# Whose programs the cases in Python run on a GPU.
_PROGRAMS = {"beside": beside.LOADS}


def build_record(
    experiment: str,
    environment: programs.Environment,
    measured: Sequence[Measured],
    nvml: dict[str, float | int | None] | None,
    here: machine.Machine,
    *,
    quick: bool,
    remarks: list[str] | None = None,
) -> Record:
    """The record of what was measured on machine ``here``, and of ``remarks`` on it.

    What the program itself found out about device, driver and CUDA wins over ``here``.
    """
    rest = dict(environment)

    def told(name: str, otherwise: str | None) -> str | None:
        value = rest.pop(name, None)
        return otherwise if value is None else str(value)

    complaints: list[str] = []
    rows = rows_of(measured, complaints)
    for complaint in complaints:
        terminal.error(complaint)
    driver = told("driver", here.driver)
    return Record(
        experiment=experiment,
        device=told("device", None) or here.device,
        driver=driver,
        cuda=told("cuda", here.cuda),
        cpu=here.cpu,
        commit=machine.commit(),
        utc=machine.utc_now(),
        quick=quick,
        verified=all(row.verified for row in rows),
        environment=rest,
        nvml=nvml,
        rows=rows,
        goals=goals.reached(experiment, rows, gpu=driver is not None),
        remarks=[*(remarks or ()), *complaints],
    )


def run(experiment: str, device: str = "auto", *, quick: bool = False) -> Record:
    """Measure ``experiment`` on ``device`` (auto, cpu, cpu:THREADS, gpu:INDEX).

    Raises LabError if it is not an experiment, or its program is missing, hangs or fails, and
    ValueError for a device of another form. A record whose work was not verified is returned, with
    ``verified`` false: the caller must not publish it.
    """
    if experiment not in EXPERIMENTS:
        raise LabError(f'experiment "{experiment}" is none of {", ".join(EXPERIMENTS)}')
    here, gpu = machine.describe(device)
    if gpu is None and device.startswith("gpu"):
        raise LabError(f'device "{device}": no NVIDIA driver or no such GPU')
    commit = machine.commit()
    if not re.fullmatch(r"[0-9a-f]{40}(-dirty)?|unknown", commit):
        raise LabError(f'DENIZEN_COMMIT is "{commit}", expected 40 hexadecimal digits')
    if commit.endswith("-dirty"):
        why = machine.why_dirty()
        terminal.error(f"{experiment}: the record will call its commit changed: {why}")
    if not device.startswith("cpu"):
        for name in _PROGRAMS.get(experiment, ()):
            programs.find(name)  # said before the first case, which may be minutes before its own
    if experiment == "group":
        nccl.prepare()
    environment: programs.Environment = {}
    measured: list[Measured] = []
    others = idle.busy()
    begin = time.monotonic()
    with Sampler(gpu) as sampler, optimised_only(), terminal.errors() as remarks:
        if experiment not in IN_PYTHON:
            more = ["--quick"] if quick else []
            command = [str(programs.find(experiment)), "--device", device, *more]
            environment, measured = programs.run(command, DEADLINE_QUICK if quick else DEADLINE)
        measured += cases.measure(experiment, device, quick=quick, beside=measured)
        if not any(one.arm for one in measured):
            terminal.error(f"{experiment}: no case was measured twice (A/A)")
    environment["seconds"] = round(time.monotonic() - begin, 1)
    environment["cores_busy_before"] = None if others is None else round(others, 2)
    return build_record(
        experiment, environment, measured, sampler.summary(), here, quick=quick, remarks=remarks
    )
