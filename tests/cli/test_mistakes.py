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
    assert done.stderr == f"denizen: {out}: No such file or directory\n"


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
