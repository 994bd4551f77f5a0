# SPDX-License-Identifier: Apache-2.0
"""A run's record: every comparison with its gates, verdict and raw log ratios.

``record.schema.json`` beside this file is the format. ``run`` measures in fresh processes and
makes one.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from denizen import machine, terminal
from denizen.ab import analysis, gates, profiled
from denizen.ab.experiment import Experiment, ExperimentError, load
from denizen.ab.gates import FAILED, Gate
from denizen.ab.measure import AGAIN, Measured, from_json
from denizen.lab import programs, schema
from denizen.lab import record as lab_record
from denizen.lab.record import Scalar


@dataclass(slots=True)
class Compared:
    """An arm against the base. ``role`` is arm, control or again (the A/A arm).

    ``seconds`` is the median of one operation. Adjusted p values are by Holm over all arms of the
    sweep; those of control and A/A arm, which belong to no claim, are as they are.
    ``log_ratios[process][block]`` are what everything else is made of.
    """

    arm: str
    role: str
    verdict: str
    seconds: float
    ratio: float
    ci95: tuple[float, float]
    ci90: tuple[float, float]
    p_different: float
    p_equivalent: float | None
    by_process: tuple[float, ...]
    log_ratios: list[list[float]]


@dataclass(slots=True)
class CellRecord:
    """One cell. ``void`` says why it means nothing; it is empty for a good one.

    ``profile``: what a profiler saw of one operation of each arm (profiled.py), if it was asked to.
    """

    params: dict[str, Scalar]
    void: list[str]
    base_seconds: float
    operations: list[int]
    arms: list[Compared]
    gates: list[Gate]
    slots: list[tuple[str, float, float]]
    spans: list[tuple[str, str, float, float]]
    profile: list[tuple[str, str, float, float]] = field(default_factory=list)


@dataclass(slots=True)
class RunRecord:
    """One run of an experiment. ``margin`` is None where nothing may be called equivalent."""

    experiment: str
    device: str
    driver: str | None
    cuda: str | None
    cpu: str
    commit: str
    utc: str
    base: str
    control: str
    blocks: int
    processes: int
    alpha: float
    margin: float | None
    cells: list[CellRecord] = field(default_factory=list)
    schema: int = 1

    @property
    def void(self) -> bool:
        """Whether any cell is."""
        return any(cell.void for cell in self.cells)


def _merged(found: Sequence[Sequence[Gate]]) -> list[Gate]:
    """The gates of all processes as one list: a gate that failed in any of them has failed."""
    merged = []
    for same in zip(*found, strict=True):
        failed = [(i, gate) for i, gate in enumerate(same) if gate.status == FAILED]
        if failed:
            i, gate = failed[0]
            merged.append(Gate(gate.gate, gate.arm, FAILED, f"process {i}: {gate.detail}"))
        else:
            merged.append(same[0])
    return merged


def _cell(experiment: Experiment, index: int, processes: Sequence[Measured]) -> CellRecord:
    """Comparisons and gates of one cell; verdicts follow when the whole sweep is known."""
    times = {
        name: np.array([one.seconds[name] for one in processes]) for name in processes[0].seconds
    }
    base = times.pop(experiment.base)
    found = _merged([one.gates for one in processes])
    arms = []
    for name, seconds in times.items():
        ratios = analysis.log_ratios(base, seconds)
        compared = analysis.compare(ratios, experiment.margin, seed=index)
        role = {experiment.control: "control", AGAIN: "again"}.get(name, "arm")
        if role == "control":
            found.append(gates.control(name, compared))
        elif role == "again":
            found.append(gates.again(name, compared, float(analysis.p_randomised(ratios))))
        arms.append(
            Compared(
                arm=name,
                role=role,
                verdict=analysis.UNDECIDED,
                seconds=float(np.median(seconds)),
                ratio=compared.ratio,
                ci95=compared.ci95,
                ci90=compared.ci90,
                p_different=compared.p_different,
                p_equivalent=compared.p_equivalent,
                by_process=compared.by_process,
                log_ratios=ratios.tolist(),
            )
        )
    return CellRecord(
        params=dict(experiment.sweep[index]),
        void=[f"{g.gate} of {g.arm}: {g.detail}" for g in found if g.status == FAILED],
        base_seconds=float(np.median(base)),
        operations=[one.operations for one in processes],
        arms=arms,
        gates=found,
        slots=processes[0].slots,
        spans=processes[0].spans,
    )


def _judge(cells: Sequence[CellRecord], margin: float | None) -> None:
    """Adjust p values over the sweep and put in the verdicts.

    Void cells stay in the family: leaving them out would let a broken cell help the others.
    """
    claims = [arm for cell in cells for arm in cell.arms if arm.role == "arm"]
    different = analysis.holm([arm.p_different for arm in claims])
    for arm, p in zip(claims, different, strict=True):
        arm.p_different = p
    if margin is not None:
        equivalent = analysis.holm([arm.p_equivalent or 0.0 for arm in claims])
        for arm, p in zip(claims, equivalent, strict=True):
            arm.p_equivalent = p
    for cell in cells:
        noise = next(arm.ci95 for arm in cell.arms if arm.role == "again")
        for arm in cell.arms:
            if cell.void:
                arm.verdict = analysis.VOID
                continue
            found = analysis.Comparison(
                arm.ratio, arm.ci95, arm.ci90, arm.p_different, arm.p_equivalent,
                arm.by_process, sum(map(len, arm.log_ratios)),
            )  # fmt: skip
            floor = noise if arm.role == "arm" else (1.0, 1.0)
            arm.verdict = analysis.verdict(found, arm.p_different, arm.p_equivalent, margin, floor)


def build(experiment: Experiment, measured: Sequence[Sequence[Measured]]) -> RunRecord:
    """The record of ``measured[process][cell]``."""
    here, _ = machine.describe("auto")
    cells = [
        _cell(experiment, i, [process[i] for process in measured])
        for i in range(len(experiment.sweep))
    ]
    _judge(cells, experiment.margin)
    return RunRecord(
        experiment=experiment.name,
        device=here.device,
        driver=here.driver,
        cuda=here.cuda,
        cpu=here.cpu,
        commit=machine.commit(),
        utc=machine.utc_now(),
        base=experiment.base,
        control=experiment.control,
        blocks=experiment.blocks,
        processes=len(measured),
        alpha=analysis.ALPHA,
        margin=experiment.margin,
        cells=cells,
    )


def run(path: Path, profile: str | None = None) -> RunRecord:
    """Measure the experiment in Python file ``path``, each repeat in a process of its own.

    ``profile``: a tool (nsys, ncu) that sees each arm once, in processes after those.

    Raises ExperimentError if the file has none, or a process fails or overruns its deadline.
    """
    experiment = load(path)
    analysis.require_scipy()  # before anything is measured, not after
    if profile is not None:
        profiled.require(profile)
    measured = []
    with (
        tempfile.TemporaryDirectory(prefix="denizen-ab-") as folder,
        terminal.progress(experiment.name, experiment.processes) as advance,
    ):
        for process in range(experiment.processes):
            out = Path(folder) / f"{process}.json"
            _process(path, process, out, experiment.deadline)
            measured.append(from_json(json.loads(out.read_text(encoding="utf-8"))))
            advance(1)
        made = build(experiment, measured)
        for index, cell in enumerate(made.cells):
            if profile is not None:
                cell.profile = profiled.cell(
                    profile, path, index, Path(folder), experiment.deadline
                )
    return made


_STDERR = 2


def _process(path: Path, number: int, out: Path, deadline: float) -> None:
    command = [sys.executable, "-m", "denizen.ab.measure", str(path), str(number), str(out)]
    # What it prints is a user's own; it goes to stderr, since stdout is ours.
    try:
        status, _, _ = programs.finished(command, deadline, stdout=_STDERR)
    except subprocess.TimeoutExpired as error:
        raise ExperimentError(
            f"process {number} of {path.name} was stopped after {deadline:g} s"
        ) from error
    if status != 0:
        raise ExperimentError(f"process {number} of {path.name} ended with {status}")


@cache
def record_schema() -> dict[str, Any]:
    """The schema of a record, parsed."""
    text = files("denizen.ab").joinpath("record.schema.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def to_json(record: RunRecord) -> dict[str, Any]:
    """The record as JSON values, checked against the schema (SchemaError if it does not fit)."""
    value: dict[str, Any] = lab_record.rounded(asdict(record))
    # Tuples are lists there, as they will be when the file is read.
    value = json.loads(json.dumps({"schema": value.pop("schema"), **value}))
    schema.check(value, record_schema(), root=record_schema())
    return value


def read(path: Path) -> RunRecord:
    """The record in file ``path``; ExperimentError naming the file if there is none in it."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        schema.check(value, record_schema(), root=record_schema())
    except OSError as error:
        why = f"{error.strerror or error}; expected a record, as denizen ab run --json writes it"
        raise ExperimentError(f"{path}: {why}") from error
    except (ValueError, RecursionError) as error:
        raise ExperimentError(f"{path}: {error}") from error
    cells = [
        CellRecord(
            **{
                **cell,
                "arms": [Compared(**arm) for arm in cell["arms"]],
                "gates": [Gate(**gate) for gate in cell["gates"]],
            }
        )
        for cell in value["cells"]
    ]
    return RunRecord(**{**value, "cells": cells})


def write(record: RunRecord, path: Path) -> None:
    """Write the record to ``path``, whole or not at all; parent folders are made."""
    lab_record.write_json(to_json(record), path)
