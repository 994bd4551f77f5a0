# SPDX-License-Identifier: Apache-2.0
"""Topics across hosts: who subscribes on one gets what is published on any."""

import os
import random
import signal
import time

import numpy as np
import pytest

import denizen
from denizen import ArgumentError, Cluster, ExhaustedError

TEXT = """
struct Reader {
    uint32_t next[4] = {};
    uint32_t count = 0, wrong = 0, sum = 0;
    void on(const Item& m, auto&) {
        if (m.value != next[m.source]) { ++wrong; }
        next[m.source] = m.value + 1;
        ++count;
        sum += m.value;
    }
    void on(const Page& m, auto&) {
        ++count;
        for (uint32_t i = 0; i < 100; ++i) { if (m.word[i] != m.word[0] + i) { ++wrong; } }
    }
    void on(const Join& m, auto& ctx) {
        if (m.end != 0) { ctx.unsubscribe("news/*"); } else { ctx.subscribe("news/*"); }
    }
    void on(const Look&, auto& ctx) { ctx.reply(Seen{count, wrong, sum}); }
};
struct Picky : Reader {
    static constexpr auto overflow = denizen::Overflow::fail;
    using Reader::on;
};
struct Writer {
    uint32_t sent[2] = {}, told = 0;
    void on(const Write& m, auto& ctx) {
        for (uint32_t i = 0; i < m.count; ++i) {
            const Item item{m.source, sent[m.second]++};
            if (m.second == 0) { told += ctx.publish("news/sport", item); }
            else { told += ctx.publish("weather", item); }
            if (m.also.value != 0) { ctx.send(m.also, Item{m.source, sent[m.second]++}); }
        }
    }
    void on(const Look&, auto& ctx) { ctx.reply(Seen{sent[0] + sent[1], 0, told}); }
};
"""

U4 = np.uint32
ROOM = {"dead_letter_slots": 1 << 16, "outbox_slots": 1 << 16}


def program():
    return denizen.Program(
        TEXT,
        actors=["Reader", "Picky", "Writer"],
        messages=[
            denizen.message("Item", [("source", U4), ("value", U4)]),
            denizen.message("Page", [("word", U4, 100)]),
            denizen.message("Join", [("end", U4)]),
            denizen.message("Look"),
            denizen.message("Seen", [("count", U4), ("wrong", U4), ("sum", U4)]),
            denizen.message(
                "Write",
                [("count", U4), ("source", U4), ("second", U4), ("also", denizen.ADDRESS)],
            ),
        ],
        name="topics of a cluster",
    )


@pytest.fixture(params=["rings", "tcp"], scope="module")
def cluster(request, device):
    with Cluster(
        program(),
        3,
        device=device,
        transport=request.param,
        max_actors=256,
        subscriptions=16,
        **ROOM,
    ) as made:
        yield made


def seen(cluster, *addresses):
    cluster.drain()
    found = [cluster.ask(a, "Look", timeout=10.0) for a in addresses]
    assert not any(f["wrong"] for f in found)
    return [int(f["count"]) for f in found]


def stop(cluster, *addresses):
    for a in addresses:
        cluster.stop(a)
    cluster.drain()


def test_a_handler_publishes_to_all_hosts_in_order_and_once(cluster):
    def lost():
        return [(s["dead_letters"], s["errors"]) for s in cluster.stats().values()]

    before = lost()
    readers = cluster.spawn("Reader", 6)
    writers = [int(cluster.spawn("Writer", host=h)[0]) for h in range(3)]
    for reader in readers:
        cluster.subscribe(reader, "news/sport")
    for source, writer in enumerate(writers):
        cluster.send(writer, "Write", count=2000, source=source)
    assert seen(cluster, *readers) == [6000] * 6
    # Two of this host, and the multicasts of the two others.
    assert [int(cluster.ask(w, "Look")["sum"]) for w in writers] == [2000 * 4] * 3
    assert lost() == before
    stop(cluster, *readers, *writers)


def test_what_one_actor_publishes_and_sends_arrives_in_its_order(cluster):
    (reader,) = cluster.spawn("Reader", host=2)
    (writer,) = cluster.spawn("Writer", host=1)
    cluster.subscribe(reader, "news/*")
    cluster.send(writer, "Write", count=3000, source=1, also=reader)
    assert seen(cluster, reader) == [6000]
    stop(cluster, reader, writer)


def test_handlers_subscribe_and_end_it(cluster):
    readers = [int(cluster.spawn("Reader", host=h)[0]) for h in (1, 1, 2)]
    for reader in readers:
        cluster.send(reader, "Join")
    cluster.drain()
    assert cluster.publish("news/sport", "Page", word=np.arange(5, 105, dtype=U4)) == 2
    cluster.send(readers[0], "Join", end=1)
    cluster.drain()
    assert cluster.publish("news/", "Page", word=np.arange(100, dtype=U4)) == 2
    assert cluster.publish("new", "Page", word=np.arange(100, dtype=U4)) == 0
    assert seen(cluster, *readers) == [1, 2, 2]
    cluster.send(readers[1], "Join", end=1)
    cluster.drain()
    assert cluster.publish("news/", "Page", word=np.arange(100, dtype=U4)) == 1
    cluster.drain()  # a stop may overtake a message
    cluster.stop(readers[2])
    cluster.drain()
    assert cluster.publish("news/", "Page", word=np.arange(100, dtype=U4)) == 0
    assert seen(cluster, *readers[:2]) == [1, 2]
    stop(cluster, *readers[:2])


def test_this_process_subscribes(cluster):
    (writer,) = cluster.spawn("Writer", host=2)
    cluster.subscribe(denizen.HOST, "weather")
    cluster.send(writer, "Write", count=3, source=2, second=1)
    got = [cluster.receive(timeout=10.0) for _ in range(3)]
    assert [int(g.message["value"]) for g in got] == [0, 1, 2]
    assert {g.sender for g in got} == {int(writer)}
    cluster.unsubscribe(denizen.HOST, "weather")
    cluster.send(writer, "Write", count=3, source=2, second=1)
    cluster.drain()
    assert int(cluster.ask(writer, "Look")["sum"]) == 3
    stop(cluster, writer)


def test_random_changes_reach_whom_they_should(cluster):
    """By a model: who subscribes to what. Each publication is compared with it."""
    rng = random.Random(5)
    far = "a/topic/of/more/than/fifteen/bytes"
    patterns = ["a", "b", "a*", "*", far, "a/topic/of/more/than/*"]
    readers = [int(a) for a in cluster.spawn("Reader", 4)]
    model = {}
    expect = dict.fromkeys(readers, 0)
    for count in range(90):
        reader, pattern = rng.choice(readers), rng.choice(patterns)
        if (reader, pattern) in model:
            cluster.unsubscribe(reader, pattern)
            del model[reader, pattern]
        else:
            cluster.subscribe(reader, pattern)
            model[reader, pattern] = True
        topic = rng.choice(["a", "b", "ab", far, far + "/and/more"])
        cluster.publish(topic, "Page", word=np.arange(count, count + 100, dtype=U4))
        for reader, pattern in model:
            match = topic.startswith(pattern[:-1]) if pattern[-1] == "*" else topic == pattern
            expect[reader] += match
        cluster.drain()  # who subscribes is decided where a message arrives
    assert seen(cluster, *readers) == [expect[r] for r in readers]
    assert all(s["errors"] == 0 for s in cluster.stats().values())
    stop(cluster, *readers)


def test_a_subscriber_without_room_loses_by_its_own_policy(cluster):
    """One whose policy is to fail has dead letters on its host, and holds nobody up."""
    (picky,) = cluster.spawn("Picky", host=1)
    (writer,) = cluster.spawn("Writer", host=0)
    cluster.dead_letters()
    cluster.subscribe(picky, "news/sport")
    cluster.pause(picky)
    for _ in range(20):
        cluster.send(writer, "Write", count=1000, source=0, timeout=60.0)
    dropped = []
    end = time.monotonic() + 60
    while not dropped:
        assert time.monotonic() < end
        dropped = [d["reason"] for d in cluster.dead_letters()[1]]
    cluster.resume(picky)
    cluster.drain()
    handled = int(cluster.ask(picky, "Look", timeout=10.0)["count"])
    dropped += [d["reason"] for d in cluster.dead_letters()[1]]
    assert set(dropped) == {"dropped"}
    assert handled + len(dropped) == 20_000
    stop(cluster, picky, writer)


def test_a_table_that_is_full_on_another_host_is_an_error_that_names_it(cluster):
    fill = [int(cluster.spawn("Reader", host=2)[0]) for _ in range(16)]
    for reader in fill[:15]:
        cluster.subscribe(reader, "full")
    (other,) = cluster.spawn("Reader", host=1)
    (another,) = cluster.spawn("Reader", host=1)
    cluster.subscribe(other, "first")  # host 2 has 16 entries, and the others one multicast of each
    with pytest.raises(ExhaustedError, match=r"host 2: .*16 entries.*host 1"):
        cluster.subscribe(another, "second")
    cluster.drain()
    assert cluster.publish("second", "Page", word=np.arange(100, dtype=U4)) == 0
    assert cluster.publish("first", "Page", word=np.arange(100, dtype=U4)) == 1
    assert seen(cluster, other, another) == [1, 0]
    cluster.unsubscribe(other, "first")
    cluster.subscribe(another, "second")
    assert cluster.publish("second", "Page", word=np.arange(100, dtype=U4)) == 1
    assert seen(cluster, another) == [1]
    stop(cluster, *fill, other, another)


def test_what_is_no_topic_is_refused(cluster):
    (reader,) = cluster.spawn("Reader", host=1)
    with pytest.raises(ArgumentError, match="at most 255"):
        cluster.subscribe(reader, 256 * "t")
    with pytest.raises(ArgumentError, match="many topics"):
        cluster.publish("a*", "Look")
    with pytest.raises(ArgumentError, match="no address of this cluster"):
        cluster.subscribe(12, "news")
    stop(cluster, reader)


@pytest.mark.parametrize("transport", ["rings", "tcp"])
def test_the_subscriptions_of_a_lost_host_go_with_it(transport, device):
    """What was published to them meanwhile is acknowledged, or a dead letter that says so."""
    how = {"device": device, "transport": transport, "max_actors": 256}
    with Cluster(program(), 3, **how, **ROOM) as cluster:
        readers = [int(cluster.spawn("Reader", host=h)[0]) for h in (1, 1, 2)]
        (writer,) = cluster.spawn("Writer", host=0)
        for reader in readers:
            cluster.subscribe(reader, "news/*")
        cluster.pause(readers[0])
        cluster.send(writer, "Write", count=3000, source=0)
        os.kill(cluster.hosts[1].pid, signal.SIGKILL)
        end = time.monotonic() + 60
        while 1 not in cluster.lost:
            assert time.monotonic() < end
            time.sleep(0.01)
        cluster.send(writer, "Write", count=3000, source=0)
        assert seen(cluster, readers[2]) == [6000]
        link = cluster.stats()[0]["links"][1]
        assert link["taken"] == link["acknowledged"] + link["lost"]
        letters = [d for d in cluster.dead_letters()[0] if d["type"] == "Item"]
        assert all(d["reason"] == "lost" and "the subscribers" in d["text"] for d in letters)
        before = link["taken"]
        told = int(cluster.ask(writer, "Look")["sum"])
        cluster.send(writer, "Write", count=100, source=0)
        assert seen(cluster, readers[2]) == [6100]
        assert int(cluster.ask(writer, "Look")["sum"]) == told + 100
        assert cluster.stats()[0]["links"][1]["taken"] == before
