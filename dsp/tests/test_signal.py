# SPDX-License-Identifier: Apache-2.0
"""The library's blocks from Python, on the graph's threads and on resident workers: one test body
for both, against NumPy."""

import gc
import threading

import numpy as np
import pytest

import denizen
from denizen import flow, iq
from denizen.flow.resident import _shared, compile_gpu

TIMEOUT = 60


def noise(n, seed=1):
    r = np.random.default_rng(seed)
    return (r.uniform(-1, 1, n) + 1j * r.uniform(-1, 1, n)).astype("c8")


def filtered(x, taps, down=1):
    return np.convolve(x.astype("c16"), taps)[: len(x)][::down]


def demodulated(x, gain):
    return gain * np.angle(x * np.conj(np.concatenate([[0], x[:-1]])))


def alone(block, samples, tags=(), quantum=64, by=None):
    test = flow.Alone(block)
    test.feed(block.samples, samples, tags, quantum=quantum)
    if by is not None:
        test.feed(block.by, *by)
    out = test.collect(block.samples)
    test.run(TIMEOUT)
    return out


@pytest.mark.parametrize("quantum", [7, 100, 2048])  # shorter than the filter, and longer
def test_a_receiver_of_mixed_blocks(place, quantum):
    """Filter and demodulator with a block in Python before them."""
    x = noise(3001)
    taps = np.hanning(35)[1:-1]
    tags = [flow.Tag(s, "at", s) for s in (0, 1, 5, 6, 1500, 2999)]

    class Conjugate(flow.Block):
        def __init__(self):
            super().__init__("conjugate")
            self.samples = self.in_place("samples", "c8")

        def work(self):
            np.conjugate(self.samples.array, out=self.samples.array)
            self.samples.pass_on()

    with flow.Flowgraph() as graph:
        source = graph.add(flow.ArraySource("source", x, tags))
        conjugate = graph.add(Conjugate())
        fir = graph.add(flow.Fir("fir", taps, down=5, **place))
        fm = graph.add(flow.Fm("fm", 2.0, **place))
        sink = graph.add(flow.ArraySink("sink", "f4"))
        iq = graph.circuit("iq", source.out, quanta=6, samples=quantum)
        graph.connect(source.out, conjugate.samples)
        graph.connect(conjugate.samples, fir.samples)
        graph.connect(fir.samples, fm.samples)
        graph.connect(fm.samples, sink.port)
        graph.run(TIMEOUT)
        assert iq.at_home() == 6
    expected = demodulated(filtered(np.conj(x), taps, 5), 2.0)
    assert len(sink.samples) == len(expected)
    wrong = np.abs(np.angle(np.exp(0.5j * (sink.samples - expected))))  # -pi is pi
    assert wrong.max() < 1e-3
    # At the first output that is made of the tag's sample, wherever quanta end.
    assert sink.tags == [flow.Tag(-(-s // 5), "at", s) for s in (0, 1, 5, 6, 1500, 2999)]


def test_every_block_against_numpy(place):
    x, w = noise(500), noise(7, 2)
    real = x.real.copy()
    assert alone(flow.Saxpy("b", 2.0, 3.0, **place), real).samples == pytest.approx(2 * real + 3)
    out = alone(flow.Fir("b", [0.25, 0.5, 0.25], dtype="f4", **place), real)
    assert out.samples == pytest.approx(filtered(real, [0.25, 0.5, 0.25]).real, abs=1e-6)
    out = alone(flow.Fir("b", w, down=3, **place), x)
    assert out.samples == pytest.approx(filtered(x, w, 3), abs=1e-5)
    out = alone(flow.Mixer("b", w, **place), x)
    assert out.samples == pytest.approx(x * np.resize(w, len(x)), abs=1e-6)
    out = alone(flow.MagnitudeSquared("b", **place), x)
    assert out.samples.dtype == np.float32
    assert out.samples == pytest.approx(np.abs(x) ** 2, abs=1e-6)
    out = alone(flow.Fm("b", 0.5, **place), x)
    assert out.samples[0] == 0
    assert out.samples == pytest.approx(demodulated(x, 0.5), abs=1e-5)


@pytest.mark.parametrize("lengths", [(500, 500), (500, 333), (250, 501)])
def test_two_streams_are_multiplied_however_they_are_cut(place, lengths):
    a, b = noise(lengths[0]), noise(lengths[1], 2)
    n = min(lengths)
    out = alone(
        flow.Multiply("product", **place),
        a,
        [flow.Tag(3, "of a", 1), flow.Tag(70, "of a", 2)],
        by=(b, [flow.Tag(3, "of b", 1), flow.Tag(n - 1, "of b", 2)]),
        quantum=50,
    )
    assert out.samples == pytest.approx(a[:n] * b[:n], abs=1e-6)
    keys = [(tag.sample, tag.key) for tag in out.tags]
    assert keys == [(3, "of a"), (3, "of b"), (70, "of a"), (n - 1, "of b")]


def test_a_product_goes_on_through_a_chain(place):
    """What a filter needs of the past of both streams is there."""
    a, b, taps = noise(999), noise(999, 2), np.arange(1, 30) / 30
    with flow.Flowgraph() as graph:
        one = graph.add(flow.ArraySource("one", a))
        two = graph.add(flow.ArraySource("two", b))
        shift = graph.add(flow.Mixer("shift", [1, 1j, -1, -1j], **place))
        product = graph.add(flow.Multiply("product", **place))
        fir = graph.add(flow.Fir("fir", taps, down=4, **place))
        power = graph.add(flow.MagnitudeSquared("power", **place))
        sink = graph.add(flow.ArraySink("sink", "f4"))
        circuits = [
            graph.circuit("one", one.out, quanta=4, samples=17),
            graph.circuit("two", two.out, quanta=2, samples=40),
        ]
        graph.connect(one.out, product.samples)
        graph.connect(two.out, shift.samples)
        graph.connect(shift.samples, product.by)
        graph.connect(product.samples, fir.samples)
        graph.connect(fir.samples, power.samples)
        graph.connect(power.samples, sink.port)
        graph.run(TIMEOUT)
        assert [circuit.at_home() for circuit in circuits] == [4, 2]
    shifted = b * np.resize([1, 1j, -1, -1j], 999)
    expected = np.abs(filtered(a * shifted, taps, 4)) ** 2
    assert sink.samples == pytest.approx(expected, rel=1e-4, abs=1e-3)


class Ones(flow.Block):
    def __init__(self):
        super().__init__("ones")
        self.out = self.source("out", "f4")

    def work(self):
        self.out.array[:] = 1
        self.out.produce()


def test_retuned_while_it_runs(place):
    class Levels(flow.Block):
        def __init__(self):
            super().__init__("levels")
            self.port = self.input("in", "f4")
            self.seen = []
            self.reached = {5: threading.Event(), 50: threading.Event()}

        def work(self):
            for level in self.port.array if self.port.position else ():
                if not self.seen or self.seen[-1] != level:
                    self.seen.append(float(level))
                    if level in self.reached:
                        self.reached[level].set()
            self.port.consume()

    with flow.Flowgraph() as graph:
        ones, levels = graph.add(Ones()), graph.add(Levels())
        fir = graph.add(flow.Fir("fir", [1, 1], dtype="f4", **place))
        scale = graph.add(flow.Saxpy("scale", 1, 0, **place))
        graph.circuit("floats", ones.out, quanta=8, samples=16)
        graph.connect(ones.out, fir.samples)
        graph.connect(fir.samples, scale.samples)
        graph.connect(scale.samples, levels.port)
        graph.start()
        fir.taps.post([5])
        assert levels.reached[5].wait(TIMEOUT)
        scale.scalars.post((10, 0))
        assert levels.reached[50].wait(TIMEOUT)
        graph.stop()
        graph.wait(TIMEOUT)
        with pytest.raises(denizen.ClosedError, match=r"message port \"fir.taps\" is closed"):
            fir.taps.post([1])
    # Each change at one boundary, for all workers; over [5], half a window of [1, 1] cannot be.
    assert levels.seen in ([2, 5, 50], [5, 50])


def test_a_demodulator_gets_another_gain_while_it_runs(place):
    class Turning(flow.Block):
        """A quarter of a turn per sample."""

        def __init__(self):
            super().__init__("turning")
            self.out = self.source("out", "c8")

        def work(self):
            self.out.array[:] = np.resize(np.array([1, 1j, -1, -1j], "c8"), len(self.out.array))
            self.out.produce()

    class Watch(flow.Block):
        def __init__(self):
            super().__init__("watch")
            self.port = self.input("in", "f4")
            self.seen = []
            self.changed = threading.Event()

        def work(self):
            levels = np.unique(self.port.array[1:])  # the first of the stream is 0
            self.seen += [x for x in levels if x not in self.seen]
            if self.seen[-1] > 10:
                self.changed.set()
            self.port.consume()

    with flow.Flowgraph() as graph:
        source, watch = graph.add(Turning()), graph.add(Watch())
        fm = graph.add(flow.Fm("fm", 2.0, **place))
        graph.circuit("iq", source.out, quanta=4, samples=32)
        graph.connect(source.out, fm.samples)
        graph.connect(fm.samples, watch.port)
        graph.start()
        fm.gain.post(16)
        assert watch.changed.wait(TIMEOUT)
        graph.stop()
        graph.wait(TIMEOUT)
    assert watch.seen[-1] == pytest.approx(8 * np.pi, abs=1e-4)
    assert watch.seen in ([watch.seen[-1]], [pytest.approx(np.pi, abs=1e-5), watch.seen[-1]])


def test_new_taps_are_no_more_than_the_old_ones(place):
    with flow.Flowgraph() as graph:
        ones = graph.add(Ones())
        fir = graph.add(flow.Fir("fir", [1, 1], dtype="f4", **place))
        sink = graph.add(flow.ArraySink("sink", "f4"))
        graph.circuit("floats", ones.out, quanta=4, samples=16)
        graph.connect(ones.out, fir.samples)
        graph.connect(fir.samples, sink.port)
        graph.start()
        fir.taps.post([1, 2, 3])
        with pytest.raises(denizen.FailedError, match=r"3 (taps|values) where there were 2"):
            graph.wait(TIMEOUT)


def test_what_is_refused():
    with pytest.raises(denizen.ArgumentError, match=r'"resident" or a flow\.Resident'):
        flow.Fm("fm", executor="gpu")
    with pytest.raises(denizen.ArgumentError, match='is for executor="resident"'):
        flow.Fm("fm", device="cpu")
    with pytest.raises(denizen.ArgumentError, match="one GPU or the CPU"):
        flow.Fm("fm", executor="resident", device="cpu:2x1")
    with pytest.raises(denizen.ArgumentError, match="0 chain_workers"):
        flow.Resident("cpu:1", chain_workers=0)
    with pytest.raises(denizen.ArgumentError, match="one at least"):
        flow.Fir("fir", [])
    with pytest.raises(denizen.ArgumentError, match="complex taps take complex samples"):
        flow.Fir("fir", [1j], dtype="f4")
    with pytest.raises(denizen.ArgumentError, match="give float32 or complex64"):
        flow.Fir("fir", [1], dtype="f8")
    with pytest.raises(denizen.ArgumentError, match="from 1 to 4096"):
        flow.Fir("fir", [1], down=5000, executor="resident", device="cpu:1")
    with pytest.raises(denizen.ArgumentError, match="5000 taps"):
        flow.Fir("fir", np.ones(5000), executor="resident", device="cpu:1")
    fir = flow.Fir("fir", [1])
    with pytest.raises(denizen.ArgumentError, match="was made with real ones"):
        fir.taps.post([1j])
    with flow.Flowgraph() as graph:
        source = graph.add(flow.ArraySource("source", noise(9)))
        graph.add(fir)
        power = graph.add(flow.MagnitudeSquared("power"))
        graph.connect(source.out, fir.samples)
        with pytest.raises(denizen.ArgumentError, match="in a graph already"):
            graph.add(fir)
        with pytest.raises(denizen.ArgumentError, match="is of a block of the library"):
            _ = fir.samples.array
        with pytest.raises(denizen.ArgumentError, match=r"power\.samples"):
            graph.connect(power.samples, fir.samples)  # float32 into complex64
    with pytest.raises(denizen.ClosedError, match="graph is gone"):
        _ = fir.samples.label
    with pytest.raises(denizen.ClosedError, match="graph is gone"):
        fir.taps.post([1])


def test_a_runtime_is_shared_and_ends_with_its_blocks():
    resident = flow.Resident("cpu:1", chain_workers=3)
    assert (resident.device, resident.chain_workers) == ("CPU", 3)
    fm = flow.Fm("fm", executor=resident)
    assert fm.resident is resident
    one = flow.Fm("one", executor="resident", device="cpu:1")
    two = flow.Saxpy("two", 1, 1, executor="resident", device="cpu:1")
    assert one.resident is two.resident is not resident
    assert list(_shared) == ["cpu:1"]
    del one, two
    gc.collect()
    assert not list(_shared)


@pytest.mark.usefixtures("unoptimised")
def test_the_chain_workers_compile_at_run_time():
    try:
        cubin = compile_gpu([], 90)
    except denizen.CompileError as error:
        if "libnvrtc" not in str(error):
            raise
        pytest.skip(str(error).splitlines()[0])
    assert b"denizen_resident" in cubin


def test_from_a_file_to_a_file(tmp_path, place):
    x = noise(5000) / 2
    path = tmp_path / "signal.sigmf-data"
    with iq.create(str(path), form="f32", rate=48_000) as file:
        file.write(x)
    out = tmp_path / "slower.sigmf-data"
    with (
        iq.open(str(path)) as file,
        iq.create(str(out), form="f32", rate=12_000) as slower,
        flow.Flowgraph() as graph,
    ):
        source = graph.add(flow.IqSource("file", file))
        fir = graph.add(flow.Fir("fir", np.ones(8) / 8, down=4, **place))
        sink = graph.add(flow.IqSink("slower", slower))
        graph.circuit("iq", source.out, quanta=4, samples=600)
        graph.connect(source.out, fir.samples)
        graph.connect(fir.samples, sink.port)
        graph.run(TIMEOUT)
    with iq.open(str(out)) as file:
        assert file.rate == 12_000
        got = np.concatenate(list(file.blocks()))
    assert got == pytest.approx(filtered(x, np.ones(8) / 8, 4), abs=1e-6)


def test_a_file_of_other_numbers_fails_the_graph_by_name(tmp_path):
    path = tmp_path / "odd.f32"
    x = noise(100)
    x[70] = np.nan
    x.tofile(path)
    with iq.open(str(path), form="f32", rate=1000) as file, flow.Flowgraph() as graph:
        source = graph.add(flow.IqSource("file", file))
        sink = graph.add(flow.ArraySink("sink", "c8"))
        graph.circuit("iq", source.out, quanta=2, samples=64)
        graph.connect(source.out, sink.port)
        with pytest.raises(denizen.FailedError, match=r'"file" failed.*odd\.f32: sample 70 is nan'):
            graph.run(TIMEOUT)
