# SPDX-License-Identifier: Apache-2.0
"""The audit of messages: it finds nothing wrong with the runtime, and what is planted."""

import pytest

from denizen.lab import audit


def told(seconds=0.2):
    return {row.case: row for row in audit.measure("cpu:2", quick=True, seconds=seconds)}


def test_every_message_is_accounted_for():
    rows = told()
    assert rows["messages"].n > 10_000
    assert rows["lost"].samples.tolist() == rows["doubled or overtaken"].samples.tolist() == [0]
    assert rows["ask meanwhile"].n > 0
    assert all(row.verified for row in rows.values())


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
