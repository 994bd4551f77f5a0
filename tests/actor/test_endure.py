# SPDX-License-Identifier: Apache-2.0
"""Faults under load, on CPU threads: a few of those that a GPU gets a hundred of."""

import endure
import pytest

from denizen.lab import audit


@pytest.mark.deep
def test_what_is_killed_or_stopped_loses_nothing():
    record = endure.faults("cpu:2", 4, 60.0, 3)
    assert record["wrong"] == []
    assert sum(record["faults"].values()) == 4


@pytest.mark.deep
def test_what_is_lost_is_noticed(monkeypatch):
    text = audit._WALKERS.replace("++handled;", "if (m.number % 999 != 7) ++handled;")
    monkeypatch.setattr(audit, "_WALKERS", text)
    assert endure.soak("cpu:2", 0.2)["wrong"]
