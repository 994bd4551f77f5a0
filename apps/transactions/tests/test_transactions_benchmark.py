# SPDX-License-Identifier: Apache-2.0
"""Payments with and without a model's scores: both arms do the work, and a wrong score is found."""

import importlib.util
import sys

import numpy as np
import pytest

from denizen import infer
from denizen.apps import transactions as tx
from denizen.apps.transactions import benchmark
from denizen.lab import cases, programs
from denizen.lab.record import rows_of

RULES, SCORED = "rules, from Python", "rules and a model's scores, from Python"


def some_model(last=0.0):
    """An LSTM of 4 and a head, whose offset is ``last``."""
    random = np.random.default_rng(3)
    w, r, b, v = (
        (2 * random.normal(size=shape)).astype("f4")
        for shape in ((16, len(tx.FEATURES)), (16, 4), 16, (1, 4))
    )
    ops = (
        infer.Op("lstm", (0,), (w, r, b), name="lstm"),
        infer.Op("linear", (1,), (v, np.array([last], "f4")), name="head"),
        infer.Op("sigmoid", (2,), name="score"),
    )
    return infer.Model((len(tx.FEATURES), 4, 1, 1), ops, 3)


@pytest.fixture(scope="module")
def made():
    return tx.generate(1500, seed=4)


def test_both_arms_are_right_and_compared(made):
    alone, scored = rows_of(benchmark.compared(some_model(), *made, "cpu:1", 2))
    assert (alone.case, scored.case) == (RULES, SCORED)
    assert alone.verified and scored.verified
    assert alone.noise_floor is not None
    assert scored.ratio_to.keys() == {RULES}
    assert scored.n == 2 * len(made[0]) and scored.unit == "M/s"


def test_a_score_that_is_not_numpys_is_found(made, monkeypatch):
    right = benchmark.numpy_answers
    monkeypatch.setattr(benchmark, "numpy_answers", lambda _, x: right(some_model(last=1e-3), x))
    alone, scored = rows_of(benchmark.compared(some_model(), *made, "cpu:1", 1))
    assert alone.verified and not scored.verified


def test_alerts_that_are_not_the_references_are_found(made, monkeypatch):
    class Strict(tx.Reference):
        def __init__(self):
            super().__init__(tx.Rules(amount_limit=10_000))

    monkeypatch.setattr(tx, "Reference", Strict)
    alone, scored = rows_of(benchmark.compared(some_model(), *made, "cpu:1", 1))
    assert not alone.verified and not scored.verified


def test_an_alert_of_the_model_that_is_missing_is_found(made, monkeypatch):
    class Forgets(tx.ScoredStage):
        def run(self, records):
            return (alerts[alerts["rule"] != 8] for alerts in super().run(records))

    monkeypatch.setattr(tx, "ScoredStage", Forgets)
    alone, scored = rows_of(benchmark.compared(some_model(), *made, "cpu:1", 1))
    assert alone.verified and not scored.verified


def test_the_program_prints_its_cases(monkeypatch, capsys):
    monkeypatch.setattr(tx, "fit", lambda *_, rounds: some_model())
    monkeypatch.setattr(benchmark, "_PAYMENTS_QUICK", 1500)
    monkeypatch.setattr(benchmark, "_ROUNDS_QUICK", 1)
    benchmark.main(["--device", "cpu:1", "--quick"])
    _, measured = programs.parse(capsys.readouterr().out, "benchmark")
    alone, scored = rows_of(measured)
    assert alone.verified and scored.verified
    assert scored.params == {"payments": 1500} and scored.ratio_to.keys() == {RULES}


def test_denizen_bench_runs_the_program(monkeypatch):
    def run(command, _deadline):
        assert command[:2] == [sys.executable, "-m"]
        assert importlib.util.find_spec(command[2]).name == benchmark.__name__
        assert command[3:] == ["--device", "cpu:2", "--quick"]
        return {}, ["a case"]

    monkeypatch.setattr(programs, "run", run)
    (case,) = cases._CASES["transactions"]
    assert case("cpu:2", quick=True) == ["a case"]
