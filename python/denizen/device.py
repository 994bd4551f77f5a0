# SPDX-License-Identifier: Apache-2.0
"""What the names of devices stand for: ``"auto"``, ``"cpu:2"``, ``"gpu:0-1"``."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import numpy as np

from denizen import _core
from denizen.errors import ArgumentError, DeviceError

log = logging.getLogger(__name__)

_DEVICES = (
    '"auto", "cpu", "cpu:THREADS", "gpu", "gpu:N", "cpu:NODESxTHREADS", "gpu:FIRST-LAST" or '
    '"python"'
)


@dataclass(frozen=True)
class Device:
    """Where a program runs: on how many GPUs from which one on, or on how many CPU nodes."""

    on_gpu: bool
    first: int = 0  # ordinal of the first GPU
    nodes: int = 1
    threads: int | None = None  # of each CPU node
    interpreted: bool = False  # by Python, in the thread that calls


def parse_device(device: str | None) -> Device:
    """What a device's name stands for, None for "auto". Raises ArgumentError for no such name."""
    if device is None:
        device = "auto"
    if not isinstance(device, str):
        raise ArgumentError(f"device {device!r}; use {_DEVICES}")
    if device == "python":
        return Device(False, threads=1, interpreted=True)
    match = re.fullmatch(r"(auto)|cpu(?::(?:(\d+)x)?(\d+))?|gpu(?::(\d+)(?:-(\d+))?)?", device)
    if match is None:
        raise ArgumentError(f'device "{device}"; use {_DEVICES}')
    auto, nodes, threads, first, last = match.groups()
    if threads is not None and int(threads) == 0:
        raise ArgumentError(f'device "{device}" has no threads; use "cpu:1" or more')
    if nodes is not None and int(nodes) == 0:
        raise ArgumentError(f'device "{device}" has no nodes; use "cpu:1x{threads}" or more')
    if last is not None and int(last) < int(first):
        raise ArgumentError(f'device "{device}" names no GPU; use "gpu:{last}-{first}"')
    if auto:
        on_gpu = _core.gpu_count() > 0
        if not on_gpu:
            log.info("CPU threads, as there is no GPU: %s", _core.gpu_problem() or "none was found")
        return Device(on_gpu)
    if device.startswith("cpu"):
        return Device(False, 0, int(nodes or 1), int(threads) if threads else None)
    ordinal = int(first or 0)
    return Device(True, ordinal, int(last or ordinal) - ordinal + 1)


@contextmanager
def opened_ahead(device: Device, *, mapped: bool) -> Iterator[None]:
    """A thread opens the GPUs, with what maps their memory, while what stands within compiles for
    them and starts there."""
    if not device.on_gpu:
        yield
        return
    opening = _core.Opening(device.first, device.nodes, mapped)
    try:
        yield
    finally:
        opening.end()


def breath_of(breath_us: int | Literal["auto"] | None) -> int | None:
    """What C++ takes: microseconds, 0 for one kernel for ever, None for what suits the device."""
    if breath_us == "auto":
        return None
    us = breath_us or 0
    if not isinstance(us, int | np.integer) or not 0 <= us < 2**32:  # C++ knows the most
        raise ArgumentError(
            f"breath_us = {breath_us!r}; use a whole number from 0 (one kernel for ever) to 1000000"
        )
    return int(us)


def capability(device: Device) -> int:
    """The compute capability of the GPUs, 90 for 9.0: it must be the same for all."""
    there = _core.gpu_count()
    last = device.first + device.nodes - 1
    if there <= last:
        raise DeviceError(
            f"there is no GPU {last}: {_core.gpu_problem() or f'the driver sees {there}'}; "
            'use device="cpu"'
        )
    all_of_them = {
        n: 10 * major + minor
        for n in range(device.first, last + 1)
        for _, major, minor, _, _ in [_core.gpu_info(n)]
    }
    if len(set(all_of_them.values())) != 1:
        each = ", ".join(f"GPU {n} has {c // 10}.{c % 10}" for n, c in all_of_them.items())
        raise DeviceError(
            f"one program needs GPUs of one compute capability: {each}; use those that agree"
        )
    return all_of_them[device.first]


def gpu_problem() -> str:
    """Why no GPU can be used, in one line; empty if one can."""
    return _core.gpu_problem()
