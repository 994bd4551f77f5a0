# SPDX-License-Identifier: Apache-2.0
"""``denizen cluster up``."""

import re

import cluster_sample
import pytest

from denizen import Cluster, cli


@pytest.mark.parametrize("transport", ["rings", pytest.param("tcp", marks=pytest.mark.deep)])
def test_hosts_come_up_and_their_actors_play(transport, capsys):
    words = ["--hosts", "2", "--transport", transport, "--seconds", "0.5", "--deadline", "30"]
    assert cli.main(["cluster", "up", *words]) == 0
    out = capsys.readouterr().out
    rows = re.findall(r"^ +(\d) +\d+  CPU +([\d,]+) +[\d,.]+ us  up$", out, re.MULTILINE)
    assert [host for host, _ in rows] == ["0", "1"]
    assert all(int(rate.replace(",", "")) > 100 for _, rate in rows)


def test_one_host_is_refused(capsys):
    assert cli.main(["cluster", "up", "--hosts", "1"]) == 2
    assert "--hosts 1; use 2 or more" in capsys.readouterr().err


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
