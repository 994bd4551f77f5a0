# SPDX-License-Identifier: Apache-2.0
"""Signal processing from one circuit into others: more samples than there were, frames, channels.

audio = graph.add(flow.Resampler("audio", dsp.resampler_taps(24, 125), up=24, down=125, dtype="f4"))
graph.connect(fm.samples, audio.port)
graph.circuit("audio", audio.out, quanta=4, samples=1024)

They read their port ``port`` however its quanta are cut, and begin circuits of their own. All take
``executor`` and ``device`` as the blocks of denizen.flow.signal do: a resident one's samples go to
workers a thousand or so at a time, and its outputs leave in the order of the stream. Ports and tags
are the same, results agree to a few parts in a million.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from denizen import _core
from denizen.dsp import checked_bank, checked_fir, checked_points, sample_kind
from denizen.errors import ArgumentError
from denizen.flow.block import AnyBlock, InputPort, SourcePort
from denizen.flow.resident import Resident, placed
from denizen.values import flag, whole

_REAL = np.dtype(np.float32)
_COMPLEX = np.dtype(np.complex64)


class Resampler(AnyBlock):
    """A filter between rates, ``up`` / ``down`` outputs per sample: ``scipy.signal.upfirdn``.

    ``taps``, ``dtype``, ``up``, ``down``: as denizen.dsp.Fir's; dsp.resampler_taps() makes taps.
    A resident one has 1 to 32768 taps and rates up to 4096. Buffers of ``out`` have room for the
    outputs of one sample. A tag goes to the first output at or after its sample. Raises
    ArgumentError.
    """

    def __init__(
        self,
        name: str,
        taps: ArrayLike,
        *,
        up: int = 1,
        down: int = 1,
        dtype: DTypeLike = np.complex64,
        executor: str | Resident = "cpu",
        device: str | None = None,
    ) -> None:
        kind = sample_kind(dtype)
        self.resident, where = placed(name, executor, device)
        kept = checked_fir(taps, up, down, kind)
        make: Any = _core.flow_resampler_real if kind == _REAL else _core.flow_resampler_complex
        if kept.dtype == _COMPLEX:
            make = _core.flow_resampler_complex_taps
        core = make(name, kept, up, down, where)
        super().__init__(name, core)
        self.port = InputPort(core.port("in"), kind)
        self.out = SourcePort(core.port("out"), kind)


class Fft(AnyBlock):
    """The transforms of the stream's frames of ``points`` samples, complex64.

    Output f points + k is number k of frame f: ``scipy.fft.fft`` row by row, ``ifft`` if
    ``inverse``. ``points``: a power of two from 2 to 65536; buffers of ``out`` have room for so
    many, and hold whole frames. A resident one has at most 4096. An incomplete last frame is
    dropped. Tags keep their numbers, so they stay in their frames. Raises ArgumentError.
    """

    def __init__(
        self,
        name: str,
        points: int,
        *,
        inverse: bool = False,
        executor: str | Resident = "cpu",
        device: str | None = None,
    ) -> None:
        self.resident, where = placed(name, executor, device)
        inverse = flag("inverse", inverse)
        core = _core.flow_fft(name, checked_points(points), inverse, where)
        super().__init__(name, core)
        self.port = InputPort(core.port("in"), _COMPLEX)
        self.out = SourcePort(core.port("out"), _COMPLEX)


class Channelizer(AnyBlock):
    """Channels of a band, each a stream at 1 / ``channels`` of the rate: see dsp.Channelizer.

    ``chosen``: the channels that are made, all if not said. ``out[k]`` is the port of channel k,
    and begins a circuit. A tag goes to every one, to the first output at or after its sample. A
    resident one has 1 to 32768 taps. Raises ArgumentError.
    """

    def __init__(
        self,
        name: str,
        channels: int,
        taps: ArrayLike | None = None,
        *,
        chosen: list[int] | range | None = None,
        executor: str | Resident = "cpu",
        device: str | None = None,
    ) -> None:
        self.resident, where = placed(name, executor, device)
        kept = checked_bank(channels, taps)
        numbers = range(channels) if chosen is None else chosen
        if not isinstance(numbers, Iterable):
            raise ArgumentError(f"chosen = {chosen!r:.60}; use a list of channels")
        numbers = [whole("a channel", k) for k in numbers]
        if any(k >= channels for k in numbers):
            raise ArgumentError(f"{numbers} are no channels of {channels}")
        if len(set(numbers)) < max(len(numbers), 1):
            raise ArgumentError(
                f"chosen = {numbers!r:.60}; use each channel once, and one at least"
            )
        core = _core.flow_channelizer(name, kept, channels, numbers, where)
        super().__init__(name, core)
        self.port = InputPort(core.port("in"), _COMPLEX)
        self.out = {k: SourcePort(core.port(str(k)), _COMPLEX) for k in numbers}
