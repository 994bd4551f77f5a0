# SPDX-License-Identifier: Apache-2.0
"""Hosts that Ray has placed on three virtual nodes. test_ray.py runs this in a network namespace.

Each trial leaves Ray with the nodes that it had, but the last ones.
"""

import gc
import json
import os
import re
import runpy
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import cluster_sample
import pytest
import ray
import ray_sample
from ray.cluster_utils import Cluster as Nodes
from ray_sample import accounted, all_to_all, ended, told
from waiting import until

import denizen
from denizen import Cluster, ExhaustedError, HostLostError, cli
from denizen.cluster import RayPlacement

LETTERS = 1 << 16  # each host's dead letters are all read
# None of these trials is about a host that is silent for a while, but one.
DEADLINE = 30.0


@pytest.fixture(scope="module")
def nodes():
    """Ray's head, where this process is, and two other nodes."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    given = {"num_cpus": 2, "object_store_memory": ray_sample.STORE}
    nodes = Nodes(initialize_head=True, head_node_args={**given, "include_dashboard": False})
    try:
        nodes.others = [nodes.add_node(**given) for _ in range(2)]
        ray.init(address=nodes.address, log_to_driver=False)
        yield nodes
    finally:
        ray.shutdown()
        nodes.shutdown()


def test_each_node_has_a_host_and_messages_arrive_once_in_order(nodes):
    with Cluster(cluster_sample.PROGRAM, "ray", max_actors=64, deadline=DEADLINE) as cluster:
        hosts = cluster.hosts
        own = ray.get_runtime_context().get_node_id()
        assert hosts[0].node == own
        assert {h.node for h in hosts} == {n["NodeID"] for n in ray.nodes() if n["Alive"]}
        assert len({h.pid for h in hosts}) == 3
        assert cluster.transport == "rings"  # all are on one machine
        token = cluster._hosts._token.hex()
        for line in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                assert token.encode() not in line.read_bytes()
        actors = all_to_all(cluster, 5000)
        cluster.drain(timeout=120)
        for _, sink in actors.values():
            answer = told(cluster, sink)
            assert (answer["count"], answer["wrong"]) == (5000, 0)
        with pytest.raises(denizen.DenizenError, match='host 1: no actor can be told to "dance"'):
            cluster._life("dance", actors[0, 1][1], 5.0)
        pids = [h.pid for h in hosts[1:]]
    until(lambda: all(ended(pid) for pid in pids))
    gc.collect()
    until(lambda: ray.available_resources()["CPU"] == 6)


def test_a_placement_group_has_as_many_hosts_as_are_asked_for_over_tcp(nodes):
    spread = RayPlacement("STRICT_SPREAD", resources={"CPU": 2})
    with Cluster(
        cluster_sample.PROGRAM, 3, placement=spread, transport="tcp", max_actors=64,
        deadline=DEADLINE,
    ) as cluster:  # fmt: skip
        assert len({h.node for h in cluster.hosts[1:]}) == 2
        assert json.loads(cluster._hosts.local.links.place)["address"] == "127.0.0.1"
        assert ray.available_resources()["CPU"] == 2
        actors = all_to_all(cluster, 2000)
        cluster.drain(timeout=120)
        assert all(told(cluster, sink)["count"] == 2000 for _, sink in actors.values())
    until(lambda: ray.available_resources()["CPU"] == 6)


def test_what_ray_has_no_room_for_is_an_error_that_says_so(nodes):
    with pytest.raises(ExhaustedError, match=r"2 hosts of {'CPU': 100} \(SPREAD\) in time.*left"):
        Cluster(
            cluster_sample.PROGRAM, 3, placement=RayPlacement(resources={"CPU": 100}),
            start_timeout=1.0,
        )  # fmt: skip
    with pytest.raises(ExhaustedError, match=r"1 hosts of {'GPU': 1}"):
        Cluster(cluster_sample.PROGRAM, ["cpu:1", "gpu:0"], placement="ray", start_timeout=1.0)
    with pytest.raises(denizen.DenizenError, match="host 1: "):
        Cluster(
            cluster_sample.PROGRAM, ["cpu:1", "gpu:0"], placement=RayPlacement(resources={"CPU": 1})
        )
    until(lambda: ray.available_resources()["CPU"] == 6)


def test_a_killed_actor_is_lost_and_started_again_from_the_snapshot(nodes, tmp_path):
    with Cluster(
        cluster_sample.PROGRAM, 3, placement="ray", restart="snapshot", max_actors=64,
        dead_letter_slots=LETTERS, deadline=DEADLINE,
    ) as cluster:  # fmt: skip
        actors = all_to_all(cluster, 1000)
        cluster.drain(timeout=120)
        cluster.save(tmp_path, timeout=60)
        before = cluster.hosts[1]
        for source, sink in (actors[0, 1], actors[2, 1]):
            cluster.send(source, "Go", to=sink, source=0, count=3000)
        cluster._hosts.on_loss = None  # first look at what it is without
        os.kill(before.pid, signal.SIGKILL)
        with pytest.raises(HostLostError, match="host 1 was lost"):
            while True:  # ends by the error
                cluster.send(actors[2, 1][1], "Number", source=7, value=0)
        until(lambda: all(s["links"][1]["state"] == "lost" for s in cluster.stats().values()))
        until(lambda: "Ray actor has died" in cluster._hosts._lost.get(1, ""))
        for source, _ in (actors[0, 1], actors[2, 1]):
            assert told(cluster, source)["count"] == 4000
        cluster.drain(timeout=120)
        accounted(cluster, 1)
        (again,) = cluster.restart_lost()
        assert again.host == 1
        assert cluster.hosts[1].pid != before.pid
        assert not cluster.lost
        cluster._hosts.on_loss = cluster._start_again
        # Its actors are those of the snapshot, and all goes on.
        answer = told(cluster, actors[2, 1][1])
        assert (answer["count"], answer["wrong"]) == (1000, 0)
        answer = told(cluster, actors[1, 2][0])
        assert answer["count"] == 1000
        cluster.send(actors[1, 2][0], "Go", to=actors[1, 2][1], source=0, count=1000)
        cluster.drain(timeout=120)
        assert told(cluster, actors[1, 2][1])["count"] == 2000
        # And by itself.
        os.kill(cluster.hosts[2].pid, signal.SIGKILL)
        until(lambda: len(cluster.restarts) == 2)
        until(lambda: not cluster.lost)
        assert told(cluster, actors[1, 2][1])["count"] == 1000


def _stopped(pid):
    """All of its threads, which a signal reaches one by one."""
    each = Path(f"/proc/{pid}/task").glob("*/stat")
    return all(t.read_text().rpartition(")")[2].split()[0] == "T" for t in each)


def test_a_stopped_actor_is_lost_after_the_deadline_and_started_again(nodes, tmp_path):
    with Cluster(
        cluster_sample.PROGRAM, 2, placement="ray", max_actors=64, deadline=3.0
    ) as cluster:
        (sink,) = cluster.spawn("Sink", host=1)
        cluster.send(sink, "Number", source=0, value=0)
        cluster.drain()
        cluster.save(tmp_path, timeout=60)
        pid = cluster.hosts[1].pid
        os.kill(pid, signal.SIGSTOP)
        until(lambda: _stopped(pid))
        with pytest.raises(HostLostError, match="host 1 was lost: it has been silent for"):
            cluster.ask(sink, "Ask", timeout=60.0)
        (again,) = cluster.restart_lost()
        assert again.host == 1
        until(lambda: ended(pid))
        assert told(cluster, sink)["count"] == 1


def test_the_command_starts_hosts_where_ray_is(nodes, capsys):
    words = ["--ray", nodes.address, "--hosts", "2", "--seconds", "0.5", "--deadline", "30"]
    assert cli.main(["cluster", "up", *words]) == 0
    rows = re.findall(r"^ +(\d) +\d+  CPU .* us  up, node (\w{8})$", capsys.readouterr().out, re.M)
    assert [host for host, _ in rows] == ["0", "1"]


def test_the_snippet_of_the_documentation_runs(nodes, tmp_path, capsys):
    page = Path(__file__).parents[2] / "docs/scale.md"
    first, with_ray = (
        next(b for b in re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.M | re.S)
             if mark in b)
        for mark in ("class Player", "RayPlacement")
    )  # fmt: skip
    (tmp_path / "snippet.py").write_text(first + with_ray, "utf-8")
    runpy.run_path(str(tmp_path / "snippet.py"), run_name="__main__")
    assert capsys.readouterr().out.splitlines()[0] == "50 50"


def test_actors_end_with_the_process_that_has_started_them(nodes):
    code = (
        "import sys, time; sys.path.insert(0, sys.argv[1]); import cluster_sample, ray, denizen\n"
        "ray.init(address=sys.argv[2], log_to_driver=False)\n"
        "cluster = denizen.Cluster(cluster_sample.PROGRAM, 2, placement='ray', max_actors=64)\n"
        "print(cluster.hosts[1].pid, flush=True)\n"
        "time.sleep(600)"
    )
    here = os.path.dirname(__file__)
    with subprocess.Popen(
        [sys.executable, "-c", code, here, nodes.address], stdout=subprocess.PIPE, text=True
    ) as parent:
        try:
            pid = int(parent.stdout.readline())
            assert not ended(pid)
        finally:
            parent.kill()
    until(lambda: ended(pid))
    until(lambda: ray.available_resources()["CPU"] == 6)


def test_hosts_are_lost_when_ray_is_shut_down_in_this_process(nodes):
    code = (
        "import sys, time; sys.path.insert(0, sys.argv[1]); import cluster_sample, ray, denizen\n"
        "ray.init(address=sys.argv[2], log_to_driver=False)\n"
        "with denizen.Cluster(cluster_sample.PROGRAM, 2, placement='ray', max_actors=64) as made:\n"
        "    ray.shutdown()\n"
        "    while not made._hosts._lost: time.sleep(0.01)\n"
        "    print(made._hosts._lost[1])\n"
    )
    here = os.path.dirname(__file__)
    done = subprocess.run(
        [sys.executable, "-c", code, here, nodes.address],
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "host 1 was lost: Ray was shut down in the cluster's process\n"
    until(lambda: ray.available_resources()["CPU"] == 6)


@pytest.mark.parametrize("given", [{"hosts": "ray"}, {"hosts": 3, "placement": "ray"}], ids=str)
def test_the_host_of_a_lost_node_is_started_again_on_another_one(nodes, tmp_path, given):
    with Cluster(
        cluster_sample.PROGRAM,
        **given,
        max_actors=64,
        dead_letter_slots=LETTERS,
        deadline=DEADLINE,
    ) as cluster:
        actors = all_to_all(cluster, 1000)
        cluster.drain(timeout=120)
        cluster.save(tmp_path, timeout=60)
        lost, node = next(
            (h, n) for h in cluster.hosts for n in nodes.others if n.node_id == h.node
        )
        gone, other = lost.number, 3 - lost.number
        for source, sink in (actors[0, gone], actors[other, gone]):
            cluster.send(source, "Go", to=sink, source=0, count=3000)
        nodes.remove_node(node, allow_graceful=False)
        nodes.others.remove(node)
        with pytest.raises(HostLostError, match=f"host {gone} was lost"):
            while True:  # ends by the error
                cluster.send(actors[other, gone][1], "Number", source=7, value=0)
        until(lambda: all(s["links"][gone]["state"] == "lost" for s in cluster.stats().values()))
        for source, _ in (actors[0, gone], actors[other, gone]):
            assert told(cluster, source)["count"] == 4000
        cluster.drain(timeout=120)
        accounted(cluster, gone)
        cluster.restart_lost(timeout=120)
        assert cluster.hosts[gone].node in {n["NodeID"] for n in ray.nodes() if n["Alive"]}
        assert cluster.hosts[gone].node != lost.node
        answer = told(cluster, actors[other, gone][1])
        assert (answer["count"], answer["wrong"]) == (1000, 0)
        assert told(cluster, actors[gone, 0][0])["count"] == 1000
