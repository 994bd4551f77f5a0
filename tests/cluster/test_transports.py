# SPDX-License-Identifier: Apache-2.0
"""transport="auto": what is taken for each two hosts, and what is said of it."""

import cluster_sample
import pytest

from denizen import Cluster, DeviceError
from denizen.cluster import child, cluster, ucx

needs_ucx = pytest.mark.skipif(ucx.find() is None, reason="libucx-cu13 is not installed")


@pytest.mark.parametrize("given", [None, "auto"])
def test_on_one_machine_all_go_by_memory(given):
    with Cluster(cluster_sample.PROGRAM, 2, transport=given, max_actors=64) as made:
        assert made.transport == "rings"
        assert made.description["links"] == {
            (0, 1): {"transport": "rings", "why": "all hosts are processes of this machine"}
        }
        assert made.description["devices"].keys() == {0, 1}


def test_what_is_given_is_taken():
    with Cluster(cluster_sample.PROGRAM, 2, transport="tcp", max_actors=64) as made:
        (link,) = made.description["links"].values()
        assert link == {"transport": "tcp", "why": 'transport = "tcp" was given'}


class Apart(child.Subprocesses):
    """Host 1 believes that it is on another machine than hosts 0 and 2."""

    def __init__(self, transport, address):
        super().__init__(transport, address)
        self.here = {**self.here, "transport": "auto", "why": ""}

    def start(self, number, given, *others):
        return super().start(number, {**given, "machine": "another"} | _own(number), *others)


def _own(number):
    return {"machine": ""} if number == 2 else {}


def links(monkeypatch):
    monkeypatch.setattr(cluster, "Subprocesses", Apart)
    with Cluster(cluster_sample.PROGRAM, 3, max_actors=64) as made:
        sinks, sources = made.spawn("Sink", 3), made.spawn("Source", 3)
        for number, source in enumerate(sources):
            to = sinks[(number + 1) % 3]
            made.send(source, "Go", to=to, source=number, count=500)
        made.drain()
        for sink in sinks:
            told = made.ask(sink, "Ask")
            assert (told["count"], told["wrong"]) == (500, 0)
        assert made.transport == "mixed"
        return made.description["links"]


def test_each_pair_has_what_it_can_have(monkeypatch):
    monkeypatch.setattr(ucx, "find", lambda: None)  # of host 0: the others ask for themselves
    found = links(monkeypatch)
    assert found[0, 2] == {"transport": "rings", "why": "both are on one machine"}
    assert found[0, 1]["transport"] == "tcp"
    assert found[0, 1]["why"].startswith(
        "the hosts are on two machines; no UCX: host 0: UCX is not"
    )
    assert found[1, 2]["why"].startswith("the hosts are on two machines")


@needs_ucx
def test_ucx_is_taken_where_both_have_it(monkeypatch):
    found = links(monkeypatch)
    assert found[0, 2]["transport"] == "rings"
    for pair in ((0, 1), (1, 2)):
        assert found[pair] == {
            "transport": "ucx",
            "why": "the hosts are on two machines, and reach each other by UCX",
        }


@needs_ucx
def test_ucx_that_does_not_reach_is_not_taken(monkeypatch):
    def lies(address):
        class End:
            def __init__(self):
                self.address = b"\x01" * 40

            def reach(self, theirs):
                raise DeviceError("no way there")

        return End()

    monkeypatch.setattr(ucx, "end", lies)
    found = links(monkeypatch)
    assert found[0, 1]["transport"] == "tcp"
    assert "no way there" in found[0, 1]["why"]
    assert found[1, 2]["transport"] == "ucx"
