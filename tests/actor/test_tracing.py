# SPDX-License-Identifier: Apache-2.0
"""rt.trace(): what a running program sends and handles, in a file that Perfetto opens."""

import numpy as np
import pytest
import sample

import denizen
from denizen.trace import HOST

pytest.importorskip("perfetto")
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb

BEGIN, END, INSTANT = 1, 2, 3


@pytest.fixture
def traced(device):
    with denizen.Runtime(sample.program(), device, trace=True) as runtime:
        yield runtime


class Parsed:
    """A trace file as Perfetto reads it."""

    def __init__(self, path):
        trace = pb.Trace()
        trace.ParseFromString(path.read_bytes())
        self.threads = {}  # by uuid
        self.events = []
        for packet in trace.packet:
            if packet.HasField("track_descriptor"):
                d = packet.track_descriptor
                self.threads[d.uuid] = d.thread.thread_name or d.name or d.process.process_name
            elif packet.HasField("track_event"):
                self.events.append((packet.timestamp, packet.track_event))

    def of(self, kind, name=None):
        return [
            (time, event)
            for time, event in self.events
            if event.type == kind and name in (None, event.name)
        ]


def test_a_chain_of_messages(traced, tmp_path):
    hoppers = traced.spawn("Hopper", 2)
    path = tmp_path / "out.perfetto"
    with traced.trace(path) as tracer:
        traced.send(hoppers[0], "Hop", to=hoppers[1], left=5)
        traced.drain()
        assert traced.ask(hoppers[0], "Ask")["sum"] == 3
    assert tracer.overwritten == 0
    assert tracer.records == 2 * (6 + 2)
    parsed = Parsed(path)
    spans = parsed.of(BEGIN, "Hopper: Hop")
    assert len(spans) == 6
    assert len(parsed.of(INSTANT, "Hopper sends Hop")) == 5
    assert len(parsed.of(INSTANT, "host sends Hop")) == 1
    assert len(parsed.of(INSTANT, "host sends Ask")) == 1
    assert len(parsed.of(BEGIN, "Hopper: Ask")) == 1
    assert len(parsed.of(BEGIN, "host: Total")) == 1
    assert len(parsed.of(BEGIN)) == len(parsed.of(END))
    # A flow leads from each send to the handler of its message.
    sends = {e.flow_ids[0]: t for t, e in parsed.of(INSTANT)}
    begins = {e.flow_ids[0]: t for t, e in parsed.of(BEGIN)}
    assert sends.keys() == begins.keys()
    assert len(sends) == 8
    assert all(sends[f] <= begins[f] + 20_000 for f in sends)
    # Flows are numbered by stamps: in the order of cause and effect.
    assert [e.flow_ids[0] for _, e in spans] == [1, 2, 3, 4, 5, 6]
    names = {parsed.threads[e.track_uuid] for _, e in parsed.of(BEGIN)}
    assert {"host"} < names
    assert all(n == "host" or n.startswith("worker ") for n in names)


def test_more_than_a_ring_holds(traced, tmp_path):
    counters = traced.spawn("Counter", 3)
    tracer = traced.trace(tmp_path / "out.perfetto")
    tracer.begin()
    for _ in range(10):
        for counter in counters:
            traced.send_many(counter, sample.ADD.zeros(200))
    traced.drain()
    tracer.end()
    tracer.end()  # harmless
    assert tracer.records + tracer.overwritten == 2 * 6000
    assert len(Parsed(tmp_path / "out.perfetto").of(BEGIN, "Counter: Add")) <= 6000
    assert sum(int(traced.ask(c, "Ask")["count"]) for c in counters) == 6000


def test_only_what_is_sent_inside(traced, tmp_path):
    (counter,) = traced.spawn("Counter")
    for name in ("first", "second"):
        traced.send(counter, "Add", n=1)
        traced.drain()
        with traced.trace(tmp_path / name) as tracer:
            traced.send(counter, "Add", n=2)
            traced.send(counter, sample.BLOCK(words=np.ones(100)))
            traced.drain()
        assert tracer.records == 4
        assert {e.name for _, e in Parsed(tmp_path / name).of(BEGIN)} == {
            "Counter: Add",
            "Counter: Block",
        }
    assert traced.ask(counter, "Ask")["sum"] == 2 * 103


def test_nodes_are_processes(tmp_path):
    with denizen.Runtime(sample.program(), "cpu:3x1", trace=True) as rt:
        a, b, c = (int(rt.spawn("Hopper", node=n)[0]) for n in range(3))
        with rt.trace(tmp_path / "out"):
            for first, second in ((a, b), (b, c), (c, a)):
                rt.send(first, "Hop", to=second, left=2)
            rt.drain()
    parsed = Parsed(tmp_path / "out")
    assert {"node 0", "node 1", "node 2", "host"} <= set(parsed.threads.values())
    assert len(parsed.of(BEGIN, "Hopper: Hop")) == 9


def test_one_at_a_time_and_ended_by_close(tmp_path):
    with denizen.Runtime(sample.program(), "cpu:1", trace=True) as rt:
        (counter,) = rt.spawn("Counter")
        tracer = rt.trace(tmp_path / "out")
        tracer.begin()
        with pytest.raises(denizen.ArgumentError, match="end it first"):
            rt.trace(tmp_path / "other")
        rt.send(counter, "Add", n=1)
        rt.drain()
    assert len(Parsed(tmp_path / "out").of(BEGIN)) == 1
    assert not (tmp_path / "other").exists()


def test_a_trace_that_has_ended_ends_no_other(tmp_path):
    with denizen.Runtime(sample.program(), "cpu:1", trace=True) as rt:
        first = rt.trace(tmp_path / "first.perfetto")
        with first:
            pass
        with rt.trace(tmp_path / "second.perfetto"):
            first.end()
            first.drop()
            with pytest.raises(denizen.ArgumentError, match=r"second\.perfetto.*is being taken"):
                rt.trace(tmp_path / "third.perfetto")


def test_a_runtime_that_cannot_be_traced(tmp_path):
    with (
        denizen.Runtime(sample.program(), "cpu:1") as rt,
        pytest.raises(denizen.ArgumentError, match=r"Runtime\(..., trace=True\)"),
        rt.trace(tmp_path / "out"),
    ):
        pass
    assert not (tmp_path / "out").exists()
    assert HOST == 2**32 - 1
