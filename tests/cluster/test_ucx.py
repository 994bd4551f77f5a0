# SPDX-License-Identifier: Apache-2.0
"""Links over UCX, where libucx-cu13 is installed: what is promised of all links."""

import os
import signal
import time
from pathlib import Path

import cluster_sample
import numpy as np
import pytest

from denizen import Cluster, MissingPackageError
from denizen.cluster import ucx

needs_ucx = pytest.mark.skipif(ucx.find() is None, reason="libucx-cu13 is not installed")


def told(cluster, address):
    return cluster.ask(address, "Ask", timeout=30.0)


def pour(cluster, sinks, sources, count):
    for number, source in enumerate(sources):
        to = sinks[(number + 1) % len(sinks)]
        cluster.send(source, "Go", to=to, source=number, count=count)


@needs_ucx
def test_messages_arrive_in_order_and_once_also_long_ones():
    with Cluster(cluster_sample.PROGRAM, 3, transport="ucx", max_actors=256) as cluster:
        assert cluster.transport == "ucx"
        assert all("libucp" in Path(f"/proc/{h.pid}/maps").read_text() for h in cluster.hosts)
        sinks, sources = cluster.spawn("Sink", 3), cluster.spawn("Source", 3)
        for _ in range(10):
            pour(cluster, sinks, sources, 2000)
        (here,), (there,) = cluster.spawn("Long", host=0), cluster.spawn("Long", host=2)
        for first in range(200):
            word = np.arange(first, first + 250, dtype=np.uint32)
            cluster.send(there, "Block", back=here, word=word)
        cluster.drain()
        for sink in sinks:
            assert (told(cluster, sink)["count"], told(cluster, sink)["wrong"]) == (20_000, 0)
        for one in (here, there):
            assert (told(cluster, one)["count"], told(cluster, one)["wrong"]) == (200, 0)


@needs_ucx
def test_a_link_that_is_cut_and_mended_goes_on():
    with Cluster(cluster_sample.PROGRAM, 2, transport="ucx", max_actors=256) as cluster:
        sinks, sources = cluster.spawn("Sink", 2), cluster.spawn("Source", 2)
        for turn in range(1, 4):
            pour(cluster, sinks, sources, 3000)
            cluster.partition([0], [1])
            pour(cluster, sinks, sources, 1000)
            cluster.partition([0], [])
            cluster.partition([1], [])
            cluster.drain()
            for sink in sinks:
                seen = told(cluster, sink)
                assert (seen["count"], seen["wrong"]) == (4000 * turn, 0)
        assert cluster.lost == {}
        assert cluster.stats()[0]["links"][1]["resumed"] >= 1


@needs_ucx
def test_a_killed_host_is_known_and_every_message_accounted_for():
    with Cluster(cluster_sample.PROGRAM, 2, transport="ucx", max_actors=256) as cluster:
        (sink,), (source,) = cluster.spawn("Sink", host=1), cluster.spawn("Source", host=0)
        for _ in range(10):
            cluster.send(source, "Go", to=sink, source=0, count=1000)
        os.kill(cluster.hosts[1].pid, signal.SIGKILL)
        begin = time.monotonic()
        while 1 not in cluster.lost:  # ends: the connection does
            time.sleep(0.001)
        assert time.monotonic() - begin < 15  # and not by the deadline, which is 30 s
        cluster.drain()
        link = cluster.stats()[0]["links"][1]
        assert link["taken"] >= 10_000
        assert link["taken"] == link["acknowledged"] + link["lost"]


def test_without_the_package_the_error_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr(ucx, "find", lambda: None)
    with pytest.raises(MissingPackageError, match="UCX is not installed: pip install libucx-cu13"):
        Cluster(cluster_sample.PROGRAM, 2, transport="ucx")
