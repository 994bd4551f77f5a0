# SPDX-License-Identifier: Apache-2.0
"""What a breath costs is compared with none, and a killed host leaves a machine that works."""

import numpy as np

from denizen.lab import beside
from denizen.lab.record import Measured, rows_of


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
