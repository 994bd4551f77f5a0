# SPDX-License-Identifier: Apache-2.0
"""Signal processing against SciPy and NumPy in double precision, and over streams cut anywhere."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import fft, signal

from denizen import ArgumentError, CompileError, dsp
from denizen.compilers import cubin_of

KINDS = [(np.float32, np.float32), (np.complex64, np.float32), (np.complex64, np.complex64)]


def noise(count, dtype, seed=0):
    random = np.random.default_rng(seed)
    out = random.standard_normal(count)
    if np.dtype(dtype).kind == "c":
        out = out + 1j * random.standard_normal(count)
    return out.astype(dtype)


def cut(x, lengths):
    """``x`` in pieces of these lengths, then the rest."""
    at = 0
    for length in lengths:
        yield x[at : at + length]
        at += length
    yield x[at:]


def exact(taps, x, up, down):
    """The outputs that need no sample after ``x``, in double precision."""
    wide = [np.result_type(a, np.float64) for a in (taps, x)]
    padded = np.append(x.astype(wide[1]), 0)
    full = signal.upfirdn(taps.astype(wide[0]), padded, up, down)
    return full[: -(-len(x) * up // down)]


@pytest.mark.parametrize(("dtype", "taps_dtype"), KINDS)
@pytest.mark.parametrize("count", [1, 16, 129])
@pytest.mark.parametrize(
    ("up", "down"), [(1, 1), (1, 2), (1, 7), (3, 1), (5, 3), (24, 125), (147, 160)]
)
def test_fir_is_upfirdn(dtype, taps_dtype, count, up, down):
    x, taps = noise(9000, dtype), noise(count, taps_dtype, 1)
    got = dsp.Fir(taps, up=up, down=down, dtype=dtype)(x)
    want = exact(taps, x, up, down)
    assert got.dtype == dtype
    assert got.shape == want.shape
    assert np.abs(got - want).max() < 2e-6 * np.abs(taps).sum() * 4


@given(
    kind=st.sampled_from(KINDS),
    taps=st.integers(1, 100),
    up=st.integers(1, 9),
    down=st.integers(1, 40),
    lengths=st.lists(st.integers(0, 9000), max_size=12),
)
@settings(deadline=None, max_examples=30)
def test_fir_does_not_depend_on_blocks(kind, taps, up, down, lengths):
    x, h = noise(17_000, kind[0]), noise(taps, kind[1], 1)
    whole = dsp.Fir(h, up=up, down=down, dtype=kind[0])(x)
    fir = dsp.Fir(h, up=up, down=down, dtype=kind[0])
    np.testing.assert_array_equal(np.concatenate([fir(p) for p in cut(x, lengths)]), whole)


def test_many_phases():
    x, taps = noise(40, np.complex64), noise(60_000, np.float32)
    got = dsp.Fir(taps, up=20_011, down=3)(x)
    np.testing.assert_allclose(got, exact(taps, x, 20_011, 3), atol=1e-5)


def test_single_samples():
    x = noise(300, np.complex64)
    taps = noise(40, np.float32)
    whole = dsp.Fir(taps, up=3, down=7)(x)
    fir = dsp.Fir(taps, up=3, down=7)
    np.testing.assert_array_equal(np.concatenate([fir(p) for p in cut(x, [1] * 300)]), whole)


@given(lengths=st.lists(st.integers(0, 3000), max_size=12))
@settings(deadline=None, max_examples=30)
def test_agc_and_fm_do_not_depend_on_blocks(lengths):
    x = noise(9000, np.complex64)
    for make in (lambda: dsp.Agc(rate=0.01), lambda: dsp.FmDemodulator(2.5)):
        whole, cutting = make()(x), make()
        pieces = [cutting(piece) for piece in cut(x, lengths)]
        np.testing.assert_array_equal(np.concatenate(pieces), whole)


@pytest.mark.parametrize(
    ("cutoff", "transition", "attenuation"), [(0.1, 0.05, 60), (0.013, 0.004, 80), (0.3, 0.1, 30)]
)
def test_low_pass_is_scipys(cutoff, transition, attenuation):
    taps = dsp.low_pass(cutoff, transition, attenuation)
    count, beta = signal.kaiserord(attenuation, 2 * transition)
    assert count - 1 <= len(taps) <= count + 2
    want = signal.firwin(len(taps), 2 * cutoff, window=("kaiser", beta))
    np.testing.assert_allclose(taps, want, atol=2e-6)
    f, h = signal.freqz(taps.astype(np.float64), worN=8192, fs=1)
    level = 20 * np.log10(np.abs(h) + 1e-12)
    assert level[f > cutoff + transition / 2].max() < -attenuation + 1
    assert np.abs(level[f < cutoff - transition / 2]).max() < 0.4


@pytest.mark.parametrize(("old", "new"), [(48_000, 44_100), (44_100, 48_000), (250_000, 48_000)])
def test_resampler_keeps_a_tone_and_adds_none(old, new):
    low = min(old, new)
    tone = 0.37 * low
    x = np.exp(2j * np.pi * tone / old * np.arange(old // 2)).astype(np.complex64)
    y = dsp.resampler(old, new)(x)
    assert abs(len(y) - new / 2) < 1
    steady = y[1000:]
    ideal = np.exp(2j * np.pi * tone / new * np.arange(len(y)))[1000:]
    level = np.vdot(ideal, steady) / len(steady)
    assert abs(abs(level) - 1) < 1e-3
    assert 20 * np.log10(np.abs(steady - level * ideal).max()) < -74


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
def test_agc(dtype):
    x = noise(20_000, dtype) * np.float32(0.3)
    x[5000:6000] = 0
    x[7000] = 500  # 1 - rate * abs(x) would be negative
    gain, want = 1.0, []
    for sample in x.astype(np.result_type(dtype, np.float64)):
        want.append(gain * sample)
        gain = min(gain * max(0.0, 1 - 0.01 * abs(sample)) + 0.01 * 2.0, 8.0)
    agc = dsp.Agc(2.0, 0.01, 8.0, dtype=dtype)
    got = agc(x)
    np.testing.assert_allclose(got, want, rtol=3e-5, atol=1e-6)
    assert agc.gain == pytest.approx(gain, rel=1e-4)
    steady = dsp.Agc(2.0, 0.01, 1e3, dtype=dtype)(np.full(20_000, 0.05, dtype))
    assert abs(steady[-1]) == pytest.approx(2.0, rel=1e-3)


@pytest.mark.parametrize("points", [2, 4, 8, 32, 256, 2048, 65536])
def test_fft_is_scipys(points):
    x = noise(points * 6, np.complex64).reshape(2, 3, points)
    wide = x.astype(np.complex128)
    ours = dsp.Fft(points)
    scale = np.sqrt(points)
    np.testing.assert_allclose(ours(x) / scale, fft.fft(wide) / scale, atol=3e-6)
    np.testing.assert_allclose(ours.inverse(x) * scale, fft.ifft(wide) * scale, atol=3e-6)
    np.testing.assert_allclose(ours.inverse(ours(x)), x, atol=3e-6)


@pytest.mark.parametrize(("channels", "count"), [(2, 9), (8, 8), (16, 333), (128, 4000)])
def test_channelizer_is_upfirdn_of_each_channel(channels, count):
    x, taps = noise(channels * 60 + 5, np.complex64), noise(count, np.float32, 1)
    got = dsp.Channelizer(channels, taps)(x)
    for k in range(channels):
        turned = taps * np.exp(2j * np.pi * k * np.arange(count) / channels)
        want = exact(turned, x, 1, channels)
        assert got[k].shape == want.shape
        assert np.abs(got[k] - want).max() < 2e-6 * np.abs(taps).sum() * 4


@given(channels=st.sampled_from([2, 4, 32]), lengths=st.lists(st.integers(0, 9000), max_size=12))
@settings(deadline=None, max_examples=20)
def test_channelizer_does_not_depend_on_blocks(channels, lengths):
    x = noise(30_000, np.complex64)
    whole, cutting = dsp.Channelizer(channels)(x), dsp.Channelizer(channels)
    pieces = [cutting(piece) for piece in cut(x, lengths)]
    np.testing.assert_array_equal(np.concatenate(pieces, axis=1), whole)


def test_channelizer_keeps_channels_apart():
    rate, channels = 16_000, 16
    t = np.arange(rate) / rate
    x = np.exp(2j * np.pi * (3_000 + 200) * t) + 0.01 * np.exp(2j * np.pi * -2_100 * t)
    y = dsp.Channelizer(channels)(x.astype(np.complex64))[:, 50:]
    level = 20 * np.log10(np.sqrt(np.mean(np.abs(y) ** 2, axis=1)))
    assert level[3] == pytest.approx(0, abs=0.01)
    assert level[14] == pytest.approx(-40, abs=0.05)
    assert np.delete(level, [3, 14]).max() < -78
    frequency = np.angle(y[3, 1:] * y[3, :-1].conj()) / (2 * np.pi) * rate / channels
    np.testing.assert_allclose(frequency, 200, atol=1)


def test_fm_demodulator_is_the_angle():
    x = noise(100_000, np.complex64)
    x[10:13] = 0
    x[20:30] = [1, 1j, -1, -1j, 1, -1j, -1, 1j, 1e-18, 1e18]
    before = np.concatenate([[0], x[:-1]]).astype(np.complex128)
    want = np.angle(x * before.conj())
    want[np.abs(x * before.conj()) == 0] = 0
    got = dsp.FmDemodulator(3.0)(x)
    difference = np.abs(got - 3 * want)
    difference = np.minimum(difference, np.abs(difference - 6 * np.pi))  # -pi is pi
    assert difference.max() < 3 * 4e-7 + 2e-6


def test_fm_demodulator_gives_the_frequency():
    t = np.arange(50_000) / 250e3
    x = np.exp(2j * np.pi * np.cumsum(75e3 * 0.5 * np.sin(2 * np.pi * 1000 * t)) / 250e3)
    got = dsp.FmDemodulator(250e3 / (2 * np.pi * 75e3))(x.astype(np.complex64))
    np.testing.assert_allclose(got[1:], 0.5 * np.sin(2 * np.pi * 1000 * t)[1:], atol=2e-6)


@pytest.mark.parametrize("count", [0, 1, 7, 64, 1001])
def test_sample_by_sample(count):
    a, b = noise(count, np.complex64), noise(count, np.complex64, 1)
    np.testing.assert_allclose(dsp.multiply(a, b), a * b, rtol=2e-6, atol=1e-6)
    np.testing.assert_allclose(dsp.magnitude_squared(a), np.abs(a) ** 2, rtol=2e-6)
    x, y = noise(count, np.float32), noise(count, np.float32, 1)
    want = y + np.float32(0.7) * x
    dsp.saxpy(0.7, x, y)
    np.testing.assert_allclose(y, want, rtol=1e-6, atol=1e-6)
    product = a * b
    assert dsp.multiply(a, b, out=a) is a
    np.testing.assert_allclose(a, product, rtol=2e-6, atol=1e-6)


def test_strided_input_is_read_right():
    x = noise(2000, np.complex64)
    taps = noise(20, np.float32)
    np.testing.assert_array_equal(dsp.Fir(taps)(x[::2]), dsp.Fir(taps)(x[::2].copy()))


@pytest.mark.parametrize("apart", [-7, -1, 0, 1, 7])
@pytest.mark.parametrize("size", [5, 1000])
def test_outputs_may_lie_over_inputs(size, apart):
    """As NumPy's may: what is read is what was there."""
    x = slice(7, 7 + size)
    out = slice(7 + apart, 7 + apart + size)
    real, iq = noise(size + 14, np.float32), noise(size + 14, np.complex64)
    y = real.copy()
    dsp.saxpy(0.5, y[x], y[out])
    np.testing.assert_allclose(y[out], real[out] + np.float32(0.5) * real[x], rtol=1e-6)
    for a, b in ((x, x), (x, out), (out, x)):
        y = iq.copy()
        dsp.multiply(y[a], y[b], y[out])
        np.testing.assert_allclose(y[out], iq[a] * iq[b], rtol=2e-6, atol=1e-6)
    y = iq.copy()
    of = y.view(np.float32)[out]
    dsp.magnitude_squared(y[x], of)
    np.testing.assert_allclose(of, np.abs(iq[x]) ** 2, rtol=1e-6)


@pytest.mark.parametrize(
    "make",
    [
        lambda: dsp.Fir(np.ones(301)),
        lambda: dsp.Channelizer(64, np.ones(3000)),
        lambda: dsp.Fft(16),
        dsp.Agc,
    ],
    ids=["fir", "channelizer", "fft", "agc"],
)
def test_threads_that_share_one_take_turns(make):
    """A stream of ones is the same stream however they take turns."""
    shared, alone = make(), make()
    ones = np.ones((200, 16), np.complex64)
    lengths = (800, 1600, 3200)
    blocks = [ones if isinstance(shared, dsp.Fft) else ones.reshape(-1)[:n] for n in lengths]
    with ThreadPoolExecutor(4) as threads:
        found = [f.result() for f in [threads.submit(shared, b) for b in blocks * 100]]
    expected = [alone(b) for b in blocks * 100]
    assert sum(f.size for f in found) == sum(e.size for e in expected)
    np.testing.assert_allclose(found[-1][..., -5:], expected[-1][..., -5:], rtol=1e-5, atol=1e-3)


READ_ONLY = np.zeros(3, np.float32)
READ_ONLY.setflags(write=False)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: dsp.Fir([1.0])(np.zeros(4)), "x is float64"),
        (lambda: dsp.Fir([1.0])(np.zeros((2, 2), np.complex64)), r"shape \(2, 2\)"),
        (lambda: dsp.Fir([]), "at least one tap"),
        (lambda: dsp.Fir([1.0], down=0), "down is 0"),
        (lambda: dsp.Fir([1j], dtype=np.float32), "complex taps"),
        (lambda: dsp.Fir([1.0], dtype=np.float64), "dtype is float64"),
        (lambda: dsp.Fir([1.0], up=1 << 20), "2\\^22"),
        (lambda: dsp.low_pass(0.6, 0.1, 60), "cutoff is 0.6"),
        (lambda: dsp.low_pass(0.2, float("nan"), 60), "transition is"),
        (lambda: dsp.Agc(rate=0), "AGC with"),
        (lambda: dsp.resampler(0, 48_000), "from_rate is 0; give a whole number of samples a"),
        (lambda: dsp.resampler(44_100.0, 48_000), "from_rate is 44100.0; give a whole number"),
        (lambda: dsp.resampler(44_100, "48k"), "to_rate is '48k'; give a whole number"),
        (lambda: dsp.Fir([1.0], up=1.5), r"up is 1.5; give a whole number from 1 to 2\*\*20"),
        (lambda: dsp.Fir([None]), "taps are object; give numbers"),
        (lambda: dsp.Fir(["a"]), "taps are <U1; give numbers"),
        (lambda: dsp.Channelizer(8, ["a"]), "taps are <U1; give numbers"),
        (lambda: dsp.Channelizer(8.0), "channels is 8.0; give a power of two from 2 to 1024"),
        (lambda: dsp.Fft("8"), "points is '8'; give a power of two from 2 to 65536"),
        (lambda: dsp.Fft(12), "12 points; give a power of two"),
        (lambda: dsp.Fft(8)(np.zeros((2, 4), "c8")), r"shape \(2, 4\); give complex64 with rows"),
        (lambda: dsp.Channelizer(10), "10 channels; give a power of two"),
        (lambda: dsp.Channelizer(8, [1j]), "taps are complex128"),
        (lambda: dsp.Channelizer(8, []), "0 taps"),
        (lambda: dsp.multiply(np.zeros(3, "c8"), np.zeros(2, "c8")), "a has 3 samples and b 2"),
        (lambda: dsp.saxpy(1, np.zeros(3, "f4"), np.zeros(2, "f4")), "y is float32 of shape"),
        (lambda: dsp.saxpy(1, np.zeros(3, "f4"), [0.0] * 3), "y is list; give a float32 array"),
        (lambda: dsp.saxpy(1, np.zeros(3, "f4"), READ_ONLY), "y may not be written"),
    ],
)
def test_errors_say_what_is_wrong(call, says):
    with pytest.raises(ArgumentError, match=says):
        call()


TEAMS = """
#include <denizen/dsp/team_fft.hpp>
#include <denizen/dsp/team_fir.hpp>
#include <denizen/dsp/team_sample.hpp>
struct Block {
    __device__ unsigned rank() const { return threadIdx.x; }
    __device__ unsigned size() const { return blockDim.x; }
    __device__ void sync() { __syncthreads(); }
};
using namespace denizen::dsp;
extern "C" __global__ void all(Iq* x, Iq* y, float* f, team::Agc agc, team::Fir<Iq> fir,
                               team::Channelizer bank)
{
    Block block;
    team::saxpy(block, 1, f, f, 9);
    team::multiply(block, x, x, y, 9);
    team::magnitude_squared(block, x, f, 9);
    team::demodulate_fm(block, x, Iq{}, 1, f, 9);
    agc.feed(block, x, 9, y, f);
    fir.feed(block, x, 9, y);
    bank.feed(block, x, 9, y, 9);
    team::fft(block, x, y, x, 8);
}
"""


@pytest.mark.usefixtures("unoptimised")
def test_the_teams_text_compiles_at_run_time():
    try:
        cubin = cubin_of(TEAMS, "the teams", 90)
    except CompileError as error:
        if "libnvrtc" not in str(error):
            raise
        pytest.skip(str(error).splitlines()[0])
    assert b"all" in cubin


REFUSED = [
    ("dsp.Agc('a')", "reference = 'a'; use a real number"),
    ("dsp.Agc(1, None)", "rate = None; use a real number"),
    ("dsp.Agc(np.nan)", "reference = nan; use a finite number"),
    ("dsp.Agc(np.inf)", "reference = inf; use a finite number"),
    ("dsp.Agc(10**400)", "reference = 10+; use a real number"),
    ("dsp.Agc(dtype=5)", "dtype = 5; use a NumPy dtype"),
    ("dsp.FmDemodulator(1j)", "gain = 1j; use a real number"),
    ("dsp.FmDemodulator(np.nan)", "gain = nan; use a finite number"),
    ("dsp.low_pass('a', 0.1, 60)", "cutoff = 'a'; use a real number"),
    ("dsp.low_pass(0.1, 0.1, None)", "attenuation = None; use a real number"),
    ("dsp.saxpy(None, real, real)", "a = None; use a real number"),
    ("dsp.resampler_taps('a', 1)", "up is 'a'; give a whole number from 1"),
    ("dsp.resampler_taps(1, 0)", "down is 0; give a whole number from 1"),
    ("dsp.resampler_taps(1.5, 2)", "up is 1.5; give a whole number from 1"),
    ("dsp.resampler(1, 2, attenuation='x')", "attenuation = 'x'; use a real number"),
    ("dsp.Fir([[1], [1, 2]])", "taps = .*; use an array of numbers"),
    ("dsp.Fir([1], dtype='zz')", "dtype = 'zz'; use a NumPy dtype"),
    ("dsp.Channelizer(4, [[1], [1, 2]])", "taps = .*; use an array of numbers"),
    ("dsp.Fir([1], dtype='f4')(np.ma.ones(4, 'f4'))", "x is a masked array; give all samples"),
]


@pytest.mark.parametrize(("call", "text"), REFUSED, ids=[call for call, _ in REFUSED])
def test_what_is_none_is_refused_by_name(call, text):
    with pytest.raises(ArgumentError, match=text) as caught:
        eval(call, {"dsp": dsp, "np": np, "real": np.ones(4, np.float32)})
    assert "\n" not in str(caught.value)


def test_a_demodulator_is_shown():
    assert repr(dsp.FmDemodulator(2.0)) == "<denizen.dsp.FmDemodulator: gain 2>"
