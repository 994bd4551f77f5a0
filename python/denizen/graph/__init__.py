# SPDX-License-Identifier: Apache-2.0
"""Graphs: breadth-first search and shortest paths on a GPU or on CPU threads.

    from denizen import graph

    roads = graph.read("NY.gr.xz")
    paths = graph.bfs(roads, source=0)
    print(paths.levels, paths.distances[1000], paths.parents[1000])

Files, methods and how results are checked: docs/graphs.md.
"""

from denizen.graph.files import read
from denizen.graph.graph import Graph, chain, grid, kronecker, with_weights
from denizen.graph.search import Paths, Search, bfs, shortest_paths, validate

__all__ = [
    "Graph",
    "Paths",
    "Search",
    "bfs",
    "chain",
    "grid",
    "kronecker",
    "read",
    "shortest_paths",
    "validate",
    "with_weights",
]
