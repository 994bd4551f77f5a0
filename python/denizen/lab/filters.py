# SPDX-License-Identifier: Apache-2.0
"""The kernels of signal processing from Python beside SciPy's and NumPy's, in one process, on the
same blocks; results are compared outside the timed region."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from denizen import dsp
from denizen.lab.record import Measured

_BLOCK = 65536  # samples
_CHANNELS = 64
_POINTS = 1024

Samples = NDArray[Any]


@dataclass(frozen=True, slots=True)
class _Pair:
    """A kernel and what it is compared with: a new stream, and a function, that take a block."""

    name: str
    ours: Callable[[], Callable[[Samples], Samples]]
    rival: str
    theirs: Callable[[Samples], Samples]


def _pairs() -> list[_Pair]:
    from scipy import fft, signal  # noqa: PLC0415

    random = np.random.default_rng(0)
    short = random.standard_normal(64).astype(np.float32)
    long = random.standard_normal(161).astype(np.float32)
    bank = random.standard_normal((8, _CHANNELS)).astype(np.float32)
    transform = dsp.Fft(_POINTS)

    def upfirdn(taps: Samples, up: int, down: int) -> Callable[[Samples], Samples]:
        def run(x: Samples) -> Samples:
            out: Samples = signal.upfirdn(taps, x, up, down)
            count = -(-len(x) * up // down)
            return out[:count]

        return run

    def convolve(x: Samples) -> Samples:
        out: Samples = signal.oaconvolve(x, short)[: len(x)]
        return out

    def channels(x: Samples) -> Samples:
        """The same filter bank over whole frames: rows of taps times rows of samples."""
        n = _CHANNELS
        rows = np.concatenate([np.zeros(8 * n - 1, x.dtype), x])[: len(x) + 8 * n - n]
        windows = rows.reshape(-1, n)
        count = len(windows) - 7
        summed = sum(bank[7 - t][::-1] * windows[t : t + count] for t in range(8))
        out: Samples = fft.fft(np.roll(summed, 1, axis=1), axis=1).T
        return out

    def square(x: Samples) -> Samples:
        out: Samples = np.square(x.real) + np.square(x.imag)
        return out

    def angles(x: Samples) -> Samples:
        before = np.concatenate([x[:1], x[:-1]])  # the first angle is 0
        out: Samples = np.angle(x * before.conj())
        return out

    return [
        _Pair("complex multiply", lambda: lambda x: dsp.multiply(x, x), "NumPy", lambda x: x * x),
        _Pair("magnitude squared", lambda: dsp.magnitude_squared, "NumPy", square),
        _Pair("FM demodulation", dsp.FmDemodulator, "NumPy", angles),
        _Pair("FIR of 64 taps", lambda: dsp.Fir(short), "SciPy", convolve),
        _Pair(
            "FIR of 161 taps by 10",
            lambda: dsp.Fir(long, down=10),
            "SciPy",
            upfirdn(long, 1, 10),
        ),
        _Pair(
            "resampler 24/125",
            lambda: dsp.Fir(long, up=24, down=125),
            "SciPy",
            upfirdn(long, 24, 125),
        ),
        _Pair(
            "channelizer of 64",
            lambda: dsp.Channelizer(_CHANNELS, bank.ravel()),
            "SciPy",
            channels,
        ),
        _Pair(
            "FFT of 1024",
            lambda: lambda x: transform(x.reshape(-1, _POINTS)),
            "SciPy",
            lambda x: fft.fft(x.reshape(-1, _POINTS), axis=1),
        ),
    ]


def _timed(call: Callable[[Samples], Samples], x: Samples) -> float:
    """Msps."""
    begin = time.perf_counter()
    call(x)
    return len(x) / (time.perf_counter() - begin) * 1e-6


def streams(_device: str, *, quick: bool) -> list[Measured]:
    """Msps of each kernel from Python on one core, and of what SciPy or NumPy has for it."""
    if importlib.util.find_spec("scipy") is None:
        return []
    rounds = 10 if quick else 200
    random = np.random.default_rng(1)
    parts = random.standard_normal((_BLOCK, 2)).astype(np.float32)
    x = parts.view(np.complex64)[:, 0]
    out: list[Measured] = []
    for pair in _pairs():
        ours, theirs = pair.ours()(x), pair.theirs(x)
        right = ours.shape == theirs.shape
        right = right and float(np.abs(ours - theirs).max()) < 1e-4 * float(np.abs(theirs).max())
        samples: tuple[list[float], ...] = ([], [], [])  # ours, theirs, ours once more
        for number in range(rounds):
            for k in (0, 1, 2) if number % 2 == 0 else (2, 1, 0):
                samples[k].append(_timed(pair.theirs if k == 1 else pair.ours(), x))
        n = rounds * _BLOCK
        rival = f"{pair.name}, {pair.rival}"
        name = f"{pair.name}, from Python"
        out.append(Measured(name, {}, "Msps", np.array(samples[0]), n, right, (rival,)))
        out.append(Measured(rival, {}, "Msps", np.array(samples[1]), n, right))
        out.append(Measured(name, {}, "Msps", np.array(samples[2]), n, right, arm="A/A"))
    return out
