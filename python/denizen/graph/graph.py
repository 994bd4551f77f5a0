# SPDX-License-Identifier: Apache-2.0
"""Graphs as compressed sparse rows, and generators of some to measure with."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from denizen import _core
from denizen.errors import ArgumentError
from denizen.shown import Shown


class Graph(Shown):
    """The neighbours of v are ``neighbours[offsets[v]:offsets[v + 1]]``.

    Args:
        offsets: shape (vertices + 1,), from 0, never falling.
        neighbours: shape (arcs,), ascending within each row; vertices from 0.
        weights: shape (arcs,), integers from 0 to 2**32 - 1, or None.
        undirected: whether each arc has its twin of the same weight; searches of large levels
            are faster then, and wrong if it is not so.

    The arrays are copied. Raises ArgumentError for values out of range.
    """

    def __init__(
        self,
        offsets: ArrayLike,
        neighbours: ArrayLike,
        weights: ArrayLike | None = None,
        *,
        undirected: bool = False,
    ) -> None:
        self._core = _core.Graph(
            _words("offsets", offsets),
            _words("neighbours", neighbours),
            _words("weights", () if weights is None else weights),
            undirected,
        )

    def _facts(self) -> list[tuple[str, str]]:
        return [
            ("vertices", f"{self.vertices:,}"),
            ("arcs", f"{self.arcs:,}"),
            ("weights", "none" if self.weights is None else "uint32"),
        ]

    @classmethod
    def _of(cls, core: _core.Graph) -> Graph:
        graph = cls.__new__(cls)
        graph._core = core
        return graph

    @property
    def offsets(self) -> NDArray[np.uint32]:
        """Shape (vertices + 1,), read-only."""
        return self._core.offsets

    @property
    def neighbours(self) -> NDArray[np.uint32]:
        """Shape (arcs,), read-only."""
        return self._core.neighbours

    @property
    def weights(self) -> NDArray[np.uint32] | None:
        """Shape (arcs,), read-only; None if the graph has none."""
        return self._core.weights

    @property
    def undirected(self) -> bool:
        """Whether each arc has its twin."""
        return self._core.undirected

    @property
    def vertices(self) -> int:
        """Their number."""
        return len(self.offsets) - 1

    @property
    def arcs(self) -> int:
        """Their number; an undirected edge is two."""
        return len(self.neighbours)


def _words(what: str, given: ArrayLike) -> NDArray[np.uint32]:
    array = np.ascontiguousarray(given)
    if array.ndim != 1:
        raise ArgumentError(f"{what} has {array.ndim} dimensions; one is expected")
    if array.size and array.dtype.kind not in "iu":
        raise ArgumentError(f"{what} are {array.dtype}; integers are expected")
    if array.size and (int(array.min()) < 0 or int(array.max()) >= 2**32):
        raise ArgumentError(f"{what} go from {array.min()} to {array.max()}; 0 to 2**32 - 1 fit")
    return array.astype(np.uint32, copy=False)


def _size(what: str, value: int) -> int:
    if not 0 <= value < 2**32:
        raise ArgumentError(f"{what} = {value}; it must be 0 to 2**32 - 1")
    return value


def kronecker(scale: int, edge_factor: int = 16, seed: int = 1) -> Graph:
    """Graph500's Kronecker graph of 2**scale vertices, undirected (graph500.org, A 0.57, B 0.19).

    2**scale * edge_factor edges are drawn; loops and repetitions are dropped.
    """
    return Graph._of(
        _core.graph_kronecker(_size("scale", scale), _size("edge_factor", edge_factor), seed)
    )


def grid(rows: int, columns: int) -> Graph:
    """Each vertex joined to those beside, above and below; vertex r * columns + c."""
    return Graph._of(_core.graph_grid(_size("rows", rows), _size("columns", columns)))


def chain(vertices: int) -> Graph:
    """0 - 1 - 2 - ... - (vertices - 1)."""
    return grid(1, vertices)


def with_weights(graph: Graph, most: int, seed: int = 1) -> Graph:
    """The same graph with random weights of 1 to ``most``, those of both directions equal."""
    return Graph._of(_core.graph_with_weights(graph._core, _size("most", most), seed))
