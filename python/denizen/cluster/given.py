# SPDX-License-Identifier: Apache-2.0
"""What a cluster is given, checked before a process is started. Raises ArgumentError."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from denizen.cluster.ray_placement import RayPlacement
from denizen.device import parse_device
from denizen.errors import ArgumentError

MOST_HOSTS = 1023
_DAY = 86_400.0


def times(deadline: float, spin: float, start_timeout: float) -> tuple[float, float, float]:
    """Each in seconds."""
    return (
        _seconds("deadline", deadline, 0.01),
        _seconds("spin", spin, 0.0),
        _seconds("start_timeout", start_timeout, 0.0),
    )


def _seconds(name: str, given: Any, least: float) -> float:
    try:
        value = float(given + 0.0)
    except (TypeError, ValueError):
        value = math.nan
    if not least <= value <= _DAY:
        raise ArgumentError(f"{name} = {given!r}; use {least:g} to {_DAY:.0f} s")
    return value


def whole(name: str, given: Any) -> int:
    """A number of bytes."""
    try:
        value = operator.index(given)
    except TypeError:
        value = -1
    if not 0 <= value < 2**63:
        raise ArgumentError(f"{name} = {given!r}; use a whole number from 0")
    return value


def check_address(address: str | None) -> None:
    if address is not None and not isinstance(address, str):
        raise ArgumentError(f'address = {address!r}; give a text, as "127.0.0.1"')


def on_cpu(devices: Sequence[str]) -> bool:
    return all(not parse_device(d).on_gpu for d in devices)


def placed(
    placement: RayPlacement | str | None, hosts: int | Sequence[str] | None
) -> tuple[RayPlacement | None, int | Sequence[str] | None]:
    """Where Ray places hosts, if it does, and how many."""
    if isinstance(placement, str):
        if placement != "ray":
            raise ArgumentError(f'placement = "{placement}"; use "ray", or leave it out')
        placement = RayPlacement()
    if placement is not None and not isinstance(placement, RayPlacement):
        raise ArgumentError(f'placement = {placement!r}; use "ray" or a RayPlacement')
    if hosts == "ray":
        placement = placement or RayPlacement()
        nodes = placement.other_nodes()
        if not nodes:
            raise ArgumentError(
                'hosts = "ray": Ray has no node but the one of this process; give a number of '
                'hosts and placement = "ray"'
            )
        placement = replace(placement, nodes=nodes)
    if hosts is None or hosts == "ray":
        hosts = 1 + len(placement.nodes) if placement is not None and placement.nodes else None
    return placement, hosts


def devices_of(hosts: int | Sequence[str], device: str) -> list[str]:
    if isinstance(hosts, int | np.integer) and not isinstance(hosts, bool):
        devices = [device] * int(hosts)
    elif isinstance(hosts, list | tuple):
        devices = [str(d) for d in hosts]
    else:
        raise ArgumentError(
            f'hosts = {hosts!r}; give a number, a list with the device of each, or "ray"'
        )
    if not 1 <= len(devices) <= MOST_HOSTS:
        raise ArgumentError(f"hosts = {hosts!r}; use 1 to {MOST_HOSTS}")
    return devices
