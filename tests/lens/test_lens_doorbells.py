# SPDX-License-Identifier: Apache-2.0
"""What denizen bench driver makes of the loops that it runs with and without the lens."""

import json
import re
import stat
import sys
from pathlib import Path

import numpy as np
import pytest
import stream as s

from denizen import machine
from denizen.lab import cases, doorbells, goals, programs, record
from denizen.lab.record import Measured
from denizen.lens import log

CALLS = 20
SAME = [Measured("copy", {}, "us", np.array([1.0]), 1, True)]
BODY = """
mode = os.environ.get("DENIZEN_LENS_MODE", "none")
assert sys.argv[1:] == ["--device", "gpu:0", "--doorbells"]
assert (mode != "none") == ("LD_PRELOAD" in os.environ)
if mode != "none":
    data = (Path(__file__).parent / f"{mode}.lens").read_bytes()
    (Path(os.environ["DENIZEN_LENS_DIR"]) / "bench_driver.1.lens").write_bytes(data)
us = {"none": 5.0, "count": 11.5, "full": 14.0}[mode]
print(json.dumps({"environment": {"device": "an H100"}}))
for i, way in enumerate(("launch + sync", "graph + sync")):
    begin = 1_000_000 + 10_000_000 * i
    print(json.dumps({"loop": way, "calls": 20, "counted": COUNTED, "begin": begin,
                      "end": begin + 5_000_000, "samples": [us + 0.01 * k for k in range(20)]}))
"""


def log_of(mode, *, missing=0, between=1):
    """Doorbells before, in, between and after two loops."""
    made = s.Log(mode).channel(0)
    moments = [900_000]
    for i in range(2):
        first = 1_000_000 + 10_000_000 * i
        moments += [first + 1000 * k for k in range(CALLS - missing)] + [
            first + 6_000_000
        ] * between
    for moment in moments:
        made.submit(0, s.host_release(0x100, 1), time=moment)
    return made.overhead(len(moments), 6200 * len(moments))


@pytest.fixture
def measure(tmp_path, monkeypatch):
    libc = re.search(r"(/\S*libc\.so\.6)$", Path("/proc/self/maps").read_text(), re.MULTILINE)[1]
    monkeypatch.setenv("DENIZEN_LENS_LIBRARY", libc)
    monkeypatch.delenv("LD_PRELOAD", raising=False)
    monkeypatch.setattr(machine, "gpu_index", lambda _: 0)
    monkeypatch.setattr(cases.driver, "counts", lambda *_, **__: [])
    monkeypatch.setattr(cases.observers, "measure", lambda *_, **__: [])
    monkeypatch.setattr(cases.engines, "raw", lambda *_, **__: [])
    path = tmp_path / "bench_driver"
    monkeypatch.setattr(programs, "find", lambda _: path)

    def run(counted=CALLS, ends=True, **how):
        for mode in ("count", "full"):
            made = log_of(mode, **how)
            (made.end() if ends else made).write(tmp_path / f"{mode}.lens")
        path.write_text(
            f"#!{sys.executable}\nimport json, os, sys\nfrom pathlib import Path\n"
            + BODY.replace("COUNTED", str(counted))
        )
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return record.rows_of(cases.measure("driver", "gpu:0", quick=False, beside=SAME))

    return run


def test_doorbells_launches_and_the_devices_counter_agree(measure):
    rows = measure()
    assert all(row.verified for row in rows)
    found = {(row.case, row.params["way"], row.params["mode"]): row for row in rows}
    for way in ("launch + sync", "graph + sync"):
        bells = found["loop's doorbells", way, "count"]
        assert bells.samples == [CALLS, CALLS] and bells.params["launches"] == CALLS
        assert found["doorbells other than one a launch", way, "full"].max == 0
        assert found["added to a doorbell", way, "count"].median == pytest.approx(6.5)
        assert found["added to a doorbell", way, "full"].median == pytest.approx(9.0)
        assert found["in the lens's handler", way, "count"].median == pytest.approx(6.2)
        assert found["round trip beside the lens", way, "none"].n == 2 * CALLS
    reached = {goal.what: goal for goal in goals.reached("driver", rows, gpu=True)}
    assert len(reached) == 6 and all(goal.verdict == "met" for goal in reached.values())
    assert reached["count mode adds to a doorbell, launch + sync"].bound == "≤ 10 us"


@pytest.mark.parametrize(
    ("how", "off"),
    [({"missing": 1}, 1), ({"counted": CALLS + 1}, 1), ({"ends": False}, 0)],
    ids=["a doorbell that the lens did not see", "a launch that was not asked for", "killed"],
)
def test_what_disagrees_is_not_verified(measure, how, off):
    rows = measure(**how)
    for row in rows:
        if row.case == "loop's doorbells":
            assert not row.verified
        if row.case == "doorbells other than one a launch":
            assert row.max == off
    if off:
        missed = [goal for goal in goals.reached("driver", rows, gpu=True) if "other" in goal.what]
        assert len(missed) == 4 and all(goal.verdict == "missed" for goal in missed)


def test_a_gap_in_the_capture_is_no_proof(tmp_path):
    capture = log.read(log_of("count").end().write(tmp_path / "a.lens"))
    assert doorbells.whole(capture)
    capture.submissions.pop(3)
    assert not doorbells.whole(capture)


def test_lines_that_tell_of_no_loop_are_an_error():
    with pytest.raises(record.LabError, match="printed no count"):
        list(doorbells.parse(json.dumps({"loop": "launch + sync"}), "none", None))
