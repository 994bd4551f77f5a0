# SPDX-License-Identifier: Apache-2.0
"""Breadth-first search and shortest paths from one source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from denizen import _core
from denizen.compilers import cubin_of
from denizen.device import capability, parse_device
from denizen.errors import ArgumentError
from denizen.graph.graph import Graph
from denizen.shown import Shown

_KERNELS = "#include <denizen/graph/detail/kernels.hpp>\n"


@dataclass(frozen=True, slots=True)
class Paths:
    """What a search found.

    Attributes:
        distances: shape (vertices,), int32: arcs, or the sum of weights; -1 where it did not come.
        parents: shape (vertices,), int32: the vertex before it on a shortest path, -1 where the
            search did not come; the source is its own.
        source: where it began.
        reached: how many vertices, the source among them.
        levels: of a breadth-first search, the largest distance + 1; else 0.
        seconds: by the clock of the device, from clearing the results to their being complete:
            without copies and compiling.
        method: that was used: "narrow", "wide", "launches", "graph", "serial" or
            "tasks".
        weighted: whether it is an answer of shortest_paths().
    """

    distances: NDArray[np.int32]
    parents: NDArray[np.int32]
    source: int
    reached: int
    levels: int
    seconds: float
    method: str
    weighted: bool


class Search(Shown):
    """A graph made ready on a device, for many searches.

    Args:
        graph: the graph.
        device: "auto" (the first GPU, else the CPU), "cpu", "cpu:THREADS", "gpu" or "gpu:N".

    While a search uses a GPU, the resident programs of this process leave it, and come back by
    themselves. One call at a time. Raises DeviceError, CompileError, ExhaustedError (memory).
    """

    def __init__(self, graph: Graph, device: str = "auto") -> None:
        where = parse_device(device)
        if where.nodes != 1:
            raise ArgumentError(f'device "{device}"; a search uses one GPU or the CPU')
        cubin = b""
        if where.on_gpu:
            cubin = cubin_of(_KERNELS, "the graph searches", capability(where))
        self._graph = graph
        self._core = _core.GraphSearch(
            graph._core, where.on_gpu, where.first, cubin, where.threads or 0
        )

    def _facts(self) -> list[tuple[str, str]]:
        return [
            ("of", f"{self._graph.vertices:,} vertices"),
            ("on", self.device),
        ]

    @property
    def device(self) -> str:
        """Its name."""
        return self._core.device

    @property
    def on_gpu(self) -> bool:
        """Whether it is a GPU."""
        return self._core.on_gpu

    def bfs(self, source: int, method: str = "auto") -> Paths:
        """Breadth-first search from ``source``.

        Args:
            source: a vertex.
            method: "narrow" (one block, for roads, meshes, chains; wide levels are handed over),
                "wide" (one resident kernel with a barrier of the grid per level), "launches" (a
                kernel launch per level; GPU only), "graph" (a captured graph whose while node
                repeats the level's kernel; GPU only), "serial" (the textbook's queue; CPU only),
                "tasks" (asynchronous resident tasks with a priority by level), or "auto": wide for
                graphs with hubs, for others narrow on a GPU and serial on the CPU.

        Raises ArgumentError for a source that is no vertex or a method the device does not have.
        """
        return self._paths(source, self._core.bfs(self._vertex(source), method), weighted=False)

    def shortest_paths(self, source: int, method: str = "auto") -> Paths:
        """Shortest paths over the graph's weights from ``source``.

        Args:
            source: a vertex.
            method: "narrow" or "wide" (near-far by one block, or by all of one resident kernel;
                Davidson et al., IPDPS 2014), "serial" (Dijkstra's algorithm with a radix heap; CPU
                only), or "auto": serial on the CPU, on a GPU narrow for graphs without hubs.

        Raises ArgumentError without weights or for a method the device does not have, MessageError
        for a path longer than 2**31 - 1.
        """
        found = self._core.shortest_paths(self._vertex(source), method)
        return self._paths(source, found, weighted=True)

    def _vertex(self, source: int) -> int:
        if not 0 <= source < self._graph.vertices:
            raise ArgumentError(
                f"source {source} is no vertex: there are {self._graph.vertices}, from 0"
            )
        return int(source)

    def _paths(self, source: int, found: tuple[Any, ...], *, weighted: bool) -> Paths:
        distances, parents, reached, levels, seconds, method = found
        return Paths(distances, parents, int(source), reached, levels, seconds, method, weighted)


def bfs(graph: Graph, source: int, *, device: str = "auto", method: str = "auto") -> Paths:
    """One breadth-first search; see Search."""
    return Search(graph, device).bfs(source, method)


def shortest_paths(
    graph: Graph, source: int, *, device: str = "auto", method: str = "auto"
) -> Paths:
    """One search for shortest paths; see Search."""
    return Search(graph, device).shortest_paths(source, method)


def validate(graph: Graph, paths: Paths) -> str:
    """The first rule of Graph500 that ``paths`` break, and where; empty if none.

    The rules (graph500.org, specification 3.4) need no second search: the parents form a tree of
    real arcs, each exactly as long as its ends are apart, and no arc is shorter than that.
    """
    return _core.graph_broken_rule(
        graph._core,
        paths.source,
        np.ascontiguousarray(paths.distances, np.int32),
        np.ascontiguousarray(paths.parents, np.int32),
        paths.weighted,
    )
