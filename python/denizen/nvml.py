# SPDX-License-Identifier: Apache-2.0
"""Power, temperature, clocks and memory errors of a GPU, by the driver's own library.

libnvidia-ml comes with every driver, so nothing has to be installed; where it is missing every
function answers None. It reads registers through the driver and launches nothing on the GPU.
"""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass

_SUCCESS = 0
_CLOCK_SM = 1
_CLOCK_MEMORY = 2
_TEMPERATURE_GPU = 0
_ECC_CORRECTED = 0
_ECC_UNCORRECTED = 1
_ECC_SINCE_LOADED = 0  # since the driver was loaded, not over the GPU's life
_NVLINK_DATA_RECEIVED = 139  # NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, in KiB
_ALL_LINKS = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Reading:
    """One look at the sensors: seconds since the sampler began, watts, degrees Celsius, MHz, and in
    percent for how much of the last part of a second a kernel ran."""

    at: float
    power_w: float | None
    temperature_c: float | None
    sm_clock_mhz: float | None
    busy: float | None


@dataclass(frozen=True, slots=True)
class Sensors:
    """A GPU's state: watts, degrees Celsius, MHz, memory errors since the driver was loaded.

    None: the GPU does not tell (consumer GPUs have no ECC).
    """

    name: str
    power_w: float | None
    power_limit_w: float | None
    temperature_c: float | None
    sm_clock_mhz: float | None
    memory_clock_mhz: float | None
    ecc_corrected: int | None
    ecc_uncorrected: int | None


class _Utilization(ctypes.Structure):
    """nvmlUtilization_t: percent of the time that a kernel ran, and that memory was in use."""

    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class _Field(ctypes.Structure):
    """nvmlFieldValue_t, whose value is taken as its unsigned 64-bit member."""

    _fields_ = (
        ("field", ctypes.c_uint),
        ("scope", ctypes.c_uint),
        ("timestamp", ctypes.c_longlong),
        ("latency", ctypes.c_longlong),
        ("type", ctypes.c_int),
        ("status", ctypes.c_int),
        ("value", ctypes.c_ulonglong),
    )


def _bus_of(index: int) -> bytes | None:
    """Where on the PCI bus the GPU is that CUDA calls ``index``; None without CUDA's driver."""
    try:
        lib = ctypes.CDLL("libcuda.so.1")
        device, bus = ctypes.c_int(), ctypes.create_string_buffer(32)
        if (
            lib.cuInit(0) == _SUCCESS
            and lib.cuDeviceGet(ctypes.byref(device), index) == _SUCCESS
            and lib.cuDeviceGetPCIBusId(bus, len(bus), device) == _SUCCESS
        ):
            return bus.value
    except (AttributeError, OSError):
        pass
    return None


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
            # CUDA counts the visible devices only, the fastest first; NVML all, by their bus.
            if (bus := _bus_of(index)) is not None:
                found = lib.nvmlDeviceGetHandleByPciBusId_v2(bus, ctypes.byref(handle))
                return cls(lib, handle) if found == _SUCCESS else None
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

    def _watts(self, function: str) -> float | None:
        milliwatts = self._number(function)
        return None if milliwatts is None else milliwatts / 1000

    def _busy(self) -> float | None:
        rates = _Utilization()
        call = getattr(self._lib, "nvmlDeviceGetUtilizationRates", None)
        if call is None or call(self._handle, ctypes.byref(rates)) != _SUCCESS:
            return None
        return float(rates.gpu)

    def _errors(self, kind: int) -> int | None:
        value = ctypes.c_ulonglong()
        call = getattr(self._lib, "nvmlDeviceGetTotalEccErrors", None)
        before = (self._handle, kind, _ECC_SINCE_LOADED)
        if call is None or call(*before, ctypes.byref(value)) != _SUCCESS:
            return None
        return int(value.value)

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
        return Reading(
            at=at,
            power_w=self._watts("nvmlDeviceGetPowerUsage"),
            temperature_c=self._number("nvmlDeviceGetTemperature", _TEMPERATURE_GPU),
            sm_clock_mhz=self._number("nvmlDeviceGetClockInfo", _CLOCK_SM),
            busy=self._busy(),
        )

    def nvlink_received(self) -> int | None:
        """Bytes of data that have come by NVLink, over all links, in steps of 1,024; it only grows.

        None: the GPU has no NVLink, or does not tell (some virtual machines).
        """
        field = _Field(field=_NVLINK_DATA_RECEIVED, scope=_ALL_LINKS)
        call = getattr(self._lib, "nvmlDeviceGetFieldValues", None)
        if call is None or call(self._handle, 1, ctypes.byref(field)) != _SUCCESS:
            return None
        return None if field.status != _SUCCESS else 1024 * int(field.value)

    def energy_j(self) -> float | None:
        """Joules that the GPU has used since the driver was loaded; it only grows.

        The driver renews it some ten times a second. None: the GPU does not tell (before Volta).
        """
        millijoules = ctypes.c_ulonglong()
        call = getattr(self._lib, "nvmlDeviceGetTotalEnergyConsumption", None)
        if call is None or call(self._handle, ctypes.byref(millijoules)) != _SUCCESS:
            return None
        return int(millijoules.value) / 1000

    def sensors(self) -> Sensors:
        """All of the state there is; takes some milliseconds of the driver's lock."""
        return Sensors(
            name=self.name() or "GPU",
            power_w=self._watts("nvmlDeviceGetPowerUsage"),
            power_limit_w=self._watts("nvmlDeviceGetEnforcedPowerLimit"),
            temperature_c=self._number("nvmlDeviceGetTemperature", _TEMPERATURE_GPU),
            sm_clock_mhz=self._number("nvmlDeviceGetClockInfo", _CLOCK_SM),
            memory_clock_mhz=self._number("nvmlDeviceGetClockInfo", _CLOCK_MEMORY),
            ecc_corrected=self._errors(_ECC_CORRECTED),
            ecc_uncorrected=self._errors(_ECC_UNCORRECTED),
        )
