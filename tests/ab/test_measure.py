# SPDX-License-Identifier: Apache-2.0
"""From an experiment to its record, with made times: verdicts, and every way to be void."""

import json
import re
from collections import Counter

import numpy as np
import pytest
import synthetic

from denizen import ab
from denizen.ab import analysis, measure, page, record
from denizen.lab.schema import SchemaError

pytest.importorskip("scipy")


@pytest.fixture(autouse=True)
def fewer_resamples(monkeypatch):
    monkeypatch.setattr(analysis, "RESAMPLES", 1000)


def measured(experiment):
    """The record, as of fresh processes but in this one."""
    return record.build(
        experiment, [measure.measure(experiment, i) for i in range(experiment.processes)]
    )


def verdicts(cell):
    return {arm.arm: arm.verdict for arm in cell.arms}


def void(experiment):
    cell = measured(experiment).cells[0]
    assert set(verdicts(cell).values()) == {"void"}
    return "; ".join(cell.void)


def test_verdicts():
    made = measured(synthetic.experiment(margin=0.01, sweep=[{"n": 1}, {"n": 2}]))
    for cell in made.cells:
        assert not cell.void
        assert verdicts(cell) == {
            "quick": "faster", "same": "equivalent", "control": "slower", "A/A": "equivalent",
        }  # fmt: skip
        assert {gate.status for gate in cell.gates} == {"passed"}
    assert [cell.params["n"] for cell in made.cells] == [1, 2]
    quick = made.cells[0].arms[0]
    assert quick.ratio == pytest.approx(0.98, abs=0.002)
    assert len(quick.by_process) == 3


def test_without_a_margin_nothing_is_equivalent():
    cell = measured(synthetic.experiment()).cells[0]
    assert verdicts(cell)["same"] == "undecided"


def test_spans_are_those_of_the_checks():
    cell = measured(synthetic.experiment()).cells[0]
    assert [(arm, track) for arm, track, _, _ in cell.spans] == [
        (arm, track) for arm in ("base", "quick", "same", "control") for track in ("copy", "sum")
    ]


def test_a_dispatch_that_vanished_is_void():
    text = void(synthetic.experiment({"quick": {"says": "base"}}))
    assert 'ran of quick: process 0: "base" ran instead of "quick"' in text


def test_a_wrong_result_is_void():
    assert "1 of 8 wrong" not in void(synthetic.experiment({"same": {"adds": 1.0}}))
    assert "8 of 8 wrong, element 0 is 1.0, expected 0.0" in void(
        synthetic.experiment({"same": {"adds": 1.0}})
    )


def test_a_control_that_does_not_differ_is_void():
    text = void(synthetic.experiment(times=(1.0, 0.98, 1.0, 1.0)))
    assert "control of control: the planted difference was missed" in text
    # Nor does one that differs to the wrong side.
    assert "missed" in void(synthetic.experiment(times=(1.0, 0.98, 1.0, 0.5)))


def test_bytes_that_were_not_moved_are_void():
    good = {"quick": {"size": 1000, "moves": 1050.0}}
    assert not measured(synthetic.experiment(good)).void
    text = void(synthetic.experiment({"quick": {"size": 1000, "moves": 400.0}}))
    assert "bytes of quick" in text and "-60.0%" in text
    # Nor is it enough that nobody counts what has to be counted.
    text = void(synthetic.experiment({"quick": {"size": 1000, "counted": True}}))
    assert "bytes of quick: process 0: 1000 B predicted and no counter" in text
    assert not measured(synthetic.experiment({"quick": {"size": 1000}})).void


def test_a_broken_transport_is_void():
    sizes = {name: {"size": 3.6e9} for name in ("base", "quick", "same", "control")}
    text = void(synthetic.experiment(sizes, limit=345e9))
    assert "share of quick: process 0: transport broken: 3.6" in text
    assert "share of control" not in text
    assert not measured(synthetic.experiment(sizes, limit=5e9)).void


def test_a_biased_design_is_void(monkeypatch):
    """Arms that always run in one order, in a machine that slows down within each block."""
    position = [0]

    def in_order(arms, rng):
        position[0] = 0
        return [i for i in range(arms) for _ in range(2)]

    def slowdown():
        position[0] += 1
        return 1 + 0.01 * position[0]

    experiment = synthetic.experiment()
    cell = experiment.cell

    def later_is_slower(params):
        made = cell(params)
        arms = [
            ab.Arm(
                **{
                    **{name: getattr(arm, name) for name in ab.Arm.__slots__},
                    "sample": lambda n, arm=arm: ab.Sample(
                        arm.sample(n).seconds * slowdown(), {arm.marker: n}
                    ),
                }
            )
            for arm in made.arms
        ]
        return ab.Cell(arms, made.reference)

    monkeypatch.setattr(measure, "order", in_order)
    fixed = ab.Experiment("biased", later_is_slower, "base", "control", processes=3)
    assert "again of A/A: the design is biased" in void(fixed)


def test_order_is_a_random_palindrome():
    rng = np.random.default_rng(0)
    seen = Counter()
    for _ in range(600):
        slots = measure.order(3, rng)
        assert slots == slots[::-1]
        assert sorted(slots) == [0, 0, 1, 1, 2, 2]
        seen[tuple(slots[:3])] += 1
    assert len(seen) == 6
    assert min(seen.values()) > 60  # 100 expected each


def test_record_is_read_as_it_was_written(tmp_path):
    made = measured(synthetic.experiment(margin=0.01))
    record.write(made, tmp_path / "a.json")
    again = record.read(tmp_path / "a.json")
    assert record.to_json(again) == record.to_json(made)
    value = json.loads((tmp_path / "a.json").read_text())
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.Draft202012Validator(record.record_schema()).validate(value)
    value["cells"][0]["arms"][0]["verdict"] = "better"
    (tmp_path / "b.json").write_text(json.dumps(value))
    with pytest.raises(ab.ExperimentError, match=r"b\.json: cells\[0\]\.arms\[0\]\.verdict"):
        record.read(tmp_path / "b.json")
    made.cells[0].arms[0].verdict = "better"
    with pytest.raises(SchemaError):
        record.to_json(made)


def test_page_shows_verdicts_and_reasons():
    parts = {"quick": {"copies": 0.8}, "same": {"copies": 0.4}, "control": {"copies": 1.0}}
    good = measured(synthetic.experiment(parts, margin=0.01, sweep=[{"kb": 64}]))
    bad = measured(synthetic.experiment({"same": {"says": "<base>"}}))
    text = page.render([good, bad])
    assert re.search('<td class="faster">faster<small>0.9[78]', text)
    assert '<td class="void">void</td>' in text
    assert "&lt;base&gt;" in text and "<base>" not in text
    for arm, share in ("base", 29), ("quick", 38), ("same", 0), ("control", 50):  # 0.2 of 0.7 s ...
        assert text.count(f"Inside {arm}: sum ran during {share}% of copy") == 1 + (arm == "base")
    assert "http" not in text  # nothing is loaded


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"control": "base"}, "both base and control"),
        ({"sweep": []}, "empty sweep"),
        ({"blocks": 4}, "too few"),
        ({"processes": 1, "blocks": 19}, "too few"),
        ({"margin": 0.0}, "margin"),
    ],
)
def test_a_design_that_cannot_be(change, message):
    with pytest.raises(ab.ExperimentError, match=message):
        synthetic.experiment(**change)


def test_arms_that_cannot_be():
    twins = synthetic.experiment({"quick": {"marker": "base"}})
    with pytest.raises(ab.ExperimentError, match=r'two arms of \{\} have the marker "base"'):
        measure.measure(twins, 0)
    with pytest.raises(ab.ExperimentError, match='no arm "missing"'):
        measure.measure(synthetic.experiment(base="missing"), 0)
    with pytest.raises(ab.ExperimentError, match="no time"):
        measure.measure(synthetic.experiment(times=(1.0, 0.0, 1.0, 1.0)), 0)


def test_calls_times_and_counts():
    sample = ab.calls(lambda: "marker")(50)
    assert sample.ran == {"marker": 50}
    assert 0 < sample.seconds < 1
