# SPDX-License-Identifier: Apache-2.0
"""Broadcast FM in stereo: the receiver in C++ (include/denizen/radio), and made signals.

A station sends (ITU-R BS.450, the pilot-tone system) 0.9 (l + r) / 2 + 0.9 (l - r) / 2 sin 2a +
0.1 sin a of its deviation, 75 kHz, where a turns at 19 kHz; audio goes through a pre-emphasis.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from denizen import _core
from denizen.errors import ArgumentError

AUDIO_RATE: int = _core.radio_audio_rate
"""Frames per second that the receiver gives."""
DEVIATION: float = _core.radio_fm_deviation
"""Hz; full scale of the audio."""
PILOT = 19e3
"""Hz."""


class FmReceiver:
    """I/Q of one station in, audio at 48 kHz out; both sides alike while there is no pilot.

    ``rate``: samples a second, a whole number from 200,000 to 25 million, the station in the
    middle. ``de_emphasis``: seconds, 50e-6 (most of the world), 75e-6 (the Americas, South Korea)
    or 0. Raises ArgumentError for other values.
    """

    def __init__(self, rate: int, de_emphasis: float = 50e-6) -> None:
        if not 0 < rate < 1 << 32:
            raise ArgumentError(f"rate is {rate}; give 200,000 to 25,000,000 samples a second")
        self._receiver = _core.FmReceiver(rate, de_emphasis)

    def feed(self, iq: NDArray[np.complex64]) -> NDArray[np.float32]:
        """The audio that ``iq``, the next block, completes: (frames, 2), left and right.

        1 stands for the full deviation. The audio does not depend on how the stream is cut; it is
        late by about half a millisecond.
        """
        if iq.dtype != np.complex64 or iq.ndim != 1:
            raise ArgumentError(
                f"iq is {iq.dtype} of shape {iq.shape}; give a one-dimensional complex64 array"
            )
        return self._receiver.feed(np.ascontiguousarray(iq))

    @property
    def stereo(self) -> bool:
        """Whether there is a pilot now."""
        return self._receiver.stereo

    @property
    def stereo_share(self) -> float:
        """For which share of the signal so far there was one."""
        return self._receiver.stereo_share

    @property
    def pilot_level(self) -> float:
        """In units of the deviation, 0.1 as most stations send it; a mean over 50 ms."""
        return self._receiver.pilot_level


@dataclass(frozen=True, slots=True)
class Tone:
    """``level``: of the audio's full scale, before the pre-emphasis; ``phase``: of its sine."""

    frequency: float
    level: float
    phase: float = 0.0


def _composite(
    left: Sequence[Tone], right: Sequence[Tone], pilot: float, emphasis: float, clock: float
) -> list[Tone]:
    """What modulates the carrier, in units of the deviation, as sines."""
    out: list[Tone] = []
    stereo = pilot > 0
    for tones, sign in ((left, 1.0), (right, -1.0)):
        for tone in tones:
            bend = 1 + 2j * math.pi * tone.frequency * emphasis
            half = 0.45 * tone.level * abs(bend)
            phase = tone.phase + math.atan2(bend.imag, bend.real)
            out.append(Tone(tone.frequency, half, phase))
            if not stereo:
                continue
            # sin x sin y = (cos(y - x) - cos(y + x)) / 2
            for side in (-1.0, 1.0):
                at = 2 * PILOT * clock + side * tone.frequency
                turned = side * phase + math.pi / 2
                out.append(Tone(at, -side * sign * half / 2, turned))
    if stereo:
        out.append(Tone(PILOT * clock, pilot))
    return out


def modulate(
    left: Sequence[Tone],
    right: Sequence[Tone],
    rate: int,
    seconds: float,
    *,
    pilot: float = 0.1,
    emphasis: float = 50e-6,
    snr: float = math.inf,
    carrier: float = 0.0,
    clock: float = 1.0,
    start: float = 0.0,
    seed: int = 0,
) -> NDArray[np.complex64]:
    """What a receiver of ``rate`` samples a second hears of a station that sends these tones.

    The frequency is integrated exactly, not summed over samples. ``pilot``: its part of the
    deviation, 0 for a mono station. ``emphasis``: the time constant in seconds. ``snr``: the
    signal's power over that of the noise in all of ``rate``, dB. ``carrier``: Hz beside the middle.
    ``clock``: the station's pilot is so many times 19 kHz. ``start``: seconds after the station
    began. The magnitude is 0.7, and the noise comes on top.
    """
    t = start + np.arange(round(seconds * rate)) / rate
    turns = carrier * t
    for tone in _composite(left, right, pilot, emphasis, clock):
        w = 2 * math.pi * tone.frequency
        turns -= DEVIATION * tone.level / w * np.cos(w * t + tone.phase)
    out = 0.7 * np.exp(2j * np.pi * turns)
    heard: NDArray[np.complex128] = out + noise(len(t), 0.7 * 10 ** (-snr / 20), seed)
    return heard.astype(np.complex64)


def noise(count: int, level: float, seed: int = 0) -> NDArray[np.complex64]:
    """Complex Gaussian noise of this root mean square magnitude."""
    random = np.random.default_rng(seed)
    parts = random.standard_normal((count, 2), np.float32) * np.float32(level / math.sqrt(2))
    out: NDArray[np.complex64] = parts.view(np.complex64)[:, 0]
    return out
