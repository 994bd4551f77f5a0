# SPDX-License-Identifier: Apache-2.0
"""Hosts that Ray has placed on two machines. test_ray.py runs this in a network namespace.

The second machine is another namespace, at the end of a virtual cable.
"""

import json
import subprocess
import sys

import cluster_sample
import pytest
import ray
import ray_sample
from ray.cluster_utils import Cluster as Nodes
from ray_sample import accounted, all_to_all, told
from waiting import until

from denizen import ArgumentError, Cluster, HostLostError

HERE, THERE = "10.77.0.1", "10.77.0.2"
NODE = """
ip link set lo up && echo ready && read go &&
ip addr add {there}/24 dev far && ip link set far up &&
exec {python} -c "from ray.scripts.scripts import main; main()" start --block --address={head} \\
    --node-ip-address={there} --num-cpus=2 --object-store-memory={store}
"""


def ip(*words):
    subprocess.run(["ip", *words], check=True)


@pytest.fixture(scope="module")
def machines():
    """Ray's head, where this process is, and a node on another machine."""
    ip("link", "set", "lo", "up")
    ip("link", "add", "near", "type", "veth", "peer", "name", "far")
    ip("addr", "add", f"{HERE}/24", "dev", "near")
    ip("link", "set", "near", "up")
    given = {"num_cpus": 2, "object_store_memory": ray_sample.STORE}
    nodes = Nodes(
        initialize_head=True,
        head_node_args={**given, "node_ip_address": HERE, "include_dashboard": False},
    )
    text = NODE.format(
        python=sys.executable, head=nodes.address, there=THERE, store=ray_sample.STORE
    )
    other = subprocess.Popen(
        ["unshare", "--net", "--pid", "--mount-proc", "--fork", "--kill-child", "sh", "-c", text],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        other.stdout.readline()
        ip("link", "set", "far", "netns", str(other.pid))
        other.stdin.write("go\n")
        other.stdin.flush()
        ray.init(address=nodes.address, log_to_driver=False)
        until(lambda: sum(n["Alive"] for n in ray.nodes()) == 2)
        yield
    finally:
        ray.shutdown()
        nodes.shutdown()
        other.kill()  # and all of its namespace
        other.wait()


def test_hosts_on_two_machines_listen_on_the_addresses_of_their_nodes(machines):
    with Cluster(cluster_sample.PROGRAM, "ray", max_actors=64, deadline=30.0) as cluster:
        assert cluster.transport == "tcp"
        places = [cluster._hosts.about[host]["place"] for host in (0, 1)]
        assert [json.loads(place)["address"] for place in places] == [HERE, THERE]
        actors = all_to_all(cluster, 5000)
        cluster.drain(timeout=120)
        for _, sink in actors.values():
            answer = told(cluster, sink)
            assert (answer["count"], answer["wrong"]) == (5000, 0)


def test_memory_of_one_machine_is_not_for_two(machines):
    with pytest.raises(ArgumentError, match=f"Ray has placed host 1 on {THERE}"):
        Cluster(cluster_sample.PROGRAM, "ray", transport="rings")
    until(lambda: ray.available_resources()["CPU"] == 4)


def test_a_cut_cable_is_a_lost_host_which_is_started_again_on_this_machine(machines, tmp_path):
    with Cluster(
        cluster_sample.PROGRAM, "ray", max_actors=64, deadline=3.0, dead_letter_slots=1 << 16
    ) as cluster:
        actors = all_to_all(cluster, 1000)
        cluster.drain(timeout=120)
        cluster.save(tmp_path, timeout=60)
        before = cluster.hosts[1]
        ip("link", "set", "near", "down")
        source, sink = actors[0, 1]
        cluster.send(source, "Go", to=sink, source=0, count=2000)
        with pytest.raises(HostLostError, match="host 1 was lost"):
            cluster.ask(sink, "Ask", timeout=60.0)
        assert told(cluster, source)["count"] == 3000
        cluster.drain(timeout=120)
        accounted(cluster, 1)
        cluster.restart_lost(timeout=180)
        assert cluster.hosts[1].node not in ("", before.node)
        assert told(cluster, sink)["count"] == 1000
        cluster.send(source, "Go", to=sink, source=1, count=0)
        assert told(cluster, actors[1, 0][0])["count"] == 1000
