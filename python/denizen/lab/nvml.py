# SPDX-License-Identifier: Apache-2.0
"""Power, temperature and clock of a GPU while a benchmark runs, by the driver's own library.

libnvidia-ml comes with every driver, so nothing has to be installed; where it is missing every
function answers None. It reads registers through the driver and launches nothing on the GPU.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from dataclasses import dataclass
from types import TracebackType

import numpy as np

_SUCCESS = 0
_CLOCK_SM = 1
_TEMPERATURE_GPU = 0


@dataclass(frozen=True, slots=True)
class Reading:
    """One look at the sensors: seconds since the sampler began, watts, degrees Celsius, MHz."""

    at: float
    power_w: float | None
    temperature_c: float | None
    sm_clock_mhz: float | None


class Nvml:
    """One GPU as NVML sees it. Open with :meth:`open`; the library is never shut down.

    NVML counts its initialisations itself, and other users of the process may hold one.
    """

    def __init__(self, lib: ctypes.CDLL, handle: ctypes.c_void_p) -> None:
        self._lib = lib
        self._handle = handle

    @classmethod
    def open(cls, index: int) -> Nvml | None:
        """The GPU that CUDA calls ``index``, or None without a driver or such a GPU."""
        try:
            lib = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError:
            return None
        handle = ctypes.c_void_p()
        try:
            if lib.nvmlInit_v2() != _SUCCESS:
                return None
            # CUDA counts the visible devices only, NVML all of them.
            visible = [v.strip() for v in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")]
            name = visible[index] if visible != [""] and index < len(visible) else str(index)
            if name.isdigit():
                found = lib.nvmlDeviceGetHandleByIndex_v2(int(name), ctypes.byref(handle))
            else:
                found = lib.nvmlDeviceGetHandleByUUID(name.encode(), ctypes.byref(handle))
        except AttributeError:  # a library too old to have the _v2 entry points
            return None
        return cls(lib, handle) if found == _SUCCESS else None

    def _number(self, function: str, *before: int) -> float | None:
        value = ctypes.c_uint()
        call = getattr(self._lib, function, None)
        if call is None or call(self._handle, *before, ctypes.byref(value)) != _SUCCESS:
            return None
        return float(value.value)

    def _text(self, function: str, *before: ctypes.c_void_p) -> str | None:
        text = ctypes.create_string_buffer(96)
        call = getattr(self._lib, function, None)
        if call is None or call(*before, text, 96) != _SUCCESS:
            return None
        return text.value.decode(errors="replace")

    def name(self) -> str | None:
        """The product name, as in ``NVIDIA H100 80GB HBM3``."""
        return self._text("nvmlDeviceGetName", self._handle)

    def driver(self) -> str | None:
        """The driver's version, as in ``580.159.04``."""
        return self._text("nvmlSystemGetDriverVersion")

    def cuda(self) -> str | None:
        """The newest CUDA version that the driver takes, as in ``13.0``."""
        value = ctypes.c_int()
        if self._lib.nvmlSystemGetCudaDriverVersion_v2(ctypes.byref(value)) != _SUCCESS:
            return None
        return f"{value.value // 1000}.{value.value % 1000 // 10}"

    def read(self, at: float = 0.0) -> Reading:
        """The sensors now; a sensor that the GPU does not have is None."""
        milliwatts = self._number("nvmlDeviceGetPowerUsage")
        return Reading(
            at=at,
            power_w=None if milliwatts is None else milliwatts / 1000,
            temperature_c=self._number("nvmlDeviceGetTemperature", _TEMPERATURE_GPU),
            sm_clock_mhz=self._number("nvmlDeviceGetClockInfo", _CLOCK_SM),
        )


class Sampler:
    """Reads the sensors every ``period`` seconds on its own thread between enter and exit.

    Without NVML it does nothing and :meth:`summary` is None. A reading takes up to a few
    milliseconds of the driver's lock, so keep the period well above that.
    """

    def __init__(self, gpu: Nvml | None, period: float = 0.1) -> None:
        self._gpu = gpu
        self._period = period
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.readings: list[Reading] = []

    def __enter__(self) -> Sampler:
        if self._gpu is not None:
            self._thread = threading.Thread(target=self._run, name="nvml", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        assert self._gpu is not None
        begin = time.monotonic()
        while True:  # ends at the first wait that sees the stop event
            self.readings.append(self._gpu.read(time.monotonic() - begin))
            if self._stop.wait(self._period):
                return

    def summary(self) -> dict[str, float | int | None] | None:
        """Median and greatest value of each sensor, and the number of readings; None without any.

        Keys: ``readings``, ``power_w``, ``power_w_max``, ``temperature_c``, ``temperature_c_max``,
        ``sm_clock_mhz``, ``sm_clock_mhz_min``.
        """
        if not self.readings:
            return None

        def values(sensor: str) -> list[float]:
            found = (getattr(reading, sensor) for reading in self.readings)
            return [value for value in found if value is not None]

        power, heat, clock = values("power_w"), values("temperature_c"), values("sm_clock_mhz")
        return {
            "readings": len(self.readings),
            "power_w": float(np.median(power)) if power else None,
            "power_w_max": max(power, default=None),
            "temperature_c": float(np.median(heat)) if heat else None,
            "temperature_c_max": max(heat, default=None),
            "sm_clock_mhz": float(np.median(clock)) if clock else None,
            "sm_clock_mhz_min": min(clock, default=None),
        }
