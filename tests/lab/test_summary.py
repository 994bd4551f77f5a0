# SPDX-License-Identifier: Apache-2.0
"""The summary and the pictures say what the records say, wins and losses by one rule."""

import xml.etree.ElementTree as ET

import numpy as np
import pytest

from denizen import machine
from denizen.lab import bench, pictures, summary, table
from denizen.lab.record import Measured

HERE = machine.Machine(device="NVIDIA H200", driver="1", cuda="13", cpu="CPU")
SVG = "{http://www.w3.org/2000/svg}"


def make(experiment, *cases):
    measured = [
        Measured(case, params, "us", np.full(n, value), n, True, base)
        for case, params, value, n, base in cases
    ]
    return bench.build_record(experiment, {}, measured, None, HERE, quick=False)


RIVAL = "cudaMallocAsync"


def pools():
    return make(
        "pools",
        *[
            ("buffer", {"bytes": size}, value, n, (RIVAL,))
            for size, value, n in ((1, 5.0, 9), (2, 10.0, 9), (3, 40.0, 9), (4, 5.0, 8))
        ],
        *[(RIVAL, {"bytes": size}, 10.0, 9, ()) for size in (1, 2, 3, 4)],
    )


def test_each_row_stands_in_the_table_of_its_standing():
    text = summary.text([pools()])
    assert (
        "Of 4 rows beside a rival: **1 ahead**, **1 level**, **1 behind**, **1 undecided**" in text
    )
    ahead, level, behind, undecided = text.split("### ")[1:]
    line = f"| buffer | {RIVAL} | H200 |"
    assert f"{line} 2.00x better (2.00 to 2.00) | 1 of 4: bytes 1 |" in ahead
    assert f"{line} 1.00x better (1.00 to 1.00) | 1 of 4: bytes 2 |" in level
    assert f"{line} 4.00x worse (4.00 to 4.00) | 1 of 4: bytes 3 |" in behind
    assert f"{line} 2.00x better (too few) | 1 of 4: bytes 4 |" in undecided
    assert f"| pools | 1 / 1 / 1 / 1 | not measured | {RIVAL} |" in text
    # What wins against us is told as what we win: the same heading, the same columns.
    assert ahead.splitlines()[2] == behind.splitlines()[2]


def test_a_rivals_row_beside_ours_is_turned():
    made = make(
        "flow",
        ("chain of saxpy, GNU Radio", {}, 20.0, 9, ("chain of saxpy",)),
        ("chain of saxpy", {}, 10.0, 9, ()),
    )
    (one,) = summary.comparisons([made])
    assert (one.case, one.rival) == ("chain of saxpy", "chain of saxpy, GNU Radio")
    assert (one.rows[0].gain, one.rows[0].standing) == (2.0, table.AHEAD)
    name, told = one.uneven
    assert name == "chain of saxpy, GNU Radio" and "start and stop" in told
    assert f"- {name}: {told}." in summary.text([made])


def test_limits_and_our_own_ways_are_no_rivals():
    made = make(
        "dispatch",
        ("ask", {}, 20.0, 9, ("raw mailbox", "ask, one kernel for ever")),
        ("raw mailbox", {}, 10.0, 9, ()),
        ("ask, one kernel for ever", {}, 10.0, 9, ()),
    )
    assert summary.comparisons([made]) == []


def test_a_picture_has_a_mark_for_each_row_and_its_words():
    root = ET.fromstring(pictures.picture("pools", [pools()]))
    marks = [mark.get("class") for mark in root.iter(f"{SVG}circle")]
    assert marks == ["ahead", "level", "behind", "undecided"]
    words = [text.text for text in root.iter(f"{SVG}text")]
    assert {f"buffer / {RIVAL}", "H200", "1x"} <= set(words)
    behind, ahead = (
        float(next(m.get("cx") for m in root.iter(f"{SVG}circle") if m.get("class") == kind))
        for kind in ("behind", "ahead")
    )
    assert behind < ahead


def test_a_picture_without_rivals_shows_medians_and_p99():
    samples = np.where(np.arange(10_000) % 50 == 7, 9.0, 4.0)
    case = Measured("snapshot <1>", {}, "us", samples, 10_000, True)
    made = bench.build_record("actors", {}, [case], None, HERE, quick=False)
    root = ET.fromstring(pictures.picture("actors", [made]))
    assert [mark.get("class") for mark in root.iter(f"{SVG}circle")] == ["plain", "level"]
    assert "snapshot <1>" in [text.text for text in root.iter(f"{SVG}text")]


def test_the_page_is_out_of_date_without_its_pictures(tmp_path):
    page = tmp_path / "figures.md"
    page.write_text(table.BEGIN + table.END)
    assert table.update(page, [pools()])
    assert table.current(page, [pools()])
    (tmp_path / "figures" / "pools.svg").write_text("old")
    assert not table.current(page, [pools()])
    assert table.update(page, [pools()])
    assert table.current(page, [pools()])


@pytest.mark.parametrize("device", ["NVIDIA H200", "CPU: Intel(R) Xeon(R) Processor, 2 cores"])
def test_short_names(device):
    assert summary.short(device) in ("H200", "Xeon, 2 cores")
