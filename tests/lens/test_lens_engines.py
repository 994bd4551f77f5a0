# SPDX-License-Identifier: Apache-2.0
"""What denizen bench driver makes of copies that the engines made without the driver."""

import json
import re
import stat
import sys
from pathlib import Path

import numpy as np
import pytest

from denizen import machine
from denizen.lab import cases, engines, programs, record
from denizen.lab.record import Measured


def copy(direction, engine, size, us):
    params = {"direction": direction, "engine": engine, "bytes": size}
    return Measured("raw copy", params, "us", np.array([us, us, us]), 96, True)


RAW = [
    copy("to device", "inline", 32, 0.125),
    copy("to device", "inline", 4, 0.025),
    copy("to device", "copy engine", 4, 0.5),
    copy("to device", "copy engine", 1 << 20, 50.0),
    copy("to host", "copy engine", 1 << 20, 40.0),
]
BY_API = [
    Measured(case, {"direction": direction, "memory": memory, "bytes": size}, "us",
             np.array([us]), 1, True)
    for case, direction, memory, size, us in (
        ("copy, by events", "to device", "pinned", 32, 0.5),
        ("copy, by events", "to device", "pageable", 32, 1.0),
        ("copy, by events", "to host", "pinned", 1 << 20, 50.0),
        ("copy, until done", "to device", "pinned", 32, 1.25),
        ("copy", "to device", "pinned", 32, 1.0),
    )
]  # fmt: skip


def test_what_follows_from_them():
    rows = record.rows_of([*RAW, *engines.derived(RAW, BY_API)])
    found = {(r.case, *list(r.params.values())[:2]): r for r in rows if r.case != "raw copy"}
    start = found["raw copy, start", "to device", "inline"]
    assert (start.median, start.unit, start.params["bytes"]) == (0.025, "us", 4)
    most = found["raw copy, most", "to device", "copy engine"]
    assert most.params["bytes"] == 1 << 20
    assert most.median == pytest.approx((1 << 20) / 50e3)
    # By direction and length, and from pinned memory alone.
    shares = {
        (row.params["direction"], row.params["of"]): row.median
        for row in rows
        if row.case == "raw copy, not the engine's"
    }
    assert shares == pytest.approx(
        {
            ("to device", "event time"): 0.75,
            ("to device", "API time"): 0.9,
            ("to host", "event time"): 0.2,
        }
    )


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Installs a bench_driver with the given body, on a machine that seems to have a GPU."""
    libc = re.search(r"(/\S*libc\.so\.6)$", Path("/proc/self/maps").read_text(), re.MULTILINE)[1]
    monkeypatch.setenv("DENIZEN_LENS_LIBRARY", libc)
    monkeypatch.setattr(machine, "gpu_index", lambda _: 0)
    monkeypatch.setattr(cases.driver, "counts", lambda *_, **__: [])
    monkeypatch.setattr(cases.observers, "measure", lambda *_, **__: [])
    monkeypatch.setattr(cases.doorbells, "measure", lambda *_, **__: [])
    path = tmp_path / "bench_driver"
    monkeypatch.setattr(programs, "find", lambda _: path)

    def install(body):
        path.write_text(f"#!{sys.executable}\nimport os, sys\n{body}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    return install


SAME = [Measured("copy", {}, "us", np.array([1.0]), 1, True)]


def test_they_are_measured_under_the_lens(program):
    line = {"case": "raw copy", "params": RAW[0].params, "unit": "us", "samples": [0.125, 0.25],
            "n": 2, "verified": True}  # fmt: skip
    program(
        "assert sys.argv[1:] == ['--device', 'gpu:0', '--quick', '--raw']\n"
        "assert os.environ['DENIZEN_LENS_MODE'] == 'count' and os.environ['LD_PRELOAD']\n"
        f"print({json.dumps(line)!r})"
    )
    measured = cases.measure("driver", "gpu:0", quick=True, beside=SAME)
    assert [one.case for one in measured] == ["raw copy", "raw copy, start", "raw copy, most"]


def test_a_refusal_leaves_the_other_rows(program, capfd):
    program("sys.exit('copies to host cannot be submitted: the ring cannot be written')")
    assert cases.measure("driver", "gpu:0", quick=False, beside=SAME) == []
    said = re.sub(r"\s+", " ", capfd.readouterr().err)
    assert "no copies without the driver" in said and "the ring cannot be written" in said
