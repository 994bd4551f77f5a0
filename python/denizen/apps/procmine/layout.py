# SPDX-License-Identifier: Apache-2.0
"""Places of a process map: a plain layered layout after Sugiyama, Tagawa and Toda (1981).

Layers go from the top down, along the strongest steps from where cases begin; steps that go up are
loops back. Only main edges are led around nodes: the rest, which is hidden at first, goes straight.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

WIDTH, HEIGHT = 216.0, 64.0  # of a node
_GAP, _LAYER_GAP, _BEND, _BOW = 22.0, 62.0, 8.0, 90.0
_SWEEPS = 12

Step = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Layout:
    """Middles of nodes, the points that each edge passes from one to the other, the size of all."""

    nodes: list[tuple[float, float]]
    edges: list[list[tuple[float, float]]]
    width: float
    height: float


def _ranks(count: int, steps: Sequence[Step], weight: Sequence[float], top: int) -> list[int]:
    """Numbers of the nodes in the order in which they are reached from ``top``, each by the
    strongest step from those that were reached before (as Prim's tree grows)."""
    rank: dict[int, int] = {}
    order = sorted(zip(weight, steps, strict=True), key=lambda step: (-step[0], step[1]))
    while len(rank) < count:
        found = next((b for _, (a, b) in order if a in rank and b not in rank), None)
        if found is None:  # the first one, and what no step leads to
            found = top if top not in rank else next(n for n in range(count) if n not in rank)
        rank[found] = len(rank)
    return [rank[node] for node in range(count)]


def _layers(rank: Sequence[float], steps: Sequence[Step], weight: Sequence[float]) -> list[int]:
    """The longest way down to each node along what leads most strongly there and away from it."""
    best_in: dict[int, tuple[float, Step]] = {}
    best_out: dict[int, tuple[float, Step]] = {}
    for step, strength in zip(steps, weight, strict=True):
        a, b = step
        if rank[a] < rank[b]:
            best_in[b] = max(best_in.get(b, (-1.0, step)), (strength, step))
            best_out[a] = max(best_out.get(a, (-1.0, step)), (strength, step))
    down = {step for _, step in (*best_in.values(), *best_out.values())}
    layer = [0] * len(rank)
    for a in sorted(range(len(rank)), key=lambda node: rank[node]):
        for b in (to for come, to in down if come == a):
            layer[b] = max(layer[b], layer[a] + 1)
    return layer


def _crossings(below: dict[int, list[int]], row: list[int], next_row: list[int]) -> int:
    place = {node: i for i, node in enumerate(next_row)}
    ends = [place[b] for node in row for b in sorted(below[node], key=place.__getitem__)]
    return sum(ends[i] > later for i in range(len(ends)) for later in ends[i + 1 :])


def _ordered(rows: list[list[int]], links: set[Step]) -> list[list[int]]:
    """Rows in the best order that sweeps of the barycentre rule come by."""
    above: dict[int, list[int]] = defaultdict(list)
    below: dict[int, list[int]] = defaultdict(list)
    for a, b in sorted(links):
        below[a].append(b)
        above[b].append(a)

    def crossings(of: list[list[int]]) -> int:
        return sum(_crossings(below, of[i], of[i + 1]) for i in range(len(of) - 1))

    best, least = [list(row) for row in rows], crossings(rows)
    for sweep in range(_SWEEPS):
        if least == 0:
            break
        downwards = sweep % 2 == 0
        near = above if downwards else below
        numbers = range(1, len(rows)) if downwards else range(len(rows) - 2, -1, -1)
        for i in numbers:
            beside = rows[i - 1 if downwards else i + 1]
            place = {node: k for k, node in enumerate(beside)}
            own = {node: k for k, node in enumerate(rows[i])}

            def middle(
                node: int, near: dict[int, list[int]] = near, place: dict[int, int] = place,
                own: dict[int, int] = own,
            ) -> float:  # fmt: skip
                found = [place[other] for other in near[node]]
                return sum(found) / len(found) if found else own[node]

            rows[i] = sorted(rows[i], key=middle)
        if (now := crossings(rows)) < least:
            best, least = [list(row) for row in rows], now
    return best


def _across(rows: list[list[int]], links: set[Step], width: dict[int, float]) -> dict[int, float]:
    """Places from left to right: each node is drawn to those it is linked with, none overlap."""
    near: dict[int, list[int]] = defaultdict(list)
    for a, b in links:
        near[a].append(b)
        near[b].append(a)
    x: dict[int, float] = {}
    for row in rows:
        at = 0.0
        for node in row:
            x[node] = at + width[node] / 2
            at += width[node] + _GAP
        for node in row:
            x[node] -= (at - _GAP) / 2
    for sweep in range(_SWEEPS):
        for row in rows if sweep % 2 == 0 else reversed(rows):
            wish = {
                node: sum(x[o] for o in near[node]) / len(near[node]) if near[node] else x[node]
                for node in row
            }
            # From the left as far left as may be, from the right as far right; the middle of both.
            left: dict[int, float] = {}
            right: dict[int, float] = {}
            for i, node in enumerate(row):
                room = (
                    left[row[i - 1]] + (width[row[i - 1]] + width[node]) / 2 + _GAP if i else None
                )
                left[node] = wish[node] if room is None else max(wish[node], room)
            for i in range(len(row) - 1, -1, -1):
                node = row[i]
                after = row[i + 1] if i + 1 < len(row) else None
                limit = (
                    None
                    if after is None
                    else right[after] - (width[after] + width[node]) / 2 - _GAP
                )
                right[node] = wish[node] if limit is None else min(wish[node], limit)
            for node in row:
                x[node] = (left[node] + right[node]) / 2
    return x


def lay_out(
    count: int,
    steps: Sequence[Step],
    weight: Sequence[float],
    main: Sequence[bool],
    ends: tuple[int, int],
) -> Layout:
    """Lay out nodes 0 to count - 1.

    ``steps``: edges between two nodes; those from a node to itself are bows at its side.
    ``weight``: of each edge; the strongest decide the layers. ``main``: whether it is one of the
    main edges. ``ends``: the node at the top and the one at the bottom.
    """
    rank = _ranks(count, steps, weight, ends[0])
    rank[ends[1]] = count
    layer = _layers(rank, steps, weight)
    layer[ends[1]] = max(layer) + (layer.count(max(layer)) > 1 or layer[ends[1]] < max(layer))
    rows: list[list[int]] = [[] for _ in range(max(layer) + 1)]
    for node in sorted(range(count), key=lambda n: rank[n]):
        rows[layer[node]].append(node)
    width = dict.fromkeys(range(count), WIDTH)
    width.update((a, WIDTH + _BOW) for a, b in steps if a == b)
    links: set[Step] = set()
    chains: list[list[int]] = []  # the nodes of each edge from up to down, bends among them
    for (a, b), bends in zip(steps, main, strict=True):
        top, bottom = (a, b) if layer[a] <= layer[b] else (b, a)
        chain = [top]
        for between in range(layer[top] + 1, layer[bottom]) if bends else ():
            bend = len(width)
            width[bend] = _BEND
            rows[between].append(bend)
            chain.append(bend)
        chain.append(bottom)
        chains.append(chain if top == a else chain[::-1])
        if bends and layer[top] != layer[bottom]:
            links.update(pairwise(chain))
    rows = _ordered(rows, links)
    x = _across(rows, links, width)
    left = min(x[node] - width[node] / 2 for node in x) - _GAP
    depth = {node: i for i, row in enumerate(rows) for node in row}

    def place(node: int) -> tuple[float, float]:
        return round(x[node] - left, 1), round((depth[node] + 0.5) * (HEIGHT + _LAYER_GAP), 1)

    return Layout(
        [place(node) for node in range(count)],
        [[place(node) for node in chain] for chain in chains],
        max(x[node] + width[node] / 2 for node in x) - left + 2 * _GAP,
        len(rows) * (HEIGHT + _LAYER_GAP),
    )
