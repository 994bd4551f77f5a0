# SPDX-License-Identifier: Apache-2.0
"""Power, temperature and clock of the GPU while a benchmark's kernels run, and the errors of its
memory, by :mod:`denizen.nvml`."""

from __future__ import annotations

import threading
import time
from types import TracebackType

import numpy as np

from denizen import threads
from denizen.nvml import Nvml, Reading


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
        self._errors: list[int | None] = [None, None]

    def __enter__(self) -> Sampler:
        if self._gpu is not None:
            self._errors = _errors_of(self._gpu)
            self._thread = threads.start(self._run, "nvml")
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
        if self._gpu is not None:
            self._errors = [
                None if before is None or after is None else after - before
                for before, after in zip(self._errors, _errors_of(self._gpu), strict=True)
            ]

    def _run(self) -> None:
        assert self._gpu is not None
        begin = time.monotonic()
        while True:  # ends at the first wait that sees the stop event
            self.readings.append(self._gpu.read(time.monotonic() - begin))
            if self._stop.wait(self._period):
                return

    def summary(self) -> dict[str, float | int | None] | None:
        """Median and greatest value of each sensor over the readings in which a kernel ran, the
        number of those and of the idle ones that are left out (None: the GPU does not tell, and all
        count), and the memory's errors between enter and exit (None: the GPU has no ECC, or does
        not tell); None without readings.

        Keys: ``readings``, ``readings_idle``, ``power_w``, ``power_w_max``, ``temperature_c``,
        ``temperature_c_max``, ``sm_clock_mhz``, ``sm_clock_mhz_min``, ``ecc_corrected``,
        ``ecc_uncorrected``.
        """
        if not self.readings:
            return None
        loaded = [reading for reading in self.readings if reading.busy != 0]
        tells = any(reading.busy is not None for reading in self.readings)

        def values(sensor: str) -> list[float]:
            found = (getattr(reading, sensor) for reading in loaded)
            return [value for value in found if value is not None]

        power, heat, clock = values("power_w"), values("temperature_c"), values("sm_clock_mhz")
        return {
            "readings": len(loaded),
            "readings_idle": len(self.readings) - len(loaded) if tells else None,
            "power_w": float(np.median(power)) if power else None,
            "power_w_max": max(power, default=None),
            "temperature_c": float(np.median(heat)) if heat else None,
            "temperature_c_max": max(heat, default=None),
            "sm_clock_mhz": float(np.median(clock)) if clock else None,
            "sm_clock_mhz_min": min(clock, default=None),
            "ecc_corrected": self._errors[0],
            "ecc_uncorrected": self._errors[1],
        }


def _errors_of(gpu: Nvml) -> list[int | None]:
    """Corrected and uncorrected ones, since the driver was loaded."""
    sensors = gpu.sensors()
    return [sensors.ecc_corrected, sensors.ecc_uncorrected]
