# SPDX-License-Identifier: Apache-2.0
"""Traces of a cluster: one order of all hosts' events, whatever the hosts' clocks say."""

import os

import numpy as np
import pytest

import denizen
from denizen import ArgumentError, Cluster
from denizen.cluster.tracing import CLUSTER_RECORD, in_order, in_time
from denizen.program import library_of
from denizen.trace import HANDLER, HOST, SEND

TEXT = """
struct Walker {
    uint32_t steps = 0;
    void on(const Step& m, auto& ctx) {
        ++steps;
        if (m.left == 0) { return; }
        // Two that go on, and of these the second ends at once.
        denizen::Address next = m.left % 3 == 0 ? m.a : m.left % 3 == 1 ? m.b : m.c;
        ctx.send(next, Step{m.a, m.b, m.c, m.left - 1});
        ctx.send(m.left % 2 == 0 ? m.a : m.c, Step{m.a, m.b, m.c, 0});
    }
    void on(const Look&, auto& ctx) { ctx.reply(Seen{steps}); }
};
"""
PROGRAM = denizen.Program(
    TEXT,
    actors=["Walker"],
    messages=[
        denizen.message(
            "Step",
            [
                ("a", denizen.ADDRESS),
                ("b", denizen.ADDRESS),
                ("c", denizen.ADDRESS),
                ("left", np.uint32),
            ],
        ),
        denizen.message("Look"),
        denizen.message("Seen", [("steps", np.uint32)]),
    ],
    name="walkers",
)
STEPS = 90

# In each further process that has it: the time of day is wrong, by 20 s in turns.
SKEW = """
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
static long ahead = 0;
__attribute__((constructor)) static void choose() {
    const char* folder = getenv("DENIZEN_TEST_SKEW");
    char path[512];
    for (int i = 0; folder != nullptr && i < 16; ++i) {
        snprintf(path, sizeof path, "%s/%d", folder, i);
        if (mkdir(path, 0700) == 0) {
            ahead = i % 2 == 0 ? 20 : -20;
            return;
        }
    }
}
extern "C" __attribute__((visibility("default"))) int clock_gettime(clockid_t which, timespec* t) {
    using Call = int (*)(clockid_t, timespec*);
    static const auto real = reinterpret_cast<Call>(dlsym(RTLD_NEXT, "clock_gettime"));
    const int status = real(which, t);
    if (status == 0 && which == CLOCK_REALTIME) { t->tv_sec += ahead; }
    return status;
}
"""


def walk(cluster):
    """Steps from host to host, and an ask; traced."""
    a, b, c = (int(x) for x in cluster.spawn("Walker", 3))
    with cluster.trace() as trace:
        for _ in range(3):
            cluster.send(a, "Step", a=a, b=b, c=c, left=STEPS)
        cluster.drain()
        steps = sum(int(cluster.ask(x, "Look")["steps"]) for x in (a, b, c))
    assert steps == 3 * (2 * STEPS + 1)
    assert trace.overwritten == 0
    return trace.events


def check(events):
    """Each message is there twice, and no cause is behind what it has caused."""
    place = {}
    for at, e in enumerate(events):
        if e["kind"] == SEND:
            assert place.setdefault((int(e["stamp"]), int(e["actor"])), at) == at
    handled = 0
    for at, e in enumerate(events):
        if e["kind"] == HANDLER:
            assert place[int(e["stamp"]), int(e["other"])] < at
            handled += 1
    assert handled == len(place) == 3 * (2 * STEPS + 1) + 6
    # What each actor does is in its order, by its own host's clock that only goes on.
    for host in range(3):
        for actor in np.unique(events["actor"][events["host"] == host]):
            mine = events[(events["host"] == host) & (events["actor"] == actor)]
            mine = mine[mine["worker"] != HOST]
            assert (np.diff(mine["start_ns"].astype(np.int64)) >= 0).all()
    assert set(events["host"].tolist()) == {0, 1, 2}


@pytest.fixture
def skewed(tmp_path, monkeypatch):
    """Hosts 1 and 2 have clocks that are 20 s ahead and behind, and host 0 has this process's."""
    (tmp_path / "skew.so").write_bytes(library_of(SKEW, "a wrong clock"))
    (tmp_path / "turns").mkdir()
    monkeypatch.setenv("LD_PRELOAD", str(tmp_path / "skew.so"))
    monkeypatch.setenv("DENIZEN_TEST_SKEW", str(tmp_path / "turns"))


@pytest.mark.parametrize("transport", ["rings", "tcp"])
def test_no_cause_is_behind_its_effect_although_clocks_are_wrong(transport, skewed):
    with Cluster(PROGRAM, 3, transport=transport, trace=True, max_actors=64) as cluster:
        clocks = [cluster.call(h, "cluster_sample:time_of_day") for h in range(3)]
        events = walk(cluster)
    assert sorted(round((c - clocks[0]) / 10) for c in clocks) == [-2, 0, 2]
    check(events)


def test_the_file_has_all_hosts_and_messages(tmp_path):
    pytest.importorskip("perfetto")
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace  # noqa: PLC0415

    with Cluster(PROGRAM, 3, trace=True, max_actors=64) as cluster:
        a, b, c = (int(x) for x in cluster.spawn("Walker", 3))
        with cluster.trace(tmp_path / "out.perfetto") as trace:
            cluster.send(a, "Step", a=a, b=b, c=c, left=9)
            cluster.drain()
        assert trace.events.size == 2 * 19
    file = Trace()
    file.ParseFromString((tmp_path / "out.perfetto").read_bytes())
    names = {p.track_descriptor.process.process_name for p in file.packet}
    assert {"host 0", "host 0, node 0", "host 1, node 0", "host 2, node 0"} <= names
    notes = [
        note.string_value
        for p in file.packet
        for note in p.track_event.debug_annotations
        if note.name == "to"
    ]
    assert any(note.endswith("of host 2") for note in notes)


def test_a_cluster_without_memory_for_it_says_so():
    with (
        Cluster(PROGRAM, 2, max_actors=64) as cluster,
        pytest.raises(ArgumentError, match="trace_slots"),
        cluster.trace(),
    ):
        pass


def record(host, kind, stamp, start, *actors):
    actor, other = actors
    r = np.zeros(1, CLUSTER_RECORD)
    for name, value in (
        ("host", host),
        ("kind", kind),
        ("stamp", stamp),
        ("start_ns", start),
        ("actor", actor),
        ("other", other),
    ):
        r[name] = value
    return r


def test_an_actor_that_has_met_a_greater_stamp_keeps_its_order():
    """A handles what has the stamp 900, and then what was sent long before, with 100."""
    records = np.concatenate(
        [
            record(1, HANDLER, 100, 20, 7, 5),
            record(0, SEND, 901, 3, 8, 7),
            record(1, HANDLER, 900, 10, 7, 8),
            record(0, SEND, 900, 1, 8, 7),
            record(2, SEND, 100, 999, 5, 7),
        ]
    )
    order = [(int(e["kind"]), int(e["stamp"])) for e in in_order(records)]
    assert order == [(SEND, 100), (SEND, 900), (HANDLER, 900), (HANDLER, 100), (SEND, 901)]


def test_times_of_hosts_are_put_right_by_the_messages():
    records = np.concatenate(
        [
            record(0, SEND, 10, 1000, 1, 2),
            record(1, HANDLER, 10, 400, 2, 1),  # 600 ns before it was sent
            record(1, SEND, 11, 500, 2, 3),
            record(2, HANDLER, 11, 2000, 3, 2),
        ]
    )
    times = in_time(records, {0: 0, 1: 0, 2: 0})["start_ns"].tolist()
    assert times == [1000, 1000, 1100, 2000]
    assert in_time(records, {0: 5, 1: 5, 2: 5})["start_ns"].tolist() == [t + 5 for t in times]


def test_one_at_a_time():
    with Cluster(PROGRAM, hosts=2, trace=True) as cluster:
        with cluster.trace() as trace:
            actors = cluster.spawn("Walker", 2)
            with pytest.raises(ArgumentError, match="is being taken; end it first"):
                cluster.trace().begin()
            cluster.send(actors[1], "Look")
            cluster.drain()
        handled = trace.events[trace.events["kind"] == HANDLER]
        assert np.count_nonzero(handled["worker"] != HOST) == 1
        with cluster.trace():
            pass


def test_wrong_words_are_refused():
    with Cluster(PROGRAM, 2, trace=True, max_actors=64) as cluster:
        with pytest.raises(ArgumentError, match='"sing"'):
            cluster._hosts.call(1, "trace", 5.0, verb="sing")
        assert os.getpid() == cluster.hosts[0].pid
