# SPDX-License-Identifier: Apache-2.0
"""Breadth-first search and shortest paths from one source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from denizen import _core
from denizen.compilers import cubin_of
from denizen.device import capability
from denizen.errors import ArgumentError
from denizen.graph.graph import Graph
from denizen.graph.place import once, place_of
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
        device: "cpu", "cpu:THREADS", "gpu", "gpu:N" or "auto": the first GPU, unless a thread of
            the host answers sooner by an estimate from the beginning of a search (see ``why``); the
            CPU where there is no GPU.

    While a search uses a GPU, the resident programs of this process leave it, and come back by
    themselves. One call at a time. Raises DeviceError, CompileError, ExhaustedError (memory).
    """

    def __init__(self, graph: Graph, device: str = "auto") -> None:
        where, self._why = place_of(graph, device)
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

    @property
    def why(self) -> str:
        """It is that device; "" unless "auto" had two to choose from."""
        return self._why

    def bfs(self, source: int, method: str = "auto") -> Paths:
        """Breadth-first search from ``source``.

        Args:
            source: a vertex.
            method: "narrow" (one block, for roads, meshes, chains; wide levels are handed over),
                "wide" (one resident kernel with a barrier of the grid per level), "launches" (a
                kernel launch per level; GPU only), "graph" (a captured graph whose while node
                repeats the level's kernel; GPU only), "serial" (the textbook's queue; CPU only),
                "tasks" (asynchronous resident tasks with a priority by level), or "auto": wide for
                graphs with hubs and few levels (on the CPU from 2**17 arcs on), for others narrow
                on a GPU and serial on the CPU.

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
    """One breadth-first search; see Search.

    "auto" counts what it takes to bring the graph to a GPU; with a method it is where that can
    run, a GPU first.
    """
    place, _ = once(graph, device, method, weighted=False)
    return Search(graph, place).bfs(source, method)


def shortest_paths(
    graph: Graph, source: int, *, device: str = "auto", method: str = "auto"
) -> Paths:
    """One search for shortest paths; see Search and bfs()."""
    place, _ = once(graph, device, method, weighted=True)
    return Search(graph, place).shortest_paths(source, method)


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
