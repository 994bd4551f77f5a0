# SPDX-License-Identifier: Apache-2.0
"""Where a graph is searched if nobody says: on a GPU or by a thread of the host."""

from __future__ import annotations

from denizen import _core
from denizen.device import Device, parse_device
from denizen.errors import ArgumentError
from denizen.graph.graph import Graph


def place_of(graph: Graph, device: str) -> tuple[Device, str]:
    """For many searches: what ``device`` names, and why it is that one, "" unless it is "auto"."""
    where = _one(device)
    if device != "auto" or not where.on_gpu:
        return where, ""
    gpu, why = _core.graph_sooner(graph._core, False, False)
    return where if gpu else parse_device("cpu"), why


def once(graph: Graph, device: str, method: str, *, weighted: bool) -> tuple[str, str]:
    """For one search: the name of a device, and why as place_of().

    "auto" counts the way to the GPU; with a method it is where that can run, a GPU first.
    """
    if device != "auto" or not _one(device).on_gpu:
        return device, ""
    if method != "auto":
        return ("cpu" if method == "serial" else "gpu"), ""
    gpu, why = _core.graph_sooner(graph._core, True, weighted)
    return ("gpu" if gpu else "cpu"), why


def _one(device: str) -> Device:
    where = parse_device(device)
    if where.nodes != 1:
        raise ArgumentError(f'device "{device}"; a search uses one GPU or the CPU')
    return where
