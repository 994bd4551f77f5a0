# SPDX-License-Identifier: Apache-2.0
"""Breadth-first search and shortest paths by SciPy and NetworkX, beside ``bench_bfs``."""

from __future__ import annotations

import importlib.util
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from denizen import graph
from denizen.lab.record import Measured, Scalar

Distances = NDArray[np.int32]
# Searches from a vertex; and then, outside the timed region, gives the distances it found.
Search = Callable[[int], Callable[[], Distances]]

# Of a graph for NetworkX: its dictionaries of a Kronecker graph of scale 20 take 10 GB and minutes.
_MOST_ARCS = 3_000_000
_LONG_S = 3.0  # a search is not repeated once it has taken so long in all


def _scipy(g: graph.Graph) -> Search:
    from scipy.sparse import csr_array  # noqa: PLC0415
    from scipy.sparse.csgraph import breadth_first_order  # noqa: PLC0415

    parts = (
        np.ones(g.arcs),
        g.neighbours.astype(np.int32),
        g.offsets.astype(np.int32),
    )
    matrix = csr_array(parts, (g.vertices, g.vertices))

    def search(source: int) -> Callable[[], Distances]:
        order, before = breadth_first_order(matrix, source)

        def distances() -> Distances:
            found = np.full(g.vertices, -1, np.int32)
            found[source] = 0
            for v in order[1:]:
                found[v] = found[before[v]] + 1
            return found

        return distances

    return search


def _scipy_paths(g: graph.Graph) -> Search:
    from scipy.sparse import csr_array  # noqa: PLC0415
    from scipy.sparse.csgraph import dijkstra  # noqa: PLC0415

    assert g.weights is not None
    parts = (
        g.weights.astype(np.float64),
        g.neighbours.astype(np.int32),
        g.offsets.astype(np.int32),
    )
    matrix = csr_array(parts, (g.vertices, g.vertices))

    def search(source: int) -> Callable[[], Distances]:
        lengths, _ = dijkstra(matrix, indices=source, return_predecessors=True)
        return lambda: np.where(np.isinf(lengths), -1, lengths).astype(np.int32)

    return search


def _networkx(g: graph.Graph) -> dict[str, Search]:
    import networkx  # noqa: PLC0415

    assert g.weights is not None
    other = networkx.Graph()
    other.add_nodes_from(range(g.vertices))
    rows = np.repeat(np.arange(g.vertices), np.diff(g.offsets))
    once = rows <= g.neighbours  # every edge is two arcs
    other.add_weighted_edges_from(
        zip(*(part[once].tolist() for part in (rows, g.neighbours, g.weights)), strict=True)
    )

    def by(method: Callable[..., dict[int, int]]) -> Search:
        def search(source: int) -> Callable[[], Distances]:
            lengths = method(other, source)

            def distances() -> Distances:
                found = np.full(g.vertices, -1, np.int32)
                found[list(lengths)] = list(lengths.values())
                return found

            return distances

        return search

    return {
        "NetworkX": by(networkx.single_source_shortest_path_length),
        "shortest paths, NetworkX": by(networkx.single_source_dijkstra_path_length),
    }


def _graphs(*, quick: bool) -> dict[str, graph.Graph]:
    graphs = {"chain 20,000": graph.chain(20_000)}
    for name in ("NY", "FLA"):
        file = Path(os.environ.get("DENIZEN_GRAPHS", "")) / f"{name}.gr"
        for there in (file, file.with_suffix(".gr.xz")):
            if "DENIZEN_GRAPHS" in os.environ and there.is_file():
                graphs[name] = graph.read(there)
                break
    scale = 14 if quick else 20
    graphs[f"Kronecker {scale}"] = graph.kronecker(scale)
    return graphs


def bfs(_device: str, *, quick: bool) -> list[Measured]:
    """Milliseconds of their searches by one thread of the CPU, whatever the device.

    SciPy's find parents (breadth-first: and the order, not distances), NetworkX's distances; both
    are compared with denizen's. Shortest paths are over random weights of 1 to 1,000. Nothing for
    what is not installed, for road graphs that DENIZEN_GRAPHS does not hold, or from NetworkX for
    graphs of more than 3,000,000 arcs.
    """
    measured = []
    for name, g in _graphs(quick=quick).items():
        source = int(np.flatnonzero(np.diff(g.offsets))[0])
        weighted = graph.with_weights(g, 1000)
        ways: dict[str, Search] = {}
        if importlib.util.find_spec("scipy"):
            ways |= {"SciPy": _scipy(g), "shortest paths, SciPy": _scipy_paths(weighted)}
        if importlib.util.find_spec("networkx") and g.arcs <= _MOST_ARCS:
            ways |= _networkx(weighted)
        found = graph.bfs(g, source, device="cpu").distances
        paths = graph.shortest_paths(weighted, source, device="cpu").distances
        for what, search in ways.items():
            expected = paths if what.startswith("shortest paths") else found
            measured.append(_time(what, {"graph": name}, search, source, expected, quick=quick))
    return measured


def _time(
    what: str,
    params: dict[str, Scalar],
    search: Search,
    source: int,
    expected: Distances,
    *,
    quick: bool,
) -> Measured:
    samples: list[float] = []
    right = True
    while len(samples) < (3 if quick else 11) and sum(samples) < 1e3 * _LONG_S:
        begin = time.perf_counter()
        distances = search(source)
        samples.append(1e3 * (time.perf_counter() - begin))
        right &= bool((distances() == expected).all())
    return Measured(what, params, "ms", np.array(samples), len(samples), right)
