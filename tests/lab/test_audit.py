# SPDX-License-Identifier: Apache-2.0
"""The audit of messages: it finds nothing wrong with the runtime, and what is planted."""

import itertools
import time

import numpy as np
import pytest

from denizen.lab import audit, neighbours
from denizen.lab.record import LabError


def told(seconds=0.2):
    return {row.case: row for row in audit.measure("cpu:2", quick=True, seconds=seconds)}


def test_every_message_is_accounted_for():
    rows = told()
    assert rows["messages"].n > 10_000
    assert rows["messages"].rounds == rows["messages"].samples.size
    assert rows["lost"].samples.tolist() == rows["doubled or overtaken"].samples.tolist() == [0]
    assert rows["ask meanwhile"].n > 0
    assert all(row.verified for row in rows.values())


@pytest.mark.parametrize(("count", "each"), [(1, 1), (2, 1), (7, 3), (600, 300)])
def test_two_windows_are_a_round_of_both_arms(count, each):
    windows = np.arange(float(count))
    arms = audit._arms(windows)
    assert set(arms) == ({""} if count == 1 else {"", "A/A"})
    assert all(arm.size == each for arm in arms.values())
    if count > 1:
        assert (arms[""] // 2 == arms["A/A"] // 2).all()
        assert sorted([*arms[""], *arms["A/A"]]) == windows[: 2 * each].tolist()


@pytest.mark.parametrize(
    "right, wrong, case",
    [
        ("++handled;", "if (m.number % 999 != 7) ++handled;", "lost"),
        ("given[to]++", "given[to] += given[to] == 0 ? 2 : 1", "doubled or overtaken"),
    ],
)
def test_what_goes_wrong_is_noticed(monkeypatch, right, wrong, case):
    assert right in audit._WALKERS
    monkeypatch.setattr(audit, "_WALKERS", audit._WALKERS.replace(right, wrong))
    rows = told()
    assert rows[case].samples[0] > 0
    assert not rows["messages"].verified


@pytest.fixture
def beside(monkeypatch):
    """Has a program run beside the audit, in place of PyTorch's."""

    def those(**programs):
        monkeypatch.setattr(audit, "_neighbours", lambda _device: list(programs))
        ways = {name: (program, ("numpy",)) for name, program in programs.items()}
        monkeypatch.setattr(neighbours, "ALL", ways)

    return those


def test_programs_run_beside_and_have_their_results(beside):
    beside(one=lambda: [1.0], two=lambda: [2.0])
    rows = told()
    assert rows["one, meanwhile"].n > 0 and rows["two, meanwhile"].verified


def test_another_result_beside_is_not_verified(beside):
    results = itertools.count(1)
    beside(counting=lambda: [next(results) * 1.0])
    assert not told()["counting, meanwhile"].verified


def test_a_program_that_does_not_return_is_named(beside, monkeypatch):
    calls = itertools.count()
    beside(sleeper=lambda: [] if next(calls) == 0 else time.sleep(30))
    monkeypatch.setattr(audit, "_PATIENCE", 0.3)
    with pytest.raises(LabError, match=r"sleeper has not returned for 0.3 s .* messages were han"):
        told()


def test_a_program_that_fails_beside_is_named(beside):
    calls = itertools.count()
    beside(failing=lambda: [] if next(calls) == 0 else [1 / 0])
    with pytest.raises(LabError, match="failing failed beside the audit: division by zero"):
        told()
