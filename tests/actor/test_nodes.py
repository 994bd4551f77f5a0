# SPDX-License-Identifier: Apache-2.0
"""One program on several nodes, and actors placed near others."""

import numpy as np
import pytest
import sample

import denizen
from denizen import _core


def nodes_of(addresses):
    return (addresses >> 29).tolist()


def workers_of(addresses):
    return (addresses >> 18 & 2047).tolist()


@pytest.fixture(params=["cpu:2x2", pytest.param("gpu:0-1", marks=pytest.mark.gpu)])
def two(request):
    if request.param.startswith("gpu") and _core.gpu_count() < 2:
        pytest.skip("there is one GPU")
    # What is chosen may be one SM a cluster; on the CPU the option says nothing.
    cluster = {"cluster": 2} if request.param.startswith("gpu") else {}
    with denizen.Runtime(sample.program(), request.param, **cluster) as runtime:
        yield runtime


def test_actors_on_two_nodes_answer_and_send_to_each_other(two):
    workers = two.description["workers"]
    assert two.description["nodes"] == 2
    hoppers = two.spawn("Hopper", 2 * workers)
    assert sorted(set(zip(nodes_of(hoppers), workers_of(hoppers), strict=True))) == [
        (n, w) for n in range(2) for w in range(workers)
    ]
    a, b = (int(hoppers[nodes_of(hoppers).index(n)]) for n in range(2))
    two.send(a, "Hop", to=b, left=99)
    two.drain()
    assert [two.ask(x, "Ask")["sum"] for x in (a, b)] == [50, 50]
    two.drain()
    stats = two.stats()
    assert len(stats["handled_by_worker"]) == 2 * workers
    assert stats["sent_by_route"] == {
        "worker": 0, "sm": 0, "cluster": 0, "gpu": 0, "peer": 99, "host": 2,
    }  # fmt: skip


def test_spawning_near_an_actor_or_on_a_node(two):
    first = int(two.spawn("Hopper", node=1)[0])
    beside = two.spawn("Hopper", 3, near=first)
    assert nodes_of(beside) == [1] * 3
    assert set(workers_of(beside)) == {first >> 18 & 2047}
    two.send(first, "Hop", to=int(beside[0]), left=10)
    cluster = two.spawn("Hopper", 3, near=np.uint32(first), how="cluster")
    assert nodes_of(cluster) == [1] * 3
    assert not set(workers_of(cluster)) & set(workers_of(beside))
    two.send(first, "Hop", to=int(cluster[0]), left=20)
    two.drain()
    routes = two.stats()["sent_by_route"]
    assert (routes["worker"], routes["cluster"], routes["peer"]) == (10, 20, 0)
    everywhere = two.spawn("Hopper", two.description["workers"], node=0)
    assert set(nodes_of(everywhere)) == {0}
    assert len(set(workers_of(everywhere))) == two.description["workers"]


def test_placements_that_cannot_be():
    with denizen.Runtime(sample.program(), "cpu:2x1") as rt:
        (a,) = rt.spawn("Counter")
        for options, text in [
            ({"near": a, "node": 1}, "near = 0 and node = 1; give one of the two"),
            ({"near": a, "how": "far"}, 'how = "far"; use worker, sm, cluster, node'),
            ({"node": 2}, "node = 2; the program has 2, counted from 0"),
            ({"node": -1}, "node = -1; the program has 2, counted from 0"),
            ({"near": a, "how": "sm"}, "worker 0 on node 0 is the only one of its SM"),
            ({"near": a, "how": "cluster"}, "worker 0 on node 0 has no other SM in its cluster"),
            ({"near": 0xFFFFFFFF}, "spawning near the host"),
        ]:
            with pytest.raises(denizen.ArgumentError, match=text):
                rt.spawn("Counter", **options)
        assert nodes_of(rt.spawn("Counter", near=a, how="node")) == [0]


@pytest.mark.parametrize(
    ("device", "text"),
    [
        ("cpu:0x3", '"cpu:0x3" has no nodes; use "cpu:1x3" or more'),
        ("cpu:2x0", '"cpu:2x0" has no threads'),
        ("cpu:2x", '; use "auto", "cpu"'),
        ("cpu:x2", '; use "auto", "cpu"'),
        ("cpu:9x1", "nodes = 9; use 1 to 5"),
        ("gpu:1-0", '"gpu:1-0" names no GPU; use "gpu:0-1"'),
        ("gpu:0-", '; use "auto", "cpu"'),
    ],
)
def test_devices_of_several_nodes_that_do_not_exist(device, text):
    with pytest.raises(denizen.ArgumentError, match=text):
        denizen.Runtime(sample.program(), device)


def test_more_gpus_than_there_are():
    last = _core.gpu_count() + 3
    with pytest.raises(denizen.DeviceError, match=f"there is no GPU {last}: "):
        denizen.Runtime(sample.program(), f"gpu:0-{last}")


def test_idle_is_for_one_node():
    with pytest.raises(denizen.ArgumentError, match="idle = 5 ms with 2 nodes: "):
        denizen.Runtime(sample.program(), "cpu:2x1", idle_ms=5)


@pytest.mark.parametrize("cluster", [3, 32])
def test_clusters_that_cannot_be(cluster):
    with pytest.raises(denizen.ArgumentError, match="; use a power of two from 1 to 16, or 0"):
        denizen.Runtime(sample.program(), "cpu:2", cluster=cluster)
