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


def make(samples=(3.0, 3.2, 3.1) * 3, verified=True):
    cases = [
        Measured("ask", {}, "us", np.array(samples), 300, verified, ("launch + sync",)),
        Measured("launch + sync", {}, "us", np.full(9, 9.3), 9, True),
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
    ask = (
        "| ask | us | 3.10 | 3.00 to 3.20 | - | - | - | 300 | "
        "3.00x better (2.91 to 3.10) than launch + sync |"
    )
    assert ask in text
    assert "driver 1.2 · CUDA 13.0" in text


@pytest.mark.parametrize(
    ("params", "needed"),
    [
        ({"tokens": 8, "gpus": 2}, 2),
        ({"ranks": 4, "bytes": 64}, 4),
        ({"route": "peer"}, 2),
        ({"route": "gpu"}, 1),
        ({"from node": 3, "to node": 0}, 4),
        ({"hosts": "2 GPUs"}, 2),
        ({"hosts": "one GPU"}, 1),
        ({"hosts": "CPU threads"}, 1),
    ],
)
def test_rows_that_need_several_gpus_say_so_at_their_date(params, needed):
    cases = [
        Measured("some", params, "us", np.full(9, 1.0), 9, True),
        Measured("other", {}, "us", np.full(9, 1.0), 9, True),
    ]
    made = bench.build_record("routes", {}, cases, None, HERE, quick=False)
    assert table.gpus(made.rows[0]) == needed
    told = f" · {made.utc[:10]} · 1 of 2 rows need {needed} GPUs"
    assert (told in table.source(made)) == (needed > 1)
    made.driver = None  # ranks on CPU threads need no GPU
    assert "GPUs" not in table.source(made)


def test_rates_compare_the_other_way_round():
    cases = [
        Measured("ours", {}, "M/s", np.array([50.0]), 1, True, ("theirs",)),
        Measured("theirs", {}, "M/s", np.array([100.0]), 1, True),
    ]
    (ours, _) = record.rows_of(cases)
    assert table.comparison(ours) == "2.00x worse (too few) than theirs: undecided"


def test_a_common_beginning_is_not_repeated():
    cases = [
        Measured("cpu to cpu, ours", {}, "M/s", np.array([4.0]), 1, True, ("cpu to cpu, theirs",)),
        Measured("cpu to cpu, theirs", {}, "M/s", np.array([2.0]), 1, True),
    ]
    assert (
        table.comparison(record.rows_of(cases)[0])
        == "2.00x better (too few) than theirs: undecided"
    )


def test_a_difference_is_one_beyond_the_interval_and_the_noise():
    def stands(ours, *, again=None):
        cases = [
            Measured("ours", {"latency": False}, "us", np.array(ours), 9, True, ("theirs",)),
            Measured("theirs", {}, "us", np.full(9, 10.0), 9, True),
        ]
        if again is not None:
            cases.append(Measured("ours", {"latency": False}, "us", np.array(again), 9, True,
                                  (), "A/A"))  # fmt: skip
        row = record.rows_of(cases)[0]
        assert table.cells(row)[0] == "ours (submit only, not a latency)"
        return table.standing(row, "theirs"), table.comparison(row)

    assert stands([5.0] * 9) == ("ahead", "2.00x better (2.00 to 2.00) than theirs")
    assert stands([20.0] * 9) == ("behind", "2.00x worse (2.00 to 2.00) than theirs")
    assert stands([9.9] * 9)[0] == "level"
    assert stands([9.0] * 9)[0] == "ahead"
    assert stands([9.0] * 9, again=[11.0] * 9) == (
        "undecided",
        "1.11x better (1.11 to 1.11) than theirs: undecided, two equal arms lie up to 22 % apart",
    )
    assert stands([5.0] * 8 + [11.0])[0] == "undecided"  # the interval spans 1
    # What was measured once has the noise of what was measured twice.
    twice = [("other", 5.0, ""), ("other", 6.0, "A/A"), ("ours", 9.0, ""), ("theirs", 10.0, "")]
    cases = [
        Measured(case, {}, "us", np.full(9, value), 9, True, ("theirs",) * (case == "ours"), arm)
        for case, value, arm in twice
    ]
    (row,) = [row for row in record.rows_of(cases) if row.case == "ours"]
    assert table.standing(row, "theirs") == "undecided"
    assert stands([5.0] * 8) == ("undecided", "2.00x better (too few) than theirs: undecided")


def test_the_notes_tell_how_far_equal_arms_lie_apart():
    cases = [Measured("once", {}, "us", np.full(9, 5.0), 9, True)]
    made = bench.build_record("dispatch", {}, cases, None, HERE, quick=False)
    assert "A/A: no case was measured twice" in table.section(made)
    for n, noise in ((1, 0.01), (2, 0.03), (3, 0.04)):
        for arm, value in (("", 5.0), ("A/A", 5.0 * (1 + noise))):
            one = Measured("ask", {"n": n}, "us", np.full(9, value), 9, True, (), arm)
            cases.append(one)
    made = bench.build_record("dispatch", {}, cases, None, HERE, quick=False)
    assert (
        "A/A: 3 of 4 cases were measured twice, by turns, and differed by 1 % to 4 %, "
        "3 % in the middle. 95 % of the differences between two equal arms are below 1 % to 4 %, "
        "3 % in the middle"
    ) in table.section(made)


def test_the_notes_tell_of_the_memorys_errors():
    case = [Measured("echoes", {}, "M/s", np.full(9, 5.0), 9, True)]
    for errors, told in ((None, False), (3, True)):
        sensors = {"readings": 9, "ecc_corrected": errors, "ecc_uncorrected": errors and 1}
        made = bench.build_record("sustained", {}, case, sensors, HERE, quick=False)
        words = "The memory had 3 errors that ECC corrected, and 1 that it did not."
        assert (words in table.section(made)) == told


def test_the_notes_tell_whether_the_sensors_were_read_under_load():
    case = [Measured("echoes", {}, "M/s", np.full(9, 5.0), 9, True)]
    for idle, told in (
        (5, "While a kernel ran, 9 of 14 readings: 400 W"),
        (None, "From start to end, compiler and set-up included: 400 W"),
    ):
        sensors = {"readings": 9, "readings_idle": idle, "power_w": 400.0}
        made = bench.build_record("sustained", {}, case, sensors, HERE, quick=False)
        assert told in table.section(made)


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
    assert text.split("## Experiments")[1].count("</details>") == 1
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
    records = record.read_all(ROOT / "benchmarks" / "results")
    assert table.current(ROOT / "docs" / "figures.md", records)


def test_published_records_are_whole_runs_that_were_verified():
    for path in sorted((ROOT / "benchmarks" / "results").glob("*/*.json")):
        made = record.read(path)
        assert path == record.path_in(ROOT / "benchmarks" / "results", made)
        assert made.verified, path
        assert not made.quick, path
        again = goals.reached(made.experiment, made.rows, gpu=made.driver is not None)

        def told(goals):
            return [(one.what, one.bound, one.verdict, one.best_of, one.row) for one in goals]

        assert told(made.goals) == told(again), path
        # A record keeps six digits, of a ratio and of what is computed from it.
        assert [goal.reached for goal in made.goals] == pytest.approx(
            [goal.reached for goal in again], rel=1e-5
        ), path


@pytest.mark.parametrize(
    ("samples", "verdict"),
    [
        ([3.0] * 8, "undecided"),  # too few
        ([3.0] * 9, "met"),
        ([3.6] * 9, "missed"),
        ([3.0] * 8 + [3.6], "undecided"),  # the interval is on both sides
    ],
)
def test_a_goal_is_met_by_its_whole_interval(samples, verdict):
    case = Measured("ask from Python", {}, "us", np.array(samples), 9, True)
    made = bench.build_record("dispatch", {}, [case], None, HERE, quick=False)
    (goal,) = made.goals
    assert (goal.what, goal.verdict) == ("round trip, Python ask, p50", verdict)
    word = {"met": "yes", "missed": "no"}.get(verdict, verdict)
    assert table.goal_rows(made)[0][-1] == word
    assert f"| {word} |" in table.section(made)


def test_goals_take_the_best_row_that_fits_and_name_it():
    cases = [
        Measured(
            "host to device", {"bytes": 64, "memory": "pinned"}, "M/s", np.full(9, 140.0), 1, True
        ),
        Measured(
            "host to device", {"bytes": 64, "memory": "mapped"}, "M/s", np.full(9, 300.0), 1, True
        ),
        Measured(
            "host to device", {"bytes": 256, "memory": "mapped"}, "M/s", np.array([9.0]), 1, True
        ),
        Measured("send_many from NumPy", {"memory": "pinned"}, "M/s", np.array([70.0]), 1, True),
        Measured("send_many from NumPy", {"memory": "mapped"}, "M/s", np.full(9, 90.0), 1, True),
    ]
    reached = goals.reached("ring", record.rows_of(cases), gpu=True)
    assert [(goal.reached, goal.verdict, goal.best_of, goal.row) for goal in reached] == [
        (140.0, "missed", 1, ""),
        (300.0, "met", 1, ""),
        (90.0, "met", 2, "memory mapped"),
    ]
    made = bench.build_record("ring", {}, cases, None, HERE, quick=False)
    told = [cells[0] for cells in table.goal_rows(made)]
    assert told[2] == "Python send_many from a NumPy array (best of 2 rows: memory mapped)"
    assert record.from_json(record.to_json(made)).goals == made.goals
    assert goals.reached("start", record.rows_of(cases), gpu=True) == []
    assert goals.reached("ring", record.rows_of(cases), gpu=False) == []


def test_goal_of_a_ratio_and_of_a_tail():
    samples = np.where(np.arange(10_000) % 200 == 7, 9.0, 4.0)
    cases = [
        Measured("ask", {}, "us", samples, 10_000, True, ("launch + sync",)),
        Measured("launch + sync", {}, "us", np.full(9, 8.0), 9, True),
    ]
    found = goals.reached("dispatch", record.rows_of(cases), gpu=True)
    reached = {goal.what: goal for goal in found}
    faster = reached["round trip, C++ API, p50, faster than launch + sync"]
    assert (faster.reached, faster.bound, faster.verdict) == (2.0, "≥ 2.5 x", "missed")
    assert reached["round trip, C++ API, p99 / p50"].verdict == "met"


def test_the_cpu_ring_must_beat_every_peer_and_each_must_have_run():
    peers = ("boost spsc_queue", "boost queue", "moodycamel readerwriter", "moodycamel concurrent")
    names = tuple(f"cpu to cpu, {peer}" for peer in peers)
    cases = [
        Measured("cpu to cpu, denizen spsc", {}, "M/s", np.full(9, 90.0), 1, True, names),
        *(Measured(name, {}, "M/s", np.full(9, 60.0), 1, True) for name in names[:3]),
        Measured(names[3], {}, "M/s", np.full(9, 100.0), 1, True),
    ]
    (goal,) = goals.reached("ring", record.rows_of(cases), gpu=False)
    assert (goal.reached, goal.verdict) == (0.9, "missed")
    assert goals.reached("ring", record.rows_of(cases[:-1], []), gpu=False) == []


def test_a_goal_may_leave_room_for_what_a_call_takes_alone():
    call = "cudaDeviceSynchronize"
    worst = record.Measured(f"beside: {call}", {"breath_us": 2000}, "us", np.array([9e3]), 1, True)
    alone = record.Measured(f"alone: {call}", {}, "us", np.array([10.0, 4e3]), 2, True)
    (met,) = goals.reached("beside", record.rows_of([worst, alone]), gpu=True)
    assert (met.bound, met.reached, met.verdict) == ("≤ 10000 us", 9e3, "met")
    (missed,) = goals.reached("beside", record.rows_of([worst]), gpu=True)
    assert (missed.bound, missed.verdict) == ("≤ 6000 us", "missed")
