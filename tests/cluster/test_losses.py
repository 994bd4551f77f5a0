# SPDX-License-Identifier: Apache-2.0
"""Hosts that are killed, stopped or cut off: errors and dead letters, never silence."""

import os
import signal
import socket
import struct
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import cluster_sample
import pytest
from waiting import until

import denizen
from denizen import Cluster, HostLostError
from denizen.cluster import handshake

pytestmark = pytest.mark.parametrize("transport", ["rings", "tcp"], scope="module")


DEADLINE = 4.0  # of the hosts that are to be lost by their silence


@pytest.fixture(scope="module")
def cluster(transport):
    """Four hosts for tests that each lose others of them: to start a host costs most."""
    with Cluster(cluster_sample.PROGRAM, 4, transport=transport, max_actors=64) as made:
        yield made


@pytest.fixture(scope="module")
def brief(transport):
    """Three hosts that lose those that are silent."""
    with Cluster(
        cluster_sample.PROGRAM, 3, transport=transport, deadline=DEADLINE, max_actors=64
    ) as made:
        yield made


def state_of(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
        return stat.read().rpartition(")")[2].split()[0]


def of_link(cluster, host, other):
    return cluster.stats()[host]["links"][other]


def test_a_connection_that_breaks_is_taken_up_again(cluster, transport):
    if transport == "rings":
        pytest.skip("memory of one machine does not break")
    (sink,) = cluster.spawn("Sink", host=1)
    (source,) = cluster.spawn("Source", host=0)
    links = cluster._hosts.local.links
    for number in range(5):
        cluster.send(source, "Go", to=sink, count=4000)
        links._links[1].halt()
        until(lambda n=number: of_link(cluster, 0, 1)["resumed"] == n + 1)
    cluster.drain()
    answer = cluster.ask(sink, "Ask", timeout=10.0)
    assert (answer["count"], answer["wrong"]) == (20_000, 0)


def test_who_does_not_know_the_token_is_refused_and_counted(cluster, transport):
    links = cluster._hosts.local.links
    place = cluster._hosts.about[1]["place"]
    before = cluster.stats()[1]["refused_connections"]
    other = bytes(32)
    for dialled in (0, 1, 7):
        with links.dial_place(place, 5.0) as sock, pytest.raises((denizen.DenizenError, OSError)):
            handshake.dial(sock, other, dialled, 1, 7, 0)
    for data in (b"GET / HTTP/1.0\r\n\r\n" + bytes(100), bytes(64), b"\xff" * 4096):
        with links.dial_place(place, 5.0) as sock, suppress(OSError):
            sock.sendall(data)  # it may be ended while it still speaks
            sock.shutdown(socket.SHUT_WR)
            assert sock.recv(4096) == b""
    until(lambda: cluster.stats()[1]["refused_connections"] == before + 6)
    (sink,) = cluster.spawn("Sink", host=1)
    assert cluster.ask(sink, "Ask", timeout=10.0)["count"] == 0


def test_what_knows_the_token_and_sends_no_frames_is_lost(cluster, transport):
    """A host whose bytes are none of the protocol's is given up; the others are not touched.

    Nothing has been sent to it yet: so it has received 0 bytes.
    """
    if transport == "rings":
        pytest.skip("rings have no frames")
    links = cluster._hosts.local.links
    end = time.monotonic() + 30
    while 2 not in cluster.lost:  # host 2 itself comes back: whoever is faster
        assert time.monotonic() < end
        with (
            suppress(OSError, denizen.DenizenError),
            links.dial_place(cluster._hosts.about[0]["place"], 5.0) as sock,
        ):
            handshake.dial(sock, links._token, 2, 0, links._epochs[2], 0)
            sock.sendall(struct.pack("<Q", 1) * 64)
            time.sleep(0.02)
    assert "no message" in cluster.lost[2]
    (sink,) = cluster.spawn("Sink", host=1)
    assert cluster.ask(sink, "Ask", timeout=10.0)["count"] == 0


def test_a_killed_host_is_lost_and_all_that_was_sent_to_it_is_accounted_for(cluster, transport):
    (sink,) = cluster.spawn("Sink", host=3)
    (source,) = cluster.spawn("Source", host=1)
    (own,) = cluster.spawn("Source", host=0)
    cluster.dead_letters()
    for from_ in (source, own):
        cluster.send(from_, "Go", to=sink, count=5000)
    os.kill(cluster.hosts[3].pid, signal.SIGKILL)
    with pytest.raises(HostLostError, match="host 3 was lost"):
        for _ in range(10_000_000):
            cluster.ask(sink, "Ask", timeout=10.0)
    with pytest.raises(HostLostError, match="host 3 was lost"):
        for _ in range(10_000_000):
            cluster.send(sink, "Number", value=1)
    until(lambda: 3 in cluster.lost and of_link(cluster, 1, 3)["state"] == "lost")
    assert "ended" in cluster.hosts[3].lost
    # The others go on, and what is sent to the lost one is buried by both.
    for from_ in (source, own):
        cluster.send(from_, "Go", to=sink, count=100)
        assert cluster.ask(from_, "Ask", timeout=10.0)["count"] == 5100
    cluster.drain()
    for host in (0, 1):
        link = of_link(cluster, host, 3)
        assert link["taken"] >= 5100
        assert link["acknowledged"] + link["lost"] >= link["taken"]
        assert link["lost"] >= 100
    letters = cluster.dead_letters()
    assert {d["reason"] for d in letters[1]} == {"lost"}
    assert "host 3 was lost" in letters[1][-1]["text"]
    with pytest.raises(HostLostError):
        cluster.spawn("Sink", host=3)
    assert {cluster.host_of(a) for a in cluster.spawn("Sink", 4)} == {0, 1, 2} - set(cluster.lost)


def test_a_cut_between_two_groups_ends_in_a_decision_on_both_sides(brief, transport):
    if transport == "rings":
        pytest.skip("memory of one machine cannot be cut")
    (sink,) = brief.spawn("Sink", host=2)
    (source,) = brief.spawn("Source", host=1)
    brief.send(source, "Go", to=sink, count=2000)
    brief.partition([1], [2])
    until(lambda: of_link(brief, 1, 2)["state"] == "lost")
    until(lambda: of_link(brief, 2, 1)["state"] == "lost")
    assert "not restored in" in of_link(brief, 1, 2)["why"]
    # Host 0 still reaches both.
    count = brief.ask(sink, "Ask", timeout=10.0)["count"]
    link = of_link(brief, 1, 2)
    assert link["taken"] == 2000
    assert link["acknowledged"] + link["lost"] == 2000
    assert link["acknowledged"] <= count <= 2000


def test_a_stopped_host_is_lost_after_the_deadline_and_is_told_when_it_goes_on(brief, transport):
    (sink,) = brief.spawn("Sink", host=2)
    (source,) = brief.spawn("Source", host=0)
    pid = brief.hosts[2].pid
    os.kill(pid, signal.SIGSTOP)
    try:
        until(lambda: state_of(pid) == "T")
        begin = time.monotonic()
        with ThreadPoolExecutor(1) as pool:
            told = pool.submit(brief.stats)
            with pytest.raises(HostLostError, match="host 2 was lost: it has been silent for"):
                brief.ask(sink, "Ask", timeout=20.0)
            assert time.monotonic() - begin > DEADLINE / 2
            # What all hosts are asked is told without the one that is lost meanwhile.
            assert told.result().keys() == {0, 1}
        brief.send(source, "Go", to=sink, count=50)
        until(lambda: of_link(brief, 0, 2)["lost"] >= 51)
    finally:
        os.kill(pid, signal.SIGCONT)


def test_hosts_end_with_the_process_that_has_started_them(transport):
    if transport == "tcp":
        pytest.skip("it is not the link that tells them")
    code = (
        "import sys, time; sys.path.insert(0, sys.argv[1]); import cluster_sample, denizen\n"
        "cluster = denizen.Cluster(\n"
        "    cluster_sample.PROGRAM, 2, transport=sys.argv[2], max_actors=64)\n"
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
    assert len(pids) == 2
    until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids[1:]))
