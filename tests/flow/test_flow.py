# SPDX-License-Identifier: Apache-2.0
"""Blocks in Python: NumPy views of quanta, tags, messages, failures, and one block alone."""

import gc
import threading
import time
import traceback
import weakref

import numpy as np
import pytest

import denizen
from denizen import flow

TIMEOUT = 30


class Gain(flow.Block):
    def __init__(self, name, gain, dtype="f4"):
        super().__init__(name)
        self.samples = self.in_place("samples", dtype)
        self.gain = gain
        self.retune = self.messages("gain", self._set)

    def _set(self, gain):
        self.gain = gain

    def work(self):
        self.samples.array[:] *= self.gain
        self.samples.pass_on()


class Means(flow.Block):
    """Of every four samples: reads one circuit, fills another."""

    def __init__(self, name):
        super().__init__(name)
        self.port = self.input("in", "f4")
        self.out = self.source("out", "f4")
        self.out.follow(self.port, out=1, into=4)
        self.kept = []

    def work(self):
        self.kept.append(float(self.port.array[0]))
        self.port.consume(1)
        if len(self.kept) == 4:
            self.out.array[0] = np.mean(self.kept)
            self.out.produce(1)
            self.kept = []


class Ones(flow.Block):
    def __init__(self, name="ones"):
        super().__init__(name)
        self.out = self.source("out", "f4")

    def work(self):
        self.out.array[:] = 1
        self.out.produce()


@pytest.mark.parametrize("how", ["threads", "sequence", "pool"])
def test_a_graph_of_two_circuits(how):
    samples = np.arange(10, 90, 10, dtype="f4")
    with flow.Flowgraph() as graph:
        tag = flow.Tag(5, "frequency", 1090e6)
        source = graph.add(flow.ArraySource("source", samples, [tag]))
        gain = graph.add(Gain("gain", 2))
        means = graph.add(Means("means"))
        sink = graph.add(flow.ArraySink("sink", "f4"))
        raw = graph.circuit("raw", source.out, quanta=4, samples=3)
        graph.circuit("means", means.out, quanta=2, samples=256)
        graph.connect(source.out, gain.samples)
        graph.connect(gain.samples, means.port)
        graph.connect(means.out, sink.port)
        blocks = [source, gain, means, sink]
        graph.start(
            sequences=[(blocks, -1)] if how == "sequence" else [],
            pools=[(blocks, [-1, -1])] if how == "pool" else [],
        )
        graph.wait(TIMEOUT)
        assert raw.at_home() == 4
    assert sink.samples.tolist() == [50, 130]
    assert sink.samples.dtype == np.float32
    assert sink.tags == [flow.Tag(1, "frequency", 1090e6)]


@pytest.mark.parametrize("dtype", ["u1", "i2", "u4", "i8", "f4", "f8", "c8", "c16"])
def test_every_dtype_in_a_block_alone(dtype):
    test = flow.Alone(Gain("gain", 2, dtype))
    samples = np.arange(100).astype(dtype)
    test.feed(test.block.samples, samples, [flow.Tag(70, "here", 1), flow.Tag(3, "b", "text")])
    out = test.collect(test.block.samples)
    test.run(TIMEOUT)
    assert out.samples.dtype == np.dtype(dtype)
    assert (out.samples == 2 * samples).all()
    assert out.tags == [flow.Tag(3, "b", "text"), flow.Tag(70, "here", 1)]


def test_windows_are_trimmed_and_tags_with_them():
    class Middle(flow.Block):
        def __init__(self):
            super().__init__("middle")
            self.samples = self.in_place("samples", "i4")

        def work(self):
            self.samples.trim(1, 2)
            assert [tag.sample for tag in self.samples.tags] in ([0], [])
            self.samples.pass_on()

    test = flow.Alone(Middle())
    test.feed(
        test.block.samples, np.arange(20, dtype="i4"), [(1, "one", 1), (0, "no", 0)], quantum=5
    )
    out = test.collect(test.block.samples)
    test.run(TIMEOUT)
    assert out.samples.tolist() == [1, 2, 6, 7, 11, 12, 16, 17]
    assert out.tags == [flow.Tag(0, "one", 1)]


def test_a_margin_is_left_to_grow_into():
    class Margin(flow.Block):
        def __init__(self):
            super().__init__("margin")
            self.out = self.source("out", "i4")
            self.out.leave_margin(2)
            self.left = 3

        def work(self):
            assert len(self.out.array) == 6  # of 8
            self.out.array[:] = self.left
            self.out.produce()
            self.left -= 1
            if self.left == 0:
                self.finish()

    class Prefix(flow.Block):
        def __init__(self):
            super().__init__("prefix")
            self.samples = self.in_place("samples", "i4")

        def work(self):
            self.samples.trim(0, 5)
            self.samples.grow(2, 1)
            with pytest.raises(denizen.ArgumentError, match="grow"):
                self.samples.grow(1, 0)
            self.samples.array[:2] = 100
            self.samples.pass_on()

    with flow.Flowgraph() as graph:
        margin, prefix = graph.add(Margin()), graph.add(Prefix())
        sink = graph.add(flow.ArraySink("sink", "i4"))
        graph.circuit("ints", margin.out, quanta=2, samples=8)
        graph.connect(margin.out, prefix.samples)
        graph.connect(prefix.samples, sink.port)
        graph.run(TIMEOUT)
    assert sink.samples.tolist() == [100, 100, 3, 3, 100, 100, 2, 2, 100, 100, 1, 1]


def test_a_flushed_quantum_leaves_before_it_is_full():
    sizes = []

    class Drops(flow.Block):
        def __init__(self):
            super().__init__("drops")
            self.out = self.source("out", "f4")
            self.sent = 0

        def work(self):
            self.out.array[:3] = self.sent
            self.out.produce(3)
            self.out.flush()
            assert not self.out.loaded
            self.sent += 1
            if self.sent == 4:
                self.finish()

    class Sizes(flow.Block):
        def __init__(self):
            super().__init__("sizes")
            self.port = self.input("in", "f4")

        def work(self):
            sizes.append(len(self.port.array))
            self.port.consume()

    test = flow.Alone(Drops())
    test.circuit(test.block.out, quanta=2, samples=64)
    out = test.collect(test.block.out)
    test.run(TIMEOUT)
    assert out.samples.tolist() == [s for s in range(4) for _ in range(3)]
    with flow.Flowgraph() as graph:
        drops, reader = graph.add(Drops()), graph.add(Sizes())
        graph.circuit("floats", drops.out, quanta=2, samples=64)
        graph.connect(drops.out, reader.port)
        graph.run(TIMEOUT)
    assert sizes == [3, 3, 3, 3]


def test_a_block_that_works_on_any_input():
    class Either(flow.Block):
        def __init__(self):
            super().__init__("either")
            self.ports = [self.input(name, "i4") for name in "ab"]
            self.work_on_any_input()
            self.seen = [[], []]
            self.alone = False

        def work(self):
            loaded = [port.loaded for port in self.ports]
            assert any(loaded)
            self.alone |= not all(loaded)
            for port, seen in zip(self.ports, self.seen, strict=True):
                if port.loaded:
                    seen.extend(port.array.tolist())
                    port.consume()

    test = flow.Alone(Either())
    short, long = np.arange(5, dtype="i4"), np.arange(500, dtype="i4")
    test.feed(test.block.ports[0], short, quantum=4)
    test.feed(test.block.ports[1], long, quantum=4)
    test.run(TIMEOUT)
    assert test.block.seen == [short.tolist(), long.tolist()]
    assert test.block.alone  # with the long stream, when the short one had ended


def test_buffers_that_are_too_small_are_refused():
    gain = Gain("gain", 1)
    gain.samples.needs(65)
    test = flow.Alone(gain)
    test.feed(test.block.samples, np.ones(10, "f4"), quantum=64)
    test.collect(test.block.samples)
    with pytest.raises(denizen.ArgumentError, match=r'"gain\.samples" needs 65 samples at a time'):
        test.run(TIMEOUT)


def test_an_aborted_graph_ends_with_samples_under_way():
    with flow.Flowgraph() as graph:
        source, gain = graph.add(Ones()), graph.add(Gain("gain", 1))
        sink = graph.add(flow.ArraySink("sink", "f4"))
        circuit = graph.circuit("samples", source.out, 3, 64)
        graph.connect(source.out, gain.samples)
        graph.connect(gain.samples, sink.port)
        graph.start()
        graph.abort()
        graph.wait(TIMEOUT)
        assert circuit.at_home() <= 3


def test_views_are_the_quanta_and_keep_their_memory():
    views = []

    class Look(flow.Block):
        def __init__(self):
            super().__init__("look")
            self.port = self.input("in", "f4")

        def work(self):
            view = self.port.array
            assert not view.flags.writeable
            assert view.ctypes.data % 64 == 0
            assert not view.flags.owndata
            views.append(view)
            self.port.consume()

    test = flow.Alone(Look())
    test.feed(test.block.port, np.ones(100, "f4"), quantum=16)
    test.run(TIMEOUT)
    assert len({view.ctypes.data for view in views}) == 2  # the circuit's two buffers
    del test
    gc.collect()
    assert all((view[:4] == 1).all() for view in views)


def test_retuned_while_it_runs_and_stopped():
    with flow.Flowgraph() as graph:
        source, gain = graph.add(Ones()), graph.add(Gain("gain", 1))
        changed = threading.Event()

        class Watch(flow.Block):
            def __init__(self):
                super().__init__("watch")
                self.port = self.input("in", "f4")

            def work(self):
                if self.port.array[0] == 5:
                    changed.set()
                self.port.consume()

        watch = graph.add(Watch())
        circuit = graph.circuit("samples", source.out, 3, 64)
        graph.connect(source.out, gain.samples)
        graph.connect(gain.samples, watch.port)
        graph.start()
        gain.retune.post(5)
        assert changed.wait(TIMEOUT)
        graph.stop()
        graph.wait(TIMEOUT)
        assert circuit.at_home() == 3
        with pytest.raises(denizen.ClosedError, match=r"gain\.gain"):
            gain.retune.post(6)


def test_what_work_raises_comes_out_of_wait():
    class Fails(flow.Block):
        def __init__(self):
            super().__init__("fails")
            self.port = self.input("in", "f4")

        def work(self):
            raise ValueError("a bad sample")

    test = flow.Alone(Fails())
    test.feed(test.block.port, np.ones(10, "f4"))
    text = 'block "fails" failed: ValueError: a bad sample'
    with pytest.raises(denizen.FailedError, match=text) as caught:
        test.run(TIMEOUT)
    cause = caught.value.__cause__
    assert isinstance(cause, ValueError)
    assert [frame.name for frame in traceback.extract_tb(cause.__traceback__)][-1] == "work"


class Never(flow.Block):
    """Takes nothing."""

    def __init__(self):
        super().__init__("never")
        self.port = self.input("in", "f4")

    def work(self):
        pass


def test_a_stalled_graph_names_the_starved_block():
    with flow.Flowgraph() as graph:
        source, never = graph.add(Ones()), graph.add(Never())
        graph.circuit("floats", source.out, 2, 16)
        graph.connect(source.out, never.port)
        graph.start()
        with pytest.raises(denizen.DeadlineError, match='block "never" has moved nothing for'):
            graph.wait(0.3)
        text = graph.starved()
        assert 'block "never" has moved nothing for' in text
        assert 'block "ones" is starved: port "ones.out" has had no quantum for' in text
        assert 'circuit "floats" (2 quanta of 16 samples): 2 at "never.in"' in text


def test_what_is_refused():
    graph = flow.Flowgraph()
    source = graph.add(Ones())
    sink = graph.add(flow.ArraySink("sink", "i2"))
    with pytest.raises(
        denizen.ArgumentError, match="the first sends float, the second takes short"
    ):
        graph.connect(source.out, sink.port)
    with pytest.raises(denizen.ArgumentError, match=r'port "ones\.out" has no circuit'):
        graph.validate()
    with pytest.raises(denizen.ArgumentError, match="samples of dtype f2"):
        sink.input("half", "f2")
    with pytest.raises(denizen.ArgumentError, match=r"only within its block's work\(\)"):
        source.out.array  # noqa: B018
    with pytest.raises(denizen.ArgumentError, match="two blocks are called"):
        graph.add(Ones())
    with pytest.raises(denizen.ArgumentError, match="in a graph already"):
        flow.Flowgraph().add(source)
    with pytest.raises(denizen.ArgumentError, match="one dimension"):
        flow.ArraySource("flat", np.ones((2, 2)))
    graph.close()
    with pytest.raises(denizen.ClosedError):
        graph.validate()
    with pytest.raises(denizen.ClosedError):
        source.out.needs(3)


def test_a_consumed_quantum_is_no_more():
    class Twice(flow.Block):
        def __init__(self):
            super().__init__("twice")
            self.port = self.input("in", "f4")

        def work(self):
            self.port.consume()
            self.port.consume()

    test = flow.Alone(Twice())
    test.feed(test.block.port, np.ones(10, "f4"))
    with pytest.raises(denizen.FailedError, match=r'"twice\.in" has no quantum'):
        test.run(TIMEOUT)


def test_a_running_graph_is_kept_and_closing_ends_it():
    def running():
        graph = flow.Flowgraph()
        source, gain = graph.add(Ones()), graph.add(Gain("gain", 1))
        sink = graph.add(flow.ArraySink("sink", "f4"))
        graph.circuit("samples", source.out, 2, 16)
        graph.connect(source.out, gain.samples)
        graph.connect(gain.samples, sink.port)
        graph.start()
        return weakref.ref(graph), weakref.ref(gain)

    graph, gain = running()
    gc.collect()
    time.sleep(0.02)
    assert graph() is not None
    graph().close()
    gc.collect()
    assert graph() is None
    assert gain() is None


class Ending(flow.Block):
    """Calls something of its own graph."""

    def __init__(self, name):
        super().__init__(name)
        self.port = self.input("in", "f4")
        self.call = None

    def work(self):
        self.call()
        self.port.consume()


def ending(call):
    graph = flow.Flowgraph()
    ones, block = graph.add(Ones()), graph.add(Ending("ending"))
    block.call = lambda: call(graph)
    graph.circuit("c", ones.out, 2, 16)
    graph.connect(ones.out, block.port)
    graph.start()
    return graph


@pytest.mark.parametrize("name", ["close", "wait"])
def test_what_would_wait_for_itself_is_refused(name):
    graph = ending(lambda graph: getattr(graph, name)())
    with pytest.raises(denizen.FailedError, match=rf"{name}\(\) in a work\(\) .* stop\(\) and abo"):
        graph.wait(TIMEOUT)
    graph.close()


@pytest.mark.parametrize("name", ["stop", "abort"])
def test_a_block_ends_its_graph(name):
    with ending(lambda graph: getattr(graph, name)()) as graph:
        graph.wait(TIMEOUT)


@pytest.mark.parametrize("given", [-1, 1.5, None, 2**63])
def test_a_circuit_has_whole_numbers(given):
    graph = flow.Flowgraph()
    ones = graph.add(Ones())
    for numbers in ((given, 16), (2, given)):
        with pytest.raises(denizen.ArgumentError, match=r"= .*; use a whole number from 0"):
            graph.circuit("c", ones.out, *numbers)


@pytest.mark.parametrize("timeout", [None, "1", float("nan")])
def test_a_timeout_is_a_number_of_seconds(timeout):
    with ending(lambda graph: None) as graph, pytest.raises(denizen.ArgumentError, match="seconds"):
        graph.wait(timeout)


def test_a_list_is_a_source():
    graph = flow.Flowgraph()
    source = graph.add(flow.ArraySource("source", [1.0, 2.0, 3.0]))
    sink = graph.add(flow.ArraySink("sink", "f8"))
    graph.circuit("c", source.out, 2, 16)
    graph.connect(source.out, sink.port)
    graph.run(TIMEOUT)
    assert sink.samples.tolist() == [1, 2, 3]


def chain():
    """Ones through a gain to a sink."""
    graph = flow.Flowgraph()
    ones, gain = graph.add(Ones()), graph.add(Gain("gain", 1))
    sink = graph.add(flow.ArraySink("sink", "f4"))
    graph.circuit("c", ones.out, 3, 16)
    graph.connect(ones.out, gain.samples)
    graph.connect(gain.samples, sink.port)
    return graph, ones, gain


def in_threads(*calls):
    """Each on a thread of its own; what they raised."""
    raised = []
    barrier = threading.Barrier(len(calls))

    def run(call):
        barrier.wait()
        try:
            call()
        except denizen.DenizenError as error:
            raised.append(error)

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT)
        assert not thread.is_alive()
    return raised


def test_a_graph_that_runs_is_not_started_again():
    graph, _, _ = chain()
    with graph:
        graph.start()
        for _ in range(20):
            with pytest.raises(denizen.ArgumentError, match="has been started before"):
                graph.start()
            time.sleep(0.001)
        graph.stop()
        graph.wait(TIMEOUT)


def test_threads_start_wait_for_and_close_one_graph():
    for _ in range(50):
        graph, _, _ = chain()
        raised = in_threads(*[graph.start] * 3)
        assert [type(error) for error in raised] == [denizen.ArgumentError] * 2
        raised = in_threads(*[lambda graph=graph: graph.wait(TIMEOUT)] * 2, *[graph.close] * 2)
        assert {type(error) for error in raised} <= {denizen.ClosedError}
        with pytest.raises(denizen.ClosedError, match="the graph is closed"):
            graph.wait(TIMEOUT)


def test_a_graph_is_closed_while_it_is_started():
    for _ in range(50):
        graph, _, _ = chain()
        in_threads(graph.start, graph.close, graph.stop)
        graph.close()


def test_what_a_port_is_made_with_is_said_before_the_start():
    graph, ones, gain = chain()
    with graph:
        graph.start()
        for call in (
            lambda: gain.input("late", "f4"),
            lambda: gain.source("late", "f4"),
            lambda: gain.in_place("late", "f4"),
            lambda: gain.messages("late", print),
            lambda: ones.out.leave_margin(100),
            lambda: ones.out.follow(gain.samples),
            lambda: gain.samples.needs(2),
            gain.work_on_any_input,
        ):
            with pytest.raises(denizen.ArgumentError, match="comes too late: the graph has star"):
                call()


def test_a_handler_of_messages_does_not_wait_for_itself():
    graph, _, gain = chain()
    with graph:
        orders = gain.messages("orders", lambda name: getattr(graph, name)())
        graph.start()
        orders.post("close")
        with pytest.raises(denizen.FailedError, match=r"close\(\) in a work\(\) of this graph"):
            graph.wait(TIMEOUT)


def test_a_stalled_graph_names_no_block_that_has_finished():
    with flow.Flowgraph() as graph:
        ones, never = graph.add(Ones()), graph.add(Never())
        graph.circuit("c", ones.out, 3, 16)
        graph.connect(ones.out, never.port)
        with pytest.raises(denizen.DeadlineError, match='"ones" is starved'):
            graph.run(0.2)
        graph.stop()
        with pytest.raises(denizen.DeadlineError, match='"never" has moved nothing') as caught:
            graph.wait(0.2)
    assert '"ones" is starved' not in str(caught.value)


class SilentError(Exception):
    def __str__(self):
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("error", "text"),
    [(ValueError("\ud800"), r"ValueError: \\ud800$"), (SilentError(), "SilentError$")],
    ids=["surrogate", "no-text"],
)
def test_what_work_raises_is_told_however_it_reads(error, text):
    class Fails(flow.Block):
        def __init__(self):
            super().__init__("fails")
            self.port = self.input("in", "f4")

        def work(self):
            raise error

    test = flow.Alone(Fails())
    test.feed(test.block.port, np.ones(10, "f4"))
    with pytest.raises(denizen.FailedError, match=f'^block "fails" failed: {text}'):
        test.run(TIMEOUT)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        ("trim(2**63, 2**63)", "samples = 9223372036854775808; use a whole number"),
        ("trim(2**63 - 1, 2)", "trim: 9223372036854775807 and 2 samples from a window of 10"),
        ("trim(-1, 0)", "samples = -1; use a whole number"),
        ("grow('a', 0)", "samples = 'a'; use a whole number"),
    ],
)
def test_windows_stay_within_their_buffers(call, text):
    class Cuts(flow.Block):
        def __init__(self):
            super().__init__("cuts")
            self.samples = self.in_place("samples", "f4")

        def work(self):
            eval(f"self.samples.{call}")
            self.samples.pass_on()

    test = flow.Alone(Cuts())
    test.feed(test.block.samples, np.ones(10, "f4"))
    test.collect(test.block.samples)
    with pytest.raises(denizen.FailedError, match=text):
        test.run(TIMEOUT)


class Marks(flow.Block):
    """Sends one quantum with a tag."""

    def __init__(self, *tag):
        super().__init__("marks")
        self.out = self.source("out", "f4")
        self.mark = tag

    def work(self):
        self.out.tag(*self.mark)
        self.out.produce()
        self.finish()


@pytest.mark.parametrize(
    ("tag", "text"),
    [
        ((-1, "k", 1), "a tag's sample = -1; use a whole number"),
        ((0.5, "k", 1), "a tag's sample = 0.5; use a whole number"),
        ((0, 5, 1), "a tag's key = 5; use text"),
        ((0, "k", None), "a tag's value, which is no text, = None; use a real number"),
        ((0, "k", 2**63), "a tag's value = 9223372036854775808; use a whole number of 64 bits"),
        ((0, "\ud800", 1), "has half of a surrogate pair"),
    ],
    ids=["negative", "fraction", "key", "none", "large", "surrogate"],
)
def test_tags_that_are_none_are_refused_by_name(tag, text):
    with pytest.raises(denizen.ArgumentError, match=text):
        flow.ArraySource("source", np.ones(3, "f4"), [tag])
    test = flow.Alone(Marks(*tag))
    test.circuit(test.block.out)
    test.collect(test.block.out)
    with pytest.raises(denizen.FailedError, match=text):
        test.run(TIMEOUT)


def test_numpy_numbers_are_values_of_tags():
    test = flow.Alone(Marks(np.uint8(2), "k", np.float32(0.5)))
    test.circuit(test.block.out)
    sink = test.collect(test.block.out)
    test.run(TIMEOUT)
    assert sink.tags == [flow.Tag(2, "k", 0.5)]


class NoSuper(flow.Block):
    def __init__(self):
        pass


REFUSED = [
    ("flow.Block(5)", "a block's name = 5; use text"),
    ("flow.Fir(None, [1.0])", "a block's name = None; use text"),
    ("flow.Fft(b'x', 8)", "a block's name = b'x'; use text"),
    ("gain.input(5, 'f4')", "a port's name = 5; use text"),
    ("gain.input('x', 'zz')", "dtype = 'zz'; use a NumPy dtype"),
    ("gain.input('x', None)", "dtype = None; use a NumPy dtype"),
    ("gain.input('samples', 'f4')", "block 'gain' has a port 'samples'; use another name"),
    ("gain.messages('samples', print)", "block 'gain' has a port 'samples'; use another name"),
    ("graph.circuit('c', fresh.out, 2, 16)", "the graph has a circuit 'c'; use another name"),
    ("gain.messages('x', 5)", "messages 'x': 5 is no function to handle them"),
    ("graph.add(5)", "5 is no block; use an instance of flow.Block"),
    ("graph.add(Ones)", r"is no block; make one: Ones\(...\)"),
    ("graph.add(NoSuper())", r"NoSuper.__init__\(\) has not called super\(\).__init__\(name\)"),
    ("graph.connect(ones, gain)", "is no port; use one of block 'ones': out"),
    ("graph.connect(5, 6)", "5 is no port"),
    ("graph.circuit(5, ones.out, 2, 16)", "a circuit's name = 5; use text"),
    ("graph.circuit('x', ones, 2, 16)", "is no port; use one of block 'ones': out"),
    ("graph.circuit('x', fresh.out, 2**20 + 1, 1)", r'"x": 1048577 quanta; use 1 to 2\^20'),
    ("graph.start(sequences=[ones])", "sequences = .* use a list of pairs: a list of blocks, and"),
    (
        "graph.start(pools=[([ones], 0)])",
        "pools = .*; use a list of pairs: a list of bl.*, and core",
    ),
    ("graph.start(sequences=[([ones], 'x')])", "core 'x'; use the number of a core, or -1"),
    ("graph.start(sequences=[([5], 0)])", "5 is no block; use an"),
    ("ones.out.follow(gain.samples, out=0)", "a rate of 0 output samples to 1 input"),
    ("ones.out.follow(gain.samples, into=0)", "a rate of 1 output samples to 0 input"),
    ("ones.out.follow(5)", "5 is no port"),
    ("ones.out.leave_margin(-1)", "samples = -1; use a whole number from 0"),
    ("flow.ArraySource('x', [[1], [1, 2]])", "samples = .*; use an array of numbers"),
    ("flow.ArraySource('x', np.ma.ones(3))", "samples are a masked array"),
    ("flow.ArraySource('x', [1.0], [(1, 'k', 1)])", "tag 'k' is at sample 1 of 1"),
    ("flow.ArraySource('x', [1.0], [5])", "5 is no tag; use flow.Tag"),
    ("flow.ArraySource('x', [1.0], 5)", "tags = 5; use a list of flow.Tag"),
    ("flow.Alone(5)", "5 is no block"),
    ("flow.Alone(Gain('x', 1)).collect(5)", "5 is no port"),
    ("flow.IqSource('x', 5)", r"block 'x': 5 is no source; use iq.open\(...\)"),
    ("flow.IqSink('x', None)", r"block 'x': None is no sink; use iq.create\(...\)"),
    ("flow.Resident('cpu:1', chain_workers=1.5)", "chain_workers = 1.5; use a whole number"),
    ("flow.Resident('cpu:1', sms=-1)", "sms = -1; use a whole number"),
    ("flow.Resident('cpu:1', kinds=[5])", r"kinds = \[5\]; use a list of classes"),
    ("flow.Agc('x', 'a')", "reference = 'a'; use a real number"),
    ("flow.Agc('x', 1.0, np.inf)", "rate = inf; use a finite number"),
    ("flow.Fm('x', np.nan)", "gain = nan; use a finite number"),
    ("flow.Fm('x').gain.post('a')", "gain = 'a'; use a real number"),
    ("flow.Saxpy('x', 1, None)", "b = None; use a real number"),
    ("flow.Saxpy('x', 1, 1).scalars.post('12')", "a = '1'; use a real number"),
    ("flow.Saxpy('x', 1, 1).scalars.post((1, 2, 3))", r"scalars = \(1, 2, 3\); use a pair"),
    ("flow.Fir('x', [1, 'a'])", "taps are <U21; give numbers"),
    ("flow.Fir('x', [1.0], down=1.5)", "down = 1.5; use a whole number from 1 to 1048576"),
    ("flow.Fir('x', [1.0], dtype='zz')", "dtype = 'zz'; use a NumPy dtype"),
    ("flow.Fft('x', 8, inverse='no')", "inverse = 'no'; use True or False"),
    ("flow.Channelizer('x', 4, chosen=[1, 1])", r"chosen = \[1, 1\]; use each channel once"),
    ("flow.Channelizer('x', 4, chosen=[1.5])", "a channel = 1.5; use a whole number from 0"),
    ("flow.Channelizer('x', 4, chosen=5)", "chosen = 5; use a list of channels"),
    ("flow.Channelizer('x', 4, chosen=[4])", r"\[4\] are no channels of 4"),
]


@pytest.mark.parametrize(("call", "text"), REFUSED, ids=[call for call, _ in REFUSED])
def test_what_is_none_is_refused_by_name(call, text):
    graph, ones, gain = chain()
    names = {"graph": graph, "ones": ones, "gain": gain, "fresh": graph.add(Ones("fresh"))}
    with pytest.raises(denizen.ArgumentError, match=text) as caught:
        eval(call, {**globals(), **names})
    assert "\n" not in str(caught.value)


def test_blocks_of_the_library_are_shown():
    for block in (flow.Fir("a", [1.0]), flow.Agc("a"), flow.Fft("a", 8), flow.Multiply("a")):
        assert repr(block) == f"<denizen.flow.{type(block).__name__}: called a>"
        assert "called" in block._repr_html_()


def test_another_byte_order_is_read_in_this_machine_s():
    test = flow.Alone(Gain("gain", 2, ">f4"))
    test.feed(test.block.samples, np.arange(5, dtype=">f4"))
    out = test.collect(test.block.samples)
    assert test.block.samples.dtype == np.dtype("f4")
    test.run(TIMEOUT)
    assert out.samples.tolist() == [0, 2, 4, 6, 8]
