# SPDX-License-Identifier: Apache-2.0
"""Measures an experiment in this process: ``python -m denizen.ab.measure FILE PROCESS OUT``.

The process that runs the experiment starts this one anew for each repeat and reads from OUT, JSON,
what it measured.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from denizen import terminal
from denizen.ab import code, gates
from denizen.ab.experiment import Arm, Cell, Experiment, ExperimentError, Params, Sample, load
from denizen.ab.gates import Gate
from denizen.errors import DenizenError
from denizen.files import write_text

# A slot takes about this long: far above the clock's resolution and an interrupt, and short enough
# for a block to see one state of the machine.
SLOT = 2e-3
_MOST_OPERATIONS = 1_000_000
# Blocks of which the timeline keeps the slots.
SHOWN = 3
# The base measured once more, as if it were another arm.
AGAIN = "A/A"
ONCE = "--once"

ArmSpan = tuple[str, str, float, float]


@dataclass(slots=True)
class Measured:
    """One cell in one process.

    ``seconds[arm][block]`` are the two slots' times of one operation. ``slots`` are (arm, begin,
    end) on this process's clock in the first blocks, ``spans`` (arm, track, begin, end) on the
    arm's own, in the check after the measurement: tracing has not slowed what was measured.
    """

    operations: int
    seconds: dict[str, list[list[float]]]
    gates: list[Gate]
    slots: list[tuple[str, float, float]] = field(default_factory=list)
    spans: list[ArmSpan] = field(default_factory=list)


def order(arms: int, rng: np.random.Generator) -> list[int]:
    """The slots of a block: a random order of the arms, and back."""
    there = [int(i) for i in rng.permutation(arms)]
    return there + there[::-1]


def _operations(arm: Arm) -> int:
    """How many operations of the base fill a slot; found while warming up."""
    operations = 1
    while True:  # ends: each turn multiplies the operations, up to a limit
        # The fastest of five: one that was interrupted would make the slots short and noisy.
        seconds = min(_checked(arm, arm.sample(operations)).seconds for _ in range(5))
        if seconds * operations >= SLOT / 2 or operations >= _MOST_OPERATIONS:
            return max(1, min(_MOST_OPERATIONS, math.ceil(SLOT / seconds)))
        operations = min(_MOST_OPERATIONS, operations * 10)


def _checked(arm: Arm, sample: Sample) -> Sample:
    if not (math.isfinite(sample.seconds) and sample.seconds > 0):
        raise ExperimentError(f'arm "{arm.name}" took {sample.seconds} s: no time')
    return sample


def _results(cell: Cell, operations: int, when: str) -> tuple[list[Gate], list[ArmSpan]]:
    checks: list[Gate] = []
    spans: list[ArmSpan] = []
    for arm in cell.arms:
        arm.poison()
        sample = arm.sample(operations)
        spans += [(arm.name, span.track, span.begin, span.end) for span in sample.spans]
        checks.append(gates.result(arm.name, arm.result(), cell.reference, when))
    return checks, spans


def measure_cell(
    experiment: Experiment, params: Params, rng: np.random.Generator, cuobjdump: str | None
) -> Measured:
    """Check and measure one cell; ExperimentError if an arm gives no time at all."""
    cell = experiment.make(params)
    base = next(arm for arm in cell.arms if arm.name == experiment.base)
    found = code.check(cell.arms, cuobjdump)
    found += _results(cell, 1, "before")[0]
    operations = _operations(base)
    slots = [(arm.name, arm) for arm in cell.arms] + [(AGAIN, base)]
    for _, arm in slots:  # a slot of each, so that no arm's first one pays for warming up
        arm.sample(operations)

    seconds: dict[str, list[list[float]]] = {name: [] for name, _ in slots}
    counted: dict[str, Counter[str]] = {arm.name: Counter() for arm in cell.arms}
    moved = {arm.name: 0.0 for arm in cell.arms}
    result = Measured(operations, seconds, found)
    zero = time.perf_counter()
    for block in range(experiment.blocks):
        for name, _ in slots:
            seconds[name].append([])
        for i in order(len(slots), rng):
            name, arm = slots[i]
            before = arm.moved() if arm.moved else 0.0
            begin = time.perf_counter()
            sample = _checked(arm, arm.sample(operations))
            end = time.perf_counter()
            if arm.moved:
                moved[arm.name] += arm.moved() - before
            seconds[name][-1].append(sample.seconds)
            counted[arm.name].update(sample.ran)
            if block < SHOWN:
                result.slots.append((name, begin - zero, end - zero))

    total = {
        arm.name: 2 * operations * experiment.blocks * (2 if arm is base else 1)
        for arm in cell.arms
    }
    for arm in cell.arms:
        found.append(gates.ran(arm.name, arm.marker, counted[arm.name], total[arm.name]))
        if arm.bytes and arm.moved:
            predicted = arm.bytes * total[arm.name]
            found.append(gates.bytes_moved(arm.name, moved[arm.name], predicted))
        elif arm.counted:
            found.append(gates.no_counter(arm.name, arm.bytes or 0.0))
        # The control is slow on purpose.
        if arm.bytes and cell.limit and arm.name != experiment.control:
            rate = arm.bytes / float(np.median(seconds[arm.name]))
            found.append(gates.share(arm.name, rate, cell.limit))
    checks, result.spans = _results(cell, operations, "after")
    found += checks
    return result


def measure(experiment: Experiment, process: int) -> list[Measured]:
    """All cells, in an order drawn for this process; listed in the order of the sweep.

    Orders depend on the number of the process alone, so a run can be repeated with the same ones.
    """
    rng = np.random.default_rng(process)
    cuobjdump = code.tool()
    cells: dict[int, Measured] = {}
    for i in rng.permutation(len(experiment.sweep)):
        cells[int(i)] = measure_cell(experiment, experiment.sweep[i], rng, cuobjdump)
    return [cells[i] for i in range(len(cells))]


def once(experiment: Experiment, index: int) -> None:
    """One operation of each arm of the sweep's cell ``index``: what a profiler is to see."""
    for arm in experiment.make(experiment.sweep[index]).arms:
        arm.poison()
        arm.sample(1)
        arm.result()


def from_json(value: Any) -> list[Measured]:
    """What :func:`main` wrote."""
    return [
        Measured(**{**cell, "gates": [Gate(**gate) for gate in cell["gates"]]}) for cell in value
    ]


def main(path: str, process: str, out: str) -> int:
    """Measure the experiment in file ``path`` and write the cells to ``out``.

    As ``--once FILE CELL`` it does one operation of each arm of a cell, and measures nothing.
    """
    try:
        if path == ONCE:
            once(load(Path(process)), int(out))
            return 0
        cells = measure(load(Path(path)), int(process))
    except DenizenError as error:
        terminal.error(str(error))
        return 1
    write_text(out, json.dumps([asdict(cell) for cell in cells]))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
