# SPDX-License-Identifier: Apache-2.0
"""The experiment ``infer``: one time step of a model, from the host's call to its answer.

One request is under way at a time. Each arm takes the same series of inputs again and again, with
its state set back between two, and every answer is compared with NumPy's of that series, outside
the timed region. A resident is called by C++, whose clock is read before and behind each call, and
by Python, as its rivals are. No two share the machine: a resident is made anew for each of its
turns and gone when others are measured, and the turns go forth and back.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from denizen import infer, machine, terminal
from denizen.errors import ArgumentError, DeviceError
from denizen.lab import infer_rivals, programs
from denizen.lab.infer_models import MODELS, PUBLISHED
from denizen.lab.record import LabError, Measured, Scalar
from denizen.nvml import Nvml

log = logging.getLogger(__name__)

SERIES = 256  # steps from zeros on
_SERIES_QUICK = 32
THROUGHPUT = ("lstm_tiny, 2 x 128", "lstm_small, 3 x 256")
_TIMEOUT = 60.0
_STREAMS = 1024
_WANTED = 1_000_000  # requests of a case, if there is time
_TURNS = 2
_LEAST_SERIES = 3  # of an arm in a turn
_WHOLE, _WHOLE_QUICK = 390.0, 18.0  # seconds of all models' latencies
_LEAST, _LEAST_QUICK = 2.0, 0.4  # of one model's, once its arms are there
_TWIN_EACH = 4  # series: the A/A arm takes part in one of so many
_SERIES_APART = 8  # some 10 ms: another kernel has loaded its weights by then
_SPUN_OUT = 0.3  # until no thread spins any more
_LEAST_ENERGY = 0.5  # seconds: NVML renews its counter some ten times a second
# With which answers may differ from single precision's, which NumPy's are.
_TOLERANCE = {"fp32": 1e-5, "bf16": 2e-2}

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Work:
    """A model's series, (steps, inputs), and what it is answered."""

    x: Floats
    expected: Floats


@dataclass
class Arm:
    """One way to answer, and what was measured of it."""

    case: str
    tolerance: float
    share: float  # of the model's time
    arm: str = ""
    each: int = 1  # takes part in one of so many series
    took: list[NDArray[np.float64]] = field(default_factory=list)  # us, of each series
    on_device: list[float] = field(default_factory=list)  # us, mean of each series
    energy: list[float] = field(default_factory=list)  # mJ for each answer, of each turn
    loading: list[float] = field(default_factory=list)  # us, of a kernel now and then
    off: float = 0.0  # the largest absolute error of an answer
    right: bool = True

    def keep(self, took: NDArray[np.float64], got: Floats, work: Work) -> None:
        self.took.append(took)
        off = float(np.abs(got - work.expected).max())
        self.off = max(self.off, off)
        self.right &= off <= self.tolerance

    @property
    def by_cpp(self) -> bool:
        """Whether it is a resident that is called by C++."""
        return self.case.startswith("resident") and not self.case.endswith("from Python")


@dataclass
class Group:
    """Arms that are measured together. ``make`` gives a series of each, and what ends them."""

    arms: list[Arm]
    make: Callable[[], tuple[list[Callable[[Arm, Work], None]], Callable[[], None]]]
    spins: bool = False


def measure(device: str, *, quick: bool) -> list[Measured]:
    """Microseconds of a step of each model, on the device alone and with the energy of it, million
    steps/s of 1,024 streams and what a step takes among them, of one copy of a model and of as many
    as there is room for, and others' published figures."""
    _, gpu = machine.describe(device)
    if device == "auto" and gpu is not None:
        device = "gpu:0"  # what the record says
    made: list[Measured] = []
    until = time.monotonic() + (_WHOLE_QUICK if quick else _WHOLE)
    for number, (name, model) in enumerate(MODELS.items()):
        log.info("%s: one request at a time", name)
        share = max(until - time.monotonic(), 0) / (len(MODELS) - number)
        made += _latencies(name, model(), device, gpu, share, quick=quick)
        made += published(name)
    for name in THROUGHPUT:
        log.info("%s: %d streams", name, _STREAMS)
        served = MODELS[name]()
        made += _throughput(name, served, device, 1, quick=quick)
        if gpu is not None and (copies := _room(served, device)) > 1:
            made += _throughput(name, served, device, copies, quick=quick)
    return made + _floor(device)


def published(name: str) -> list[Measured]:
    """What Vollo publishes for its FPGAs, quoted: nothing of it was measured here."""
    return [
        Measured(
            f"FPGA, published {what}", {"model": name, "board": board}, "us", np.array([value]), 1,
            True,
        )
        for board, figures in PUBLISHED.get(name, {}).items()
        for what, value in zip(("mean", "p99"), figures, strict=True)
    ]  # fmt: skip


# --- arms ---
def _called(step: Callable[[Floats], Any], arm: Arm, work: Work) -> None:
    """A series by calls of Python."""
    took = np.empty(len(work.x))
    got = []
    for index, one in enumerate(work.x):
        begin = time.perf_counter_ns()
        answer = step(one)
        took[index] = time.perf_counter_ns() - begin
        got.append(np.array(answer, np.float32).reshape(-1))  # kept: the next may overwrite it
    arm.keep(took * 1e-3, np.stack(got), work)


def _resident(
    model: infer.Model,
    device: str,
    weights: str,
    arms: list[Arm],
    *,
    on_gpu: bool,
    breath_us: Literal["auto"] | None = "auto",
) -> Group:
    def make() -> tuple[list[Callable[[Arm, Work], None]], Callable[[], None]]:
        resident = infer.Resident(model, device=device, weights=weights, breath_us=breath_us)

        def by_cpp(arm: Arm, work: Work) -> None:
            n = len(work.x)
            got = np.empty((n, resident.outputs), np.float32)
            took = np.empty(n, np.uint64)
            resident.reset(0)
            before = resident.stats()
            streams = np.zeros(n, np.uint32)
            resident._core.timed(streams, work.x, got, took, 1, _TIMEOUT)
            after = resident.stats()
            if on_gpu:
                busy = after.step_us * after.rounds - before.step_us * before.rounds
                arm.on_device.append(busy / (after.rounds - before.rounds))
                if breath_us is not None and len(arm.took) % _SERIES_APART == 0:
                    arm.loading.append(after.loading_us)
            arm.keep(took.astype(np.float64) * 1e-3, got, work)

        def by_python(arm: Arm, work: Work) -> None:
            resident.reset(0)
            _called(resident, arm, work)

        return [by_cpp if arm.by_cpp else by_python for arm in arms], resident.close

    return Group(arms, make)


def _rival(rival: infer_rivals.Rival, share: float) -> Group:
    def series(arm: Arm, work: Work) -> None:
        rival.reset()
        _called(rival.step, arm, work)

    arm = Arm(rival.case, _TOLERANCE["fp32"], share)
    return Group([arm], lambda: ([series], lambda: None), rival.spins)


def _groups(model: infer.Model, device: str, *, on_gpu: bool, quick: bool) -> list[Group]:
    """A resident in fp32, twice, if it fits; one in bf16; and the rivals."""
    groups: list[Group] = []
    for weights, case in (("fp32", "resident"), ("bf16", "resident, bf16")):
        try:
            infer.Resident(model, device=device, weights=weights).close()
        except DeviceError as error:
            raise LabError(str(error)) from error
        except ArgumentError as error:
            terminal.error(f"infer: no row of {case}: {error}")
            continue
        tolerance = _TOLERANCE[weights]
        # On a GPU what C++ calls ends with _WANTED requests, mostly in less time.
        arms = [Arm(case, tolerance, 0.3 if weights == "fp32" else 0.35)]
        if not groups:
            arms.append(Arm(case, tolerance, 0.1, "A/A", 1 if quick else _TWIN_EACH))
        arms.append(Arm(f"{case}, from Python", tolerance, 0.05))
        groups.append(_resident(model, device, weights, arms, on_gpu=on_gpu))
        if on_gpu and weights == "bf16":
            arms = [Arm("resident, bf16, one kernel for ever", tolerance, 0.35)]
            groups.append(_resident(model, device, weights, arms, on_gpu=True, breath_us=None))
    rivals = infer_rivals.of(model, quick=quick)
    return groups + [_rival(one, 0.12 / len(rivals)) for one in rivals]


# --- latency ---
def _order(arms: Sequence[Arm], equal: Sequence[int], series: int) -> list[int]:
    """Which of the equal arms take part in a series. Where two do, they change places each time."""
    now = [index for index in equal if series % arms[index].each == 0]
    turned = series // max(arms[index].each for index in equal) % 2 == 1
    return now[::-1] if turned else now


def _turn(group: Group, work: Work, seconds: float, gpu: Nvml | None, wanted: int) -> None:
    """Each arm's share of ``seconds``."""
    series, end = group.make()
    try:
        by_case: dict[str, list[int]] = {}
        for index, arm in enumerate(group.arms):
            by_case.setdefault(arm.case, []).append(index)
        for together in by_case.values():
            for index in together:  # warms up
                series[index](Arm("", np.inf, 0), work)
            begin, joules = time.monotonic(), gpu.energy_j() if gpu else None
            until = begin + seconds * sum(group.arms[index].share for index in together)
            done = measured = 0
            while done < _LEAST_SERIES or (
                time.monotonic() < until and done * len(work.x) < wanted
            ):
                for index in _order(group.arms, together, done):
                    series[index](group.arms[index], work)
                    measured += 1
                done += 1
            after = gpu.energy_j() if gpu else None
            if None not in (joules, after) and time.monotonic() - begin >= _LEAST_ENERGY:
                answers = measured * len(work.x)
                group.arms[together[0]].energy.append((after - joules) * 1e3 / answers)  # type: ignore[operator]
    finally:
        end()
    if group.spins:
        time.sleep(_SPUN_OUT)


def _work(model: infer.Model, steps: int) -> Work:
    random = np.random.default_rng(1)
    x = random.standard_normal((steps, model.widths[0])).astype(np.float32)
    return Work(x, infer_rivals.numpy_answers(model, x))


def _latencies(
    name: str, model: infer.Model, device: str, gpu: Nvml | None, share: float, *, quick: bool
) -> list[Measured]:
    """``share``: seconds, from when the arms are there: the first model's wait for imports."""
    work = _work(model, _SERIES_QUICK if quick else SERIES)
    groups = _groups(model, device, on_gpu=gpu is not None, quick=quick)
    seconds = max(share, _LEAST_QUICK if quick else _LEAST) / _TURNS
    for turn in range(_TURNS):
        for group in groups if turn % 2 == 0 else reversed(groups):
            _turn(group, work, seconds, gpu, _WANTED // _TURNS)
    arms = [arm for group in groups for arm in group.arms]
    rivals = tuple(arm.case for arm in arms if not arm.case.startswith("resident"))
    return [one for arm in arms for one in _rows(arm, name, rivals)]


def _rows(arm: Arm, name: str, rivals: Sequence[str]) -> list[Measured]:
    params: dict[str, Scalar] = {"model": name}
    took = np.concatenate(arm.took)
    bases = tuple(rivals) if arm.case.startswith("resident") and not arm.arm else ()
    rows = [
        Measured(
            arm.case, params, "us", took, took.size, arm.right, bases, arm.arm,
            rounds=len(arm.took),
        )
    ]  # fmt: skip
    more = [
        ("on the device", "us", arm.on_device, took.size),
        ("energy of an answer", "mJ", arm.energy, took.size),
        ("weights loaded anew by the next kernel", "us", arm.loading, len(arm.loading)),
    ]
    if arm.by_cpp:
        first = [float(series[0]) for series in arm.took]
        more.append(("first call of a series", "us", first, len(first)))
        more.append(("largest error against fp32", "1", [arm.off], took.size))
    for what, unit, values, n in more:
        if values and not arm.arm:
            case = f"{arm.case}, {what}"
            rows.append(Measured(case, params, unit, np.array(values), n, arm.right))
    return rows


# --- throughput ---
def _room(model: infer.Model, device: str) -> int:
    """How many copies of the model the GPU has room for, up to eight."""
    for copies in range(8, 1, -1):
        try:
            infer.Resident(
                model, device=device, streams=_STREAMS, weights="bf16", copies=copies
            ).close()
        except ArgumentError:
            continue
        return copies
    return 1


def _throughput(
    name: str, model: infer.Model, device: str, copies: int, *, quick: bool
) -> list[Measured]:
    """All streams take the series together, so that each answer is known."""
    steps = 2 if quick else 32
    work = _work(model, steps)
    inputs = np.repeat(work.x, _STREAMS, axis=0)
    of = np.tile(np.arange(_STREAMS, dtype=np.uint32), steps)
    rates: list[float] = []
    took: list[NDArray[np.float64]] = []
    right = True

    def check(got: Floats) -> None:
        nonlocal right
        wrong = np.abs(got.reshape(steps, _STREAMS, -1) - work.expected[:, None])
        right &= bool(wrong.max() <= _TOLERANCE["bf16"])

    with infer.Resident(
        model, device=device, streams=_STREAMS, weights="bf16", requests=2 * _STREAMS, copies=copies
    ) as resident:

        def again() -> None:
            for stream in range(_STREAMS):
                resident.reset(stream)

        for number in range(3 if quick else 10):
            again()
            begin = time.perf_counter()
            got = resident.steps(inputs, of, timeout=_TIMEOUT)
            seconds = time.perf_counter() - begin
            check(got)
            again()
            ns = np.empty(len(of), np.uint64)
            resident._core.timed(of, inputs, got, ns, _STREAMS, _TIMEOUT)
            check(got)
            if number > 0:  # the first is a warm-up
                rates.append(len(of) / seconds * 1e-6)
                took.append(ns.astype(np.float64) * 1e-3)
    params: dict[str, Scalar] = {"model": name, "streams": _STREAMS, "weights": "bf16"}
    if copies > 1:
        params["copies"] = copies
    steps_of = f"of {_STREAMS:,} streams"
    answers = len(rates) * len(of)
    return [
        Measured(f"steps {steps_of}", params, "M/s", np.array(rates), answers, right),
        Measured(
            f"one of the steps {steps_of}", params, "us", np.concatenate(took), answers, right
        ),
    ]


def _floor(device: str) -> list[Measured]:
    """A raw mailbox, of the program of ``dispatch``: what any answer costs at least."""
    try:
        command = [str(programs.find("dispatch")), "--device", device, "--quick"]
        found = programs.run(command, 180)[1]
    except LabError as error:
        terminal.error(f"no raw mailbox as the floor: {error}")
        return []
    floor = [one for one in found if one.case == "raw mailbox"]
    for one in floor:
        one.ratio_base = ()
    return floor
