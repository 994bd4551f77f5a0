# SPDX-License-Identifier: Apache-2.0
"""A program beside a busy one is compared with itself alone, and every message of both counts."""

from denizen.lab import partitions
from denizen.lab.record import rows_of


def test_arms_take_turns_and_are_compared_with_the_program_alone():
    rows = rows_of(partitions.by_turns("cpu:1", 1, 1, rounds=2, steps=20), [])
    assert [row.case for row in rows] == [
        f"two programs: {case}, {arm}"
        for arm in (
            "alone",
            "alone, in a partition",
            "beside a busy program",
            "beside a busy program, in partitions",
            "beside a busy program on every SM",
        )
        for case in ("ask", "messages")
    ]
    for row in rows:
        case, _, arm = row.case.partition(", ")
        assert row.verified and row.rounds == 2
        assert row.n == {"us": 2_000, "M/s": 6}[row.unit]
        assert set(row.ratio_to) == (set() if arm == "alone" else {f"{case}, alone"})


def test_cpu_threads_have_no_sms():
    assert partitions.measure("cpu:2", quick=True) == []
