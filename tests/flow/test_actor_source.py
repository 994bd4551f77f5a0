# SPDX-License-Identifier: Apache-2.0
"""Actors as the source of a graph: a file through an I/O service, and what handlers make."""

import threading
import time

import numpy as np
import pytest

import denizen
from denizen import flow, io

WAIT = 60.0
PIECES, SAMPLES = 3, 100


@denizen.message
class Begin:
    file: np.uint32


@denizen.message
class Count:
    samples: np.uint64
    wrong: np.uint32


@denizen.message
class Stray:
    pass


@denizen.actor
class Reader:
    file: np.uint32

    def on_begin(self, m: Begin):
        self.file = m.file

    def on_free(self, m: flow.Free, ctx):
        read = io.ReadInto(file=self.file, tag=m.number, offset=io.NEXT, buffer=m.buffer)
        read.begin = m.begin
        read.length = m.length
        ctx.send(denizen.HOST, read)

    def on_done(self, m: io.Done, ctx):
        ctx.send(denizen.HOST, flow.Filled(number=m.tag, error=m.error, length=m.bytes))


@denizen.actor
class Counter:
    """Counts from 0, a few samples to a piece."""

    next: np.uint64
    left: np.uint64
    wrong: np.uint32

    def on_count(self, m: Count):
        self.next = 0
        self.left = m.samples
        self.wrong = m.wrong

    def on_free(self, m: flow.Free, ctx):
        samples = ctx.data(m.buffer, np.float32)
        n = min(self.left, 7)
        for i in range(n):
            samples[m.begin // 4 + i] = self.next + i
        self.next += n
        self.left -= n
        if self.wrong == 1:
            ctx.send(denizen.HOST, flow.Filled(number=m.number, length=6))
        elif self.wrong == 2:
            ctx.send(denizen.HOST, flow.Filled(number=m.number + 1, length=4))
        elif self.wrong == 3:
            ctx.send(denizen.HOST, Stray())
        elif self.wrong == 4:
            ctx.send(denizen.HOST, flow.Filled(number=m.number, length=m.length + 4))
        elif self.wrong != 5 or n > 0:  # or says nothing of the end
            ctx.send(denizen.HOST, flow.Filled(number=m.number, length=4 * n))


@pytest.fixture(scope="module", params=["cpu:2", pytest.param("gpu", marks=pytest.mark.gpu)])
def rt(request):
    try:
        with denizen.Runtime([Reader, Counter], request.param) as runtime:
            yield runtime
    except denizen.MissingPackageError as error:
        pytest.skip(str(error))


def reader_of(rt, file):
    (reader,) = rt.spawn(Reader)
    rt.send(reader, Begin(file))
    return reader


def counter_of(rt, samples, wrong=0):
    (counter,) = rt.spawn(Counter)
    rt.send(counter, Count(samples, wrong))
    return counter


def source_of(rt, actor, dtype="f4"):
    return flow.ActorSource("actor", rt, actor, dtype, pieces=PIECES, samples=SAMPLES)


def collected(source, quantum=64):
    """What the source has sent when it has ended by itself."""
    with flow.Flowgraph() as graph:
        graph.add(source)
        sink = graph.add(flow.ArraySink("sink", source.out.dtype))
        circuit = graph.circuit("samples", source.out, quanta=2, samples=quantum)
        graph.connect(source.out, sink.port)
        graph.run(timeout=WAIT)
        assert circuit.at_home() == 2
    return sink.samples


@pytest.mark.parametrize("count", [0, 1, 299, 300, 5000])
@pytest.mark.parametrize("dtype", ["i2", "c8"])
def test_a_file_is_streamed_into_a_graph(rt, tmp_path, count, dtype):
    rng = np.random.default_rng(1)
    content = rng.integers(0, 99, count).astype(dtype)
    (tmp_path / "data").write_bytes(content.tobytes())
    with io.Service(rt, tmp_path) as files:
        reader = reader_of(rt, files.open("data"))
        np.testing.assert_array_equal(collected(source_of(rt, reader, dtype)), content)
    with pytest.raises(denizen.DeadlineError):  # what the actor has sent was all taken
        rt.receive(timeout=0)


@pytest.mark.parametrize("quantum", [5, 1000])
def test_what_an_actor_makes_is_streamed_into_a_graph(rt, quantum):
    found = collected(source_of(rt, counter_of(rt, 1000)), quantum)
    np.testing.assert_array_equal(found, np.arange(1000, dtype="f4"))


def test_the_file_is_read_no_further_than_the_graph_lets(rt, tmp_path):
    """By what the pieces of the buffer and the quanta of the circuit hold."""

    class Gate(flow.Block):
        def __init__(self):
            super().__init__("gate")
            self.port = self.input("in", "f4")
            self.open = threading.Event()
            self.samples = []

        def work(self):
            self.open.wait(WAIT)
            self.samples.append(self.port.array.copy())
            self.port.consume()

    content = np.arange(20_000, dtype="f4")
    (tmp_path / "data").write_bytes(content.tobytes())
    with io.Service(rt, tmp_path) as files, flow.Flowgraph() as graph:
        source = graph.add(source_of(rt, reader_of(rt, files.open("data"))))
        gate = graph.add(Gate())
        graph.circuit("samples", source.out, quanta=2, samples=SAMPLES)
        graph.connect(source.out, gate.port)
        graph.start()
        most = 4 * SAMPLES * (PIECES + 2)
        until = time.monotonic() + WAIT
        while files.stats()["bytes_read"] < most and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(0.2)  # more would come by now
        assert files.stats()["bytes_read"] == most
        gate.open.set()
        graph.wait(timeout=WAIT)
    np.testing.assert_array_equal(np.concatenate(gate.samples), content)


def test_few_samples_do_not_wait_for_a_full_quantum(rt):
    """They leave when nothing has come for a while, though the stream has not ended."""
    seen = threading.Event()

    class First(flow.Block):
        def __init__(self):
            super().__init__("first")
            self.port = self.input("in", "f4")

        def work(self):
            self.port.consume()
            seen.set()

    with flow.Flowgraph() as graph:
        source = graph.add(source_of(rt, counter_of(rt, 8, wrong=5)))
        first = graph.add(First())
        graph.circuit("samples", source.out, quanta=2, samples=1000)
        graph.connect(source.out, first.port)
        graph.start()
        assert seen.wait(WAIT)
        graph.stop()
        graph.wait(timeout=WAIT)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (1, "piece 0 was filled with 6 bytes; it has room for 100 samples of 4 bytes each, and"),
        (2, "piece 3 was filled, which the actor did not have; each flow.Free has one flow.Filled"),
        (
            3,
            "Stray from actor 0x.* came to the host, where block 'actor' waits for FlowFilled from",
        ),
        (4, "piece 0 was filled with 404 bytes; it has room for 100 samples"),
    ],
    ids=["part of a sample", "not free", "another message", "too long"],
)
def test_what_does_not_fit_ends_the_graph(rt, wrong, text):
    source = source_of(rt, counter_of(rt, 10, wrong))
    with pytest.raises(denizen.FailedError, match=text):
        collected(source)
    rt.drain(timeout=WAIT)
    for _ in range(PIECES):  # what the actor has still sent
        try:
            rt.receive(timeout=0.1)
        except denizen.DeadlineError:
            break


def test_a_file_that_cannot_be_read_ends_the_graph(rt, tmp_path):
    with io.Service(rt, tmp_path) as files:
        source = source_of(rt, reader_of(rt, 5))  # no open file
        with pytest.raises(denizen.FailedError, match="piece 0 was not filled: BAD_FILE"):
            collected(source)
        rt.drain(timeout=WAIT)
        files.drain(timeout=WAIT)
        rt.drain(timeout=WAIT)
        for _ in range(PIECES - 1):
            rt.receive(timeout=WAIT)


def test_what_is_refused(rt):
    with pytest.raises(denizen.ArgumentError, match=r"block 'a': 'gpu' is no denizen\.Runtime"):
        flow.ActorSource("a", "gpu", 0, "f4")
    with pytest.raises(denizen.ArgumentError, match="'x' is no address; use one that spawn"):
        flow.ActorSource("a", rt, "x", "f4")
    with pytest.raises(denizen.ArgumentError, match="pieces = 0; use a whole number from 1 to"):
        flow.ActorSource("a", rt, 0, "f4", pieces=0)
    with pytest.raises(denizen.ArgumentError, match=r"samples = 1\.5; use a whole number from 1"):
        flow.ActorSource("a", rt, 0, "f4", samples=1.5)


def test_a_program_without_the_messages_is_refused():
    @denizen.actor
    class Idle:
        def on_begin(self, m: Begin):
            pass

    with (
        denizen.Runtime(Idle, "python") as other,
        pytest.raises(
            denizen.ArgumentError, match=r"no message FlowFree; its actor handles flow\.F"
        ),
    ):
        flow.ActorSource("a", other, 0, "f4")
