# SPDX-License-Identifier: Apache-2.0
"""Mode S / ADS-B: the receiver in C++ (include/denizen/radio), as Python sees it."""

from __future__ import annotations

import threading
from typing import Any, Literal

import numpy as np

from denizen import _core
from denizen.compilers import cubin_of
from denizen.device import breath_of, capability, parse_device
from denizen.errors import ArgumentError
from denizen.iq.format import FORMATS
from denizen.shown import Shown

_KERNEL = "#include <denizen/radio/scan_ring.hpp>\n"

Message = dict[str, Any]
"""What a frame says, only the fields that it has: ``df``, ``icao`` (six hexadecimal digits), and
by the kind of frame ``altitude`` (ft), ``callsign``, ``squawk``, ``latitude``, ``longitude``,
``track`` and ``heading`` (degrees), ``groundspeed`` and ``airspeed`` (kt), ``vertical_rate``
(ft/min), ... Names follow PyPI's pymodes. denizen/radio/message.hpp lists them all."""

SAMPLE_RATE: float = _core.radio_sample_rate
"""Samples per second that the receiver expects."""


class Receiver(Shown):
    """Finds the messages in a stream of I/Q at 2 Msps.

    ``position``: latitude and longitude of the antenna in degrees. It is needed only for the first
    position of an aircraft on the ground, which fits several places on earth.
    ``device``: None for the loops of the calling thread; "gpu", "gpu:N", "cpu" or "cpu:THREADS" for
    resident workers there, which give the same messages, a call or more later. They take bytes;
    complex samples are rounded to them. Raises DeviceError, CompileError.
    ``breath_us``: GPU: no kernel of the workers lasts longer than that and a block of the stream;
    the next one is queued behind it, so that whoever waits for the whole device waits for two of
    them at most. "auto": 2000. None or 0: one kernel as long as they stay. See docs/gpu-sharing.md.

    Threads that use one receiver take turns: one may feed it while another looks at ``aircraft``.
    """

    def __init__(
        self,
        position: tuple[float, float] | None = None,
        device: str | None = None,
        *,
        breath_us: int | Literal["auto"] | None = "auto",
    ) -> None:
        self._device = device or "this thread"
        self._lock = threading.Lock()
        self._receiver: _core.RadioReceiver | _core.ResidentReceiver
        if device is None:
            self._receiver = _core.RadioReceiver(position)
            return
        where = parse_device(device)
        if where.nodes != 1:
            raise ArgumentError(f'device "{device}"; a receiver uses one GPU or the CPU')
        cubin = b""
        if where.on_gpu:
            cubin = cubin_of(_KERNEL, "the scan for Mode S", capability(where))
        self._receiver = _core.ResidentReceiver(
            position,
            where.on_gpu,
            where.first,
            cubin,
            where.threads or 0,
            breath_of(breath_us),
        )

    def _facts(self) -> list[tuple[str, str]]:
        return [
            ("on", self._device),
        ]

    def feed(self, iq: Any, *, in_place: bool = False) -> list[Message]:
        """The messages that ``iq``, the next piece of the stream, completes.

        ``iq`` is anything with a contiguous buffer of unsigned bytes, I and Q in turn around 127.5,
        or a complex64 array, I and Q being clipped at -1 and 1: noise of 0.01 to 0.05 is best.
        It may have any length, even odd ones: the messages do not depend on how the stream is cut.
        They come at most 33 ms of signal after their end. Each has, besides its fields, ``time``
        (seconds since the start of the stream), ``sample`` (where its preamble begins), ``frame``
        (hexadecimal, after repair), ``level`` (dB of full scale) and ``repaired`` (how many bits
        were, 0 to 2).

        ``in_place``: resident workers read the bytes where they are, and no thread copies them: a
        GPU's at more than the rate of a copy, from memory that it reaches, like that of a
        ``denizen.Buffer`` of kind "pinned" (``buffer.numpy()``). It must stay as it is until
        ``released`` has passed it. Raises ArgumentError for other memory and for complex samples.
        """
        with self._lock:
            return self._feed(iq, in_place)

    def _feed(self, iq: Any, in_place: bool) -> list[Message]:
        if in_place and isinstance(self._receiver, _core.ResidentReceiver):
            if isinstance(iq, np.ndarray) and iq.dtype == np.complex64:
                raise ArgumentError("complex samples are rounded to bytes, which is a copy")
            return self._receiver.feed_in_place(iq)
        if isinstance(iq, np.ndarray) and iq.dtype == np.complex64:
            if isinstance(self._receiver, _core.RadioReceiver):
                return self._receiver.feed_complex(np.ascontiguousarray(iq))
            return self._receiver.feed(FORMATS["u8"].bytes(iq))
        return self._receiver.feed(iq)

    def finish(self) -> list[Message]:
        """The messages that were still held back; the stream has ended."""
        with self._lock:
            return self._receiver.finish()

    @property
    def released(self) -> int:
        """How many samples of all that were fed are not read any more.

        All of them, but for those fed with ``in_place`` that workers have yet to scan. Memory in
        front of that place in the stream may be overwritten.
        """
        with self._lock:
            return self._receiver.released

    @property
    def aircraft(self) -> list[dict[str, Any]]:
        """The latest of all that each aircraft has said, by address, with ``messages`` (how many),
        ``first_seen`` and ``last_seen`` (seconds since the start of the stream)."""
        with self._lock:
            return self._receiver.aircraft

    @property
    def counts(self) -> dict[str, int]:
        """``samples`` looked at, ``preambles`` that fit, ``readings`` of a frame, ``messages``
        believed, ``repaired`` ones among them. Resident workers do not tell the second and third.
        """
        with self._lock:
            return self._receiver.counts


def decode(frame: str) -> Message:
    """What one frame, 14 or 28 hexadecimal digits, says by itself.

    Positions stay as encoded (``cpr_lat``, ``cpr_lon``): they take two messages. ``icao`` is read
    from the parity where the format hides it there; other formats have ``syndrome``, 0 if the
    parity is right. Raises ArgumentError for text that is no frame.
    """
    return _core.radio_decode(frame)


def parity(frame: str) -> int:
    """The 24 bits that a frame with zeros in their place (its last six digits) must end with."""
    return _core.radio_syndrome(frame[:-6] + "000000")
