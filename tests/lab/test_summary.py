# SPDX-License-Identifier: Apache-2.0
"""The summary and the pictures say what the records say, wins and losses by one rule."""

import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

from denizen import machine
from denizen.lab import bench, pictures, record, rivals, summary, table
from denizen.lab.record import Measured

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"
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
    text = text.replace("\N{NO-BREAK SPACE}", " ")
    ahead, level, behind, undecided = text.split("<details>")[1:]
    line = f"| buffer | {RIVAL} | H200 |"
    assert f"{line} 2.00x better (2.00 to 2.00) | 1 of 4: bytes 1 |" in ahead
    assert f"{line} 1.00x better (1.00 to 1.00) | 1 of 4: bytes 2 |" in level
    assert f"{line} 4.00x worse (4.00 to 4.00) | 1 of 4: bytes 3 |" in behind
    assert f"{line} 2.00x better (too few) | 1 of 4: bytes 4 |" in undecided
    # What wins against us is told as what we win: the same fold, the same columns.
    assert ahead.splitlines()[2] == behind.splitlines()[2]
    (total,) = [one for one in text.splitlines() if one.startswith("| **pools: ")]
    why = rivals.WHY["pools", RIVAL]
    span = "4.00x worse (4.00 to 4.00) ... 2.00x better (2.00 to 2.00)"
    counts = "1 ahead, 1 level, 1 behind, 1 undecided"
    assert total == f"| **pools: {RIVAL}**<br>{why} | {span} | {counts} |"
    assert "Not measured: pools." in text


def test_each_rival_of_the_records_has_a_reason():
    for one in summary.comparisons(record.read_all(RESULTS)):
        assert one.why is not None, (one.experiment, one.rival)


def test_a_rival_without_a_row_has_none():
    cases = {(one.experiment, row.case) for one in record.read_all(RESULTS) for row in one.rows}
    for experiment, rival in rivals.MISSING:
        ran = [case for of, case in cases if of == experiment and rival.lower() in case.lower()]
        assert ran == [], (experiment, rival)
    text = summary.text([pools()])
    for name in ("flow, Holoscan", "flow, qsdr", "group, PyTorch symmetric memory"):
        assert f"- {name}: " in text


def test_a_rival_that_had_no_turn_beside_ours_is_uneven():
    stream = "filter and demodulate, stream"
    made = make(
        "flow",
        (stream, {}, 10.0, 9, (f"{stream}, launches",)),
        (f"{stream}, launches", {}, 20.0, 9, ()),
    )
    assert "- flow, launches: ran before ours, not by turns" in summary.text([made])


def test_a_rival_is_known_by_its_own_name():
    assert rivals.known(rivals.WHY, "dsp", "FFT of 1024, SciPy") == "SciPy"
    assert rivals.known(rivals.WHY, "bfs", "shortest paths, SciPy") == "shortest paths, SciPy"
    assert rivals.known(rivals.WHY, "dsp", "MySciPy") is None


def test_denizens_own_ways_are_no_rivals():
    made = make("bfs", ("auto", {}, 20.0, 9, ("tasks",)), ("tasks", {}, 40.0, 9, ()))
    assert summary.comparisons([made]) == []
    rules, scores = "rules, from Python", "rules and a model's scores, from Python"
    made = make("transactions", (rules, {}, 40.0, 9, ()), (scores, {}, 20.0, 9, (rules,)))
    assert summary.comparisons([made]) == []
    made = make(
        "io",
        ("by handlers", {}, 10.0, 9, ()),
        ("by handlers, portable", {}, 20.0, 9, ("by handlers",)),
        ("by the host itself", {}, 40.0, 9, ("by handlers",)),
    )
    (one,) = summary.comparisons([made])
    assert (one.case, one.rival, one.rows[0].gain) == ("by handlers", "by the host itself", 4.0)


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
    assert name == "flow, chain of saxpy, GNU Radio" and "start and stop" in told
    assert f"- {name}: {told}." in summary.text([made])
    # A record that has the even one has nothing to own up to.
    newer = make("flow", ("chain with data, GNU Radio", {}, 20.0, 9, ()))
    assert f"- {name}: {told}." not in summary.text([made, newer])


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


def test_an_interval_that_reaches_zero_is_drawn_from_the_edge():
    slope = Measured("slope", {}, "us", np.full(9, 2.0), 9, True, ci95=(-1.0, 4.0))
    made = bench.build_record("scale", {}, [slope], None, HERE, quick=False)
    root = ET.fromstring(pictures.picture("scale", [made]))
    (interval,) = [e for e in root.iter(f"{SVG}line") if e.get("class") == "plain"]
    (mark,) = [e for e in root.iter(f"{SVG}circle") if e.get("class") == "plain"]
    assert float(interval.get("x1")) < float(mark.get("cx")) < float(interval.get("x2"))


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


def test_ways_of_one_case_are_marks_on_one_line():
    cases = [
        Measured("copy", {"bytes": size}, "us", np.full(9, float(size)), 9, True)
        for size in (1, 10, 100)
    ]
    made = bench.build_record("driver", {}, cases, None, HERE, quick=False)
    root = ET.fromstring(pictures.picture("driver", [made]))
    marks = list(root.iter(f"{SVG}circle"))
    assert len(marks) == 3 and len({mark.get("cy") for mark in marks}) == 1
    assert "copy (3 ways)" in [text.text for text in root.iter(f"{SVG}text")]


# In a browser: words that leave the card, and words that lie on others.
_LOOK = """<script>
const told = [];
for (const svg of document.querySelectorAll('svg')) {
  const card = svg.getBoundingClientRect(), name = svg.querySelector('title').textContent;
  const found = [...svg.querySelectorAll('text')];
  const boxes = found.map(text => text.getBoundingClientRect());
  boxes.forEach((box, i) => {
    if (box.right > card.right || box.left < card.left || box.bottom > card.bottom)
      told.push(`${name}: outside: ${found[i].textContent}`);
    boxes.slice(i + 1).forEach((other, k) => {
      if (box.right > other.left && other.right > box.left && box.bottom - 3 > other.top
          && other.bottom - 3 > box.top)
        told.push(`${name}: ${found[i].textContent} on ${found[i + 1 + k].textContent}`);
    });
  });
}
document.body.dataset.told = told.join('; ') || 'nothing';
</script>"""


@pytest.mark.deep
def test_in_a_browser_no_words_of_a_picture_lie_on_others_or_outside(tmp_path):
    browser = next(filter(None, map(shutil.which, ("chromium", "google-chrome", "chrome"))), None)
    if browser is None:
        pytest.skip("no chromium: make system-deep installs it")
    drawn = sorted((ROOT / "docs" / "figures").glob("*.svg"))
    page = tmp_path / "page.html"
    text = "".join(f"<div>{path.read_text('utf-8')}</div>" for path in drawn)
    page.write_text(f"<!doctype html><meta charset=utf-8><body>{text}{_LOOK}</body>", "utf-8")
    done = subprocess.run(
        [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/user",
         "--virtual-time-budget=4000", "--dump-dom", f"file://{page}"],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    found = re.search(r'data-told="([^"]*)"', done.stdout)
    assert found is not None and found[1] == "nothing", found
    assert done.stdout.count("<title>") == len(drawn) > 50
