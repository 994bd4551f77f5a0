# SPDX-License-Identifier: Apache-2.0
"""Flights over several hosts: every figure is the reference's, and a lost host is an error."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from test_flights_load import text_of

import denizen
from denizen.apps.flights import app, load


@pytest.fixture(scope="module")
def flights(tmp_path_factory):
    rng = np.random.default_rng(28)
    path = tmp_path_factory.mktemp("flights") / "flights.csv"
    ports = ["LGA", "IAH", "JFK", "ORD", "BOS", "MIA", "SFO"]
    rows = []
    for _ in range(6000):
        origin, dest = rng.choice(ports, 2, replace=False)
        gone = rng.random() < 0.05
        rows.append(
            {
                "sched_dep_time": f"{rng.integers(24)}{rng.integers(60):02}",
                "day": str(rng.integers(1, 29)),
                "tailnum": f"N{rng.integers(40)}",
                "origin": origin,
                "dest": dest,
                "dep_delay": "" if gone else str(rng.integers(-9, 90)),
                "arr_delay": "" if gone else str(rng.integers(-30, 90)),
            }
        )
    path.write_text(text_of(*rows))
    return path


def test_figures_are_those_of_one_host(flights, hosts_of_work):
    hosts, transport, device = hosts_of_work
    loaded = load.load(flights)
    one = app.replay(loaded, "cpu:1", lambda _: None)
    found = app.replay(loaded, device, lambda _: None, hosts=hosts, transport=transport)
    assert found.first_difference is None
    assert found.verified == len(loaded) == 6000
    assert found.airports.tobytes() == one.airports.tobytes()
    assert f"{hosts} host" in found.device


def test_lost_host_is_an_error(flights, monkeypatch):
    clusters = []
    start = denizen.Cluster.__init__

    def started(self, *given, **options):
        start(self, *given, **options)
        clusters.append(self)

    monkeypatch.setattr(denizen.Cluster, "__init__", started)

    def kill(_):
        (cluster,) = clusters
        if not cluster.lost:
            os.kill(cluster.hosts[1].pid, signal.SIGKILL)

    with pytest.raises(denizen.HostLostError, match="host 1 was lost"):
        app.replay(load.load(flights), "cpu:1", kill, hosts=3)


def test_command(flights):
    words = ["run", "flights", "--csv", str(flights), "--no-dispatch", "--hosts", "2"]
    done = subprocess.run(
        [sys.executable, "-m", "denizen", *words], capture_output=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert b"verified 6,000 / 6,000" in done.stdout
    assert b"2 hosts of" in done.stdout
    refused = subprocess.run(
        [sys.executable, "-m", "denizen", *words[:-1], "2000"],
        capture_output=True, timeout=120, check=False,
    )  # fmt: skip
    assert refused.returncode == 2
    assert b"use 1 to 1023" in refused.stderr
