# SPDX-License-Identifier: Apache-2.0
"""`denizen bench compare` tells what two records of an experiment differ in."""

import numpy as np
import pytest

from denizen import cli, machine
from denizen.lab import bench, compare, record
from denizen.lab.record import LabError, Measured

HERE = machine.Machine(device="NVIDIA H200", driver="1", cuda="13", cpu="CPU")


def case(name, median, *, unit="us", spread=0.01, n=21, **params):
    """`n` samples around a median, in no order that a method could take for a trend."""
    steps = np.random.default_rng(1).permutation(np.linspace(-1, 1, n))
    return Measured(name, params, unit, median * (1 + spread * steps), n, True)


def made(*cases, experiment="dispatch"):
    return bench.build_record(experiment, {"seconds": 1.0}, cases, None, HERE, quick=False)


def changes(before, now):
    found = compare.compared(made(before), made(now)).changes
    return [round(one.times, 3) for one in found if one.told]


def test_a_row_changed_where_the_intervals_lie_apart():
    assert changes(case("ask", 2.0), case("ask", 1.0)) == [2.0]
    assert changes(case("ask", 2.0), case("ask", 4.0)) == [0.5]
    assert changes(case("rate", 2.0, unit="M/s"), case("rate", 4.0, unit="M/s")) == [2.0]
    assert changes(case("ask", 2.0), case("ask", 2.01)) == []
    assert changes(case("ask", 2.0, spread=0.9), case("ask", 1.5, spread=0.9)) == []


def test_a_row_of_few_samples_is_not_called_changed():
    found = compare.compared(made(case("ask", 2.0, n=5)), made(case("ask", 9.0)))
    assert [one.told for one in found.changes] == [False]
    assert found.changes[0].ci95 is None


def test_two_equal_arms_that_lie_apart_hide_a_smaller_change():
    def twice(median, again):
        second = case("ask", again)
        second.arm = "A/A"
        return made(case("ask", median), second)

    assert [c.told for c in compare.compared(twice(2.0, 2.0), twice(1.6, 1.6)).changes] == [True]
    assert [c.told for c in compare.compared(twice(2.0, 3.0), twice(1.6, 1.6)).changes] == [False]


def test_rows_that_one_of_them_lacks_are_named_by_their_parameters():
    found = compare.compared(
        made(case("ask", 2.0, graph="NY"), case("ask", 2.0, graph="FLA")),
        made(case("ask", 2.0, graph="FLA"), case("tell", 2.0)),
    )
    assert compare.in_words(found.gone) == "ask (graph NY)"
    assert compare.in_words(found.new) == "tell"
    assert compare.in_words(found.gone * 8) == "ask (graph NY); " * 6 + "and 2 more"


def put(folder, one):
    path = record.path_in(folder, one)
    record.write(one, path)
    return path


def test_folders_are_compared_by_experiment_and_device(tmp_path, capsys):
    put(tmp_path / "a", made(case("ask", 2.0), case("gone", 1.0)))
    put(tmp_path / "a", made(case("one way", 1.0), experiment="routes"))
    put(tmp_path / "b", made(case("ask", 1.0)))
    assert cli.main(["bench", "compare", str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    told = capsys.readouterr().out
    assert f"only in {tmp_path / 'a'}: routes/nvidia-h200" in told
    assert "2.00x better" in told
    assert "1 row changed, 0 did not; 0 with too few samples" in told
    assert "1 row gone: gone" in told


def test_verdicts_that_turned_are_told(tmp_path, capsys):
    what = "round trip, Python ask, p50, <= 3.5 us"
    slow = put(tmp_path / "a", made(case("ask from Python", 9.0, memory="mapped")))
    fast = put(tmp_path / "b", made(case("ask from Python", 1.0, memory="mapped")))
    assert cli.main(["bench", "compare", str(slow), str(fast)]) == 0
    told = capsys.readouterr().out.replace("\u2264", "<=")
    assert f"{what}: missed with 9.00, now met with 1.00" in told


def test_what_cannot_be_compared_is_refused(tmp_path):
    one = put(tmp_path / "a", made(case("ask", 2.0)))
    other = put(tmp_path / "b", made(case("one way", 1.0), experiment="routes"))
    with pytest.raises(LabError, match='records of "dispatch" and of "routes"'):
        compare.compared(record.read(one), record.read(other))
    with pytest.raises(LabError, match="no such file or folder"):
        list(compare.pairs(one, tmp_path / "none"))
    with pytest.raises(LabError, match="two records, or two folders"):
        list(compare.pairs(one, tmp_path / "a"))
    with pytest.raises(LabError, match="no experiment on one device in common"):
        list(compare.pairs(tmp_path / "a", tmp_path / "b"))


def test_a_record_that_lacks_what_the_one_before_had_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(bench, "run", lambda *_, **__: made(case("ask", 2.0)))
    path = tmp_path / "dispatch.json"
    command = ["bench", "dispatch", "--json", str(path)]
    assert cli.main(command) == 0
    assert capsys.readouterr().err == ""
    record.write(made(case("ask", 2.0), case("ask", 2.0, graph="NY")), path)
    assert cli.main(command) == 0
    error = capsys.readouterr().err
    assert f"{path}: the record before had what this one has not: ask (graph NY)" in error
    record.write(made(case("one way", 2.0), experiment="routes"), path)
    assert cli.main(command) == 0 and capsys.readouterr().err == ""
