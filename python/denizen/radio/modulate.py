# SPDX-License-Identifier: Apache-2.0
"""Mode S frames as I/Q at 2 Msps: what a receiver would deliver, with all that makes it hard.

Pulses are rectangles of half a microsecond that begin at any fraction of a sample; a sample is the
mean over its half microsecond (a receiver whose filter just fits its rate). Every burst has its own
carrier offset, clock error, phase and level; bursts may overlap; the whole has complex Gaussian
noise and is rounded to unsigned bytes (apps/radio/include/denizen/radio/modulate.hpp).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from denizen import _core
from denizen.radio import frames
from denizen.radio.mode_s import SAMPLE_RATE

NOISE = 4.0
"""Root mean square of the magnitude of the noise, in steps of the converter."""


@dataclass(frozen=True, slots=True)
class Burst:
    """One transmission. ``start``: samples (with a fraction) from the begin of the signal.

    ``amplitude``: steps of the converter; ``carrier``: Hz beside the receiver's; ``clock``: parts
    per million by which its pulses are too long; ``phase``: radians.
    """

    frame: str
    start: float
    amplitude: float
    carrier: float = 0.0
    clock: float = 0.0
    phase: float = 0.0


def modulate(
    bursts: Sequence[Burst], samples: int, noise: float = NOISE, seed: int = 0
) -> NDArray[np.uint8]:
    """The signal: shape (2 * samples,), I and Q in turn, 127.5 being zero.

    ``noise`` is its root mean square magnitude in steps. What of a burst lies outside is cut off.
    """
    return _core.radio_modulate(
        [(b.frame, b.start, b.amplitude, b.carrier, b.clock, b.phase) for b in bursts],
        samples,
        noise,
        seed,
    )


def random_burst(random: np.random.Generator, frame: str, start: float, snr: float) -> Burst:
    """A burst whose pulses have ``snr`` dB the power of :data:`NOISE`.

    Its carrier is off by up to 50 kHz and its clock by up to 50 ppm, at random.
    """
    return Burst(
        frame=frame,
        start=start,
        amplitude=NOISE * 10 ** (snr / 20),
        carrier=random.uniform(-50e3, 50e3),
        clock=random.uniform(-50, 50),
        phase=random.uniform(0, 2 * np.pi),
    )


def traffic(
    seconds: float, aircraft: int = 12, snr: tuple[float, float] = (10, 30), seed: int = 0
) -> list[Burst]:
    """What ``aircraft`` aircraft around 50 N 8 E send: bursts at random times, some overlapping.

    Each sends two positions and two velocities a second, a reply of every other format, and every
    five seconds its name; its pulses are at one level, ``snr`` dB over :data:`NOISE`, from that
    range.
    """
    random = np.random.default_rng(seed)
    out: list[Burst] = []
    for k in range(aircraft):
        out += _flight(random, f"TST{k:03d}", random.uniform(*snr), seconds)
    return sorted(out, key=lambda burst: burst.start)


def _flight(random: np.random.Generator, callsign: str, snr: float, seconds: float) -> list[Burst]:
    """What one aircraft on a straight course sends."""
    icao = int(random.integers(1 << 16, 1 << 24))
    latitude, longitude = 50 + random.uniform(-1, 1), 8 + random.uniform(-1.5, 1.5)
    altitude, climb = int(random.integers(40, 400)) * 100, int(random.integers(-20, 20)) * 64
    speed, track = random.uniform(120, 480), random.uniform(0, 360)
    squawk = f"{int(random.integers(1 << 12)):04o}"
    out: list[Burst] = []

    def where(at: float) -> tuple[float, float, int]:
        miles = speed * at / 3600
        north = miles * math.cos(math.radians(track)) / 60
        east = miles * math.sin(math.radians(track)) / 60
        lon = longitude + east / math.cos(math.radians(latitude))
        return latitude + north, lon, altitude + round(climb * at / 60)

    def every(period: float, frame_at: Callable[[int, float], str]) -> None:
        times = np.arange(random.uniform(0, period), seconds, period)
        times += random.uniform(-0.1, 0.1, len(times)) * period
        for n, at in enumerate(times.tolist()):
            out.append(random_burst(random, frame_at(n, at), at * SAMPLE_RATE, snr))

    def reply(df: int) -> Callable[[int, float], str]:
        return lambda _n, at: frames.surveillance(df, icao, altitude=where(at)[2], squawk=squawk)

    every(0.5, lambda n, at: frames.airborne_position(icao, *where(at), odd=n % 2 == 1))
    every(0.5, lambda _n, _at: frames.velocity(icao, speed, track, climb))
    every(5, lambda _n, _at: frames.identification(icao, callsign))
    every(1, lambda _n, _at: frames.all_call(icao))
    for df in (0, 4, 5, 16, 20, 21):
        every(1, reply(df))
    return out
