# SPDX-License-Identifier: Apache-2.0
"""Blocks of signal processing, on the graph's own threads or on resident workers.

    fir = graph.add(flow.Fir("channel", taps, down=8))  # on the CPU, in vectors
    fir = graph.add(flow.Fir("channel", taps, down=8, executor="resident", device="gpu:0"))

All take ``executor``: "cpu" (the graph's threads, sequences and pools), "resident"
(workers that blocks of this process with the same ``device`` share; see Resident for devices), or a
Resident.
Ports, tags and messages are the same, results agree to a few parts in a million. The quanta change
in place at the port ``samples``; no Python runs while they do.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from denizen import _core
from denizen.dsp import checked_agc, sample_kind
from denizen.errors import ArgumentError
from denizen.flow.block import AnyBlock, InPlacePort, InputPort
from denizen.flow.resident import Resident, placed
from denizen.values import finite, number, numbers, whole

T = TypeVar("T")

_REAL = np.dtype(np.float32)
_COMPLEX = np.dtype(np.complex64)
_MOST_TAPS = 4096  # of a resident block, as of rates


class Control(Generic[T]):
    """A message port of a block of the library: new parameters while it runs."""

    def __init__(
        self, core: _core.FlowLibraryBlock, name: str, convert: Callable[[T], object]
    ) -> None:
        self._core = core
        self._name = name
        self._convert = convert

    def post(self, value: T) -> None:
        """From any thread; effective from some quantum's boundary on, the same for all workers.

        RingFullError when 64 wait, ClosedError when the block has finished.
        """
        self._core.post(self._name, self._convert(value))


class LibraryBlock(AnyBlock):
    """What the blocks of this module have in common."""

    def __init__(
        self,
        name: str,
        core: _core.FlowLibraryBlock,
        resident: Resident | None,
        dtype: np.dtype[Any],
        becomes: np.dtype[Any],
    ) -> None:
        super().__init__(name, core)
        self._library = core
        self.resident = resident
        self.samples = InPlacePort(core.port("samples"), dtype, becomes)


def _one_dimension(what: str, values: ArrayLike) -> NDArray[Any]:
    given = numbers(what, values)
    if given.ndim != 1 or len(given) == 0:
        raise ArgumentError(
            f"{what} have the shape {given.shape}; give one dimension, one at least"
        )
    return given


class Fir(LibraryBlock):
    """y[m] = the sum over k of taps[k] x[m down - k]: a FIR filter, decimating.

    ``taps``: real or complex, (n,), kept in single precision; complex ones take complex samples.
    ``dtype``: of samples and outputs, complex64 or float32. A resident one has 1 to 4096 taps and
    ``down`` up to 4096, denizen.dsp.Fir tells what the CPU takes.
    ``taps.post(...)`` changes them, to as many as at first or fewer. Raises ArgumentError.
    """

    def __init__(
        self,
        name: str,
        taps: ArrayLike,
        *,
        down: int = 1,
        dtype: DTypeLike = np.complex64,
        executor: str | Resident = "cpu",
        device: str | None = None,
    ) -> None:
        kind = sample_kind(dtype)
        given = _one_dimension("taps", taps)
        if np.iscomplexobj(given) and kind == _REAL:
            raise ArgumentError("complex taps take complex samples: leave dtype=complex64")
        resident, where = placed(name, executor, device)
        most = 1 << 20 if resident is None else _MOST_TAPS
        down = whole("down", down, most, least=1)
        make: Any = _core.flow_fir_complex if kind == _COMPLEX else _core.flow_fir_real
        of_tap: np.dtype[Any] = _REAL
        if np.iscomplexobj(given):
            make, of_tap = _core.flow_fir_complex_taps, _COMPLEX

        def convert(values: ArrayLike) -> NDArray[Any]:
            new = _one_dimension("taps", values)
            if np.iscomplexobj(new) and of_tap == _REAL:
                raise ArgumentError("complex taps for a filter that was made with real ones")
            return np.ascontiguousarray(new, of_tap)

        super().__init__(name, make(name, convert(given), down, where), resident, kind, kind)
        self.taps: Control[ArrayLike] = Control(self._library, "taps", convert)


class Agc(LibraryBlock):
    """Automatic gain control, complex64 or float32: y = g x, see denizen.dsp.Agc.

    Each gain is made from the one before: of a resident one, one worker has the whole stream.
    Roundings of a time constant add up: the two places differ by some 6e-8 / (rate |x|) of y.
    Raises ArgumentError.
    """

    def __init__(
        self,
        name: str,
        reference: float = 1.0,
        rate: float = 1e-3,
        most: float = 65536.0,
        *,
        dtype: DTypeLike = np.complex64,
        executor: str | Resident = "cpu",
        device: str | None = None,
    ) -> None:
        kind = sample_kind(dtype)
        resident, where = placed(name, executor, device)
        make = _core.flow_agc_real if kind == _REAL else _core.flow_agc_complex
        core = make(name, *checked_agc(reference, rate, most), where)
        super().__init__(name, core, resident, kind, kind)


class Fm(LibraryBlock):
    """y[n] = gain arg(x[n] conj(x[n - 1])), complex64 to float32; the first of a stream is 0.

    With gain = rate / (2 pi deviation) outputs are in units of the deviation. ``gain.post(...)``
    changes it.
    """

    def __init__(
        self,
        name: str,
        gain: float = 1.0,
        *,
        executor: str | Resident = "cpu",
        device: str | None = None,
    ) -> None:
        resident, where = placed(name, executor, device)
        core = _core.flow_fm(name, finite("gain", gain), where)
        super().__init__(name, core, resident, _COMPLEX, _REAL)
        self.gain: Control[float] = Control(self._library, "gain", partial(finite, "gain"))


class Mixer(LibraryBlock):
    """y[n] = x[n] w[n modulo the length of ``w``], complex64.

    A shift in frequency by an oscillator of whole period, or a factor. A resident one has at most
    4096 values. Raises ArgumentError.
    """

    def __init__(
        self,
        name: str,
        w: ArrayLike,
        *,
        executor: str | Resident = "cpu",
        device: str | None = None,
    ) -> None:
        period = np.ascontiguousarray(_one_dimension("values", w), _COMPLEX)
        resident, where = placed(name, executor, device)
        super().__init__(name, _core.flow_mixer(name, period, where), resident, _COMPLEX, _COMPLEX)


class Multiply(LibraryBlock):
    """y[n] = a[n] b[n] of two streams of complex64, at the ports ``samples`` and ``by``.

    Their quanta may be cut differently; the outputs are those of ``samples``, with the tags of
    both. It ends with the shorter stream.
    """

    def __init__(
        self, name: str, *, executor: str | Resident = "cpu", device: str | None = None
    ) -> None:
        resident, where = placed(name, executor, device)
        super().__init__(name, _core.flow_multiply(name, where), resident, _COMPLEX, _COMPLEX)
        self.by = InputPort(self._library.port("by"), _COMPLEX)


class MagnitudeSquared(LibraryBlock):
    """y = |x|^2, complex64 to float32."""

    def __init__(
        self, name: str, *, executor: str | Resident = "cpu", device: str | None = None
    ) -> None:
        resident, where = placed(name, executor, device)
        super().__init__(name, _core.flow_magnitude_squared(name, where), resident, _COMPLEX, _REAL)


class Saxpy(LibraryBlock):
    """y = a x + b, float32. ``scalars.post((a, b))`` changes them."""

    def __init__(
        self,
        name: str,
        a: float,
        b: float,
        *,
        executor: str | Resident = "cpu",
        device: str | None = None,
    ) -> None:
        resident, where = placed(name, executor, device)
        core = _core.flow_saxpy(name, *_scalars((a, b)), where)
        super().__init__(name, core, resident, _REAL, _REAL)
        self.scalars: Control[tuple[float, float]] = Control(self._library, "scalars", _scalars)


def _scalars(given: tuple[float, float]) -> tuple[float, float]:
    try:
        a, b = given
    except (TypeError, ValueError):
        raise ArgumentError(f"scalars = {given!r:.60}; use a pair, (a, b)") from None
    return number("a", a), number("b", b)
