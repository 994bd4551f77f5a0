# SPDX-License-Identifier: Apache-2.0
"""``denizen run bfs``: searches a graph out of a file and checks the answer."""

from __future__ import annotations

import time
from pathlib import Path

from denizen import graph, terminal
from denizen.errors import DataError, reading
from denizen.files import write_arrays
from denizen.graph.place import once


def run(
    file: Path,
    source: int,
    device: str,
    *,
    weights: bool = False,
    method: str = "auto",
    undirected: bool = False,
    save: Path | None = None,
) -> int:
    """The whole command; the exit status: 0 if the answer keeps Graph500's rules, else 1.

    ``weights``: shortest paths over the file's weights. ``save``: an .npz file for the arrays
    ``distances`` and ``parents``. Raises ArgumentError for what cannot be used,
    DataError for a file that cannot be opened.
    """
    begin = time.perf_counter()
    expected = "a graph: .gr, .mtx or a list of edges, also .gz, .xz"
    with terminal.working(f"reading {file.name}"), reading(file, expected):
        read = graph.read(file, undirected=undirected)
    seconds = time.perf_counter() - begin
    if weights and read.arcs and read.weights is None:
        raise DataError(
            f"{file}: its arcs have no weights; leave out --weights, or give a .gr, or a .mtx or "
            "list of edges with weights"
        )
    with terminal.working(f"searching {read.vertices:,} vertices"):
        place, why = once(read, device, method, weighted=weights)
        search = graph.Search(read, place)
        paths = search.shortest_paths(source, method) if weights else search.bfs(source, method)
        broken = graph.validate(read, paths)
    if broken:
        terminal.error(f"not verified: {broken}")
    else:
        print(f"verified {paths.reached:,} / {paths.reached:,}")
    if save is not None:
        write_arrays(save, distances=paths.distances, parents=paths.parents)
    rows = [
        ("device", search.device),
        *([("since", why)] if why else []),
        ("method", paths.method),
        ("vertices", f"{read.vertices:,}"),
        ("arcs", f"{read.arcs:,}"),
        ("reached", f"{paths.reached:,}"),
        ("largest distance", f"{int(paths.distances.max()):,}"),
        ("search", f"{1e3 * paths.seconds:,.3f} ms"),
        ("file read in", f"{seconds:.2f} s"),
    ]
    terminal.table("denizen run bfs", ("figure", "value"), rows, right=(1,))
    return 1 if broken else 0
