# SPDX-License-Identifier: Apache-2.0
"""What is measured beside a runtime is checked: the neighbour's results, and every message."""

import subprocess
import sys
import tempfile
from contextlib import contextmanager

import numpy as np
import pytest

from denizen.lab import frameworks, neighbours, walkers
from denizen.lab.record import LabError, rows_of


def test_a_neighbour_runs_while_messages_flow(monkeypatch):
    monkeypatch.setitem(neighbours.ALL, "sum", (lambda: [float(np.arange(1000).sum())], ("numpy",)))
    alone = frameworks.run("sum", "cpu:2", beside=False)
    told = frameworks.run("sum", "cpu:2", beside=True)
    assert alone["result"] == told["result"] == [499500.0]
    assert told["audited"]
    assert told["messages_per_second"] > 0


def test_a_token_that_is_lost_is_noticed(monkeypatch):
    # The walker that is told to stop forgets to count what ends with it.
    monkeypatch.setattr(walkers, "_WALKERS", walkers._WALKERS.replace("++ended;", ""))
    monkeypatch.setitem(neighbours.ALL, "nothing", (lambda: [], ("numpy",)))
    assert not frameworks.run("nothing", "cpu:2", beside=True)["audited"]


def test_another_result_beside_is_not_verified(monkeypatch):
    def runs(_name, _device, arms, *, quick):
        rounds = 1 if quick else 9
        beside = {"result": [1.0, 3.0], "audited": True, "messages_per_second": 2e6, "seconds": 1.5}
        alone = {"result": [1.0, 2.0], "seconds": 1.0}
        return {arm: [beside if arm == "beside" else alone] * rounds for arm in arms}

    monkeypatch.setattr(frameworks, "_runs", runs)
    monkeypatch.setattr(neighbours, "ALL", {"wrong": (list, ("numpy",))})
    alone, with_it, again, flow = frameworks.measure("gpu", quick=True)
    assert (alone.case, with_it.case, again.case) == ("wrong, alone", "wrong, beside", alone.case)
    assert (alone.arm, again.arm) == ("", "A/A")
    assert not alone.verified and not with_it.verified
    assert flow.verified and flow.samples.tolist() == [2.0]
    assert {one.rounds for one in (alone, with_it, again, flow)} == {1}
    beside = rows_of([alone, with_it, again], [])[1]
    assert beside.ratio_to == {"wrong, alone": 1.5}


def test_a_short_program_runs_more_often_than_a_long_one():
    assert frameworks.rounds_of(60.0, 2) == 9  # the fewest whose median has an interval
    assert frameworks.rounds_of(1.5, 2) == 10  # what fits into 30 s
    assert frameworks.rounds_of(0.1, 2) == 11


def test_a_framework_that_is_missing_is_said_and_has_no_rows(monkeypatch, capsys):
    monkeypatch.setattr(neighbours, "ALL", {"Nobody": (list, ("nobody_has_this",))})
    assert frameworks.measure("gpu", quick=True) == []
    assert "no arm of Nobody: there is no Python package nobody_has_this" in capsys.readouterr().err


def test_a_framework_that_does_not_run_alone_is_said_and_has_no_rows(monkeypatch, capsys):
    monkeypatch.setattr(neighbours, "ALL", {"Broken": (list, ("numpy",))})
    # Its process has the list of its own, where no Broken is.
    assert frameworks.measure("gpu", quick=True) == []
    said = capsys.readouterr().err
    assert "no arm of Broken: Broken ended with 1: " in said
    assert "KeyError: 'Broken'" in said


@contextmanager
def _process_of(program, *arguments):
    """A process whose framework is NumPy, and whose program is this text of a function."""
    text = f"""
from denizen.lab import frameworks, neighbours
import time
def one():
    {program}
neighbours.ALL["one"] = (one, ("numpy",))
frameworks.main(["one", "cpu:2", *{arguments}])
"""
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(
            [sys.executable, "-c", text],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
        ) as child,
    ):
        try:
            yield frameworks.Process("one", child, errors)
        finally:
            child.kill()


def test_alone_and_beside_take_turns(monkeypatch):
    begun, alive, seen = [], [], []

    @contextmanager
    def process(_name, _device, _cache, *, beside):
        begun.append(beside)
        with _process_of("return [2.5]", *(["--beside"] if beside else [])) as one:
            alive.append(one)
            yield one
            alive.remove(one)

    go = frameworks.Process.go

    def counted(one):
        seen.append(len(alive))
        return go(one)

    monkeypatch.setattr(frameworks, "process", process)
    monkeypatch.setattr(frameworks.Process, "go", counted)
    monkeypatch.setattr(frameworks, "rounds_of", lambda _seconds, _arms: 2)
    told = frameworks._runs("one", "cpu:2", ["alone", "beside"], quick=False)
    assert begun == [False, False, False, True, False, True]  # two tell how long it takes
    assert seen == [1, 1, 4, 3, 2, 1]  # one that has told is gone: its threads would disturb
    assert [run["result"] for run in told["alone"] + told["beside"]] == [[2.5]] * 4
    assert all(run["audited"] for run in told["beside"])


def test_what_a_framework_says_is_no_answer():
    with _process_of("print('a word'); return [1.0]") as one:
        one.ready()
        told = one.go()
    assert told["result"] == [1.0]
    assert told["seconds"] >= 0


def test_a_program_that_fails_is_named_with_what_it_said():
    with _process_of("raise ValueError('no such tensor')") as one:
        one.ready()
        with pytest.raises(LabError, match=r"one ended with 1: (.|\n)*no such tensor"):
            one.go()


def test_a_program_that_does_not_end_is_named_and_killed(monkeypatch):
    with _process_of("time.sleep(600)") as one:
        one.ready()
        monkeypatch.setattr(frameworks, "_DEADLINE", 0.1)
        with pytest.raises(LabError, match=r"one did not end in 0\.1 s"):
            one.go()
