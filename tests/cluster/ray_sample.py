# SPDX-License-Identifier: Apache-2.0
"""What the trials with Ray share."""

from pathlib import Path

STORE = 80 << 20  # bytes of each node's object store: the least that Ray takes


def ended(pid):
    """Whether a process is gone; one that nobody has waited for yet is."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("ascii")
    except FileNotFoundError:
        return True
    return stat.rpartition(")")[2].split()[0] == "Z"


def told(cluster, address):
    return cluster.ask(address, "Ask", timeout=30.0)


def all_to_all(cluster, count):
    """Each host sends to each other one; returns by pair the actors (source, sink)."""
    hosts = [h.number for h in cluster.hosts]
    actors = {}
    for a in hosts:
        for b in hosts:
            if a != b:
                (source,), (sink,) = cluster.spawn("Source", host=a), cluster.spawn("Sink", host=b)
                cluster.send(source, "Go", to=sink, source=0, count=count)
                actors[a, b] = int(source), int(sink)
    return actors


def accounted(cluster, lost):
    """What went to a lost host was acknowledged, or is a dead letter."""
    letters = cluster.dead_letters()
    for host, stats in cluster.stats().items():
        link = stats["links"][lost]
        assert link["state"] == "lost"
        assert link["taken"] == link["acknowledged"] + link["lost"]
        assert link["lost"] == sum(d["reason"] == "lost" for d in letters[host])
