# SPDX-License-Identifier: Apache-2.0
"""The experiment ``infer``: one time step of a model, from the host's call to its answer.

The models are those of a published benchmark of an FPGA (Vollo, https://vollo.myrtle.ai,
benchmark-lstm, v25.1.2): stacks of LSTMs with as many inputs as hidden units, and one linear layer
of 32 outputs; beside them MLPs and a stack of causal convolutions. One request is under way at a
time. Each arm takes the same series of inputs again and again, with its state set back between two,
and every answer is compared with NumPy's of that series, outside the timed region. An arm whose
threads spin on after its steps has all of its rounds behind those of the others.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from denizen import infer, machine, terminal
from denizen.errors import ArgumentError, DeviceError
from denizen.lab import infer_rivals, programs
from denizen.lab.record import LabError, Measured, Scalar

SERIES = 32  # steps from zeros on
OUTPUTS = 32
_TIMEOUT = 60.0
_STREAMS = 1024
_WANTED = 1_000_000  # requests of a case
_SPUN_OUT = 0.3  # seconds until no thread spins any more

Floats = NDArray[np.float32]


def _weights(random: np.random.Generator, *shape: int) -> Floats:
    reach = 1 / np.sqrt(shape[-1] if len(shape) < 3 else shape[-1] * shape[-2])
    return random.uniform(-reach, reach, shape).astype(np.float32)


def lstm(layers: int, hidden: int) -> infer.Model:
    random = np.random.default_rng(0)
    ops = [
        infer.Op(
            "lstm",
            (layer,),
            (
                _weights(random, 4 * hidden, hidden),
                _weights(random, 4 * hidden, hidden),
                _weights(random, 4 * hidden),
            ),
            name=f"lstm.{layer}",
        )
        for layer in range(layers)
    ]
    return _with_head(random, ops, hidden)


def mlp(layers: int, hidden: int) -> infer.Model:
    random = np.random.default_rng(0)
    ops: list[infer.Op] = []
    for layer in range(layers):
        both = _weights(random, hidden, hidden), _weights(random, hidden)
        ops.append(infer.Op("linear", (len(ops),), both, name=f"linear.{layer}"))
        ops.append(infer.Op("relu", (len(ops),), name=f"relu.{layer}"))
    return _with_head(random, ops, hidden)


def conv(layers: int, hidden: int, taps: int) -> infer.Model:
    """Each layer reaches twice as far back as the one before."""
    random = np.random.default_rng(0)
    ops: list[infer.Op] = []
    for layer in range(layers):
        both = _weights(random, hidden, hidden, taps), _weights(random, hidden)
        dilation = {"dilation": 1 << layer}
        ops.append(infer.Op("conv1d", (len(ops),), both, dilation, f"conv.{layer}"))
        ops.append(infer.Op("relu", (len(ops),), name=f"relu.{layer}"))
    return _with_head(random, ops, hidden)


def _with_head(random: np.random.Generator, ops: list[infer.Op], hidden: int) -> infer.Model:
    both = _weights(random, OUTPUTS, hidden), _weights(random, OUTPUTS)
    ops.append(infer.Op("linear", (len(ops),), both, name="head"))
    widths = (hidden,) * len(ops) + (OUTPUTS,)
    return infer.Model(widths, tuple(ops), len(ops))


MODELS: dict[str, Callable[[], infer.Model]] = {
    "lstm_tiny, 2 x 128": lambda: lstm(2, 128),
    "lstm_small, 3 x 256": lambda: lstm(3, 256),
    "lstm_med, 3 x 480": lambda: lstm(3, 480),
    "lstm_med_deep, 6 x 320": lambda: lstm(6, 320),
    "lstm_large, 3 x 960": lambda: lstm(3, 960),
    "MLP, 3 x 256": lambda: mlp(3, 256),
    "MLP, 3 x 1024": lambda: mlp(3, 1024),
    "Conv1d, 4 x 64, 3 taps": lambda: conv(4, 64, 3),
}
THROUGHPUT = ("lstm_tiny, 2 x 128", "lstm_small, 3 x 256")
# With which their answers may differ from single precision's, which NumPy's are.
_TOLERANCE = {"fp32": 1e-5, "bf16": 2e-2}


@dataclass
class Arm:
    """One way to answer. ``step`` takes an input and gives the answer; ``reset``: zeros again."""

    case: str
    step: Callable[[Floats], Any]
    reset: Callable[[], None]
    close: Callable[[], None] = lambda: None
    tolerance: float = 1e-5
    arm: str = ""
    spins: bool = False
    # Of a GPU: (steps, microseconds in them by its own clock) so far.
    clock: Callable[[], tuple[int, float]] | None = None
    samples: list[NDArray[np.float64]] = field(default_factory=list)
    on_device: list[float] = field(default_factory=list)  # mean of each series
    right: bool = True

    def run(self, x: Floats, expected: Floats) -> float:
        """One series; the time of all its steps, in seconds."""
        self.reset()
        before = self.clock() if self.clock else (0, 0.0)
        took = np.empty(len(x))
        got = []
        for index, one in enumerate(x):
            begin = time.perf_counter_ns()
            answer = self.step(one)
            took[index] = time.perf_counter_ns() - begin
            got.append(np.array(answer, np.float32).reshape(-1))  # kept: the next may overwrite it
        self.samples.append(took * 1e-3)
        if self.clock:
            after = self.clock()
            self.on_device.append((after[1] - before[1]) / max(1, after[0] - before[0]))
        self.right &= bool(np.abs(np.stack(got) - expected).max() <= self.tolerance)
        return float(took.sum()) * 1e-9


def measure(device: str, *, quick: bool) -> list[Measured]:
    """Microseconds of a step of each model, and million steps/s of 1,024 streams."""
    if device == "auto" and machine.describe(device)[1] is not None:
        device = "gpu:0"  # what the record says
    made: list[Measured] = []
    for name, model in MODELS.items():
        made += _latencies(name, model(), device, quick=quick)
    for name in THROUGHPUT:
        made.append(_throughput(name, MODELS[name](), device, quick=quick))
    return made + _floor(device, quick=quick)


def _arms(model: infer.Model, device: str) -> list[Arm]:
    """A resident in fp32, if it fits, and one in bf16; the first twice; and the rivals."""
    on_gpu = machine.describe(device)[1] is not None
    arms: list[Arm] = []
    for weights, case in (("fp32", "resident"), ("bf16", "resident, bf16")):
        try:
            resident = infer.Resident(model, device=device, weights=weights)
        except DeviceError as error:
            raise LabError(str(error)) from error
        except ArgumentError as error:
            terminal.error(f"infer: no row of {case}: {error}")
            continue
        for again in ("", "A/A") if not arms else ("",):
            arms.append(
                Arm(
                    case,
                    resident,
                    lambda resident=resident: resident.reset(0),  # type: ignore[misc]
                    resident.close,
                    _TOLERANCE[weights],
                    again,
                    clock=_clock(resident) if on_gpu else None,
                )
            )
    for rival in infer_rivals.of(model):
        arms.append(Arm(rival.case, rival.step, rival.reset, spins=rival.spins))
    return arms


def _clock(resident: infer.Resident) -> Callable[[], tuple[int, float]]:
    def so_far() -> tuple[int, float]:
        stats = resident.stats()
        return stats.rounds, stats.step_us * stats.rounds

    return so_far


def _latencies(name: str, model: infer.Model, device: str, *, quick: bool) -> list[Measured]:
    random = np.random.default_rng(1)
    x = random.standard_normal((SERIES, model.widths[0])).astype(np.float32)
    expected = infer_rivals.numpy_answers(model, x)
    arms = _arms(model, device)
    try:
        # The first series of each is a warm-up; the slowest says how many there is time for.
        slowest = max(arm.run(x, expected) for arm in arms)
        for arm in arms:
            slowest = max(slowest, arm.run(x, expected)) if arm.case == "resident" else slowest
            arm.samples.clear()
            arm.on_device.clear()
        together = [arm for arm in arms if not arm.spins]
        if len(together) < len(arms):
            time.sleep(_SPUN_OUT)
        rounds = int((0.2 if quick else 6.0) / slowest)
        rounds = max(2, min(rounds, _WANTED // SERIES))
        for number in range(rounds):
            for arm in together if number % 2 == 0 else reversed(together):
                arm.run(x, expected)
        for arm in arms:
            for _ in range(rounds if arm.spins else 0):
                arm.run(x, expected)
    finally:
        for arm in arms:
            arm.close()
    rivals = tuple(arm.case for arm in arms if not arm.case.startswith("resident"))
    params: dict[str, Scalar] = {"model": name}
    on_device = [
        Measured(
            f"{arm.case}, on the device", params, "us", np.array(arm.on_device), rounds * SERIES,
            arm.right,
        )
        for arm in arms
        if arm.on_device and not arm.arm
    ]  # fmt: skip
    return on_device + [
        Measured(
            arm.case, params, "us", np.concatenate(arm.samples), rounds * SERIES, arm.right,
            rivals if arm.case.startswith("resident") and not arm.arm else (), arm.arm,
            rounds=rounds,
        )
        for arm in arms
    ]  # fmt: skip


def _throughput(name: str, model: infer.Model, device: str, *, quick: bool) -> Measured:
    """All streams take the series together, so that each answer is known."""
    random = np.random.default_rng(1)
    x = random.standard_normal((SERIES, model.widths[0])).astype(np.float32)
    expected = infer_rivals.numpy_answers(model, x)
    steps = 2 if quick else SERIES
    streams = np.arange(_STREAMS, dtype=np.uint32)
    rates, right = [], True
    with infer.Resident(model, device=device, streams=_STREAMS) as resident:
        for number in range(3 if quick else 10):
            for stream in range(_STREAMS):
                resident.reset(stream)
            inputs = np.repeat(x[:steps], _STREAMS, axis=0)
            begin = time.perf_counter()
            got = resident.steps(inputs, np.tile(streams, steps), timeout=_TIMEOUT)
            took = time.perf_counter() - begin
            if number > 0:  # the first is a warm-up
                rates.append(len(inputs) / took * 1e-6)
            wrong = np.abs(got.reshape(steps, _STREAMS, -1) - expected[:steps, None])
            right &= bool(wrong.max() <= _TOLERANCE["fp32"])
    params: dict[str, Scalar] = {"model": name, "streams": _STREAMS}
    case = f"steps of {_STREAMS:,} streams"
    return Measured(case, params, "M/s", np.array(rates), len(rates) * len(inputs), right)


def _floor(device: str, *, quick: bool) -> list[Measured]:
    """A raw mailbox, of the program of ``dispatch``: what any answer costs at least."""
    try:
        command = [str(programs.find("dispatch")), "--device", device]
        found = programs.run([*command, *(["--quick"] if quick else [])], 180)[1]
    except LabError as error:
        terminal.error(f"no raw mailbox as the floor: {error}")
        return []
    floor = [one for one in found if one.case == "raw mailbox"]
    for one in floor:
        one.ratio_base = ()
    return floor
