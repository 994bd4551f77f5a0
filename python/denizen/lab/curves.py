# SPDX-License-Identifier: Apache-2.0
"""Curves over a parameter: what a case reaches by size, by threads, by how much is in flight.

One SVG for each scale of a record: both axes logarithmic, a line for each case, its 95 % intervals
as whiskers. Which cases a picture has, and by what, is listed here; the figures are the record's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from denizen import machine
from denizen.lab import pictures
from denizen.lab.record import Record, Row, Scalar
from denizen.lab.summary import short

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP = 480.0, 300.0, 62.0, 14.0, 62.0
_LEAST = 3  # values of the parameter
_MOST = 8  # lines
_HUES = ("0969da", "1a7f37", "b3261e", "8250df", "9a6700", "0a7b83", "bf3989", "57606a")
_DARK = ("58a6ff", "3fb950", "ff7b72", "bc8cff", "d29922", "39c5cf", "f778ba", "9198a1")
_STYLE = (
    ".card{fill:#fff;stroke:#d0d7de}text{font:13px system-ui,sans-serif;fill:#1f2328}"
    ".small{font-size:11.5px;fill:#59636e}.grid{stroke:#d8dee4}polyline{fill:none;stroke-width:2}"
    + "".join(f".c{i}{{stroke:#{hue};fill:#{hue}}}" for i, hue in enumerate(_HUES))
    + "@media(prefers-color-scheme:dark){.card{fill:#161b22;stroke:#3d444d}text{fill:#e6edf3}"
    ".small{fill:#9198a1}.grid{stroke:#30363d}"
    + "".join(f".c{i}{{stroke:#{hue};fill:#{hue}}}" for i, hue in enumerate(_DARK))
    + "}polyline{fill:none!important}"
)


@dataclass(frozen=True, slots=True)
class _Scale:
    """``cases`` of ``experiment`` over the parameter ``by``; a line for each value of ``apart``.

    Only rows that have what ``where`` says: a value, or the value of another parameter.
    """

    experiment: str
    by: str
    cases: tuple[str, ...]
    apart: tuple[str, ...] = ()
    where: tuple[tuple[str, Scalar], ...] = ()

    def takes(self, row: Row) -> bool:
        """Whether the row has what ``where`` says."""
        found = row.params
        return all(
            key in found and found[key] in (value, found.get(str(value)))
            for key, value in self.where
        )


_SCALES = (
    _Scale("saxpy", "bytes", ("saxpy, one core",), ("buffers", "kind")),
    _Scale(
        "saxpy", "buffers", ("saxpy, one core, many buffers",), ("bytes",), (("kind", "futex"),)
    ),
    _Scale(
        "saxpy", "buffers", ("ring, movement removed",), ("cores",),
        (("bytes", 16_384), ("kind", "futex")),
    ),
    _Scale(
        "saxpy", "cores", ("ring", "ring, movement removed"), ("bytes",),
        (("buffers", "cores"), ("kind", "futex")),
    ),
    _Scale(
        "saxpy", "kernels", ("kernels on cores",), ("cores",),
        (("kind", "futex"), ("bound", "static")),
    ),
    _Scale("flow", "blocks", ("chain of saxpy", "chain of saxpy, GNU Radio")),
    _Scale("flow", "blocks", ("chain with data", "chain with data, GNU Radio")),
    _Scale(
        "throughput", "n",
        ("tasks, resident", "tasks, sync", "tasks, batched", "tasks, graph", "tasks, bulk"),
        ("tasks_per_message",),
    ),
    _Scale(
        "throughput", "n",
        ("pair, one at a time", "pair, pipelined", "pair, two launches + syncs", "pair, graph",
         "pair, batched", "pair, bulk"),
    ),
    _Scale("beside", "breath_us", ("random targets", "random targets, seen by the host")),
    _Scale("routes", "bytes", ("one way",), ("route",)),
    _Scale("geometry", "in flight", ("random",), ("geometry",)),
    _Scale("actors", "threads", ("HLC tick", "HLC update", "two words and a mutex"), ("on",)),
    _Scale("actors", "actors", ("spawn at once",)),
    _Scale("adsb", "db", ("detection", "detection, dump1090")),
    _Scale(
        "group", "bytes",
        ("inside a kernel", "message to a resident group", "kernel in a graph", "NCCL in a graph",
         "NCCL in a graph, windows", "NCCL eager, synchronised"),
        ("ranks",),
    ),
    _Scale("arena", "bytes", ("malloc", "malloc, device malloc", "malloc, bump pointer")),
    _Scale(
        "arena", "threads",
        ("churn", "churn, malloc", "churn, std::pmr::synchronized_pool_resource"),
        ("bytes", "touch"),
    ),
    _Scale(
        "pools", "bytes",
        ("buffer", "buffer, pinned", "cudaMallocAsync", "cudaMallocAsync + sync", "cudaMalloc",
         "cudaMallocHost", "aligned_alloc"),
        ("resident",),
    ),
    _Scale("transactions", "warps", ("streamed", "resident in device memory"), ("memory",)),
    _Scale("transactions", "workers", ("alert latency",), ("rate_m",)),
    _Scale(
        "wave", "cells",
        ("auto", "graph", "launches", "plain graph", "copy", "CPU threads",
         "update of two arrays"),
    ),
    _Scale("scale", "hosts", ("messages of a host, simulated",), ("cores",)),
    _Scale("driver", "bytes", ("copy",), ("direction", "memory")),
    _Scale("driver", "kernels", ("graph, a chain", "launches, a chain")),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Line:
    name: str
    points: tuple[tuple[float, Row], ...]


def _number(value: object) -> float | None:
    """The parameter as a number: that of ``6 to 9`` is 6."""
    if isinstance(value, str):
        head = value.split(" to ", maxsplit=1)[0]
        value = float(head) if head.replace(".", "", 1).isdecimal() else None
    return float(value) if isinstance(value, (int, float)) and value > 0 else None


def _lines(scale: _Scale, record: Record) -> list[_Line]:
    found: dict[str, dict[float, Row]] = {}
    for case in scale.cases:
        rows = [
            row for row in record.rows if row.case == case and row.median > 0 and scale.takes(row)
        ]
        for row in rows:
            at = _number(row.params.get(scale.by))
            if at is None or row.unit != rows[0].unit:
                continue
            which = [
                f"{key} {value}"
                for key in scale.apart
                if (value := row.params.get(key)) is not None
                and len({other.params.get(key) for other in rows}) > 1
            ]
            name = ", ".join([case, *which])
            found.setdefault(name, {}).setdefault(at, row)
    lines = [_Line(name, tuple(sorted(points.items()))) for name, points in found.items()]
    return [line for line in lines if len(line.points) >= _LEAST][:_MOST]


def _ticks(low: float, high: float) -> list[float]:
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    steps = (1.0,) if last - first > 3 else (1.0, 2.0, 5.0)
    every = [step * 10.0**power for power in range(first, last + 1) for step in steps]
    inside = [value for value in every if low <= value <= high]
    return inside[:: max(1, math.ceil(len(inside) / 6))]


def _draw(title: str, about: str, by: str, lines: Sequence[_Line]) -> str:
    xs = [at for line in lines for at, _ in line.points]
    ys = [
        end
        for line in lines
        for _, row in line.points
        for end in (row.median, *(row.ci95 or ()))
        if end > 0
    ]
    left, right, bottom, top = min(xs) / 1.2, max(xs) * 1.2, min(ys) / 1.3, max(ys) * 1.3

    def x(value: float) -> float:
        part = math.log(value / left) / math.log(right / left)
        return _LEFT + part * (_WIDTH - _LEFT - _RIGHT)

    def y(value: float) -> float:
        part = math.log(max(value, bottom) / bottom) / math.log(top / bottom)
        return _TOP + (1 - part) * (_HEIGHT - _TOP)

    height = _HEIGHT + 46 + 19 * len(lines)
    parts = pictures.begin(title, about, _WIDTH, height, _STYLE)
    for tick in _ticks(left, right):
        parts.append(
            f'<line class="grid" x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="{_TOP:g}" '
            f'y2="{_HEIGHT:g}"/><text class="small" text-anchor="middle" x="{x(tick):.1f}" '
            f'y="{_HEIGHT + 16:g}">{pictures.said(tick)}</text>'
        )
    for tick in _ticks(bottom, top):
        parts.append(
            f'<line class="grid" x1="{_LEFT:g}" x2="{_WIDTH - _RIGHT:g}" y1="{y(tick):.1f}" '
            f'y2="{y(tick):.1f}"/><text class="small" text-anchor="end" x="{_LEFT - 6:g}" '
            f'y="{y(tick) + 4:.1f}">{pictures.said(tick)}</text>'
        )
    parts.append(
        f'<text class="small" text-anchor="end" x="{_WIDTH - _RIGHT:g}" y="{_HEIGHT + 32:g}">'
        f"{escape(by)}</text>"
    )
    for i, line in enumerate(lines):
        path = " ".join(f"{x(at):.1f},{y(row.median):.1f}" for at, row in line.points)
        parts.append(f'<polyline class="c{i}" points="{path}"/>')
        for at, row in line.points:
            if row.ci95 is not None:
                parts.append(
                    f'<line class="c{i}" opacity="0.6" x1="{x(at):.1f}" x2="{x(at):.1f}" '
                    f'y1="{y(row.ci95[0]):.1f}" y2="{y(row.ci95[1]):.1f}"/>'
                )
            hollow = ' fill-opacity="0"' if row.ci95 is None else ""
            spot = f'cx="{x(at):.1f}" cy="{y(row.median):.1f}"'
            parts.append(f'<circle class="c{i}" {spot} r="3"{hollow}/>')
        at_y = _HEIGHT + 46 + 19 * i
        parts.append(
            f'<line class="c{i}" stroke-width="3" x1="14" x2="34" y1="{at_y:g}" y2="{at_y:g}"/>'
        )
        parts.append(f'<text x="42" y="{at_y + 4:g}">{escape(line.name)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def curves(record: Record) -> dict[str, tuple[str, str]]:
    """By file name (no suffix), the words for who cannot see it and the text of the SVG."""
    made: dict[str, tuple[str, str]] = {}
    for scale in _SCALES:
        if scale.experiment != record.experiment:
            continue
        lines = _lines(scale, record)
        if not lines:
            continue
        unit = lines[0].points[0][1].unit
        lines = [line for line in lines if line.points[0][1].unit == unit]
        first = scale.cases[0].partition(",")[0]
        file = f"{record.experiment}-{scale.by}-{first}".replace(" ", "-").replace("_", "-")
        name = f"{file.lower()}-{machine.slug(record.device)}"
        by = scale.by.replace("_", " ")
        words = f"{record.experiment} by {by}, {short(record.device)}"
        few = any(row.ci95 is None for line in lines for _, row in line.points)
        fixed = "".join(f", {key} {value}" for key, value in scale.where)
        about = f"{unit} over {by}{fixed}: medians with 95 % intervals"
        made[name] = (
            words,
            _draw(words, about + (" (hollow: too few samples)" if few else ""), by, lines),
        )
    return made
