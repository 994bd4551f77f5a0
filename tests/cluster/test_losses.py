# SPDX-License-Identifier: Apache-2.0
"""Hosts that are killed, stopped or cut off: errors and dead letters, never silence."""

import os
import signal
import socket
import struct
import subprocess
import sys
import time
from contextlib import suppress

import numpy as np
import pytest
import sample

import denizen
from denizen import Cluster, HostLostError
from denizen.cluster import handshake

pytestmark = pytest.mark.parametrize("transport", ["rings", "tcp"])


def until(done, seconds=30.0):
    end = time.monotonic() + seconds
    while not done():  # ends by done() or the deadline
        assert time.monotonic() < end
        time.sleep(0.005)


def state_of(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
        return stat.read().rpartition(")")[2].split()[0]


def of_link(cluster, host, other):
    return cluster.stats()[host]["links"][other]


def test_a_killed_host_is_lost_and_all_that_was_sent_to_it_is_accounted_for(transport):
    with Cluster(sample.PROGRAM, 3, transport=transport, max_actors=64) as cluster:
        (sink,) = cluster.spawn("Sink", host=2)
        (source,) = cluster.spawn("Source", host=1)
        (own,) = cluster.spawn("Source", host=0)
        for from_ in (source, own):
            cluster.send(from_, "Go", to=sink, count=5000)
        os.kill(cluster.hosts[2].pid, signal.SIGKILL)
        with pytest.raises(HostLostError, match="host 2 was lost"):
            for _ in range(10_000_000):
                cluster.ask(sink, "Ask", timeout=10.0)
        with pytest.raises(HostLostError, match="host 2 was lost"):
            for _ in range(10_000_000):
                cluster.send(sink, "Number", value=1)
        until(lambda: set(cluster.lost) == {2} and of_link(cluster, 1, 2)["state"] == "lost")
        assert "ended" in cluster.hosts[2].lost
        # The others go on, and what is sent to the lost one is buried by both.
        for from_ in (source, own):
            cluster.send(from_, "Go", to=sink, count=100)
            assert cluster.ask(from_, "Ask", timeout=10.0)["count"] == 5100
        cluster.drain()
        for host in (0, 1):
            link = of_link(cluster, host, 2)
            assert link["taken"] >= 5100
            assert link["acknowledged"] + link["lost"] >= link["taken"]
            assert link["lost"] >= 100
        letters = cluster.dead_letters()
        assert {d["reason"] for d in letters[1]} == {"lost"}
        assert "host 2 was lost" in letters[1][-1]["text"]
        with pytest.raises(HostLostError):
            cluster.spawn("Sink", host=2)
        assert {cluster.host_of(a) for a in cluster.spawn("Sink", 4)} == {0, 1}


def test_a_stopped_host_is_lost_after_the_deadline_and_is_told_when_it_goes_on(transport):
    with Cluster(sample.PROGRAM, 2, transport=transport, deadline=1.2, max_actors=64) as cluster:
        (sink,) = cluster.spawn("Sink", host=1)
        (source,) = cluster.spawn("Source", host=0)
        pid = cluster.hosts[1].pid
        os.kill(pid, signal.SIGSTOP)
        try:
            until(lambda: state_of(pid) == "T")
            begin = time.monotonic()
            with pytest.raises(HostLostError, match="host 1 was lost: it has been silent for"):
                cluster.ask(sink, "Ask", timeout=20.0)
            assert time.monotonic() - begin > 1.0
            cluster.send(source, "Go", to=sink, count=50)
            until(lambda: of_link(cluster, 0, 1)["lost"] >= 51)
        finally:
            os.kill(pid, signal.SIGCONT)


def test_a_cut_between_two_groups_ends_in_a_decision_on_both_sides(transport):
    if transport == "rings":
        pytest.skip("memory of one machine cannot be cut")
    with Cluster(sample.PROGRAM, 3, transport=transport, deadline=1.2, max_actors=64) as cluster:
        (sink,) = cluster.spawn("Sink", host=2)
        (source,) = cluster.spawn("Source", host=1)
        cluster.send(source, "Go", to=sink, count=2000)
        cluster.partition([1], [2])
        until(lambda: of_link(cluster, 1, 2)["state"] == "lost")
        until(lambda: of_link(cluster, 2, 1)["state"] == "lost")
        assert "not restored in" in of_link(cluster, 1, 2)["why"]
        # Host 0 still reaches both.
        count = cluster.ask(sink, "Ask", timeout=10.0)["count"]
        link = of_link(cluster, 1, 2)
        assert link["taken"] == 2000
        assert link["acknowledged"] + link["lost"] == 2000
        assert link["acknowledged"] <= count <= 2000


def test_a_connection_that_breaks_is_taken_up_again(transport):
    if transport == "rings":
        pytest.skip("memory of one machine does not break")
    with Cluster(sample.PROGRAM, 2, transport=transport, max_actors=64) as cluster:
        (sink,) = cluster.spawn("Sink", host=1)
        (source,) = cluster.spawn("Source", host=0)
        links = cluster._local.links
        for number in range(5):
            cluster.send(source, "Go", to=sink, count=4000)
            links._links[1].halt()
            until(lambda n=number: of_link(cluster, 0, 1)["resumed"] == n + 1)
        cluster.drain()
        answer = cluster.ask(sink, "Ask", timeout=10.0)
        assert (answer["count"], answer["wrong"]) == (20_000, 0)


def test_who_does_not_know_the_token_is_refused_and_counted(transport):
    with Cluster(sample.PROGRAM, 2, transport=transport, max_actors=64) as cluster:
        links = cluster._local.links
        place = cluster._about[1]["place"]
        other = bytes(32)
        for dialled in (0, 1, 5):
            with links._open(place, 5.0) as sock, pytest.raises((denizen.DenizenError, OSError)):
                handshake.dial(sock, other, dialled, 1, 7, 0)
        for data in (b"GET / HTTP/1.0\r\n\r\n" + bytes(100), bytes(64), b"\xff" * 4096):
            with links._open(place, 5.0) as sock, suppress(OSError):
                sock.sendall(data)  # it may be ended while it still speaks
                sock.shutdown(socket.SHUT_WR)
                assert sock.recv(4096) == b""
        until(lambda: cluster.stats()[1]["refused_connections"] == 6)
        (sink,) = cluster.spawn("Sink", host=1)
        assert cluster.ask(sink, "Ask", timeout=10.0)["count"] == 0


def test_hosts_end_with_the_process_that_has_started_them(transport):
    code = (
        "import sys, time; sys.path.insert(0, sys.argv[1]); import sample, denizen\n"
        "cluster = denizen.Cluster(sample.PROGRAM, 3, transport=sys.argv[2], max_actors=64)\n"
        "print(*(h.pid for h in cluster.hosts), flush=True)\n"
        "time.sleep(60)"
    )
    here = os.path.dirname(__file__)
    with subprocess.Popen(
        [sys.executable, "-c", code, here, transport], stdout=subprocess.PIPE, text=True
    ) as parent:
        try:
            pids = [int(pid) for pid in parent.stdout.readline().split()]
        finally:
            parent.kill()
    assert len(pids) == 3
    until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids[1:]))


def test_what_knows_the_token_and_sends_no_frames_is_lost(transport):
    """A host whose bytes are none of the protocol's is given up; the others are not touched."""
    if transport == "rings":
        pytest.skip("rings have no frames")
    with Cluster(sample.PROGRAM, 3, transport=transport, max_actors=64) as cluster:
        links = cluster._local.links
        end = time.monotonic() + 30
        while 2 not in cluster.lost:  # host 2 itself comes back: whoever is faster
            assert time.monotonic() < end
            with (
                suppress(OSError, denizen.DenizenError),
                links._open(cluster._about[0]["place"], 5.0) as sock,
            ):
                handshake.dial(sock, links._token, 2, 0, links._epochs[2], 0)
                sock.sendall(struct.pack("<Q", 1) * 64)
                time.sleep(0.02)
        assert "no message" in cluster.lost[2]
        (sink,) = cluster.spawn("Sink", host=1)
        assert cluster.ask(sink, "Ask", timeout=10.0)["count"] == 0


def test_several_kills_under_load(transport):
    rng = np.random.default_rng(3)
    with Cluster(sample.PROGRAM, 4, transport=transport, max_actors=64) as cluster:
        sinks = [cluster.spawn("Sink", host=h)[0] for h in range(4)]
        (source,) = cluster.spawn("Source", host=0)
        sent = dict.fromkeys(range(4), 0)
        living = [1, 2, 3]
        for victim in rng.permutation(living):
            for host in range(1, 4):
                cluster.send(source, "Go", to=sinks[host], count=1500)
                sent[host] += 1500
            time.sleep(float(rng.uniform(0, 0.01)))
            os.kill(cluster.hosts[victim].pid, signal.SIGKILL)
            until(lambda v=victim: v in cluster.lost)
        assert cluster.ask(source, "Ask", timeout=20.0)["count"] == 3 * 3 * 1500
        cluster.drain()
        for host in (1, 2, 3):
            link = of_link(cluster, 0, host)
            assert link["taken"] == sent[host]
            assert link["acknowledged"] + link["lost"] >= sent[host]
        lost = sum(of_link(cluster, 0, h)["lost"] for h in (1, 2, 3))
        assert cluster.stats()[0]["dead_letters_by_reason"]["lost"] == lost
