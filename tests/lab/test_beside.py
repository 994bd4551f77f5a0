# SPDX-License-Identifier: Apache-2.0
"""What is measured beside a runtime is checked: the neighbour's results, and every message."""

import importlib.util

import numpy as np
import pytest

from denizen.lab import beside, neighbours
from denizen.lab.record import LabError


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


def test_a_neighbour_that_fails_is_named():
    if importlib.util.find_spec("cupy") is not None:
        pytest.skip("CuPy is here, so it does not fail")
    with pytest.raises(LabError, match=r"CuPy ended with 1: (.|\n)*No module named 'cupy'"):
        beside._child("CuPy", "cpu:1", beside=False)


def test_killed_hosts_leave_a_machine_on_which_the_next_program_runs():
    gone, following = beside.kills("cpu:2", quick=True)
    assert gone.verified and following.verified
    assert len(gone.samples) == len(following.samples) == 3
