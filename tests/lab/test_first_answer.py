# SPDX-License-Identifier: Apache-2.0
"""First answers are measured cold and cached, in processes of their own."""

import json
from collections import Counter

import pytest

import denizen
from denizen.lab import first, goals
from denizen.lab.record import LabError


@pytest.fixture
def started(monkeypatch):
    """Every start, instead of it: handlers, optimise, folder of the cache."""
    starts = []

    def once(way, device, optimise, cache):
        starts.append((way, optimise, cache))
        return 0.5 if cache not in [c for *_, c in starts[:-1]] else 0.1, True

    monkeypatch.setattr(first, "_once", once)
    return starts


def test_cold_starts_have_a_cache_of_their_own(started):
    rows = first.measure("cpu:1", quick=False)
    assert {(r.case, r.params["handlers"], r.params["cache"], r.arm) for r in rows} == {
        ("first answer on CPU threads", way, *how)
        for way in ("C++ text", "Python")
        for how in (("cold", ""), ("cached", ""), ("cached", "A/A"))
    }
    for row in rows:
        assert row.samples.max() == (0.5 if row.params["cache"] == "cold" else 0.1)
    used = Counter(cache for *_, cache in started)
    assert sorted(used.values()) == [1] * (2 + 2 * 9) + [2 + 2 * 2 * 9]
    assert {optimise for _, optimise, _ in started} == {"wait"}


def test_on_a_gpu_a_cold_start_is_quick_or_optimised(started, monkeypatch):
    monkeypatch.setattr(denizen, "gpu_problem", lambda: "")
    *rows, driver = first.measure("gpu", quick=True)
    assert (driver.case, started[-1][0]) == ("the driver's context alone", "context")
    found = {(r.params["handlers"], r.params["cache"], r.params["code"]) for r in rows}
    assert found == {
        (way, *how)
        for way in ("C++ text", "Python")
        for how in (("cold", "quick"), ("cold", "optimised"), ("cached", "optimised"))
    } | {("Python", "cached", "optimised, pinned rings")}
    assert [way for way, start, _ in started if start == "pinned"] == ["Python"] * 4
    asked = [g for g in goals.GOALS if g.case == "first answer"]
    assert len(asked) == 3
    for goal in asked:
        assert any(goal.params.items() <= r.params.items() for r in rows), goal.what


def test_what_the_driver_takes_is_measured_alone(monkeypatch, capsys):
    opened = []
    monkeypatch.setattr(first, "open_context", opened.append)
    first.main(["context", "gpu:1", "wait"])
    seconds, right = json.loads(capsys.readouterr().out)
    assert opened == [1] and right and seconds >= 0


def test_a_process_says_when_it_was_answered(empty):
    pytest.importorskip("numba")
    seconds, right = first._once("Python", "cpu:1", "wait", str(empty))
    assert right and seconds > 0
    assert list(empty.iterdir())


def test_a_process_that_fails_is_said(empty):
    with pytest.raises(LabError, match=r"denizen\.lab\.first Python cpu:x wait ended with 1"):
        first._once("Python", "cpu:x", "wait", str(empty))


@pytest.fixture
def empty(tmp_path):
    return tmp_path / "cache"
