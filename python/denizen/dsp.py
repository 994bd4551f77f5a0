# SPDX-License-Identifier: Apache-2.0
"""Signal processing on streams, in vectors (include/denizen/dsp): filters, rates, levels, FM.

    from denizen import dsp

    narrow = dsp.Fir(dsp.low_pass(0.05, 0.02, 60), down=10)  # 10 times fewer samples
    demodulate = dsp.FmDemodulator()
    audio = [demodulate(narrow(block)) for block in blocks]

Samples are one-dimensional arrays of single precision: float32, or complex64 for I/Q. What keeps a
state is called with block after block, and its outputs are the same however the stream was cut.
Threads that call one object take turns, each with its block.
An array of another dtype or shape raises ArgumentError: nothing is converted unasked.
"""

from __future__ import annotations

import math
import operator
import threading
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from denizen import _core, values
from denizen.errors import ArgumentError
from denizen.shown import Shown

__all__ = [
    "Agc", "Channelizer", "Fft", "Fir", "FmDemodulator", "low_pass", "magnitude_squared",
    "multiply", "resampler", "resampler_taps", "saxpy",
]  # fmt: skip

_REAL = np.dtype(np.float32)
_COMPLEX = np.dtype(np.complex64)


def _samples(x: Any, dtype: np.dtype[Any], name: str = "x") -> NDArray[Any]:
    if isinstance(x, np.ma.MaskedArray):
        raise ArgumentError(f"{name} is a masked array; give all samples, such as {name}.filled(0)")
    if not isinstance(x, np.ndarray) or x.dtype != dtype or x.ndim != 1:
        got = f"{x.dtype} of shape {x.shape}" if isinstance(x, np.ndarray) else type(x).__name__
        raise ArgumentError(
            f"{name} is {got}; give a one-dimensional {dtype} array, such as {name}.astype({dtype})"
        )
    return np.ascontiguousarray(x)


def _target(
    out: NDArray[Any] | None, size: int, dtype: np.dtype[Any], name: str = "out"
) -> NDArray[Any]:
    if out is None:
        return np.empty(size, dtype)
    if not isinstance(out, np.ndarray):
        raise ArgumentError(f"{name} is {type(out).__name__}; give a {dtype} array of {size}")
    if out.dtype != dtype or out.shape != (size,) or not out.flags.c_contiguous:
        raise ArgumentError(
            f"{name} is {out.dtype} of shape {out.shape}; give a contiguous {dtype} array of {size}"
        )
    if not out.flags.writeable:
        raise ArgumentError(f"{name} may not be written; give another array")
    return out


def _apart(x: NDArray[Any], out: NDArray[Any]) -> NDArray[Any]:
    """``x``, or a copy where ``out`` is written over samples of it that are still to be read."""
    same = x.ctypes.data == out.ctypes.data  # sample by sample: each is read before
    return x if same or not np.may_share_memory(x, out) else x.copy()


def _whole(name: str, value: Any, least: int, most: int, what: str) -> int:
    try:
        whole = operator.index(value)
    except TypeError:
        whole = least - 1
    if not least <= whole <= most:
        raise ArgumentError(f"{name} is {value!r}; give {what}")
    return whole


def sample_kind(dtype: DTypeLike) -> np.dtype[Any]:
    kind = values.element("dtype", dtype)
    if kind not in (_REAL, _COMPLEX):
        raise ArgumentError(f"dtype is {kind}; give float32 or complex64")
    return kind


class Fir(Shown):
    """A FIR filter, also between rates: ``scipy.signal.upfirdn`` over a stream.

    y[m] = the sum over k of taps[k] u[m down - k], where u is the stream with ``up`` - 1 zeros
    after each sample, and zeros before it. Every output that needs no later sample comes at once:
    n samples give n up / down outputs, rounded to either side.

    ``taps``: real or complex, (n,), kept in single precision; complex ones take complex samples.
    All phases together have at most 2**22 of them.
    ``dtype``: of the samples and the outputs, complex64 or float32. ``up``, ``down``: 1 to 2**20.
    Raises ArgumentError for values outside those ranges.
    """

    def __init__(
        self, taps: Any, *, up: int = 1, down: int = 1, dtype: DTypeLike = np.complex64
    ) -> None:
        self.dtype = sample_kind(dtype)
        kept = checked_fir(taps, up, down, self.dtype)
        make: Any = _core.FirReal if self.dtype == _REAL else _core.FirComplex
        if kept.dtype == _COMPLEX:
            make = _core.FirComplexTaps
        self._taps, self._up, self._down = len(kept), up, down
        self._fir = make(kept, up, down)
        self._lock = threading.Lock()

    def _facts(self) -> list[tuple[str, str]]:
        return [
            ("taps", str(self._taps)),
            ("rate", f"{self._up}/{self._down}"),
            ("of", str(self.dtype)),
        ]

    def __call__(self, x: NDArray[Any]) -> NDArray[Any]:
        """The outputs that ``x``, the next block, completes."""
        block = _samples(x, self.dtype)
        with self._lock:
            out = np.empty(self._fir.most(len(block)), self.dtype)
            return out[: self._fir.feed(block, out)]


def _check_rates(up: int, down: int) -> None:
    for name, value in (("up", up), ("down", down)):
        _whole(name, value, 1, 1 << 20, "a whole number from 1 to 2**20")


def checked_fir(taps: Any, up: int, down: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """The taps as they are kept, if they and the rates are what a filter of ``dtype`` takes."""
    given = values.numbers("taps", taps)
    if given.ndim != 1:
        raise ArgumentError(f"taps have the shape {given.shape}; give one dimension")
    _check_rates(up, down)
    if not np.iscomplexobj(given):
        return np.ascontiguousarray(given, _REAL)
    if dtype == _REAL:
        raise ArgumentError("complex taps take complex samples: leave dtype=complex64")
    return np.ascontiguousarray(given, _COMPLEX)


def resampler(
    from_rate: int, to_rate: int, *, attenuation: float = 80, dtype: DTypeLike = np.complex64
) -> Fir:
    """A filter that turns a stream of ``from_rate`` samples a second into ``to_rate``.

    It passes up to 0.4 of the lower rate unchanged, and what would fold or mirror below that is
    ``attenuation`` dB down.
    """
    for name, rate in (("from_rate", from_rate), ("to_rate", to_rate)):
        _whole(name, rate, 1, 2**63 - 1, "a whole number of samples a second, from 1")
    common = math.gcd(from_rate, to_rate)
    up, down = to_rate // common, from_rate // common
    return Fir(resampler_taps(up, down, attenuation=attenuation), up=up, down=down, dtype=dtype)


def resampler_taps(up: int, down: int, *, attenuation: float = 80) -> NDArray[np.float32]:
    """The taps of ``resampler()``: of a filter that makes ``up`` samples of every ``down``."""
    _check_rates(up, down)
    attenuation = values.number("attenuation", attenuation)
    low = 1 / max(up, down)  # the lower rate, as a fraction of the rate between
    taps: NDArray[np.float32] = low_pass(0.5 * low, 0.2 * low, attenuation) * np.float32(up)
    return taps


def low_pass(cutoff: float, transition: float, attenuation: float) -> NDArray[np.float32]:
    """The taps of a low-pass filter: a sinc in a Kaiser window, an odd number of them, of sum 1.

    Frequencies as fractions of the sampling rate: half of the level is left at ``cutoff`` (to 0.5),
    ``attenuation`` dB (20 to 150) are reached half a ``transition`` above it. The same as
    ``scipy.signal.firwin(n, 2 * cutoff, window=("kaiser", beta))``. Raises ArgumentError.
    """
    given = {"cutoff": cutoff, "transition": transition, "attenuation": attenuation}
    taps = _core.dsp_low_pass(*(values.number(name, value) for name, value in given.items()))
    return np.array(taps, np.float32)


def checked_bank(channels: int, taps: Any) -> NDArray[np.float32]:
    """The taps of a filter bank, those of its default if there are none."""
    _whole("channels", channels, 2, 1024, "a power of two from 2 to 1024")
    if taps is None:
        return low_pass(0.5 / channels, 0.3 / channels, 80)
    given = values.numbers("taps", taps)
    if given.ndim != 1 or np.iscomplexobj(given):
        raise ArgumentError(
            f"taps are {given.dtype} of shape {given.shape}; give real ones in one dimension"
        )
    return given.astype(np.float32)


class Channelizer(Shown):
    """All channels of a band at once: a polyphase filter bank over a stream of complex64.

    Channel k lies around k / ``channels`` of the sampling rate, the upper half below zero, as in
    ``numpy.fft.fftfreq``, and has that part of its rate:

    y[k, m] = the sum over i of taps[i] exp(2j pi k i / channels) x[m channels - i]

    ``channels``: a power of two, 2 to 1024. ``taps``: of the low-pass filter of every channel,
    real, (n,), at most 2**20, kept in single precision. Without them half of the level is left
    where two channels meet, 0.35 of a channel's width beside its middle is passed unchanged, and
    what is 0.65 away or more is 80 dB down. Raises ArgumentError for other values.
    """

    def __init__(self, channels: int, taps: Any = None) -> None:
        kept = checked_bank(channels, taps)
        self.channels = channels
        self._bank = _core.Channelizer(kept, channels)
        self._lock = threading.Lock()

    def _facts(self) -> list[tuple[str, str]]:
        return [
            ("channels", str(self.channels)),
        ]

    def __call__(self, x: NDArray[np.complex64]) -> NDArray[np.complex64]:
        """The outputs that ``x``, the next block, completes: (channels, outputs of each)."""
        block = _samples(x, _COMPLEX)
        with self._lock:
            out = np.empty((self.channels, self._bank.outputs(len(block))), _COMPLEX)
            self._bank.feed(block, out)
        return out


def checked_points(points: int) -> int:
    return _whole("points", points, 2, 65536, "a power of two from 2 to 65536")


class Fft(Shown):
    """The discrete Fourier transform of ``points``, a power of two from 2 to 65536, row by row.

    The transform that the channelizer and blocks in C++ use, and the twin of the one that a team
    of GPU threads computes (team_fft.hpp); ``scipy.fft`` takes any length. Raises ArgumentError.
    """

    def __init__(self, points: int) -> None:
        self.points = checked_points(points)
        self._fft = _core.Fft(points)
        self._lock = threading.Lock()

    def _facts(self) -> list[tuple[str, str]]:
        return [
            ("points", str(self.points)),
        ]

    def _transform(self, x: NDArray[np.complex64], inverse: bool) -> NDArray[np.complex64]:
        if not isinstance(x, np.ndarray) or x.dtype != _COMPLEX or x.shape[-1:] != (self.points,):
            got = f"{x.dtype} of shape {x.shape}" if isinstance(x, np.ndarray) else type(x).__name__
            raise ArgumentError(f"x is {got}; give complex64 with rows of {self.points}")
        rows = np.ascontiguousarray(x)
        out = np.empty_like(rows)
        with self._lock:
            self._fft.transform(rows, out, inverse)
        return out

    def __call__(self, x: NDArray[np.complex64]) -> NDArray[np.complex64]:
        """``scipy.fft.fft(x)`` along the last axis, complex64 of any shape (..., points)."""
        return self._transform(x, False)

    def inverse(self, x: NDArray[np.complex64]) -> NDArray[np.complex64]:
        """``scipy.fft.ifft(x)`` along the last axis."""
        return self._transform(x, True)


def checked_agc(reference: float, rate: float, most: float) -> tuple[float, float, float]:
    return (
        values.finite("reference", reference),
        values.finite("rate", rate),
        values.number("most", most),
    )


class Agc(Shown):
    """Automatic gain control: y = g x, and after each sample g += rate (reference - abs(y)).

    abs(y) settles at ``reference`` with a time constant of 1 / (rate abs(x)) samples. The gain
    begins at 1 and is at most ``most``. ``dtype``: complex64 or float32. Raises ArgumentError if a
    value is not positive or ``rate`` is over 1.
    """

    def __init__(
        self,
        reference: float = 1.0,
        rate: float = 1e-3,
        most: float = 65536.0,
        *,
        dtype: DTypeLike = np.complex64,
    ) -> None:
        self.dtype = sample_kind(dtype)
        make: Any = _core.AgcReal if self.dtype == _REAL else _core.AgcComplex
        self._agc = make(*checked_agc(reference, rate, most))
        self._lock = threading.Lock()

    def _facts(self) -> list[tuple[str, str]]:
        return [
            ("of", str(self.dtype)),
            ("gain", f"{self.gain:.4g}"),
        ]

    def __call__(self, x: NDArray[Any]) -> NDArray[Any]:
        """As many outputs as ``x``, the next block, has samples."""
        block = _samples(x, self.dtype)
        out = np.empty_like(block)
        with self._lock:
            self._agc.feed(block, out)
        return out

    @property
    def gain(self) -> float:
        """That of the next sample."""
        return float(self._agc.gain)


class FmDemodulator(Shown):
    """Quadrature demodulation: y = gain arg(x[n] conj(x[n-1])), complex64 to float32.

    The first sample of a stream gives 0, and so does a product of 0. Within 4e-7 ``gain`` of the
    exact value. With gain = rate / (2 pi deviation) outputs are in units of the deviation.
    """

    def __init__(self, gain: float = 1.0) -> None:
        self.gain = values.finite("gain", gain)
        self._demodulator = _core.FmDemodulator(self.gain)
        self._lock = threading.Lock()

    def _facts(self) -> list[tuple[str, str]]:
        return [("gain", f"{self.gain:.4g}")]

    def __call__(self, x: NDArray[np.complex64]) -> NDArray[np.float32]:
        """As many outputs as ``x``, the next block, has samples."""
        block = _samples(x, _COMPLEX)
        out = np.empty(len(block), np.float32)
        with self._lock:
            self._demodulator.feed(block, out)
        return out


def saxpy(a: float, x: NDArray[np.float32], y: NDArray[np.float32]) -> None:
    """y += a x, in place, both float32 of one length; they may share memory."""
    block = _samples(x, _REAL)
    target = _target(y, len(block), _REAL, "y")
    _core.dsp_saxpy(values.number("a", a), _apart(block, target), target)


def multiply(
    a: NDArray[np.complex64],
    b: NDArray[np.complex64],
    out: NDArray[np.complex64] | None = None,
) -> NDArray[np.complex64]:
    """The products of two complex64 arrays of one length; ``out`` may share their memory."""
    left, right = _samples(a, _COMPLEX, "a"), _samples(b, _COMPLEX, "b")
    if len(left) != len(right):
        raise ArgumentError(f"a has {len(left)} samples and b {len(right)}; give as many")
    target = _target(out, len(left), _COMPLEX)
    _core.dsp_multiply(_apart(left, target), _apart(right, target), target)
    return target


def magnitude_squared(
    x: NDArray[np.complex64], out: NDArray[np.float32] | None = None
) -> NDArray[np.float32]:
    """abs(x)**2 of complex64 as float32; ``out`` may share the memory of ``x``."""
    block = _samples(x, _COMPLEX)
    target = _target(out, len(block), _REAL)
    _core.dsp_magnitude_squared(_apart(block, target), target)
    return target
