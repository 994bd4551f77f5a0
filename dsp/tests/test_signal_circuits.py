# SPDX-License-Identifier: Apache-2.0
"""Blocks between circuits, and gain control, against SciPy or the definition, however quanta are
cut, on threads, in a sequence and in a pool, and on resident workers."""

import numpy as np
import pytest
from scipy import fft, signal

import denizen
from denizen import dsp, flow

TIMEOUT = 60
CUTS = [(7, 64), (64, 7), (1000, 1000), (3, 4096)]  # samples of the quanta read and filled


def noise(n, dtype="c8", seed=1):
    r = np.random.default_rng(seed)
    x = r.uniform(-1, 1, n) + 1j * r.uniform(-1, 1, n)
    return x.astype(dtype) if dtype == "c8" else x.real.astype(dtype)


def through(block, x, tags=(), cut=(64, 64)):
    test = flow.Alone(block)
    test.feed(block.port, x, tags, quantum=cut[0])
    test.circuit(block.out, quanta=3, samples=cut[1])
    out = test.collect(block.out)
    test.run(TIMEOUT)
    return out


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize(("up", "down"), [(3, 1), (24, 25), (2, 7), (5, 3)])
def test_a_resampler_is_scipys_upfirdn(place, up, down, cut):
    if cut[1] < -(-up // down):
        pytest.skip("refused: see below")
    x = noise(1001)
    taps = dsp.resampler_taps(up, down, attenuation=60)
    places = [0, 1, 5, 63, 64, 500, 990]
    tags = [flow.Tag(s, "at", s) for s in places]
    out = through(flow.Resampler("b", taps, up=up, down=down, **place), x, tags, cut)
    expected = signal.upfirdn(taps, x, up, down)[: len(out.samples)]
    assert abs(len(out.samples) - len(x) * up / down) < 1 + up / down
    assert out.samples == pytest.approx(expected, abs=1e-5)
    assert out.tags == [flow.Tag(-(-s * up // down), "at", s) for s in places]


@pytest.mark.parametrize(("dtype", "taps"), [("f4", [1, 2, 3]), ("c8", [1j, 2, 3 - 1j])])
def test_resamplers_of_other_samples_and_taps(place, dtype, taps):
    x = noise(300, dtype)
    out = through(flow.Resampler("b", taps, up=2, down=3, dtype=dtype, **place), x)
    assert out.samples.dtype == np.dtype(dtype)
    assert out.samples == pytest.approx(signal.upfirdn(taps, x, 2, 3)[:200], abs=1e-5)


def test_a_stream_of_real_samples_at_another_rate(place):
    """48 kHz to 44.1 kHz and back is the signal again, later."""
    t = np.arange(9600) / 48e3
    x = np.sin(2 * np.pi * 1000 * t).astype("f4")
    to, back = (147, 160), (160, 147)
    with flow.Flowgraph() as graph:
        source = graph.add(flow.ArraySource("source", x))
        blocks = [
            graph.add(
                flow.Resampler(
                    name, dsp.resampler_taps(up, down), up=up, down=down, dtype="f4", **place
                )
            )
            for name, (up, down) in (("to", to), ("back", back))
        ]
        sink = graph.add(flow.ArraySink("sink", "f4"))
        graph.circuit("first", source.out, quanta=2, samples=480)
        graph.circuit("second", blocks[0].out, quanta=2, samples=441)
        graph.circuit("third", blocks[1].out, quanta=2, samples=100)
        ports = [source.out, blocks[0].out, blocks[1].out]
        for out, port in zip(ports, [blocks[0].port, blocks[1].port, sink.port], strict=True):
            graph.connect(out, port)
        graph.start(pools=[([source, *blocks, sink], [-1, -1])])
        graph.wait(TIMEOUT)
    middle = sink.samples[2000:8000]
    spectrum = np.abs(np.fft.rfft(middle * np.hanning(len(middle))))
    assert spectrum.argmax() * 48e3 / len(middle) == pytest.approx(1000, abs=8)
    assert np.abs(middle).max() == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("cut", [(7, 64), (64, 100), (1000, 1000), (16, 16), (24, 40)])
@pytest.mark.parametrize("inverse", [False, True])
def test_frames_are_transformed_as_scipy_does(place, cut, inverse):
    x = noise(1003)
    places = [0, 15, 16, 500, 991, 1002]
    tags = [flow.Tag(s, "at", s) for s in places]
    out = through(flow.Fft("b", 16, inverse=inverse, **place), x, tags, cut)
    frames = x[:992].reshape(-1, 16)
    expected = fft.ifft(frames) if inverse else fft.fft(frames)
    assert out.samples.reshape(-1, 16) == pytest.approx(expected, abs=1e-5)
    assert out.tags == [flow.Tag(s, "at", s) for s in places[:-1]]  # the last frame is incomplete


@pytest.mark.parametrize("how", ["threads", "sequence", "pool"])
@pytest.mark.parametrize("cut", CUTS)
def test_channels_are_filters_of_scipy(place, how, cut):
    x = noise(2000)
    taps = dsp.low_pass(0.5 / 8, 0.3 / 8, 40)
    tags = [flow.Tag(s, "at", s) for s in (0, 1, 8, 9, 1990)]
    chosen = [0, 3, 7]
    with flow.Flowgraph() as graph:
        source = graph.add(flow.ArraySource("source", x, tags))
        bank = graph.add(flow.Channelizer("bank", 8, taps, chosen=chosen, **place))
        circuits = [graph.circuit("iq", source.out, quanta=2, samples=cut[0])]
        graph.connect(source.out, bank.port)
        sinks = {}
        for k in chosen:
            sinks[k] = graph.add(flow.ArraySink(f"sink {k}", "c8"))
            circuits.append(graph.circuit(f"channel {k}", bank.out[k], quanta=2, samples=cut[1]))
            graph.connect(bank.out[k], sinks[k].port)
        blocks = [source, bank, *sinks.values()]
        graph.start(
            sequences=[(blocks, -1)] if how == "sequence" else [],
            pools=[(blocks, [-1, -1])] if how == "pool" else [],
        )
        graph.wait(TIMEOUT)
        assert [circuit.at_home() for circuit in circuits] == [2] * 4
    for k in chosen:
        shifted = taps * np.exp(2j * np.pi * k * np.arange(len(taps)) / 8)
        expected = signal.upfirdn(shifted, x, 1, 8)[:250]
        assert sinks[k].samples == pytest.approx(expected, abs=1e-5)
        assert sinks[k].tags == [flow.Tag(-(-s // 8), "at", s) for s in (0, 1, 8, 9, 1990)]


@pytest.mark.parametrize("points", [2, 1024, 4096])
def test_many_frames_are_transformed_to_a_bound(place, points):
    """Single precision: an error of some rounding for each step, of the largest number."""
    x = noise(20_000)
    out = through(flow.Fft("b", points, **place), x, cut=(3000, 5000))
    frames = x[: len(x) // points * points].reshape(-1, points).astype("c16")
    expected = fft.fft(frames)
    assert out.samples.shape == (expected.size,)
    wrong = np.abs(out.samples.reshape(expected.shape) - expected).max()
    assert wrong < 4 * np.finfo("f4").eps * np.abs(expected).max()


def test_the_most_channels_with_the_taps_that_they_have(place):
    """A filter that is longer than a thousand samples, and frames of a thousand channels."""
    channels, chosen = 1024, [1, 1023]
    taps = dsp.low_pass(0.5 / channels, 0.3 / channels, 80)
    assert len(taps) > 16_000
    x = noise(100_000)
    test = flow.Alone(flow.Channelizer("bank", channels, chosen=chosen, **place))
    test.feed(test.block.port, x, quantum=30_000)
    sinks = {}
    for k in chosen:
        test.circuit(test.block.out[k], quanta=2, samples=50)
        sinks[k] = test.collect(test.block.out[k])
    test.run(TIMEOUT)
    for k in chosen:
        shifted = taps * np.exp(2j * np.pi * k * np.arange(len(taps)) / channels)
        expected = signal.upfirdn(shifted, x, 1, channels)[: -(-len(x) // channels)]
        assert sinks[k].samples == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("dtype", ["c8", "f4"])
@pytest.mark.parametrize("quantum", [7, 4096])
def test_gain_is_controlled_by_its_recurrence(place, dtype, quantum):
    x = noise(3000, dtype) * np.repeat([1, 0.01, 30], 1000).astype("f4")
    test = flow.Alone(flow.Agc("agc", 0.5, 0.01, 100, dtype=dtype, **place))
    test.feed(test.block.samples, x, [flow.Tag(1234, "at", 1)], quantum=quantum)
    out = test.collect(test.block.samples)
    test.run(TIMEOUT)
    gain, expected = 1.0, []
    for sample in x.astype("c16"):
        expected.append(gain * sample)
        gain = min(gain * max(1 - 0.01 * abs(sample), 0) + 0.01 * 0.5, 100)
    assert out.samples.dtype == np.dtype(dtype)
    assert out.samples == pytest.approx(np.array(expected), rel=1e-4, abs=1e-5)
    assert out.tags == [flow.Tag(1234, "at", 1)]


def test_what_is_refused():
    with pytest.raises(denizen.ArgumentError, match="complex taps take complex samples"):
        flow.Resampler("b", [1j], up=2, dtype="f4")
    with pytest.raises(denizen.ArgumentError, match="up is 0"):
        flow.Resampler("b", [1], up=0)
    with pytest.raises(denizen.ArgumentError, match="at least one tap"):
        flow.Resampler("b", [])
    with pytest.raises(denizen.ArgumentError, match="power of two from 2 to 65536"):
        flow.Fft("b", 1)
    with pytest.raises(denizen.ArgumentError, match="12"):
        flow.Fft("b", 12)
    with pytest.raises(denizen.ArgumentError, match="power of two from 2 to 1024"):
        flow.Channelizer("b", 1)
    with pytest.raises(denizen.ArgumentError, match=r"\[8\] are no channels of 8"):
        flow.Channelizer("b", 8, chosen=[8])
    with pytest.raises(denizen.ArgumentError, match="a rate of at most 1"):
        flow.Agc("b", rate=2)
    with pytest.raises(denizen.ArgumentError, match="give float32 or complex64"):
        flow.Agc("b", dtype="f8")
    for block, least in ((flow.Resampler("b", [1], up=9, down=2), 5), (flow.Fft("b", 64), 64)):
        with pytest.raises(denizen.ArgumentError, match=f"needs {least}"):
            through(block, noise(100), cut=(64, least - 1))
    with pytest.raises(denizen.ArgumentError, match="8192 points; a resident block takes"):
        flow.Fft("b", 8192, executor="resident", device="cpu:1")
    with pytest.raises(denizen.ArgumentError, match=r"up by 5000, .* rates from 1 to 4096"):
        flow.Resampler("b", [1], up=5000, executor="resident", device="cpu:1")
    with pytest.raises(denizen.ArgumentError, match="40000 taps; a resident channelizer takes"):
        flow.Channelizer("b", 8, np.ones(40_000), executor="resident", device="cpu:1")
    with flow.Flowgraph() as graph:
        spectrum = graph.add(flow.Fft("fft", 8))
        with pytest.raises(denizen.ArgumentError, match="is of a block of the library"):
            _ = spectrum.out.array
        assert spectrum.out.label == "fft.out"
        with pytest.raises(denizen.ArgumentError, match="a source: other ports get quanta"):
            graph.circuit("c", spectrum.port, 2, 8)
        with pytest.raises(denizen.ArgumentError, match="an input: a source sends"):
            graph.connect(spectrum.out, spectrum.out)
    with pytest.raises(denizen.ClosedError, match="graph is gone"):
        _ = spectrum.out.label
