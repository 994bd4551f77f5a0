# SPDX-License-Identifier: Apache-2.0
"""A receiver through SoapySDR: ``soapy://driver=rtlsdr?frequency=1090e6&rate=2e6&gain=40``.

Before the question mark stand SoapySDR's own words for a device (``SoapySDRUtil --find`` lists
them), after it ``frequency`` (Hz), ``rate``, ``gain`` (dB; else automatic), ``bandwidth`` (Hz),
``antenna`` and ``channel``. SoapySDR's Python module comes with the system or conda, not from PyPI.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from denizen.errors import ArgumentError, DeviceError
from denizen.iq.address import Address, number
from denizen.iq.format import FORMATS, DataError
from denizen.iq.stream import Source

__all__ = ["OPTIONS", "Soapy"]

OPTIONS: dict[str, Callable[[str], Any]] = {
    "frequency": number,
    "gain": number,
    "bandwidth": number,
    "antenna": str,
    "channel": int,
}
_BLOCK = 65536  # samples read at once
_TIMEOUT_US = 1_000_000
_SILENT = 5  # time-outs in a row after which the receiver is taken for dead


def _module() -> Any:
    try:
        import SoapySDR  # noqa: PLC0415  (optional)
    except ImportError as error:
        raise DeviceError(
            "SoapySDR's Python module is not there: install python3-soapysdr and your receiver's "
            "soapysdr-module (Debian, Ubuntu; for the system's python3), or conda-forge's soapysdr"
        ) from error
    return SoapySDR


class Soapy(Source):
    """What a receiver hears, as 32-bit floats.

    ``overflows`` counts how often it had samples that nobody took in time. Raises ArgumentError for
    an address without frequency or rate, DeviceError without SoapySDR or such a device.
    """

    live = True

    def __init__(self, address: Address, rate: int | None, expected: str) -> None:
        self._soapy = _module()
        options = address.options
        if rate is None or "frequency" not in options:
            raise ArgumentError(
                f"{address.text}: say where to listen, and how fast: "
                f"{address.text.partition('?')[0]}?frequency=1090e6&rate=2e6"
            )
        self.overflows = 0
        self._stream: Any = None
        channel = options.get("channel", 0)
        direction = self._soapy.SOAPY_SDR_RX
        try:
            self._device = self._soapy.Device(address.place)
            self._device.setSampleRate(direction, channel, float(rate))
            self._device.setFrequency(direction, channel, options["frequency"])
            if "antenna" in options:
                self._device.setAntenna(direction, channel, options["antenna"])
            if "bandwidth" in options:
                self._device.setBandwidth(direction, channel, options["bandwidth"])
            if "gain" in options:
                self._device.setGain(direction, channel, options["gain"])
            elif self._device.hasGainMode(direction, channel):
                self._device.setGainMode(direction, channel, True)
            got = self._device.getSampleRate(direction, channel)
            self._stream = self._device.setupStream(
                direction, self._soapy.SOAPY_SDR_CF32, [channel]
            )
        except RuntimeError as error:  # what SoapySDR throws
            raise DeviceError(
                f"{address.text}: {error} (SoapySDRUtil --find lists devices)"
            ) from error
        if abs(got - rate) > 1e-3 * rate:
            self.close()
            raise DeviceError(
                f"{address.text}: the receiver samples at {got:,.0f}, not {rate:,} a second; give "
                "a rate that it has (SoapySDRUtil --probe)"
            )
        super().__init__(address.text, FORMATS["f32"], rate, expected)

    @property
    def losses(self) -> str:
        return f"{self.overflows:,} overflows of the receiver" if self.overflows else ""

    def pieces(self) -> Iterator[bytes]:
        soapy = self._soapy
        buffer = np.empty(_BLOCK, np.complex64)
        status = self._device.activateStream(self._stream)
        if status != 0:
            raise DataError(f"{self.name}: {soapy.errToStr(status)}")
        silent = 0
        while True:  # ends by an error, a receiver that falls silent, or who reads
            ret = self._device.readStream(self._stream, [buffer], _BLOCK, timeoutUs=_TIMEOUT_US).ret
            if ret > 0:
                silent = 0
                yield buffer[:ret].tobytes()
            elif ret == soapy.SOAPY_SDR_OVERFLOW:
                self.overflows += 1
            elif ret in (0, soapy.SOAPY_SDR_TIMEOUT):
                silent += 1
                if silent == _SILENT:
                    raise DataError(f"{self.name}: the receiver has given nothing for {silent} s")
            else:
                raise DataError(f"{self.name}: {soapy.errToStr(ret)}")

    def close(self) -> None:
        if self._stream is not None:
            self._device.deactivateStream(self._stream)
            self._device.closeStream(self._stream)
            self._stream = None
