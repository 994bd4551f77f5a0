# SPDX-License-Identifier: Apache-2.0
"""Tables are made of records only, and making them twice changes nothing."""

from pathlib import Path

import numpy as np
import pytest

from denizen import machine
from denizen.lab import bench, goals, record, table
from denizen.lab.record import LabError, Measured

HERE = machine.Machine(device="Test GPU", driver="1.2", cuda="13.0", cpu="Test CPU, 2 cores")
ROOT = Path(__file__).resolve().parents[2]


def make(samples=(3.0, 3.2, 3.1), verified=True):
    cases = [
        Measured("ask", {}, "us", np.array(samples), 300, verified, ("launch + sync",)),
        Measured("launch + sync", {}, "us", np.array([9.3, 9.3, 9.3]), 3, True),
    ]
    return bench.build_record("dispatch", {}, cases, None, HERE, quick=False)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0.0, "0"),
        (3.14159, "3.14"),
        (0.0123456, "0.0123"),
        (1234567.0, "1,230,000"),
        (99.96, "100.0"),
        (-2.5, "-2.50"),
    ],
)
def test_number(value, text):
    assert table.number(value) == text


def test_row_shows_its_figures_and_comparison():
    text = table.section(make())
    ask = "| ask | us | 3.10 | 3.00 to 3.20 | - | - | - | 300 | 3.00x better than launch + sync |"
    assert ask in text
    assert "driver 1.2 · CUDA 13.0" in text


def test_rates_compare_the_other_way_round():
    cases = [
        Measured("ours", {}, "M/s", np.array([50.0]), 1, True, ("theirs",)),
        Measured("theirs", {}, "M/s", np.array([100.0]), 1, True),
    ]
    (ours, _) = record.rows_of(cases)
    assert table.comparison(ours) == "2.00x worse than theirs"


def test_a_common_beginning_is_not_repeated():
    cases = [
        Measured("cpu to cpu, ours", {}, "M/s", np.array([4.0]), 1, True, ("cpu to cpu, theirs",)),
        Measured("cpu to cpu, theirs", {}, "M/s", np.array([2.0]), 1, True),
    ]
    assert table.comparison(record.rows_of(cases)[0]) == "2.00x better than theirs"


def test_a_difference_below_the_noise_floor_is_none():
    cases = [
        Measured("ours", {"latency": False}, "us", np.array([10.0]), 1, True, ("theirs", "slow")),
        Measured("ours", {"latency": False}, "us", np.array([10.5]), 1, True, (), "A/A"),
        Measured("theirs", {}, "us", np.array([10.3]), 1, True),
        Measured("slow", {}, "us", np.array([20.0]), 1, True),
    ]
    ours = record.rows_of(cases)[0]
    assert table.comparison(ours) == "as theirs, within noise; 2.00x better than slow"
    assert table.cells(ours)[0] == "ours (submit only, not a latency)"


def test_what_was_not_verified_says_so():
    text = table.section(make(verified=False))
    assert "ask, NOT VERIFIED" in text
    assert text.count("NOT VERIFIED") == 2


def test_records_of_one_experiment_share_a_heading_and_many_rows_are_folded():
    many = [Measured("case", {"n": n}, "us", np.array([1.0]), 1, True) for n in range(9)]
    long = bench.build_record("dispatch", {}, many, None, HERE, quick=False)
    text = table.figures([make(), long])
    assert text.count("### Dispatch") == 1
    assert text.count("<details><summary>9 rows</summary>\n\n| case |") == 1
    assert text.count("</details>") == 1
    assert text.count("| case (n ") == 9


def test_a_record_of_very_many_rows_is_named_instead():
    many = [Measured("case", {"n": n}, "us", np.array([1.0]), 1, True) for n in range(101)]
    long = bench.build_record("driver", {}, many, None, HERE, quick=False)
    text = table.figures([long])
    assert "101 rows, in [the record](../benchmarks/results/driver/" in text
    assert "| case |" not in text


def test_region_is_replaced_and_the_rest_kept():
    old = f"# Title\n\n{table.BEGIN}\nold\n{table.END}\n\ntail\n"
    new = table.with_figures(old, [make()])
    assert new.startswith("# Title\n\n" + table.BEGIN)
    assert new.endswith(table.END + "\n\ntail\n")
    assert "old" not in new
    assert table.with_figures(new, [make()]) == new


@pytest.mark.parametrize("text", ["", table.BEGIN, f"{table.END}{table.BEGIN}", table.BEGIN * 2])
def test_a_text_without_one_region_is_refused(text):
    with pytest.raises(LabError, match="figures:begin"):
        table.with_figures(text, [])


def test_update_writes_once(tmp_path):
    page = tmp_path / "figures.md"
    page.write_text(f"{table.BEGIN}{table.END}")
    assert table.update(page, [make()])
    assert not table.update(page, [make()])
    with pytest.raises(LabError, match=r"none\.md"):
        table.update(tmp_path / "none.md", [])


def test_the_page_is_what_the_records_say():
    page = (ROOT / "docs" / "figures.md").read_text(encoding="utf-8")
    assert table.with_figures(page, record.read_all(ROOT / "benchmarks" / "results")) == page


def test_published_records_are_whole_runs_that_were_verified():
    for path in sorted((ROOT / "benchmarks" / "results").glob("*/*.json")):
        made = record.read(path)
        assert path == record.path_in(ROOT / "benchmarks" / "results", made)
        assert made.verified, path
        assert not made.quick, path
        again = goals.reached(made.experiment, made.rows, gpu=made.driver is not None)
        told = [(goal.what, goal.bound, goal.met) for goal in made.goals]
        assert told == [(goal.what, goal.bound, goal.met) for goal in again], path
        # A record keeps six digits, of a ratio and of what is computed from it.
        assert [goal.reached for goal in made.goals] == pytest.approx(
            [goal.reached for goal in again], rel=1e-5
        ), path


def test_goals_take_the_best_row_that_fits():
    cases = [
        Measured(
            "host to device", {"bytes": 64, "memory": "pinned"}, "M/s", np.array([140.0]), 1, True
        ),
        Measured(
            "host to device", {"bytes": 64, "memory": "mapped"}, "M/s", np.array([300.0]), 1, True
        ),
        Measured(
            "host to device", {"bytes": 256, "memory": "mapped"}, "M/s", np.array([9.0]), 1, True
        ),
        Measured("send_many from NumPy", {"memory": "pinned"}, "M/s", np.array([70.0]), 1, True),
        Measured("send_many from NumPy", {"memory": "mapped"}, "M/s", np.array([90.0]), 1, True),
    ]
    reached = goals.reached("ring", record.rows_of(cases), gpu=True)
    assert [(goal.reached, goal.met) for goal in reached] == [
        (140.0, False),
        (300.0, True),
        (90.0, True),
    ]
    assert goals.reached("start", record.rows_of(cases), gpu=True) == []
    assert goals.reached("ring", record.rows_of(cases), gpu=False) == []


def test_goal_of_a_ratio_and_of_a_tail():
    samples = np.concatenate([np.full(990, 4.0), np.full(10, 20.0)])
    cases = [
        Measured("ask", {}, "us", samples, 1000, True, ("launch + sync",)),
        Measured("launch + sync", {}, "us", np.array([8.0]), 1, True),
    ]
    found = goals.reached("dispatch", record.rows_of(cases), gpu=True)
    reached = {goal.what: goal for goal in found}
    faster = reached["round trip, C++ API, p50, faster than launch + sync"]
    assert (faster.reached, faster.bound, faster.met) == (2.0, "≥ 2.5 x", False)
    assert reached["round trip, C++ API, p99 / p50"].met


def test_the_cpu_ring_must_beat_every_peer_without_a_gpu_too():
    peers = ("boost spsc_queue", "moodycamel readerwriter")
    cases = [
        Measured("cpu to cpu, denizen spsc", {}, "M/s", np.array([90.0]), 1, True, peers),
        Measured("boost spsc_queue", {}, "M/s", np.array([60.0]), 1, True),
        Measured("moodycamel readerwriter", {}, "M/s", np.array([100.0]), 1, True),
    ]
    (goal,) = goals.reached("ring", record.rows_of(cases), gpu=False)
    assert (goal.reached, goal.met) == (0.9, False)


def test_a_goal_may_leave_room_for_what_a_call_takes_alone():
    call = "cudaDeviceSynchronize"
    worst = record.Measured(f"beside: {call}", {"breath_us": 2000}, "us", np.array([9e3]), 1, True)
    alone = record.Measured(f"alone: {call}", {}, "us", np.array([10.0, 4e3]), 2, True)
    (met,) = goals.reached("beside", record.rows_of([worst, alone]), gpu=True)
    assert (met.bound, met.reached, met.met) == ("≤ 10000 us", 9e3, True)
    (missed,) = goals.reached("beside", record.rows_of([worst]), gpu=True)
    assert (missed.bound, missed.met) == ("≤ 6000 us", False)
