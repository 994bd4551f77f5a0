# SPDX-License-Identifier: Apache-2.0
"""What is measured beside a runtime is checked: the neighbour's results, and every message."""

import importlib.util

import numpy as np
import pytest

from denizen.lab import beside, neighbours
from denizen.lab.record import LabError, Measured, rows_of


def test_a_neighbour_runs_while_messages_flow(monkeypatch):
    monkeypatch.setitem(neighbours.ALL, "sum", (lambda: [float(np.arange(1000).sum())], "numpy"))
    alone = beside.run("sum", "cpu:2", beside=False)
    told = beside.run("sum", "cpu:2", beside=True)
    assert alone["result"] == told["result"] == [499500.0]
    assert told["audited"]
    assert told["messages_per_second"] > 0


def test_a_token_that_is_lost_is_noticed(monkeypatch):
    # The walker that is told to stop forgets to count what ends with it.
    monkeypatch.setattr(beside, "_WALKERS", beside._WALKERS.replace("++ended;", ""))
    monkeypatch.setitem(neighbours.ALL, "nothing", (lambda: [], "numpy"))
    assert not beside.run("nothing", "cpu:2", beside=True)["audited"]


def test_another_result_beside_is_not_verified(monkeypatch):
    def child(_name, _device, *, beside):
        told = {"result": [1.0, 2.0 + beside], "seconds": 1.0}
        return {**told, "audited": True, "messages_per_second": 2e6} if beside else told

    monkeypatch.setattr(beside, "_child", child)
    monkeypatch.setattr(neighbours, "ALL", {"wrong": (list, "numpy")})
    alone, with_it, flow = beside.frameworks("gpu", quick=True)
    assert (alone.case, with_it.case) == ("wrong, alone", "wrong, beside")
    assert not alone.verified and not with_it.verified
    assert flow.verified and flow.samples.tolist() == [2.0]


def test_a_framework_that_is_missing_is_said_and_has_no_rows(monkeypatch, capsys):
    monkeypatch.setattr(neighbours, "ALL", {"Nobody": (list, "nobody_has_this")})
    assert beside.frameworks("gpu", quick=True) == []
    assert "no arm of Nobody: there is no Python package nobody_has_this" in capsys.readouterr().err


def test_a_framework_that_does_not_run_alone_is_said_and_has_no_rows(monkeypatch, capsys):
    def child(name, _device, *, beside):
        raise LabError(f"{name} ended with 1")

    monkeypatch.setattr(beside, "_child", child)
    monkeypatch.setattr(neighbours, "ALL", {"Broken": (list, "numpy")})
    assert beside.frameworks("gpu", quick=True) == []
    said = capsys.readouterr().err
    assert "no arm of Broken, which does not run alone: Broken ended with 1" in said


def test_a_neighbour_that_fails_is_named():
    if importlib.util.find_spec("cupy") is not None:
        pytest.skip("CuPy is here, so it does not fail")
    with pytest.raises(LabError, match=r"CuPy ended with 1: (.|\n)*No module named 'cupy'"):
        beside._child("CuPy", "cpu:1", beside=False)


def test_killed_hosts_leave_a_machine_on_which_the_next_program_runs():
    rows = beside.kills("cpu:2", quick=True)
    assert [row.unit for row in rows] == ["ms", "ms", "s"]
    assert all(row.verified and len(row.samples) == 3 and row.n == 3 for row in rows)


def test_a_load_is_compared_with_itself_without_a_breath(monkeypatch):
    def run(command, _seconds):
        rate = 100.0 if command[-2:] == ["--breath", "0"] else 99.0
        cases = [("streamed", {"warps": 8}), ("alert latency", {})]
        return {}, [Measured(c, p, "M/s", np.array([rate, rate]), 2, True) for c, p in cases]

    monkeypatch.setattr(beside, "LOADS", {"transactions": ("streamed",)})
    monkeypatch.setattr(beside.programs, "find", lambda name: name)
    monkeypatch.setattr(beside.programs, "run", run)
    usual, for_ever = rows_of(beside.loads("gpu", quick=True), [])
    assert (usual.case, for_ever.case) == (
        "transactions: streamed",
        "transactions: streamed, one kernel for ever",
    )
    assert usual.params == for_ever.params == {"warps": 8}
    assert usual.n == 4 and usual.verified
    assert usual.ratio_to == {for_ever.case: 0.99}
