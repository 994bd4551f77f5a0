# SPDX-License-Identifier: Apache-2.0
"""``denizen cluster up``."""

import os
import re
import subprocess
import sys

import cluster_sample
import pytest

from denizen import Cluster, cli
from denizen.cluster import child, command


@pytest.mark.parametrize("transport", ["rings", pytest.param("tcp", marks=pytest.mark.deep)])
def test_hosts_come_up_and_their_actors_play(transport, capsys):
    words = ["--hosts", "2", "--transport", transport, "--seconds", "0.5", "--deadline", "30"]
    assert cli.main(["cluster", "up", *words]) == 0
    out = capsys.readouterr().out
    rows = re.findall(r"^ +(\d) +\d+  CPU +([\d,]+) +[\d,.]+ us  up$", out, re.MULTILINE)
    assert [host for host, _ in rows] == ["0", "1"]
    assert all(int(rate.replace(",", "")) > 100 for _, rate in rows)


def test_its_hosts_are_shown_by_top(capsys, monkeypatch, tmp_path):
    pytest.importorskip("prometheus_client")
    pytest.importorskip("rich")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    seen = []
    monkeypatch.setattr(
        command, "_show", lambda *_: seen.append(cli.main(["top", "--once", "--all"]))
    )
    words = ["--hosts", "2", "--metrics", "--seconds", "0.1", "--deadline", "30"]
    assert cli.main(["cluster", "up", *words]) == 0
    out = capsys.readouterr().out
    assert seen == [0]
    assert "2 of 2 programs" in out
    assert "denizen top --all" in out


def test_one_host_is_refused(capsys):
    assert cli.main(["cluster", "up", "--hosts", "1"]) == 2
    assert "--hosts 1; use 2 or more" in capsys.readouterr().err


def test_a_time_that_is_none_is_refused(capsys):
    assert cli.main(["cluster", "up", "--seconds", "-1"]) == 2
    assert "--seconds -1; use more than 0" in capsys.readouterr().err


def test_ctrl_c_is_not_a_hosts_also_while_it_imports(tmp_path):
    package = tmp_path / "denizen" / "cluster"
    package.mkdir(parents=True)
    for folder in (package.parent, package):
        (folder / "__init__.py").touch()
    (package / "host.py").write_text(
        "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\ndef main(_): return 7\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", child._HOST, "3"],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (7, b"")


def test_top_shows_each_host(capsys):
    pytest.importorskip("prometheus_client")
    pytest.importorskip("rich")
    with Cluster(cluster_sample.PROGRAM, 2, max_actors=64) as cluster:
        sinks = cluster.spawn("Sink", 3, host=1)
        for sink in sinks:
            cluster.send(sink, "Number", value=0)
        cluster.drain()
        urls = cluster.serve_metrics()
        assert sorted(urls) == [0, 1]
        assert cli.main(["top", "--once", "--url", urls[1]]) == 0
        out = capsys.readouterr().out
        assert "cluster sample" in out
        assert "Sink" in out
        assert cli.main(["top", "--once", "--pid", str(cluster.hosts[1].pid)]) == 0


def test_top_shows_all_hosts_in_one_screen(capsys, monkeypatch, tmp_path):
    pytest.importorskip("prometheus_client")
    pytest.importorskip("rich")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")
    with Cluster(cluster_sample.PROGRAM, 3, max_actors=64) as cluster:
        for h, count in enumerate((3, 5, 7)):
            (sink,) = cluster.spawn("Sink", host=h)
            for value in range(count):
                cluster.send(sink, "Number", source=0, value=value)
        cluster.drain()
        urls = cluster.serve_metrics()
        assert cli.main(["top", "--once", "--all"]) == 0
        out = capsys.readouterr().out
        assert "3 of 3 programs" in out
        rows = {line.split()[-1]: line for line in out.splitlines() if "http://" in line}
        assert set(rows) == set(urls.values())
        shown = [rows[urls[h]].split() for h in range(3)]
        assert all(row[:3] == ["cluster", "sample", "CPU"] for row in shown)
        spawned = 1  # counts as handled
        assert [int(row[7]) - spawned for row in shown] == [3, 5, 7]
    assert cli.main(["top", "--once", "--all"]) != 0
    assert "no program is served" in capsys.readouterr().err
