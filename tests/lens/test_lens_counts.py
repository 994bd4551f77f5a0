# SPDX-License-Identifier: Apache-2.0
"""What denizen bench driver makes of its program's second run, under the lens."""

import json
import re
import stat
import sys
from pathlib import Path

import numpy as np
import pytest
import stream as s

from denizen.lab import driver, fits, record
from denizen.lab.record import LabError, Measured
from denizen.lens import log

LIMIT = 65_536  # the largest inline copy of the driver that is played here


def played():
    """A log, and the lines a program would print, of copies and graphs; three calls of each."""
    made, lines, now = s.Log().channel(0), [], 1_000_000

    def calls(name, params, *packets):
        nonlocal now
        windows = []
        for _ in range(3):
            now += 10_000
            made.submit(0, s.host_release(0x100, 1), time=now)  # of what comes before
            windows.append(now + 1_000)
            for part in packets:
                now += 2_000
                made.submit(0, part, time=now)
            windows.append(now + 500)
            now += 1_000
        value = {"counted": name, "params": params, "windows": windows, "verified": True}
        lines.append(json.dumps(value))

    for size in (64, 16_384, LIMIT, LIMIT + 4096, 1 << 20):
        params = {"direction": "to device", "memory": "pinned", "bytes": size}
        inline = size <= LIMIT
        copy = s.inline_copy(1 << 33, bytes(size)) if inline else s.engine_copy(1, 2, size)
        calls("copy", params, copy)
    for kernels in (1, 10, 100, 200, 1000, 2000):
        graph = s.inc(1, 0x2B4, 1) + s.immediate(1, 0x2C0, 2) + s.non_inc(1, 0x110, *[0] * kernels)
        calls("graph, a chain", {"kernels": kernels}, graph)
    for kernels in (1, 2, 3):  # two in one doorbell where there are three
        launches = [s.host_release(0x100, 1)] * min(kernels, 2)
        calls("launches, a chain", {"kernels": kernels}, *launches)
    calls("event record", {})
    calls("fork", {"branches": 2}, s.host_release(0x100, 1), s.host_release(0x110, 1))
    text = '{"environment": {"device": "an H100"}}\n' + "\n".join(lines) + "\n"
    return made.end(), text


def test_each_call_gets_the_doorbells_between_its_moments(tmp_path):
    made, text = played()
    counted = driver.attribute(text, log.read(made.write(tmp_path / "a.lens")))
    by_case = {(one.case, *one.params.values()): one for one in counted}
    small = by_case["copy", "to device", "pinned", 64]
    assert small.bytes == [4 * len(s.inline_copy(0, bytes(64)))] * 3
    assert small.doorbells == [1, 1, 1] and small.path == "inline"
    assert by_case["copy", "to device", "pinned", 1 << 20].path == "copy engine"
    assert by_case["event record",].bytes == [0, 0, 0]
    assert by_case["fork", 2].doorbells == [2, 2, 2]
    assert by_case["graph, a chain", 100].bytes == [4 * 104] * 3


def test_rows_of_what_was_counted(tmp_path):
    made, text = played()
    counted = driver.attribute(text, log.read(made.write(tmp_path / "a.lens")))
    beside = [
        Measured("graph, a chain", {"kernels": k}, "us", np.array([2.0 + 4 * k / 1000]), 1, True)
        for k in (1, 10, 100, 200, 1000, 2000)
    ]
    rows = record.rows_of([*beside, *driver.rows(counted, beside)])
    found = {(row.case, row.params.get("kernels", row.params.get("bytes"))): row for row in rows}
    switch = found["largest inline copy", None]
    assert switch.median == LIMIT
    assert switch.params == {
        "direction": "to device", "memory": "pinned", "next_measured": LIMIT + 4096,
    }  # fmt: skip
    # 4 bytes a kernel over 4 ns a kernel.
    slope = found["API time over submitted bytes, slope", "1 to 2000"]
    assert (slope.median, slope.unit) == (pytest.approx(1), "ns/B")
    each = found["API time over kernels, slope", "1 to 200"]
    assert (each.median, each.unit) == (pytest.approx(4), "ns each")
    r = found["API time over submitted bytes, correlation", "1 to 200"]
    assert r.median == pytest.approx(1) and r.verified
    chain = {row.params["kernels"]: row.verified for row in rows
             if row.case == "launches, a chain, submitted" and row.unit == "doorbells"}  # fmt: skip
    assert chain == {1: True, 2: True, 3: False}
    submitted = [row for row in rows if row.case == "copy, submitted" and row.unit == "B"]
    assert all(row.verified for row in submitted)
    assert {row.params["path"] for row in submitted} == {"inline", "copy engine"}


def player(tmp_path, after=""):
    """A program that writes that log and prints those lines."""
    made, text = played()
    (tmp_path / "given.lens").write_bytes(made.bytes)
    path = tmp_path / "bench_driver"
    path.write_text(
        f"#!{sys.executable}\nimport os, sys, time\nfrom pathlib import Path\n"
        "assert sys.argv[-1] == '--counts' and os.environ['DENIZEN_LENS_MODE'] == 'full'\n"
        f"data = Path({str(tmp_path / 'given.lens')!r}).read_bytes()\n"
        "(Path(os.environ['DENIZEN_LENS_DIR']) / 'bench_driver.1.lens').write_bytes(data)\n"
        f"print({text!r}, flush=True)\n{after}"
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


@pytest.fixture
def _preloaded(monkeypatch):
    libc = re.search(r"(/\S*libc\.so\.6)$", Path("/proc/self/maps").read_text(), re.MULTILINE)[1]
    monkeypatch.setenv("DENIZEN_LENS_LIBRARY", libc)


@pytest.mark.parametrize(
    ("case", "change"),
    [
        ("copy", {"verified": False}),  # the program saw a wrong result
        ("copy", {"params": {"direction": "to device", "memory": "pinned", "bytes": 60}}),
    ],
)
def test_what_disagrees_is_not_verified(tmp_path, case, change):
    made, text = played()
    lines = [json.loads(line) for line in text.splitlines()]
    first = next(i for i, line in enumerate(lines) if line.get("counted") == case)
    lines[first] = {**lines[first], **change}
    text = "\n".join(map(json.dumps, lines))
    counted = driver.attribute(text, log.read(made.write(tmp_path / "a.lens")))
    assert [one.right for one in counted].count(False) == 2  # and the chain of three
    rows = driver.rows(counted, [])
    assert {row.verified for row in rows if row.case == "largest inline copy"} == {False}


def test_a_fits_interval_is_that_of_its_samples(tmp_path):
    made, text = played()
    counted = driver.attribute(text, log.read(made.write(tmp_path / "a.lens")))
    random = np.random.default_rng(1)
    beside = [
        Measured("graph, a chain", {"kernels": k}, "us",
                 2.0 + 4 * k / 1000 + random.exponential(0.2, 51), 51, k != 10)
        for k in (1, 10, 100, 200, 1000, 2000)
    ]  # fmt: skip
    fitted = record.rows_of(fits.fits(counted, beside))
    assert {row.case for row in fitted} == {
        f"API time over {x}, {what}"
        for x in ("submitted bytes", "kernels") for what in ("slope", "correlation")
    }  # fmt: skip
    for row in fitted:
        low, high = row.ci95
        assert low <= row.median <= high and low < high
        truth = 1 if row.unit == "r" else 4 if row.unit == "ns each" else 1
        if row.params["kernels"] == "1 to 2000":
            assert abs(row.median - truth) < 0.1 * truth
        assert not row.verified  # one of its points is not
        if row.unit == "r":
            assert low >= -1 and high <= 1


def test_straight_launches_have_a_fit_that_ends_before_their_ring_is_full():
    counted = [
        driver.Counted("launches, a chain", {"kernels": k}, bytes=[1540 * k], doorbells=[k],
                       verified=True)
        for k in (1, 100, 200, 500, 1000, 2000)
    ]  # fmt: skip
    beside = [
        Measured(one.case, one.params, "us",
                 np.array([4.0 * one.params["kernels"] * (1 + (one.params["kernels"] > 500))]),
                 1, True)
        for one in counted
    ]  # fmt: skip
    fitted = [row for row in record.rows_of(fits.fits(counted, beside)) if row.unit == "ns each"]
    assert [row.params["kernels"] for row in fitted] == ["1 to 200", "1 to 500", "1 to 2000"]
    assert [row.median for row in fitted[:2]] == [pytest.approx(4000)] * 2
    assert fitted[2].median > 8000  # has the waits of the longer ones


@pytest.mark.usefixtures("_preloaded")
def test_a_program_is_counted_under_the_lens(tmp_path):
    assert len(driver.count([player(tmp_path)])) == 16


@pytest.mark.usefixtures("_preloaded")
@pytest.mark.parametrize(
    ("after", "deadline", "problem"),
    [
        ("time.sleep(600)", 1.0, "stopped after 1 s"),
        ("sys.exit('no such GPU')", 60.0, "ended with 1: no such GPU"),
        ("print('hello')", 60.0, "printed no count: hello"),
    ],
)
def test_a_program_that_hangs_or_fails_is_an_error(tmp_path, after, deadline, problem):
    with pytest.raises(LabError, match=problem):
        driver.count([player(tmp_path, after)], deadline)


@pytest.mark.usefixtures("_preloaded")
def test_a_capture_with_gaps_counts_nothing(tmp_path, capfd):
    program = player(tmp_path)
    path = tmp_path / "given.lens"
    path.write_bytes(path.read_bytes()[:-104])  # without its end: the program was killed
    with pytest.raises(LabError, match="gaps"):
        driver.count([program])
    assert "was killed" in capfd.readouterr().err


def test_the_decoders_speed_is_measured_on_streams_that_it_understands():
    launches, copies = driver.decoding(quick=True)
    assert launches.verified and copies.verified
    assert launches.key != copies.key
    assert (launches.samples > 0).all() and (copies.samples > 0).all()
