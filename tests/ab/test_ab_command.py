# SPDX-License-Identifier: Apache-2.0
"""``denizen ab`` as it is used: fresh processes, the example, records and pages."""

from pathlib import Path

import pytest

from denizen import cli
from denizen.ab import record

pytest.importorskip("scipy")

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

MADE = """
import sys
sys.path.insert(0, {here!r})
import synthetic
made = synthetic.experiment({change}, margin=0.01)
"""


def synthetic_file(folder, change="None"):
    path = folder / "made.py"
    path.write_text(MADE.format(here=str(Path(__file__).parent), change=change))
    return str(path)


def test_a_run_in_fresh_processes(tmp_path, capsys):
    out, html = tmp_path / "made.json", tmp_path / "made.html"
    assert cli.main(["ab", "run", synthetic_file(tmp_path), "--json", str(out)]) == 0
    text = capsys.readouterr().out
    assert "faster" in text and "equivalent" in text and "the base again" in text
    made = record.read(out)
    assert made.processes == 3
    assert [arm.verdict for arm in made.cells[0].arms] == [
        "faster", "equivalent", "slower", "equivalent",
    ]  # fmt: skip
    assert cli.main(["ab", "report", str(out), str(out), "-o", str(html)]) == 0
    assert html.read_text().count("<h1>synthetic</h1>") == 2


def test_a_void_run_says_why_and_fails(tmp_path, capsys):
    out = tmp_path / "made.json"
    path = synthetic_file(tmp_path, "{'quick': {'says': 'base'}}")
    assert cli.main(["ab", "run", path, "--json", str(out)]) == 1
    assert 'void: ran of quick: process 0: "base" ran instead of "quick"' in capsys.readouterr().err
    assert record.read(out).void


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*_ab.py")), ids=lambda path: path.stem)
def test_example(path, tmp_path):
    """What it finds depends on the machine; that its work was done and checked does not."""
    out = tmp_path / "example.json"
    status = cli.main(["ab", "run", str(path), "--json", str(out)])
    made = record.read(out)
    assert status == made.void
    for cell in made.cells:
        checks = [gate for gate in cell.gates if gate.gate not in ("control", "again")]
        assert {gate.gate for gate in checks} == {"ran", "result"}
        assert {gate.status for gate in checks} == {"passed"}
        times = {arm.arm: arm.ratio for arm in cell.arms}
        assert path.stem != "copy_ab" or times["four times"] > times["slice"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1", "defines 0 experiments"),
        (MADE.format(here=str(Path(__file__).parent), change="None") + "b = synthetic.experiment()",
         "defines 2 experiments"),
    ],
)  # fmt: skip
def test_files_that_are_no_experiment(tmp_path, capsys, text, message):
    path = tmp_path / "no.py"
    path.write_text(text)
    assert cli.main(["ab", "run", str(path)]) == 1
    assert message in capsys.readouterr().err


def test_an_experiment_that_fails_or_hangs(tmp_path, capsys):
    path = tmp_path / "bad.py"
    text = MADE.format(here=str(Path(__file__).parent), change="None")
    path.write_text(text.replace("margin=0.01", "times=(1.0, 0.0, 1.0, 1.3)"))
    assert cli.main(["ab", "run", str(path)]) == 1
    assert "process 0 of bad.py ended with 1" in capsys.readouterr().err
    hang = (
        "\nimport dataclasses, time\n"
        "made = dataclasses.replace(made, cell=lambda params: time.sleep(60))\n"
    )
    path.write_text(text.replace("margin=0.01", "deadline=5.0") + hang)
    assert cli.main(["ab", "run", str(path)]) == 1
    assert "was stopped after 5 s" in capsys.readouterr().err


def test_no_such_file(tmp_path, capsys):
    assert cli.main(["ab", "run", str(tmp_path / "none.py")]) == 1
    assert "no such file" in capsys.readouterr().err
    assert cli.main(["ab", "report", str(tmp_path / "none.json"), "-o", "x.html"]) == 1
    assert "none.json" in capsys.readouterr().err
