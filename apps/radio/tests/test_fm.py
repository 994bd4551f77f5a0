# SPDX-License-Identifier: Apache-2.0
"""Broadcast FM on made stations: what goes in on one side comes out there, and not on the other."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from denizen import ArgumentError
from denizen.radio import broadcast
from denizen.radio.broadcast import FmReceiver, Tone

RATE = 250_000
SENT = 0.9  # a station without a pilot sends as much; the pilot has the other tenth


def level(audio, frequency):
    """dB of full scale of a tone in one side, after what the start disturbs."""
    part = audio[12_000:].astype(np.float64)
    window = np.hanning(len(part))
    turned = part * window * np.exp(-2j * np.pi * frequency / 48_000 * np.arange(len(part)))
    return 20 * np.log10(2 * abs(turned.sum()) / window.sum() + 1e-12)


def expected(tone):
    return 20 * np.log10(tone.level * SENT)


def heard(signal, rate=RATE, emphasis=50e-6):
    receiver = FmReceiver(rate, emphasis)
    return receiver.feed(signal), receiver


@pytest.mark.parametrize("rate", [200_000, 250_000, 480_000, 1_024_000, 2_400_000])
def test_separation(rate):
    left, right = Tone(1000, 0.3), Tone(3000, 0.2)
    audio, receiver = heard(broadcast.modulate([left], [right], rate, 0.75), rate)
    assert abs(len(audio) - 36_000) <= 1
    assert receiver.stereo
    assert receiver.stereo_share > 0.9
    assert receiver.pilot_level == pytest.approx(0.1, rel=0.02)
    assert level(audio[:, 0], 1000) == pytest.approx(expected(left), abs=0.1)
    assert level(audio[:, 1], 3000) == pytest.approx(expected(right), abs=0.1)
    assert level(audio[:, 1], 1000) < expected(left) - 60
    assert level(audio[:, 0], 3000) < expected(right) - 60
    assert level(audio[:, 0], 19_000) < -75  # of the pilot nothing is left


@pytest.mark.parametrize("frequency", [40, 400, 5000, 10_000, 14_500])
@pytest.mark.parametrize("emphasis", [50e-6, 75e-6, 0])
def test_response(frequency, emphasis):
    tone = Tone(frequency, 0.1)
    audio, _ = heard(
        broadcast.modulate([tone], [], RATE, 0.75, emphasis=emphasis), emphasis=emphasis
    )
    assert level(audio[:, 0], frequency) == pytest.approx(expected(tone), abs=0.3)
    assert level(audio[:, 1], frequency) < expected(tone) - 50


def test_the_wrong_de_emphasis_bends():
    signal = broadcast.modulate([Tone(10_000, 0.1)], [], RATE, 0.75, emphasis=75e-6)
    bent, _ = heard(signal, emphasis=50e-6)
    ratio = abs((1 + 2j * np.pi * 1e4 * 75e-6) / (1 + 2j * np.pi * 1e4 * 50e-6))
    bend = 20 * np.log10(ratio)
    assert level(bent[:, 0], 10_000) == pytest.approx(expected(Tone(1e4, 0.1)) + bend, abs=0.2)


def test_frequency():
    audio, _ = heard(broadcast.modulate([Tone(1234.5, 0.3)], [], RATE, 1.0))
    part = audio[12_000:36_000, 0] * np.hanning(24_000)
    spectrum = np.abs(np.fft.rfft(part, 1 << 19))
    assert spectrum.argmax() * 48_000 / (1 << 19) == pytest.approx(1234.5, abs=0.1)


def test_without_a_pilot_both_sides_are_alike():
    left, right = Tone(1000, 0.4), Tone(3000, 0.4)
    audio, receiver = heard(broadcast.modulate([left], [right], RATE, 0.75, pilot=0))
    np.testing.assert_array_equal(audio[:, 0], audio[:, 1])
    assert (receiver.stereo, receiver.stereo_share) == (False, 0)
    half = expected(left) - 20 * np.log10(2)
    assert level(audio[:, 0], 1000) == pytest.approx(half, abs=0.1)
    assert level(audio[:, 0], 3000) == pytest.approx(half, abs=0.1)


@pytest.mark.parametrize("seed", range(4))
def test_noise_has_no_pilot(seed):
    audio, receiver = heard(broadcast.noise(2 * RATE, 0.5, seed))
    assert receiver.stereo_share == 0
    np.testing.assert_array_equal(audio[:, 0], audio[:, 1])


def test_a_pilot_that_goes_and_comes():
    def part(begin, pilot):
        return broadcast.modulate([Tone(1000, 0.3)], [], RATE, 0.6, pilot=pilot, start=begin)

    receiver = FmReceiver(RATE)
    states = []
    for begin, pilot in ((0.0, 0.1), (0.6, 0.0), (1.2, 0.1)):
        audio = receiver.feed(part(begin, pilot))
        states.append(receiver.stereo)
        apart = level(audio[:, 0], 1000) - level(audio[:, 1], 1000)
        assert apart > 60 if pilot else apart < 0.5
    assert states == [True, False, True]


@pytest.mark.parametrize(("snr", "separation"), [(10, 35), (20, 45), (30, 55)])
def test_off_the_middle_and_with_noise(snr, separation):
    """A clock 100 ppm and a carrier 5 kHz off."""
    left, right = Tone(1000, 0.3), Tone(3000, 0.3)
    audio, receiver = heard(
        broadcast.modulate(
            [left], [right], RATE, 1.0, snr=snr, clock=1 + 100e-6, carrier=5000, seed=snr
        )
    )
    assert receiver.stereo
    for side, own, other in ((0, left, right), (1, right, left)):
        assert level(audio[:, side], own.frequency) == pytest.approx(expected(own), abs=0.3)
        assert level(audio[:, side], other.frequency) < expected(other) - separation
    assert abs(audio[24_000:].mean()) < 2e-3


@given(
    lengths=st.lists(st.integers(0, 40_000), max_size=8), rate=st.sampled_from([250_000, 960_000])
)
@settings(deadline=None, max_examples=10)
def test_audio_does_not_depend_on_blocks(lengths, rate):
    signal = broadcast.modulate([Tone(1000, 0.3)], [Tone(440, 0.3)], rate, 0.2, snr=20)
    whole, _ = heard(signal, rate)
    receiver = FmReceiver(rate)
    ends = np.cumsum(lengths, dtype=np.int64)
    pieces = [receiver.feed(piece) for piece in np.split(signal, np.minimum(ends, len(signal)))]
    np.testing.assert_array_equal(np.concatenate(pieces), whole)


@pytest.mark.parametrize(
    ("rate", "emphasis", "says"),
    [
        (48_000, 50e-6, "rate is 48000 Hz; broadcast FM needs 200,000"),
        (-1, 50e-6, "rate is -1"),
        (2_400_001, 50e-6, "too little in common with 48,000; give a multiple of 1,000 Hz"),
        (240_000, 50, "de-emphasis is 50"),
        (240_000, float("nan"), "de-emphasis is"),
    ],
)
def test_wrong_options(rate, emphasis, says):
    with pytest.raises(ArgumentError, match=says):
        FmReceiver(rate, emphasis)


def test_wrong_samples():
    with pytest.raises(ArgumentError, match="complex128"):
        FmReceiver(RATE).feed(np.zeros(10, np.complex128))
