# SPDX-License-Identifier: Apache-2.0
"""What it costs a program to be watched: all of the measurement, on the played driver and CUPTI."""

import dataclasses
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from denizen import machine
from denizen.lab import goals, observers, programs, record
from denizen.lab.observed import Program, Run
from denizen.lab.record import LabError, Measured
from denizen.lens import launch

BUILT = Path(__file__).resolve().parents[2] / "build" / "release"
OBSERVED, LIBRARY = BUILT / "tests" / "lens" / "lens_observed", BUILT / "lens" / launch.LIBRARY
CUPTI = OBSERVED.with_name("liblens_fake_cupti.so")
MODULE = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build\n"
SAME = [Measured("copy", {}, "us", np.array([1.0]), 1, True)]
NSYS = """
import os, sqlite3, subprocess, sys
words = sys.argv[1:]
(output,) = (word.removeprefix("--output=") for word in words if word.startswith("--output="))
if words[0] == "profile":
    assert "--trace=cuda" in words
    os.close(0)
    status = subprocess.call(words[words.index("sh"):], stdout=2)
    open(output + ".nsys-rep", "w").close()
    sys.exit(status)
assert words[:2] == ["export", "--type=sqlite"] and os.path.exists(words[-1])
with sqlite3.connect(output) as base:
    for kind, count in (("KERNEL", KERNELS), ("GRAPH_TRACE", GRAPHS)):
        base.execute(f"CREATE TABLE CUPTI_ACTIVITY_KIND_{kind} (start INT)")
        base.executemany(f"INSERT INTO CUPTI_ACTIVITY_KIND_{kind} VALUES (?)", [(0,)] * count)
"""

pytestmark = pytest.mark.skipif(
    not (OBSERVED.exists() and LIBRARY.exists()), reason="lens_observed is not built"
)


@pytest.fixture
def played(tmp_path, monkeypatch):
    """A driver that is played, and a folder for sockets that nobody else has."""
    for name in ("nvidiactl", "nvidia0"):
        (tmp_path / name).touch()
    (tmp_path / "version").write_text(MODULE)
    monkeypatch.setenv("DENIZEN_LENS_FAKE", str(tmp_path))
    monkeypatch.setenv("DENIZEN_LENS_LIBRARY", str(LIBRARY))
    monkeypatch.setenv("DENIZEN_LENS_CUPTI", str(CUPTI))
    monkeypatch.setenv(launch.SOCKETS, str(tmp_path / "sockets"))
    return tmp_path


def observe(ways=observers.WAYS, *, command=(str(OBSERVED),), rounds=2):
    ways = [way for way in ways if way is not observers.Nsight]
    return observers.observe(command, ways, generations=1, rounds=rounds, launches=300)


def test_every_way_is_measured_and_verified(played, capfd):
    rows = record.rows_of(observers.rows(observe()))
    assert [row.case for row in rows if not row.verified] == []
    found = {(row.case, row.params.get("of"), row.params.get("mode")): row for row in rows}
    plain = (observers.ALONE, observers.ASLEEP, observers.RECORDS, observers.FINALIZED)
    assert found.keys() == {
        *((case, of, None) for case in plain for of in ("kernels", "graphs")),
        *(
            (case, of, mode)
            for case in (observers.ATTACHED, observers.DETACHED)
            for of in ("kernels", "graphs")
            for mode in ("count", "full")
        ),
        *(
            (f"lens, {what} under launches", None, mode)
            for what in ("attach", "detach")
            for mode in ("count", "full")
        ),
    }
    attached = found[observers.ATTACHED, "graphs", "full"]
    assert attached.unit == "k/s" and attached.n == 600 and attached.params["kernels"] == 10
    assert attached.ratio_to.keys() == {observers.ALONE, observers.RECORDS}
    assert found[observers.ALONE, "kernels", None].noise_floor is not None
    assert found[observers.DETACHED, "kernels", "count"].ratio_to.keys() == {observers.ALONE}
    reached = goals.reached("driver", rows, gpu=True)
    assert len(reached) == 6 and {goal.verdict for goal in reached} == {"undecided"}
    assert list((played / "sockets").iterdir()) == []
    assert capfd.readouterr().err == ""


def test_what_was_not_seen_is_not_verified(played, monkeypatch):
    """A launch more than the lens saw, a kernel more than CUPTI recorded, or the device counted."""
    usual = Program.finish

    def one_more(self):
        run = usual(self)
        made = run.made + 1
        seen = run.seen
        return dataclasses.replace(run, made=made, counted=made * run.kernels, seen=seen)

    monkeypatch.setattr(Program, "finish", one_more)
    rows = record.rows_of(observers.rows(observe(rounds=1)))
    wrong = {row.case for row in rows if not row.verified}
    assert wrong == {observers.ATTACHED, observers.RECORDS}
    run = Run(made=10, kernels=10, counted=99, begin=0, end=1)
    assert not run.right and dataclasses.replace(run, counted=100).right


def test_a_way_that_fails_leaves_the_others(played, monkeypatch, capfd):
    monkeypatch.setenv("DENIZEN_LENS_CUPTI", str(played / "libcupti.so"))
    monkeypatch.setenv("DENIZEN_LENS_LIBRARY", str(played / "none.so"))
    rows = observers.rows(observe())
    assert {row.case for row in rows} == {observers.ALONE}
    told = " ".join(capfd.readouterr().err.split())
    assert "no launches, CUPTI records: the observed program does not answer" in told
    assert "there is no libcupti.so" in told and "no launches, lens attached" in told
    with pytest.raises(LabError, match="cannot be started"):
        observe(command=(str(played / "none"),))
    with pytest.raises(LabError, match="has ended without a word"):
        observe(command=(sys.executable, "-c", ""))


def test_nsight_is_started_around_it(played, monkeypatch, capfd):
    nsys = played / "nsys"
    monkeypatch.setenv("PATH", f"{played}:{os.environ['PATH']}")
    warm, launches = 3 * 500, 2 * 300  # by generation: at first, and before each of two turns

    def measured(missing):
        of_each = warm + launches
        body = NSYS.replace("KERNELS", str(1 + of_each - missing)).replace("GRAPHS", str(of_each))
        nsys.write_text(f"#!{sys.executable}\n{body}")
        nsys.chmod(0o755)
        ways = (observers.Way, observers.Asleep, observers.Attached, observers.Nsight)
        found = observers.observe([str(OBSERVED)], ways, generations=1, rounds=2, launches=300)
        return record.rows_of(observers.rows(found))

    rows = measured(missing=0)
    assert capfd.readouterr().err == "" and all(row.verified for row in rows)
    attached = [row for row in rows if row.case == observers.ATTACHED]
    assert all(row.ratio_to.keys() == {observers.ALONE, observers.NSIGHT} for row in attached)
    rows = measured(missing=1)
    assert {row.case for row in rows if not row.verified} == {observers.NSIGHT}
    assert "saw 23100 of 23101 kernels" in capfd.readouterr().err


def test_the_experiment_has_them(played, monkeypatch, capfd):
    monkeypatch.setattr(machine, "gpu_index", lambda _: 0)
    monkeypatch.setattr(observers.shutil, "which", lambda _: None)
    program = played / "bench_driver"
    program.write_text(
        f"#!/bin/sh\n[ \"$*\" = '--device gpu:0 --observed' ] || exit 1\nexec {OBSERVED}\n"
    )
    program.chmod(0o755)
    monkeypatch.setattr(programs, "find", lambda _: program)
    rows = observers.measure("gpu:0", quick=True, beside=SAME)
    assert all(row.verified for row in rows) and {row.arm for row in rows} == {"", "A/A"}
    assert "there is no nsys here" in capfd.readouterr().err
    assert observers.measure("gpu:0", quick=True, beside=[]) == []
    program.write_text("#!/bin/sh\necho no such device >&2\nexit 1\n")
    assert observers.measure("gpu:0", quick=True, beside=SAME) == []
    told = " ".join(capfd.readouterr().err.split())
    assert "nobody watched" in told and "no such device" in told


def test_the_newest_cupti_of_a_wheel_is_taken(tmp_path, monkeypatch):
    monkeypatch.delenv("DENIZEN_LENS_CUPTI", raising=False)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert observers.cupti() is None
    for name in (
        "cuda_cupti/lib/libcupti.so.12",
        "cu13/lib/libcupti.so.13",
        "cu13/lib/libcupti.so",
    ):
        path = tmp_path / "nvidia" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert observers.cupti() == tmp_path / "nvidia/cu13/lib/libcupti.so.13"
