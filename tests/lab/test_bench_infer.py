# SPDX-License-Identifier: Apache-2.0
"""The experiment infer: each arm answers as NumPy does, and one that does not is found out."""

import importlib.util

import numpy as np
import pytest

from denizen.lab import infer, infer_rivals
from denizen.lab.record import LabError, rows_of

SMALL = {
    "lstm": lambda: infer.lstm(2, 6),
    "mlp": lambda: infer.mlp(2, 5),
    "conv": lambda: infer.conv(3, 4, 3),
}


@pytest.fixture
def small(monkeypatch):
    """Models that take no time, and no rivals that take some to be built."""
    monkeypatch.setattr(infer, "MODELS", dict(SMALL))
    monkeypatch.setattr(infer, "THROUGHPUT", ("lstm",))
    monkeypatch.setattr(infer, "_STREAMS", 8)
    monkeypatch.setattr(infer_rivals, "_torch", lambda model: [])
    monkeypatch.setenv("DENIZEN_BENCH_DIR", "/nonexistent")


def test_its_rows(small):
    measured = infer.measure("cpu", quick=True)
    complaints = []
    rows = rows_of(measured, complaints)
    assert not complaints
    assert all(row.verified for row in rows)
    cases = {row.case for row in rows if row.params["model"] == "conv"}
    rivals = {"ONNX Runtime, CPU", "ONNX Runtime, CPU, no spinning"}
    rivals = rivals if importlib.util.find_spec("onnxruntime") else set()
    assert cases == {"resident", "resident, bf16"} | rivals
    (ours,) = (r for r in rows if (r.case, r.params["model"]) == ("resident", "mlp"))
    assert ours.ratio_to.keys() == rivals
    (rate,) = (row for row in rows if row.unit == "M/s")
    assert rate.params == {"model": "lstm", "streams": 8}


@pytest.mark.parametrize("step", [0, infer.SERIES - 1])
def test_one_wrong_answer_is_found(small, monkeypatch, step):
    right = infer_rivals.numpy_answers

    def wrong(model, x):
        answers = right(model, x)
        answers[step] += 0.05
        return answers

    monkeypatch.setattr(infer_rivals, "numpy_answers", wrong)
    measured = infer.measure("cpu", quick=True)
    assert not any(one.verified for one in measured if one.unit == "us")


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


def test_an_arm_that_spins_is_measured_behind_the_others(small, monkeypatch):
    order = []

    def rival(case, spins):
        def step(x):
            order.append(case)
            return np.zeros(infer.OUTPUTS, np.float32)

        return infer_rivals.Rival(case, step, lambda: None, spins)

    monkeypatch.setattr(
        infer_rivals, "of", lambda model: [rival("spins", True), rival("not", False)]
    )
    infer._latencies("mlp", SMALL["mlp"](), "cpu", quick=True)
    warm = 2 * infer.SERIES
    assert set(order[:warm]) == {"spins", "not"}
    rest = order[warm:]
    assert rest == sorted(rest)  # "not" before "spins"
    assert rest.count("spins") == rest.count("not")


# torch.compile takes some ten seconds for each.
@pytest.mark.parametrize("package", ["onnxruntime", pytest.param("torch", marks=pytest.mark.deep)])
@pytest.mark.parametrize("name", SMALL)
def test_rivals_answer_as_numpy_does_and_begin_again(name, package, monkeypatch):
    pytest.importorskip(package)
    if package != "torch":
        monkeypatch.setattr(infer_rivals, "_torch", lambda model: [])
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
