# SPDX-License-Identifier: Apache-2.0
"""What the records miss is listed, each with what limits it."""

from pathlib import Path

import pytest

from denizen.lab import record, shortfalls
from denizen.lab.record import Goal, Record

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks/results"


def of(*goals):
    return Record(
        experiment="dispatch", device="NVIDIA H200", driver="580", cuda="13.0", cpu="Xeon",
        commit="0" * 40, utc="2026-11-29T00:00:00Z", quick=False, verified=True, environment={},
        nvml=None, rows=[], goals=list(goals),
    )  # fmt: skip


def test_each_missed_goal_of_the_records_has_a_reason():
    unexplained = [
        f"{one.experiment}, {one.device}: {goal.what}"
        for one, goal in shortfalls.short_of(record.read_all(RESULTS))
        if goal.verdict == "missed" and shortfalls.reason(one.experiment, goal.what) is None
    ]
    assert unexplained == [], "write down in lab/shortfalls.toml what limits them"


def test_each_reason_is_of_a_goal_that_a_record_does_not_meet():
    used = {
        shortfalls.reason(one.experiment, goal.what)
        for one, goal in shortfalls.short_of(record.read_all(RESULTS))
    }
    idle = [one for one in shortfalls.reasons() if one not in used]
    assert idle == [], "these goals are met: take their reasons out of lab/shortfalls.toml"


@pytest.fixture
def known(monkeypatch):
    monkeypatch.setattr(
        shortfalls, "reasons", lambda: (shortfalls.Reason("dispatch", ("ask, *",), "the bus"),)
    )


def test_goals_of_one_reason_stand_beside_it(known):
    text = shortfalls.text([
        of(
            Goal("ask, one", "≤ 2 us", 3.0, (2.9, 3.1), "missed", 1),
            Goal("ask, many", "≤ 2 us", 2.0, (1.9, 2.1), "undecided", 1),
            Goal("ask, met", "≤ 2 us", 1.0, (1.0, 1.0), "met", 1),
        )
    ])  # fmt: skip
    assert text.splitlines() == [
        "Of 3 goals, each on its device: **1 met**, **1 missed**, **1 undecided**.",
        "",
        "**dispatch**: the bus",
        "",
        "| goal | bound | on | reached | 95 % interval | verdict |",
        "| --- | --- | --- | ---: | ---: | --- |",
        "| ask, one | ≤ 2 us | H200 | 3.00 | 2.90 to 3.10 | missed |",
        "| ask, many | ≤ 2 us | H200 | 2.00 | 1.90 to 2.10 | undecided |",
    ]


def test_a_missed_goal_without_a_reason_says_so_and_an_undecided_one_has_a_table_of_its_own(known):
    text = shortfalls.text([
        of(
            Goal("worst call", "≤ 2 us", 3.0, (3.0, 3.0), "missed", 1),
            Goal("start", "≤ 2 s", 2.0, None, "undecided", 1),
        )
    ])  # fmt: skip
    missed, undecided = text.split("Undecided, by the interval alone:")
    assert "**dispatch**: Not known." in missed
    assert "| worst call | ≤ 2 us | H200 | 3.00 | of this run | missed |" in missed
    assert "| dispatch: start | ≤ 2 s | H200 | 2.00 | too few | undecided |" in undecided
