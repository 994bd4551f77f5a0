# SPDX-License-Identifier: Apache-2.0
"""What a breath costs is compared with none, and a killed host leaves a machine that works."""

import numpy as np
import pytest

from denizen.lab import beside
from denizen.lab.record import LabError, Measured, rows_of


def test_killed_hosts_leave_a_machine_on_which_the_next_program_runs():
    rows = beside.kills("cpu:2", quick=True)
    assert [row.unit for row in rows] == ["ms", "ms", "ms", "s"]
    assert all(row.verified and len(row.samples) == 3 and row.n == 3 for row in rows)


def test_a_gpu_is_shared_as_long_as_turns_go_on():
    assert beside.shared_until(1.0, []) == 1.0
    assert beside.shared_until(1.0, [(1.001, 1.004), (1.006, 1.008)]) == 1.008
    # One long turn; then an ask that something else held up.
    assert beside.shared_until(1.0, [(1.001, 1.2), (1.26, 1.261)]) == 1.2


def test_a_load_is_compared_with_itself_without_a_breath(monkeypatch):
    def run(command, _seconds):
        assert command[1:] == ["--device", "gpu", "--breaths", "--quick"]
        name, for_ever = "streamed", "streamed, one kernel for ever"
        arms = [(name, 99.0, (for_ever,), ""), (for_ever, 100.0, (), ""), (name, 98.0, (), "A/A")]
        return {}, [
            Measured(case, {"warps": 8}, "M/s", np.array([rate, rate]), 4, True, base, arm)
            for case, rate, base, arm in arms
        ]

    monkeypatch.setattr(beside, "LOADS", ("transactions",))
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
    assert usual.again == [98.0, 98.0]


def test_programs_take_turns_with_a_breath_and_without():
    for program in beside.LOADS:
        try:
            path = beside.programs.find(program)
        except LabError as error:
            pytest.skip(str(error))
        command = [str(path), "--device", "cpu:2", "--breaths", "--quick"]
        _, measured = beside.programs.run(command, 120)
        rows = {row.case: row for row in rows_of(measured, [])}
        usual = [case for case in rows if not case.endswith(beside.FOR_EVER)]
        assert 2 * len(usual) == len(rows) > 0
        for case in usual:
            assert set(rows[case].ratio_to) == {case + beside.FOR_EVER}
            assert rows[case].verified and rows[case].rounds == 3 and len(rows[case].again) == 3
