# SPDX-License-Identifier: Apache-2.0
"""Several hosts on one machine: what is promised of messages between them."""

import asyncio
import os
import re
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

import cluster_sample
import numpy as np
import pytest

import denizen
from denizen import ArgumentError, Cluster, DeadlineError, NoActorError


@pytest.fixture(params=["rings", "tcp"], scope="module")
def cluster(request, device):
    how = {"transport": request.param, "device": device, "max_actors": 4096}
    with Cluster(cluster_sample.PROGRAM, hosts=3, **how) as made:
        yield made


def told(cluster, address):
    return cluster.ask(address, "Ask", timeout=10.0)


def test_actors_are_spawned_on_the_host_that_is_named_or_spread_over_all(cluster):
    there = cluster.spawn("Sink", 5, host=1)
    assert {cluster.host_of(a) for a in there} == {1}
    spread = cluster.spawn("Sink", 6)
    assert sorted(cluster.host_of(a) for a in spread) == [0, 0, 1, 1, 2, 2]
    assert cluster.host_of(cluster.spawn("Sink", near=int(there[0]))[0]) == 1


def test_a_thread_sends_to_and_asks_actors_of_every_host(cluster):
    for address in cluster.spawn("Sink", 3):
        for value in range(20):
            cluster.send(address, "Number", source=3, value=value)
        answer = told(cluster, address)
        assert (answer["count"], answer["sum"], answer["wrong"]) == (20, 190, 0)
        assert answer["self"] == address


def test_handlers_send_to_all_hosts_in_order_and_exactly_once(cluster):
    count = 20_000
    sinks = cluster.spawn("Sink", 3)
    sources = cluster.spawn("Source", 3)
    for _ in range(10):
        for number, source in enumerate(sources):
            to = sinks[(number + 1) % 3]
            cluster.send(source, "Go", to=to, count=count // 10, source=number)
    cluster.drain(timeout=60)
    for sink in sinks:
        answer = told(cluster, sink)
        assert (answer["count"], answer["wrong"]) == (count, 0)
        assert answer["sum"] == count * (count - 1) // 2
    assert [int(told(cluster, s)["wrong"]) for s in sources] == [0, 0, 0]


def test_messages_of_several_slots_arrive_whole_and_come_back(cluster):
    (here,) = cluster.spawn("Long", host=0)
    (there,) = cluster.spawn("Long", host=2)
    for first in range(200):
        word = np.arange(first, first + 250, dtype=np.uint32)
        cluster.send(there, "Block", back=here, word=word)
    cluster.drain()
    for address in (here, there):
        answer = told(cluster, address)
        assert (answer["count"], answer["wrong"]) == (200, 0)


def test_two_actors_pass_a_ball_by_the_addresses_they_tell_each_other(cluster):
    (one,) = cluster.spawn("Ping", host=1)
    (other,) = cluster.spawn("Ping", host=2)
    cluster.send(one, "Ball", other=other, left=1001)
    cluster.drain()
    assert told(cluster, one)["count"] + told(cluster, other)["count"] == 1002


def test_a_sender_is_the_same_on_every_host_and_may_be_answered_from_a_third(cluster):
    (source,) = cluster.spawn("Source", host=1)
    (second,) = cluster.spawn("Source", host=2)
    (third,) = cluster.spawn("Source", host=0)
    for other in (second, third):
        answer = cluster.ask(source, "Pass", to=other, timeout=10.0)
        assert (answer["sum"], answer["count"], answer["self"]) == (7, 8, other)
    seen = cluster.ask(third, "Pass", to=source, timeout=10.0)
    assert seen["self"] == source


def test_a_reply_to_a_thread_that_did_not_ask_comes_to_its_process(cluster):
    (sink,) = cluster.spawn("Sink", host=2)
    cluster.send(sink, "Ask")
    got = cluster.receive(timeout=10.0)
    assert (got.type, got.sender, got.message["self"]) == ("Told", sink, sink)


def test_an_actor_is_found_by_its_name_on_whichever_host(cluster):
    (made,) = cluster.spawn("Sink", host=1, name="books")
    assert cluster.find("books") == made
    with pytest.raises(NoActorError, match="no host has an actor that is called"):
        cluster.find("papers")
    cluster.stop(made)


def test_what_is_sent_to_an_actor_that_has_stopped_is_a_dead_letter_there(cluster):
    (made,) = cluster.spawn("Sink", host=1)
    cluster.stop(made)
    cluster.dead_letters()
    cluster.send(made, "Number", value=1)
    with pytest.raises(NoActorError, match="host 1 has no such actor"):
        cluster.ask(made, "Ask", timeout=10.0)
    cluster.drain()
    texts = [d["text"] for d in cluster.dead_letters()[1]]
    assert len(texts) == 2
    assert "from host 0 to" in texts[0]
    assert "no such actor" in texts[0]


def test_an_ask_of_another_host_has_a_deadline(cluster):
    (made,) = cluster.spawn("Sink", host=1)
    cluster.pause(made)
    with pytest.raises(DeadlineError, match="not answered within") as told_once:
        cluster.ask(made, "Ask", timeout=0.2)
    assert "of host 1" in str(told_once.value)
    with pytest.raises(DeadlineError) as told_again:
        asyncio.run(cluster.ask_async(made, "Ask", timeout=0.2))
    assert str(told_again.value) == str(told_once.value)
    cluster.resume(made)
    assert told(cluster, made)["count"] == 0


def test_a_receiver_that_does_not_keep_up_holds_its_senders_back(cluster):
    """The rings between them are bounded: most of what is sent has to wait at its sender."""
    (sink,) = cluster.spawn("Sink", host=1)
    (source,) = cluster.spawn("Source", host=2)
    cluster.pause(sink)
    cluster.send(source, "Go", to=sink, count=6000, source=0)
    assert told(cluster, source)["count"] == 6000
    with pytest.raises(DeadlineError):
        cluster.drain(timeout=0.5)
    cluster.resume(sink)
    cluster.drain()
    answer = told(cluster, sink)
    assert (answer["count"], answer["wrong"]) == (6000, 0)


def test_links_tell_what_went_over_them(cluster):
    cluster.drain()
    stats = cluster.stats()
    for host, of_host in stats.items():
        for other, link in of_host["links"].items():
            assert link["state"] == "up"
            assert link["taken"] == link["acknowledged"] or link["taken"] > 0
            back = stats[other]["links"][host]
            assert link["taken"] == back["delivered"] + back["refused"]


def test_addresses_of_elsewhere_and_wrong_arguments_are_refused(cluster):
    with pytest.raises(ArgumentError, match="no address of this cluster"):
        cluster.host_of(5)
    with pytest.raises(ArgumentError, match="host = 3; there are 3"):
        cluster.spawn("Sink", host=3)
    with pytest.raises(ArgumentError, match="use auto or rings or tcp"):
        Cluster(cluster_sample.PROGRAM, transport="pigeons")
    with pytest.raises(ArgumentError, match="hosts = 0"):
        Cluster(cluster_sample.PROGRAM, hosts=0)
    with (
        pytest.raises(ArgumentError, match="of no cluster"),
        denizen.Runtime(cluster_sample.PROGRAM, "cpu:1") as rt,
    ):
        denizen._core.to_short(rt._core, 5)


def test_what_cannot_be_cut_is_refused(cluster):
    if cluster.transport == "rings":
        with pytest.raises(ArgumentError, match="hosts 1 and 2 share memory, which nobody can cut"):
            cluster.partition([1], [2])
    with pytest.raises(ArgumentError, match="host = 7; there are 3"):
        cluster.partition([0], [7])
    with pytest.raises(ArgumentError, match="host 1 is in both groups"):
        cluster.partition([0, 1], [1])
    cluster.drain()


def test_many_are_spread_evenly_and_the_next_goes_on_from_there(cluster):
    spread = cluster.spawn("Sink", 301)
    at = [cluster.host_of(a) for a in (*spread, *cluster.spawn("Sink", 2))]
    assert all(b == (a + 1) % 3 for a, b in pairwise(at))


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"hosts": 1.5}, "hosts = 1.5; give a number, a list with the device of each, or"),
        ({"hosts": True}, "hosts = True; give a number"),
        ({"deadline": float("inf")}, "deadline = inf; use 0.01 to 86400 s"),
        ({"deadline": float("nan")}, "deadline = nan; use 0.01"),
        ({"deadline": 0.001}, "deadline = 0.001; use 0.01"),
        ({"spin": -1}, "spin = -1; use 0 to 86400 s"),
        ({"start_timeout": "soon"}, "start_timeout = 'soon'; use 0 to"),
        ({"address": 7}, "address = 7; give a text"),
        ({"log_bytes": -1}, "log_bytes = -1; use a whole number from 0"),
        ({"placement": 3}, 'placement = 3; use "ray" or a RayPlacement'),
        ({"restore": 3}, "restore = 3; give the folder that save"),
        (
            {"address": "192.0.2.1", "transport": "tcp"},
            'address = "192.0.2.1": Cannot assign requested address; use an address of this',
        ),
    ],
    ids=str,
)
def test_what_a_cluster_cannot_be_made_of_is_named_at_once(given, text):
    with pytest.raises(ArgumentError, match=re.escape(text)):
        Cluster(cluster_sample.PROGRAM, **given)


def test_hosts_with_another_denizen_are_refused(monkeypatch):
    monkeypatch.setattr(denizen, "__version__", "0.0.7")
    with pytest.raises(ArgumentError, match=r"host 1: denizen here is .*process 0\.0\.7 \(layout"):
        Cluster(cluster_sample.PROGRAM, 2)


UNCLOSED = """
import os, sys
import cluster_sample, denizen

if __name__ == "__main__":
    cluster = denizen.Cluster(cluster_sample.PROGRAM, hosts=2)
    if (child := os.fork()) == 0:
        sys.exit(0)  # its own end is not the cluster's
    os.waitpid(child, 0)
    print(len(os.listdir(os.environ["TMPDIR"])))
    cluster.ask(cluster.spawn("Sink", host=1)[0], "Ask")
"""


def test_a_cluster_that_nobody_closes_leaves_nothing_behind(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(UNCLOSED)
    own = Path(tempfile.mkdtemp(dir="/tmp"))  # short enough for sockets
    paths = [str(Path(cluster_sample.__file__).parent), *filter(None, sys.path)]
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", str(script)],  # fork()'s, since 3.12
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "TMPDIR": str(own)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")
    own.rmdir()  # it is empty


def test_a_long_path_for_temporary_files_is_no_hindrance(tmp_path, monkeypatch):
    long = tmp_path / ("x" * 80)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    with Cluster(cluster_sample.PROGRAM, hosts=2) as cluster:
        (sink,) = cluster.spawn("Sink", host=1)
        assert cluster.ask(sink, "Ask")["count"] == 0
    assert list(long.iterdir()) == []
