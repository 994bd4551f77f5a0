# SPDX-License-Identifier: Apache-2.0
"""What others do on the machine is told by its records, and may be a reason to refuse."""

import pytest

from denizen import machine
from denizen.lab import bench, idle, table
from denizen.lab.record import LabError, Measured

HERE = machine.Machine(device="CPU: Test, 2 cores", driver=None, cuda=None, cpu="CPU")


@pytest.fixture
def stat(tmp_path, monkeypatch):
    """/proc/stat whose two cores were so many of 100 ticks at work when it is read again."""
    path = tmp_path / "stat"
    monkeypatch.setattr(idle, "_STAT", path)

    def during(user, steal=0):
        def sleep(_seconds):
            counts = f"{1000 + user} 0 500 {9000 + 100 - user - steal} 0 0 0 {steal} 0 0"
            path.write_text(f"cpu  {counts}\ncpu0 1 1\ncpu1 1 1\nintr 5\n")

        path.write_text("cpu  1000 0 500 9000 0 0 0 0 0 0\ncpu0 1 1\ncpu1 1 1\nintr 5\n")
        monkeypatch.setattr(idle.time, "sleep", sleep)

    return during


def test_what_others_do_is_counted_in_cores(stat):
    stat(50)
    assert idle.busy() == pytest.approx(1.0)
    stat(10, steal=15)  # what the host of a virtual machine takes is another's, too
    assert idle.busy() == pytest.approx(0.5)


def test_a_machine_at_work_is_refused(stat):
    stat(2)
    idle.need()
    stat(20)
    with pytest.raises(LabError, match=r"others are at work here: 0.40 cores' worth over 5 s"):
        idle.need()


def test_a_system_that_does_not_tell_is_not_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(idle, "_STAT", tmp_path / "nothing")
    assert idle.busy(0.0) is None
    idle.need(0.0)


@pytest.mark.parametrize(("busy", "told"), [(0.1, False), (0.4, True), (None, False)])
def test_a_record_tells_that_the_machine_was_not_quiet(busy, told):
    case = Measured("ask", {}, "us", [1.0] * 9, 9, True)
    made = bench.build_record(
        "dispatch", {"cores_busy_before": busy}, [case], None, HERE, quick=False
    )
    assert ("Others were at work before it began" in table.section(made)) == told
