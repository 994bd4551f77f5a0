# SPDX-License-Identifier: Apache-2.0
"""Searches over real streets, and a map that is drawn from their answers alone."""

from __future__ import annotations

from importlib.resources import as_file

import numpy as np
from numpy.typing import NDArray

from denizen.tour import draw
from denizen.tour.step import Found, Picture, Place, data

_MARKS = 24  # vertices that the map is measured from
_SIZE = 720


def _breadth_first(
    offsets: NDArray[np.uint32], neighbours: NDArray[np.uint32], source: int
) -> NDArray[np.int32]:
    """The textbook's search, in Python."""
    distance = np.full(len(offsets) - 1, -1, np.int32)
    distance[source] = 0
    level, far = [source], 0
    while level:  # ends: each vertex is in one level
        far += 1
        after = []
        for v in level:
            for u in neighbours[offsets[v] : offsets[v + 1]].tolist():
                if distance[u] < 0:
                    distance[u] = far
                    after.append(u)
        level = after
    return distance


def _places(distances: NDArray[np.float64], marks: list[int]) -> NDArray[np.float64]:
    """Where each vertex lies, by its distances to the marks: landmark MDS (de Silva and Tenenbaum,
    2004). Shape (vertices, 2), from 0 to 1."""
    squares = distances**2
    among = squares[:, marks]
    middle = np.eye(len(marks)) - 1 / len(marks)
    values, vectors = np.linalg.eigh(-middle @ among @ middle / 2)
    two = np.argsort(-values)[:2]
    along = vectors[:, two] / np.sqrt(values[two])
    at = -(along.T @ (squares - among.mean(axis=1)[:, None])).T / 2
    at -= at.min(axis=0)
    spread: NDArray[np.float64] = at / at.max()
    return spread


def run(place: Place) -> Found:
    from denizen import graph  # noqa: PLC0415

    with as_file(data("roads.edges.xz")) as path:
        roads = graph.read(path, undirected=True)
    place.tell("compiling the searches" if place.device.startswith("gpu") else "searching")
    search = graph.Search(roads, place.device)
    methods = ("narrow", "wide", "tasks")
    found = {method: search.bfs(0, method) for method in methods}
    wrong = None
    place.tell("the textbook's search in Python")
    expected = _breadth_first(roads.offsets, roads.neighbours, 0)
    for method, paths in found.items():
        broken = graph.validate(roads, paths)
        if broken and wrong is None:
            wrong = f"the method {method} breaks a rule of Graph500: {broken}"
        differ = np.flatnonzero(paths.distances != expected)
        if differ.size and wrong is None:
            v = int(differ[0])
            wrong = (
                f"the method {method} finds vertex {v} {paths.distances[v]} roads away; "
                f"it is {expected[v]}"
            )
    place.tell("searching from 24 places for the map")
    marks = [0]
    rows: list[NDArray[np.float64]] = []
    for _ in range(_MARKS):
        rows.append(search.bfs(marks[-1], "narrow").distances.astype(np.float64))
        marks.append(int(np.argmax(np.min(rows, axis=0))))
    at = _places(np.array(rows), marks[:_MARKS])
    level = expected / max(1, int(expected.max()))
    source = np.repeat(np.arange(roads.vertices), np.diff(roads.offsets).astype(np.int64))
    ahead = source < roads.neighbours
    ends = np.stack([source[ahead], roads.neighbours[ahead].astype(np.int64)], axis=1)
    narrow = found["narrow"]
    return Found(
        did=f"Breadth-first searches of {roads.vertices:,} junctions and {len(ends):,} roads: "
        "by one "
        "worker level by level, by all with a barrier for each level, and by resident tasks that "
        "spawn one another; then from 24 places, which gives the map.",
        checked=f"All {len(methods)} methods find each junction as far away as the textbook's "
        "search in "
        "Python, and keep Graph500's rules.",
        wrong=wrong,
        device=search.device,
        figures=[
            ("reached", f"{narrow.reached:,} of {roads.vertices:,}"),
            ("farthest", f"{narrow.levels - 1} roads away"),
            *(
                (f"search, {method}", f"{1e3 * paths.seconds:.2f} ms")
                for method, paths in found.items()
            ),
        ],
        pictures=[
            Picture(
                _map(at, ends, level),
                "The streets, placed by how many roads lie between junctions, not by coordinates: "
                "bright is far from the one where the search began.",
            )
        ],
        screen=draw.pixels_in_text(_raster(at, level)),
    )


def _map(at: NDArray[np.float64], ends: NDArray[np.int64], level: NDArray[np.float64]) -> str:
    """Roads of one colour are one path: the page stays small."""
    bands = 24
    band = np.minimum((level[ends].mean(axis=1) * bands).astype(int), bands - 1)
    points = at * (_SIZE - 20) + 10
    body = []
    for k in range(bands):
        lines = "".join(
            f"M{points[a, 0]:.1f} {points[a, 1]:.1f}L{points[b, 0]:.1f} {points[b, 1]:.1f}"
            for a, b in ends[band == k].tolist()
        )
        body.append(f'<path d="{lines}" stroke="{draw.css(draw.viridis((k + 0.5) / bands))}"/>')
    height = float(points[:, 1].max()) + 10
    whole = f'<g fill="none" stroke-width="1">{"".join(body)}</g>'
    return draw.svg(_SIZE, height, whole, "map of the streets, by distance")


def _raster(at: NDArray[np.float64], level: NDArray[np.float64]) -> draw.Colours:
    width, height = 72, 64
    image = np.zeros((height, width, 3), np.uint8)
    column = np.minimum((at[:, 0] * width).astype(int), width - 1)
    row = np.minimum((at[:, 1] * height).astype(int), height - 1)
    image[row, column] = draw.viridis(0.15 + 0.85 * level)
    return image
