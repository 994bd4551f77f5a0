# SPDX-License-Identifier: Apache-2.0
"""What sources add to the pressure of their cell, step by step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from denizen.errors import ArgumentError

_NONE = np.empty(0, np.float32)


@dataclass(frozen=True, slots=True)
class Impulse:
    """``amplitude`` once, in the first step."""

    amplitude: float = 1.0


@dataclass(frozen=True, slots=True)
class Ricker:
    """Ricker's wavelet (1953), A (1 - 2 a^2) exp(-a^2) with a = pi f (t - delay).

    Attributes:
        frequency: of its peak, in Hz.
        amplitude: A.
        delay: of its middle, in seconds; 1.5 / frequency if None, where it begins at 1e-8 of A.
    """

    frequency: float
    amplitude: float = 1.0
    delay: float | None = None


@dataclass(frozen=True, slots=True)
class Sine:
    """A sin(2 pi (f t + phase)): ``frequency`` in Hz, ``phase`` in cycles."""

    frequency: float
    amplitude: float = 1.0
    phase: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """A signal, such as a recording; see read_wav().

    Attributes:
        values: shape (n,), float.
        rate: samples per second. Between them the signal is linear.
        amplitude: that they are multiplied by.
    """

    values: NDArray[np.float32]
    rate: float
    amplitude: float = 1.0


Source = Impulse | Ricker | Sine | Samples
# Shape, amplitude, cycles per step, delay (ricker: steps, sine: cycles), samples per step.
Words = tuple[int, float, float, float, NDArray[np.float32]]


def words_of(source: Source, dt: float) -> Words:
    """What the core is told, for steps of ``dt`` seconds. Raises ArgumentError."""
    match source:
        case Impulse(amplitude):
            return 0, amplitude, 0.0, 0.0, _NONE
        case Ricker(frequency, amplitude, delay):
            _check_rate(frequency)
            begin = 1.5 / frequency if delay is None else delay
            return 1, amplitude, frequency * dt, begin / dt, _NONE
        case Sine(frequency, amplitude, phase):
            _check_rate(frequency)
            return 2, amplitude, frequency * dt, phase, _NONE
        case Samples(values, rate, amplitude):
            _check_rate(rate)
            given = np.asarray(values, np.float64)
            if given.ndim != 1 or len(given) == 0 or not np.isfinite(given).all():
                raise ArgumentError(
                    f"samples of shape {given.shape}; a row of finite numbers is expected"
                )
            steps = int(np.floor((len(given) - 1) / rate / dt)) + 1
            at = np.arange(steps) * (dt * rate)
            resampled = np.interp(at, np.arange(len(given)), given).astype(np.float32)
            return 3, amplitude, 0.0, 0.0, resampled
    raise ArgumentError(f"{source!r} is no source: use Impulse, Ricker, Sine or Samples")


def _check_rate(value: float) -> None:
    if not (value > 0 and np.isfinite(value)):
        raise ArgumentError(f"{value} Hz; a source's frequency or rate must be above 0")
