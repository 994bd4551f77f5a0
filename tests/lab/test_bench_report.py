# SPDX-License-Identifier: Apache-2.0
"""What `denizen bench` leaves behind: records, their page, and after an end in the middle too."""

import errno
import os
import re
from pathlib import Path

import numpy as np
import pytest

from denizen import cli, machine, style
from denizen.errors import DenizenError
from denizen.lab import bench, options, record, report, table
from denizen.lab.record import LabError, Measured

HERE = machine.Machine(device="NVIDIA H200", driver="1", cuda="13", cpu="CPU")
RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "results"


def made(experiment):
    cases = [
        Measured("ask <1>", {"bytes": 4}, "us", np.full(9, 2.0), 9, True, ("launch + sync",)),
        Measured("launch + sync", {"bytes": 4}, "us", np.full(9, 8.0), 9, True),
    ]
    one = bench.build_record(experiment, {"seconds": 1.0}, cases, None, HERE, quick=True)
    return one


@pytest.fixture
def three(monkeypatch):
    """Three experiments, each of which makes a record; what is to happen instead, by name."""
    instead = {}

    def run(experiment, _device, *, quick):
        assert quick
        if experiment in instead:
            raise instead[experiment]
        return made(experiment)

    names = {name: record.EXPERIMENTS[name] for name in ("dispatch", "ring", "routes")}
    monkeypatch.setattr(options, "EXPERIMENTS", names)
    monkeypatch.setattr(bench, "run", run)
    return instead


def all_of(folder, *more):
    return cli.main(["bench", "all", "--quick", "--device", "cpu", "--out", str(folder), *more])


def kept(folder):
    return sorted(path.parent.name for path in folder.glob("*/*.json"))


def test_all_leaves_records_and_a_page_of_them(three, tmp_path, capsys):
    assert all_of(tmp_path / "out") == 0
    assert kept(tmp_path / "out") == ["dispatch", "ring", "routes"]
    page = tmp_path / "out" / "report.html"
    assert f"{page}: 3 records\n" in capsys.readouterr().out
    text = page.read_text("utf-8")
    assert style.sheet() in text
    for target in re.findall(r"""(?:src|href)=["']([^"']+)""", text):
        assert target.startswith("data:"), target
    assert "Dispatch: one acknowledged round trip" in text
    assert "<td>ask &lt;1&gt; (bytes 4)</td>" in text
    assert "<b>3 ahead</b>" in text


@pytest.mark.parametrize("kind", [LabError, DenizenError])
def test_an_experiment_that_fails_costs_its_own_record_alone(three, tmp_path, capsys, kind):
    three["ring"] = kind("bench_ring was stopped after 180 s")
    assert all_of(tmp_path) == 1
    assert kept(tmp_path) == ["dispatch", "routes"]
    assert (tmp_path / "report.html").is_file()
    assert "denizen: ring: bench_ring was stopped after 180 s\n" in capsys.readouterr().err


@pytest.mark.parametrize("end", [KeyboardInterrupt(), SystemExit(143)])
def test_what_was_measured_is_kept_when_it_is_ended(three, tmp_path, capsys, end):
    three["ring"] = end
    try:
        status = all_of(tmp_path)
    except SystemExit as left:
        status = left.code
    assert status == (130 if isinstance(end, KeyboardInterrupt) else 143)
    assert kept(tmp_path) == ["dispatch"]
    assert (tmp_path / "report.html").is_file()
    told = capsys.readouterr().err
    assert "denizen: stopped: without a record of this run are ring, routes\n" in told


def test_a_record_that_finds_no_room_is_not_lost(three, tmp_path, monkeypatch, capsys):
    write, full = record.write, tmp_path / "ring"

    def written(one, path):
        if path.is_relative_to(full):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        write(one, path)

    monkeypatch.setattr(record, "write", written)
    assert all_of(tmp_path) == 1
    assert kept(tmp_path) == ["dispatch", "routes"]  # and it has gone on
    told = capsys.readouterr().err
    assert f"denizen: {full}/nvidia-h200.json: No space left on device\n" in told
    (spare,) = re.findall("ring: the record is in (.*)\n", told)
    assert record.read(Path(spare)).experiment == "ring"


@pytest.mark.parametrize("place", ["there", "none/of/it"])
def test_a_place_for_the_record_is_looked_for_before_it_is_measured(three, tmp_path, capsys, place):
    (tmp_path / "there").mkdir()
    (tmp_path / "none").write_text("a file")
    three["ring"] = AssertionError("it was measured")
    words = ["bench", "ring", "--quick", "--device", "cpu", "--json", str(tmp_path / place)]
    assert cli.main(words) == 1
    assert capsys.readouterr().err.startswith(f"denizen: {tmp_path}/")
    assert all_of(tmp_path / "none") == 1


def test_a_page_of_a_folder_is_made_anew(three, tmp_path, capsys):
    all_of(tmp_path)
    page = tmp_path / "again.html"
    assert cli.main(["bench", "report", "--results", str(tmp_path), "-o", str(page)]) == 0
    assert page.read_text("utf-8") == (tmp_path / "report.html").read_text("utf-8")
    (tmp_path / "empty").mkdir()
    capsys.readouterr()
    words = ["bench", "report", "--results", str(tmp_path / "empty"), "-o", str(page)]
    assert cli.main(words) == 1
    assert capsys.readouterr().err.endswith("empty: no records; `denizen bench all --out` makes "
                                            "them\n")  # fmt: skip


def test_all_that_the_figures_have_is_on_the_page():
    records = [one for one in record.read_all(RESULTS) if one.experiment in ("wave", "pools")]
    text = report.page(records)
    assert text.count("<img ") == table.figures(records).count("![")
    assert "**" not in text and "| ---" not in text and "](" not in text
    assert text.count("<details>") == text.count("</details>") > 4
