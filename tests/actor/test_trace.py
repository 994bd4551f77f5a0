# SPDX-License-Identifier: Apache-2.0
"""Perfetto traces: written, then read back with Perfetto's own definitions."""

import shutil
import sys
from collections import defaultdict
from typing import NamedTuple

import numpy as np
import pytest

import denizen
from denizen.trace import HANDLER, HOST, SEND, TRACE_RECORD, write_perfetto

perfetto_trace_pb2 = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
BEGIN, END, INSTANT = 1, 2, 3
HOST_ADDRESS = 7 << 29
START = 1_700_000_000_000_000_000  # a device's nanosecond clock


def actor(worker, local, node=0):
    return node << 29 | worker << 18 | local


def handled(start, duration, stamp, worker, message, me, sender, actor_type=0):  # noqa: PLR0917
    return (START + start, duration, stamp, me, actor_type, sender, message, worker, HANDLER)


def sent(start, stamp, worker, message, me, to, actor_type=0):  # noqa: PLR0917
    return (START + start, 0, stamp, me, actor_type, to, message, worker, SEND)


class Slice(NamedTuple):
    name: str
    start: int
    duration: int
    thread: str
    flows: tuple
    notes: dict


class Read(NamedTuple):
    """A trace, taken apart as Perfetto's trace processor does it."""

    slices: list
    instants: list
    processes: dict  # name -> pid
    threads: dict  # thread name -> (pid, tid)
    below: dict  # track name -> name of the track it lies below


def read(path):
    trace = perfetto_trace_pb2.Trace()
    trace.ParseFromString(path.read_bytes())
    names, below, processes, threads = {}, {}, {}, {}
    slices, instants, last = [], [], 0
    open_slices = defaultdict(list)
    assert trace.packet[0].sequence_flags == 1 if trace.packet else True
    for packet in trace.packet:
        assert packet.trusted_packet_sequence_id == 1
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            assert track.uuid not in names, "described twice"
            if track.HasField("process"):
                names[track.uuid] = track.process.process_name
                processes[track.process.process_name] = track.process.pid
            elif track.HasField("thread"):
                names[track.uuid] = track.thread.thread_name
                assert track.thread.pid in processes.values()
                threads[track.thread.thread_name] = (track.thread.pid, track.thread.tid)
            else:
                names[track.uuid] = track.name
                below[track.name] = names[track.parent_uuid]
            continue
        event = packet.track_event
        assert packet.timestamp >= last, "out of order"
        last = packet.timestamp
        notes = {note.name: note.string_value for note in event.debug_annotations}
        made = (names[event.track_uuid], tuple(event.flow_ids), notes)
        if event.type == BEGIN:
            assert not open_slices[event.track_uuid], "slices of one track overlap"
            open_slices[event.track_uuid].append((event.name, packet.timestamp, *made))
        elif event.type == END:
            name, start, *made = open_slices[event.track_uuid].pop()
            slices.append(Slice(name, start - START, packet.timestamp - start, *made))
        else:
            assert event.type == INSTANT
            instants.append(Slice(event.name, packet.timestamp - START, 0, *made))
    assert not any(open_slices.values()), "a slice without an end"
    return Read(slices, instants, processes, threads, below)


@pytest.fixture
def written(tmp_path):
    """Writes records and reads the file back."""

    def write(records, workers_per_node=4, actors=("Counter", "Gate"), messages=("Add", "Open")):
        path = tmp_path / "out.perfetto"
        write_perfetto(
            path, records, actors=actors, messages=messages, workers_per_node=workers_per_node
        )
        return read(path)

    return write


def test_the_dtype_is_the_c_struct():
    # tests/actor/trace_test.cpp holds the C++ side to the same numbers.
    assert TRACE_RECORD.itemsize == 48
    offsets = {name: TRACE_RECORD.fields[name][1] for name in TRACE_RECORD.names}
    assert offsets == {
        "start_ns": 0,
        "duration_ns": 8,
        "stamp": 16,
        "actor": 24,
        "actor_type": 28,
        "other": 32,
        "message": 36,
        "worker": 40,
        "kind": 44,
    }


def test_a_message_from_handler_to_handler(written):
    a, b = actor(0, 5), actor(2, 7)
    stamp = 123_456 << 16 | 9
    trace = written(
        [
            handled(1000, 500, 0, 0, 0, a, HOST_ADDRESS),
            sent(1200, stamp, 0, 1, a, b),
            handled(2500, 40, stamp, 2, 1, b, a, actor_type=1),
        ]
    )
    first, second = trace.slices
    assert first == Slice(
        "Counter: Add", 1000, 500, "worker 0", (),
        {"actor": "#5 of worker 0", "from": "host", "stamp": "none"},
    )  # fmt: skip
    assert second == Slice(
        "Gate: Open", 2500, 40, "worker 2", (1,),
        {"actor": "#7 of worker 2", "from": "#5 of worker 0", "stamp": "123456.9"},
    )  # fmt: skip
    assert trace.instants == [
        Slice(
            "Counter sends Open", 1200, 0, "worker 0", (1,),
            {"actor": "#5 of worker 0", "to": "#7 of worker 2", "stamp": "123456.9"},
        )
    ]  # fmt: skip
    assert trace.processes == {"node 0": 1}
    assert trace.threads == {"worker 0": (1, 10_000), "worker 2": (1, 10_002)}


def test_a_process_for_each_node_and_the_host(written):
    host, far = HOST_ADDRESS | 1 << 28 | 1 << 16, actor(1, 3, node=2)
    trace = written(
        [sent(0, 8, HOST, 0, host, far), handled(50, 10, 8, 9, 0, far, host)], workers_per_node=4
    )
    assert trace.processes == {"host": 8, "node 2": 3}
    assert trace.threads == {"host": (8, 9_999), "worker 1": (3, 10_009)}
    assert trace.instants[0].name == "host sends Add"
    assert trace.instants[0].notes["to"] == "#3 of worker 1 of node 2"
    assert trace.instants[0].flows == trace.slices[0].flows == (1,)


def test_a_stamp_that_two_clocks_gave_ties_each_message_to_its_own_sender(written):
    a, b, c = actor(0, 0), actor(1, 0), actor(2, 0)
    trace = written(
        [
            sent(0, 77, 0, 0, a, c),
            sent(0, 77, 1, 1, b, c),
            handled(10, 5, 77, 2, 0, c, a),
            handled(20, 5, 77, 2, 1, c, b),
        ]
    )
    flow = {event.notes["actor"]: event.flows for event in trace.instants}
    assert flow["#0 of worker 0"] != flow["#0 of worker 1"]
    from_a, from_b = trace.slices
    assert from_a.flows == flow["#0 of worker 0"]
    assert from_b.flows == flow["#0 of worker 1"]


def test_handlers_side_by_side_lie_on_tracks_that_do_not_overlap(written):
    spans = [(0, 100), (10, 50), (20, 90), (60, 10), (100, 20), (100, 0)]
    trace = written(
        [
            handled(start, duration, 0, 3, 0, actor(3, i), HOST_ADDRESS)
            for i, (start, duration) in enumerate(spans)
        ]
    )  # read() asserts that no track has two slices at once
    assert sorted((s.start, s.duration) for s in trace.slices) == sorted(spans)
    assert trace.threads == {"worker 3": (1, 10_003)}
    assert trace.below == {"worker 3, side by side": "worker 3"}
    own = sorted(s.start for s in trace.slices if s.thread == "worker 3")
    assert own[:2] == [0, 100]


def test_a_send_lies_on_the_track_of_its_handler(written):
    one, other = actor(0, 1), actor(0, 2)
    trace = written(
        [
            handled(0, 100, 0, 0, 0, one, HOST_ADDRESS),
            handled(10, 50, 0, 0, 0, other, HOST_ADDRESS),
            sent(30, 5, 0, 1, other, one),
            sent(40, 6, 0, 1, one, other),
            sent(500, 7, 0, 1, other, one),  # its handler has no record
        ]
    )
    assert [event.thread for event in trace.instants] == [
        "worker 0, side by side",
        "worker 0",
        "worker 0",
    ]


def test_cause_comes_before_effect_at_one_time(written, tmp_path):
    """A chain within one tick of a coarse clock: flows lead forwards, by the stamps."""
    a, b, c = actor(0, 1), actor(1, 1), actor(2, 1)
    records = [
        handled(0, 0, 3, 2, 0, c, b),
        sent(0, 3, 1, 0, b, c),
        handled(0, 0, 2, 1, 0, b, a),
        sent(0, 2, 0, 0, a, b),
        handled(0, 0, 1, 0, 0, a, HOST_ADDRESS),
    ]
    written(records)
    trace = perfetto_trace_pb2.Trace()
    trace.ParseFromString((tmp_path / "out.perfetto").read_bytes())
    order = [
        (packet.track_event.type, packet.track_event.flow_ids[0])
        for packet in trace.packet
        if packet.HasField("track_event") and packet.track_event.flow_ids
    ]
    assert order == [(BEGIN, 1), (INSTANT, 2), (BEGIN, 2), (INSTANT, 3), (BEGIN, 3)]


def test_ten_thousand_messages_in_any_order(written):
    """More than a batch: a ring of actors on two nodes, as an array, shuffled."""
    n, workers = 10_000, 6
    where = [actor(i % workers % 3, 0, node=i % workers // 3) for i in range(n + 1)]
    rows = []
    for i in range(n):
        rows.append(sent(10 * i, i + 1, i % workers, 0, where[i], where[i + 1]))
        rows.append(handled(10 * i + 4, 5, i + 1, (i + 1) % workers, 0, where[i + 1], where[i]))
    records = np.array(rows, dtype=TRACE_RECORD)
    np.random.default_rng(1).shuffle(records)
    trace = written(records, workers_per_node=3)
    assert len(trace.slices) == len(trace.instants) == n
    assert [s.start for s in trace.slices] == [10 * i + 4 for i in range(n)]
    assert [s.flows for s in trace.slices] == [(i + 1,) for i in range(n)]
    assert [s.flows for s in trace.instants] == [(i + 1,) for i in range(n)]
    assert trace.processes == {"node 0": 1, "node 1": 2}


def test_names_that_are_missing(written):
    a = actor(0, 0)
    trace = written([handled(0, 1, 0, 0, 99, a, a, actor_type=0xFFFF_FFFF)])
    assert trace.slices[0].name == "actor: message 99"


def test_no_records(written):
    trace = written([])
    assert not trace.slices
    assert not trace.processes


def test_what_is_not_a_record(tmp_path):
    def write(records, workers_per_node=1):
        write_perfetto(
            tmp_path / "x", records, actors=[], messages=[], workers_per_node=workers_per_node
        )

    good = sent(0, 0, 0, 0, 0, 0)
    with pytest.raises(denizen.ArgumentError, match="use an array of shape"):
        write(np.zeros(3, dtype=np.uint64))
    with pytest.raises(denizen.ArgumentError, match="use an array of shape"):
        write(np.zeros((2, 2), dtype=TRACE_RECORD))
    with pytest.raises(denizen.ArgumentError, match="use tuples of TRACE_RECORD's fields"):
        write([good[:-1]])
    with pytest.raises(denizen.ArgumentError, match=r"record 1 is of kind 3; use 1 \(HANDLER\)"):
        write([good, (*good[:-1], 3)])
    with pytest.raises(denizen.ArgumentError, match=r"record 1 begins at .* before 2\^64 ns"):
        write([good, (2**64 - 8, 8, *good[2:])])
    with pytest.raises(denizen.ArgumentError, match="workers_per_node = 0; use 1 or more"):
        write([good], workers_per_node=0)
    assert not (tmp_path / "x").exists()


def test_without_the_package(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "perfetto.trace_builder.proto_builder", None)
    with pytest.raises(denizen.DenizenError, match=r"pip install perfetto"):
        write_perfetto(tmp_path / "x", [], actors=[], messages=[], workers_per_node=1)


TRACE_PROCESSOR = shutil.which("trace_processor_shell") or shutil.which("trace_processor")


def by_this_file(path):
    """Slices, flows and errors as read() finds them."""
    trace = read(path)
    slices = [(s.name, s.start, s.duration, s.thread) for s in trace.slices]
    begun = {flow: i.name for i in trace.instants for flow in i.flows}
    flows = [(begun[flow], s.name) for s in trace.slices for flow in s.flows if flow in begun]
    return sorted(slices, key=lambda found: found[1]), flows, []


def by_perfetto(path):
    """The same by Perfetto's trace processor, a program that its package would download."""
    from perfetto import trace_processor  # noqa: PLC0415

    config = trace_processor.TraceProcessorConfig(bin_path=TRACE_PROCESSOR)
    with trace_processor.TraceProcessor(trace=str(path), config=config) as tp:
        slices = [
            (row.name, row.ts - START, row.dur, row.thread)
            for row in tp.query(
                "select s.name as name, ts, dur, t.name as thread from slice s "
                "left join thread_track tt on s.track_id = tt.id left join thread t using (utid) "
                "where dur > 0 order by ts"
            )
        ]
        flows = [
            (row.sender, row.handler)
            for row in tp.query(
                "select o.name as sender, i.name as handler from flow f "
                "join slice o on f.slice_out = o.id join slice i on f.slice_in = i.id"
            )
        ]
        errors = [
            (row.name, row.value)
            for row in tp.query(
                "select name, value from stats where severity = 'error' and value > 0"
            )
        ]
    return slices, flows, errors


# No package registry has the trace processor: it reads along where it is in PATH.
@pytest.mark.parametrize("reader", [by_this_file, *([by_perfetto] if TRACE_PROCESSOR else [])])
def test_a_whole_trace_is_loaded(tmp_path, reader):
    path = tmp_path / "out.perfetto"
    a, b = actor(0, 5), actor(1, 7)
    records = [
        handled(1000, 500, 1, 0, 0, a, HOST_ADDRESS),
        handled(1100, 100, 2, 0, 0, actor(0, 6), HOST_ADDRESS),
        sent(1200, 3, 0, 1, a, b),
        handled(2500, 40, 3, 1, 1, b, a, actor_type=1),
    ]
    write_perfetto(
        path, records, actors=["Counter", "Gate"], messages=["Add", "Open"], workers_per_node=2
    )
    slices, flows, errors = reader(path)
    assert [s[:3] for s in slices] == [
        ("Counter: Add", 1000, 500),
        ("Counter: Add", 1100, 100),
        ("Gate: Open", 2500, 40),
    ]
    assert (slices[0][3], slices[2][3]) == ("worker 0", "worker 1")
    assert flows == [("Counter sends Open", "Gate: Open")]
    assert not errors
