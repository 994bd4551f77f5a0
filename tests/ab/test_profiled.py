# SPDX-License-Identifier: Apache-2.0
"""``denizen ab run --profile``, with profilers that run the program and write what is known."""

import re
import stat
import sys

import pytest
import synthetic
from test_ab_command import synthetic_file
from test_profiler import NCU, export

from denizen import ab, cli
from denizen.ab import measure, page, profiled, record

pytest.importorskip("scipy")

TOOL = """#!{python}
import shutil, subprocess, sys
words = sys.argv[1:]
at = words.index({python!r})
done = subprocess.run(words[at:], check=False).returncode
option = words[words.index({option!r}) + 1]
shutil.copy({written!r}, option + {suffix!r})
print("==PROF== the last line")
sys.exit({status} or done)
"""


@pytest.fixture
def tool(tmp_path, monkeypatch):
    """Makes ``nsys`` or ``ncu`` on PATH; returns a function of its name and exit status."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    export(tmp_path / "export.sqlite")
    (tmp_path / "ncu.csv").write_text(NCU)

    def make(name, status=0):
        option, suffix, written = {
            "nsys": ("-o", ".sqlite", "export.sqlite"),
            "ncu": ("--log-file", "", "ncu.csv"),
        }[name]
        path = tmp_path / "bin" / name
        path.write_text(
            TOOL.format(
                python=sys.executable, option=option, suffix=suffix, status=status,
                written=str(tmp_path / written),
            )
        )  # fmt: skip
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    return make


def run(tmp_path, name, change="None"):
    out = tmp_path / "made.json"
    words = ["ab", "run", synthetic_file(tmp_path, change), "--profile", name, "--json", str(out)]
    return cli.main(words), out


def test_spans_of_nsys_are_in_the_record_and_on_the_page(tool, tmp_path, capsys):
    tool("nsys")
    status, out = run(tmp_path, "nsys")
    assert status == 0
    assert "nsys: reduce: 1 x 2.5 µs" in (told := capsys.readouterr().out)
    assert "nsys: kernels ran during 50% of the copies" in told
    (cell,) = record.read(out).cells
    assert [(tool_, name) for tool_, name, _, _ in cell.profile] == [
        ("nsys", "copy"), ("nsys", "reduce"),
    ]  # fmt: skip
    text = page.render([record.read(out)])
    assert "<h3>Under a profiler</h3>" in text and "By the clock of nsys" in text


def test_durations_of_ncu(tool, tmp_path, capsys):
    tool("ncu")
    status, out = run(tmp_path, "ncu")
    assert status == 0
    assert re.search(r"ncu: copy_plain\(float \*\): 2 x 1\.6\d* ms", capsys.readouterr().out)
    (cell,) = record.read(out).cells
    assert sorted(end for _, _, _, end in cell.profile) == pytest.approx([8e-7, 1.2345e-3, 2e-3])
    assert "By the clock of nsys" not in page.render([record.read(out)])


def test_what_goes_wrong_is_told(tool, tmp_path, capsys, monkeypatch):
    tool("nsys", status=7)
    status, out = run(tmp_path, "nsys")
    assert status == 1 and not out.exists()
    assert "nsys ended with 7: ==PROF== the last line" in capsys.readouterr().err
    monkeypatch.setattr(record, "_process", lambda *_: pytest.fail("measured"))
    monkeypatch.setattr(profiled.shutil, "which", lambda _: None)
    status, _ = run(tmp_path, "ncu")
    assert status == 1 and "--profile ncu: ncu is not on PATH" in capsys.readouterr().err


def test_each_arm_runs_once(monkeypatch):
    ran = []
    experiment = synthetic.experiment(sweep=[{"n": 1}, {"n": 2}])
    cell = experiment.cell

    def seen(params):
        made = cell(params)
        arms = [
            ab.Arm(arm.name, arm.marker, lambda n, a=arm: ran.append((a.name, n)), arm.poison, list)
            for arm in made.arms
        ]
        return ab.Cell(arms, made.reference)

    watched = synthetic.experiment(sweep=[{"n": 1}, {"n": 2}], cell=seen)
    measure.once(watched, 1)
    assert ran == [(name, 1) for name in ("base", "quick", "same", "control")]
