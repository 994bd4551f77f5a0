# SPDX-License-Identifier: Apache-2.0
"""What the commands say where a newcomer goes wrong, and what they do without being told twice."""

import subprocess
import sys
from pathlib import Path

import pytest

from denizen import cli, terminal

CAPTURES = Path(__file__).parents[1] / "lens" / "captures"


def test_a_place_outside_the_room_is_named_as_it_was_given(capsys):
    words = ["run", "wave", "--size", "16", "--steps", "2", "--device", "cpu:1"]
    assert cli.main([*words, "--receiver", "999,1,1"]) == 2
    error = capsys.readouterr().err
    assert "a receiver at 999, 1, 1 (z, y, x) is outside the grid of 16 x 16 x 16 cells" in error
    assert cli.main([*words, "--source", "impulse@1,2,16"]) == 2
    assert "a source at 1, 2, 16 (z, y, x) is outside" in capsys.readouterr().err


def test_a_folder_that_is_not_there_is_one_line(tmp_path):
    out = tmp_path / "none" / "heard.wav"
    words = ["--size", "16", "--steps", "2", "--device", "cpu:1", "--receiver", "1,1,1"]
    done = subprocess.run(
        [sys.executable, "-m", "denizen", "run", "wave", *words, "-o", str(out)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr == (
        f"denizen: argument -o/--out: {out}: there is no folder {out.parent} "
        "(see denizen run wave --help)\n"
    )


CAPTURE = str(CAPTURES / "h100-580.159.04-small.lens.gz")
OUTPUTS = [
    ["run", "wave", "--save"],
    ["run", "wave", "--movie"],
    ["run", "adsb", "signal.bin", "--map"],
    ["run", "fm", "signal.bin", "--out"],
    ["run", "procmine", "log.csv", "--html"],
    ["run", "procmine", "log.csv", "--save-reference"],
    ["run", "bfs", "graph.txt", "--source", "0", "--save"],
    ["run", "transactions", "--generate", "1000", "--alerts"],
    ["run", "transactions", "--generate", "1000", "--save"],
    ["run", "transactions", "--generate", "1000", "--write"],
    ["lens", "report", CAPTURE, "--perfetto"],
    ["lens", "--json"],
    ["ab", "run", "experiment.py", "--json"],
    ["tour", "--out"],
]


@pytest.mark.parametrize("words", OUTPUTS, ids=lambda words: " ".join(map(str, words[-4:])))
def test_a_place_that_cannot_be_written_is_refused_before_the_work(words, tmp_path, capsys):
    """None of what is read is there, and nobody hears of it."""
    for out, says in ((tmp_path / "none" / "a.gif", "there is no folder"), (tmp_path, "a folder")):
        try:
            status = cli.main([*words, str(out)])
        except SystemExit as left:
            status = left.code
        told = capsys.readouterr()
        assert (status, told.out) == (2, "")
        assert told.err.count("\n") == 1 and f"{out}" in told.err and says in told.err


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["bench", "actors", "--out", "x"], "denizen bench actors"),
        (["run", "wave", "--colour"], "denizen run wave"),
        (["tour", "London"], "denizen tour"),
    ],
)
def test_an_unknown_word_is_refused_by_the_command_it_was_given_to(words, command, capsys):
    with pytest.raises(SystemExit):
        cli.main(words)
    unknown = " ".join(words[words.index(command.split()[-1]) + 1 :])
    assert capsys.readouterr().err == (
        f"denizen: unrecognized arguments: {unknown} (see {command} --help)\n"
    )


@pytest.mark.parametrize("steps", ["0", "-4"])
def test_a_run_of_no_steps_is_refused(steps, capsys):
    assert cli.main(["run", "wave", "--size", "16", "--steps", steps, "--device", "cpu:1"]) == 2
    assert capsys.readouterr().err == f"denizen: --steps {steps}; a run has 1 to 2**30\n"


def test_a_stream_with_no_room_for_every_case_is_refused(capsys):
    assert cli.main(["run", "transactions", "--generate", "100"]) == 2
    assert "100 records; use 1000 to 2147483648: every case" in capsys.readouterr().err


def test_experiments_are_told_by_what_they_measure(capsys):
    with pytest.raises(SystemExit):
        cli.main(["bench", "--help"])
    told = " ".join(capsys.readouterr().out.split())
    assert "dispatch one acknowledged round trip" in told
    assert "the experiment" not in told


def test_records_that_are_not_here_are_named(tmp_path, capsys):
    assert cli.main(["bench", "older", "--results", str(tmp_path / "none")]) == 1
    assert "none: no such folder; expected" in capsys.readouterr().err


def test_a_file_that_is_no_python_is_shown_by_its_own_line(tmp_path, capsys):
    file = tmp_path / "broken.py"
    file.write_text("import denizen\nprogram = = 3\n")
    assert cli.main(["check", str(file)]) == 1
    told = capsys.readouterr().err
    assert told.splitlines()[0].split() == ["File", f'"{file}",', "line", "2"]
    assert "program = = 3" in told and "runpy" not in told


def test_a_compressed_capture_is_reported(tmp_path, capsys):
    packed = tmp_path / "small.lens.gz"
    packed.write_bytes((CAPTURES / "h100-580.159.04-small.lens.gz").read_bytes())
    assert cli.main(["lens", "report", str(packed)]) == 0
    assert "<html" in (tmp_path / "small.html").read_text()
    assert cli.main(["lens", "show", str(packed)]) == 0
    capsys.readouterr()
    packed.write_bytes(packed.read_bytes()[:-40])
    assert cli.main(["lens", "show", str(packed)]) == 1
    assert "expected a whole .lens.gz" in capsys.readouterr().err


def test_a_capture_becomes_a_trace_too(tmp_path, capsys):
    pytest.importorskip("perfetto")
    capture, out = CAPTURES / "h100-580.159.04-small.lens.gz", tmp_path / "small.perfetto"
    assert cli.main(["lens", "report", str(capture), "--perfetto", str(out)]) == 0
    assert capsys.readouterr().out == f"{out}\n"
    data = out.read_bytes()
    assert b"cuMemcpyHtoD_v2" in data and len(data) > 10_000


def test_weights_that_a_graph_does_not_have(tmp_path, capsys):
    edges = tmp_path / "graph.txt"
    edges.write_text("0 1\n1 2\n")
    assert cli.main(["run", "bfs", str(edges), "--source", "0", "--weights"]) == 2
    error = capsys.readouterr().err
    assert "its arcs have no weights; leave out --weights" in error
    assert "bfs()" not in error


@pytest.mark.parametrize(("name", "says"), [("fm.bin", False), ("fm.wav", True)])
def test_a_made_station_says_with_which_rate_it_is_read(tmp_path, capsys, name, says):
    made = tmp_path / name
    assert cli.main(["run", "fm", str(made), "--generate", "--seconds", "0.2"]) == 0
    assert ("read it with --rate 240000" in capsys.readouterr().out) is not says
    audio = ["-o", str(tmp_path / "audio.wav")]
    if says:
        assert cli.main(["run", "fm", str(made), *audio, "--rate", "2.4e6"]) == 2
        assert "leave out --rate" in capsys.readouterr().err
    rate = [] if says else ["--rate", "240000"]
    assert cli.main(["run", "fm", str(made), *audio, *rate]) == 0
    assert "0.20 s of audio" in capsys.readouterr().out


def test_a_table_without_a_header_shows_none(capsys):
    terminal.table("facts", ("", ""), [("one", "1"), ("two", "2")])
    lines = [line for line in capsys.readouterr().out.splitlines() if line.strip(" │┃|")]
    assert sum("one" in line for line in lines) == 1
    above = lines[: next(i for i, line in enumerate(lines) if "one" in line)]
    assert len(above) == 2  # the title and the upper edge
