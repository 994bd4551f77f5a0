# SPDX-License-Identifier: Apache-2.0
"""The experiment infer: each arm answers as NumPy does, and one that does not is found out."""

import importlib.util
import itertools
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from denizen.errors import ArgumentError
from denizen.infer import Resident
from denizen.lab import goals, infer, infer_models, infer_rivals, programs
from denizen.lab.record import LabError, rows_of

ERROR = "largest error against fp32"
FIRST = "first call of a series"
LOADING = "weights loaded anew by the next kernel"
SMALL = {
    "lstm": lambda: infer_models.lstm(2, 6),
    "mlp": lambda: infer_models.mlp(2, 5),
    "conv": lambda: infer_models.conv(3, 4, 3),
}


def _finds_none(experiment):
    raise LabError(f"no bench_{experiment}")


@pytest.fixture
def small(monkeypatch):
    """Models that take no time, and no rivals that take some to be built."""
    monkeypatch.setattr(infer, "MODELS", dict(SMALL))
    monkeypatch.setattr(infer, "THROUGHPUT", ("lstm",))
    monkeypatch.setattr(infer, "_STREAMS", 8)
    monkeypatch.setattr(infer, "PUBLISHED", {"lstm": {"a board": (1.5, 2.5)}})
    monkeypatch.setattr(infer, "_LEAST_QUICK", 0.02)
    monkeypatch.setattr(infer, "_WHOLE_QUICK", 0.0)
    monkeypatch.setattr(infer, "_SPUN_OUT", 0.0)
    monkeypatch.setattr(infer_rivals, "_torch", lambda model, compiled: [])
    monkeypatch.setattr(programs, "find", _finds_none)  # also where `make bench` has been run


def test_its_rows(small):
    measured = infer.measure("cpu", quick=True)
    complaints = []
    rows = rows_of(measured, complaints)
    assert not complaints
    assert all(row.verified for row in rows)
    cases = {row.case for row in rows if row.params["model"] == "conv"}
    rivals = {"ONNX Runtime, CPU", "ONNX Runtime, CPU, no spinning"}
    rivals = rivals if importlib.util.find_spec("onnxruntime") else set()
    ours = {"resident", "resident, bf16"}
    more = {f"{case}, {what}" for case in ours for what in ("from Python", ERROR, FIRST)}
    assert cases == ours | more | rivals
    by_name = {(r.case, r.params["model"]): r for r in rows}
    for case in ours:
        assert by_name[case, "mlp"].ratio_to.keys() == rivals
    assert by_name["resident", "mlp"].noise_floor is not None
    of_all = [r for r in rows if r.params.get("streams") == 8]
    assert {r.unit: r.params["weights"] for r in of_all} == {"M/s": "bf16", "us": "bf16"}
    assert all(r.n == 8 * 2 * 2 for r in of_all)  # two rounds of two steps of each stream


def test_published_figures_are_quoted_for_their_models_alone(small):
    quoted = {(m.case, m.params["board"]): float(m.samples[0]) for m in infer.published("lstm")}
    mean, p99 = ("FPGA, published mean", "a board"), ("FPGA, published p99", "a board")
    assert quoted == {mean: 1.5, p99: 2.5}
    assert not infer.published("mlp")


def test_a_row_has_as_many_requests_as_it_says_and_a_time_of_each(small, monkeypatch):
    monkeypatch.setattr(infer, "_WANTED", 4 * infer._SERIES_QUICK)
    monkeypatch.setattr(infer, "_LEAST_QUICK", 60.0)
    for row in infer._latencies("mlp", SMALL["mlp"](), "cpu", None, 0.0, quick=True):
        least = infer._LEAST_SERIES * infer._TURNS
        assert row.n == (least if row.case.endswith(FIRST) else least * infer._SERIES_QUICK)
        if not row.case.endswith(ERROR):  # one figure of them all
            assert row.n == row.samples.size and row.samples.min() > 0.1


def test_the_first_call_of_each_series_has_a_row_of_its_own():
    arm = infer.Arm("resident", 1.0, 0.0)
    work = infer.Work(np.zeros((3, 2), np.float32), np.zeros((3, 2), np.float32))
    for took in ([9.0, 4.0, 5.0], [10.0, 6.0, 4.0]):
        arm.keep(np.array(took), work.expected, work)
    (first,) = (row for row in infer._rows(arm, "mlp", ()) if row.case.endswith(FIRST))
    assert first.case == f"resident, {FIRST}" and first.unit == "us"
    assert first.samples.tolist() == [9.0, 10.0] and first.n == 2


class Joules:
    """A GPU's counter that grows by 3 J with each look."""

    joules = 0.0

    def energy_j(self):
        self.joules += 3.0
        return self.joules


def test_energy_is_divided_by_the_answers(monkeypatch):
    monkeypatch.setattr(infer, "_LEAST_ENERGY", 0.0)
    arm = infer.Arm("one", 1.0, 0.0)
    work = infer.Work(np.zeros((5, 2), np.float32), np.zeros((5, 2), np.float32))
    group = infer.Group([arm], lambda: ([lambda arm, work: None], lambda: None))
    infer._turn(group, work, 0.0, Joules(), 10)
    assert arm.energy == [3000.0 / (infer._LEAST_SERIES * 5)]


def test_of_two_equal_arms_one_takes_part_now_and_then_before_or_behind_the_other(monkeypatch):
    monkeypatch.setattr(infer, "_LEAST_ENERGY", 0.0)
    monkeypatch.setattr(infer, "_LEAST_SERIES", 6)
    went = []
    arms = [infer.Arm("one", 1.0, 0.0), infer.Arm("one", 1.0, 0.0, "A/A", 2)]
    work = infer.Work(np.zeros((5, 2), np.float32), np.zeros((5, 2), np.float32))
    group = infer.Group(arms, lambda: ([lambda arm, work: went.append(arm.arm)] * 2, lambda: None))
    infer._turn(group, work, 0.0, Joules(), 10)
    assert went[2:] == ["", "A/A", "", "A/A", "", "", "", "A/A", ""]
    assert arms[0].energy == [3000.0 / (9 * 5)]


# us of a step by C++ in fp32 and in bf16, means of an H200's record of 2026-11-28.
STEPS = {
    "lstm_tiny, 2 x 128": {"fp32": 4.9, "bf16": 4.8},
    "lstm_small, 3 x 256": {"fp32": 9.1, "bf16": 7.0},
    "lstm_med, 3 x 480": {"fp32": 9.1, "bf16": 7.4},
    "lstm_med_deep, 6 x 320": {"fp32": 11.5, "bf16": 10.2},
    "lstm_large, 3 x 960": {"bf16": 12.0},
    "MLP, 3 x 256": {"fp32": 6.1, "bf16": 5.5},
    "MLP, 3 x 1024": {"fp32": 8.8, "bf16": 8.6},
    "Conv1d, 4 x 64, 3 taps": {"fp32": 11.2, "bf16": 10.4},
}


class Played:
    """A clock, and a resident whose calls take their time on it."""

    now = 0.0

    @classmethod
    def pass_us(cls, us):
        cls.now += us * 1e-6

    monotonic = classmethod(lambda cls: cls.now)
    sleep = classmethod(lambda cls, seconds: cls.pass_us(seconds * 1e6))

    outputs = 1

    def __init__(self, model, *, weights="fp32", **_):
        self.pass_us(200_000)
        if weights not in STEPS[model]:
            raise ArgumentError("it does not fit")
        self.step_us, self._core, self.rounds = STEPS[model][weights], self, 0

    def reset(self, stream):
        pass

    def close(self):
        pass

    def stats(self):
        return SimpleNamespace(rounds=self.rounds, step_us=self.step_us, loading_us=1.0)

    def timed(self, streams, x, got, took, *_):
        got[:] = 0
        took[:] = 1
        self.rounds += len(x)
        self.pass_us(self.step_us * len(x) + 40)


def test_a_whole_run_has_a_million_requests_of_whatever_cpp_calls_on_a_gpu(monkeypatch):
    def rivals(model, quick):
        Played.pass_us(4e6 if Played.now > 1 else 30e6)  # imported and built
        return [infer_rivals.Rival(f"rival {k}", lambda x: 200, lambda: None) for k in range(5)]

    def called(step, arm, work):
        # A resident is called so in some 6 us more than by C++.
        us = step.step_us + 6 if isinstance(step, Played) else step(None)
        Played.pass_us(us * len(work.x))
        arm.keep(np.ones(len(work.x)), work.expected, work)

    zeros = np.zeros((1024, 1), np.float32)
    monkeypatch.setattr(infer, "time", Played)
    monkeypatch.setattr(infer.infer, "Resident", Played)
    monkeypatch.setattr(infer.machine, "describe", lambda device: (None, Joules()))
    monkeypatch.setattr(infer_rivals, "of", rivals)
    monkeypatch.setattr(programs, "find", _finds_none)
    for name, value in {
        "MODELS": {name: (lambda name=name: name) for name in STEPS},
        "THROUGHPUT": (),
        "_called": called,
        "_work": lambda model, steps: infer.Work(zeros, zeros),
    }.items():
        monkeypatch.setattr(infer, name, value)
    assert STEPS.keys() == infer_models.MODELS.keys()
    asked = {"cpp": [], "Python": []}
    for one in infer.measure("gpu:0", quick=False):
        if one.case in ("resident", "resident, bf16", "resident, bf16, one kernel for ever"):
            asked["cpp"] += [one.n] * (not one.arm)
        elif one.case.endswith("from Python"):
            asked["Python"].append(one.n)
    assert len(asked["cpp"]) == 3 * 8 - 1 and min(asked["cpp"]) >= 1_000_000
    assert min(asked["Python"]) > 80_000
    assert 300 < Played.now < 405  # steps of 1,024 streams and the raw mailbox take some 15 more


def test_goals_find_the_rows(small, monkeypatch):
    monkeypatch.setattr(infer, "MODELS", {"lstm_tiny, 2 x 128": SMALL["lstm"]})
    monkeypatch.setattr(infer, "THROUGHPUT", ())
    rows = rows_of(infer.measure("cpu", quick=True), [])
    reached = goals.reached("infer", rows, gpu=True)
    assert [goal.bound for goal in reached] == ["≤ 3.3 us", "≤ 4.5 us"]
    assert all(goal.reached > 0 for goal in reached)


def test_the_largest_error_of_each_resident_is_stated(small, monkeypatch):
    """Also one that is allowed."""
    monkeypatch.setattr(infer_rivals, "of", lambda model, quick: [])
    right = infer_rivals.numpy_answers

    def errors():
        rows = infer._latencies("lstm", SMALL["lstm"](), "cpu", None, 0.0, quick=True)
        found = {m.case.removesuffix(f", {ERROR}"): m for m in rows if m.case.endswith(ERROR)}
        assert found.keys() == {"resident", "resident, bf16"}
        assert all(m.unit == "1" and m.verified for m in found.values())
        return [float(found[case].samples[0]) for case in ("resident", "resident, bf16")]

    def off(model, x):
        answers = right(model, x)
        answers[3] -= 0.015
        return answers

    fp32, bf16 = errors()
    assert fp32 < 1e-6 and 1e-5 < bf16 < 5e-3
    monkeypatch.setitem(infer._TOLERANCE, "fp32", 0.02)
    monkeypatch.setattr(infer_rivals, "numpy_answers", off)
    assert errors() == pytest.approx([0.015, 0.015], abs=bf16)


def test_the_largest_error_is_that_of_all_series():
    arm = infer.Arm("one", 1.0, 0.0)
    work = infer.Work(np.zeros((2, 3), np.float32), np.zeros((2, 3), np.float32))
    for off in (0.25, -0.5, 0.125):
        arm.keep(np.zeros(2), np.full((2, 3), off, np.float32), work)
    assert arm.off == 0.5


@pytest.mark.parametrize("step", [0, infer._SERIES_QUICK - 1])
def test_one_wrong_answer_is_found(small, monkeypatch, step):
    right = infer_rivals.numpy_answers

    def wrong(model, x):
        answers = right(model, x)
        answers[min(step, len(answers) - 1)] += 0.05
        return answers

    monkeypatch.setattr(infer_rivals, "numpy_answers", wrong)
    measured = infer.measure("cpu", quick=True)
    assert all(one.verified == one.case.startswith("FPGA") for one in measured)


def test_a_gpu_is_not_measured_as_a_cpu():
    with pytest.raises(LabError, match="GPU 99"):
        infer.measure("gpu:99", quick=True)


@pytest.mark.gpu
def test_its_rows_on_a_gpu(small):
    measured = infer.measure("gpu:0", quick=True)
    assert all(one.verified for one in measured)
    (ours,) = (
        m for m in measured if m.case == "resident, on the device" and m.params["model"] == "mlp"
    )
    assert 0 < np.median(ours.samples) < 1000
    loaded = [m for m in measured if m.case.endswith(LOADING)]
    assert len(loaded) == 2 * len(SMALL)
    assert all(0 < one.samples.min() <= one.samples.max() < 1000 for one in loaded)


def test_who_comes_behind_an_arm_that_spins_waits_until_it_spins_no_more(monkeypatch):
    waited = []
    monkeypatch.setattr(infer.time, "sleep", waited.append)
    for spins in (False, True):
        rival = infer_rivals.Rival("one", lambda x: x, lambda: None, spins)
        work = infer.Work(np.zeros((2, 3), np.float32), np.zeros((2, 3), np.float32))
        infer._turn(infer._rival(rival, 1.0), work, 0.0, None, 1)
        assert waited == [infer._SPUN_OUT] * spins


# torch.compile takes some ten seconds for each.
@pytest.mark.parametrize("package", ["onnxruntime", pytest.param("torch", marks=pytest.mark.deep)])
@pytest.mark.parametrize("name", SMALL)
def test_rivals_answer_as_numpy_does_and_begin_again(name, package, monkeypatch):
    pytest.importorskip(package)
    if package != "torch":
        monkeypatch.setattr(infer_rivals, "_torch", lambda model, compiled: [])
    model = SMALL[name]()
    x = np.random.default_rng(0).standard_normal((9, model.widths[0])).astype(np.float32)
    expected = infer_rivals.numpy_answers(model, x)
    rivals = infer_rivals.of(model)
    assert rivals
    for rival in rivals:
        for _ in range(2):
            rival.reset()
            got = np.stack([np.array(rival.step(one)).reshape(-1) for one in x])
            np.testing.assert_allclose(got, expected, atol=1e-6)


class AsOnAGpu(Resident):
    """Counts rounds, and each look at it finds another kernel."""

    loading = itertools.count(1)

    def stats(self):
        found = super().stats()
        return replace(found, rounds=found.steps, loading_us=float(next(self.loading)))


def test_how_long_kernels_load_the_weights_is_sampled_while_they_serve(small, monkeypatch):
    monkeypatch.setattr(infer.infer, "Resident", AsOnAGpu)
    monkeypatch.setattr(infer_rivals, "of", lambda model, quick: [])
    monkeypatch.setattr(infer, "_SERIES_QUICK", 2)
    monkeypatch.setattr(infer, "_SERIES_APART", 2)
    monkeypatch.setattr(infer, "_LEAST_SERIES", 120)
    name = "lstm_tiny, 2 x 128"
    made = infer._latencies(name, SMALL["lstm"](), "cpu", Joules(), 0.0, quick=True)
    loaded = {m.case: m for m in made if m.case.endswith(LOADING)}
    # Not of one kernel for ever.
    assert loaded.keys() == {f"{case}, {LOADING}" for case in ("resident", "resident, bf16")}
    for row in loaded.values():
        assert row.unit == "us" and row.verified
        assert row.n == row.samples.size >= infer._TURNS * 120 // 2
        assert (np.diff(row.samples) > 2).all()
    reached = goals.reached("infer", rows_of(made, []), gpu=True)
    assert {goal.what: goal.bound for goal in reached}[f"{name}, weights loaded anew, p99"] == (
        "≤ 3.3 us"
    )


def test_on_a_gpu_the_breaths_part_of_the_tail_has_a_row():
    model = SMALL["lstm"]()
    for on_gpu in (True, False):
        cases = [
            arm.case
            for g in infer._groups(model, "cpu", on_gpu=on_gpu, quick=True)
            for arm in g.arms
        ]
        assert ("resident, bf16, one kernel for ever" in cases) == on_gpu
