# SPDX-License-Identifier: Apache-2.0
"""What NVIDIA's driver submitted to an H100, as the lens recorded it; reading needs no GPU."""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib.resources import as_file

from denizen.tour import draw
from denizen.tour.step import Found, Picture, Place, data

_WIDTH, _HEIGHT, _LEFT = 480, 200, 62


def run(place: Place) -> Found:
    from denizen.lens import log, summary  # noqa: PLC0415

    place.tell("decoding a capture")
    with as_file(data("h100.lens.gz")) as path:
        capture = log.read(path)
    submissions = list(summary.decoded(capture))
    made = summary.summarize(capture, submissions)
    wrong = None
    end = capture.end
    rows = (
        sum(cost.doorbells for cost in made.costs),
        sum(cost.entries for cost in made.costs),
        sum(cost.bytes for cost in made.costs),
    )
    if end is None:
        wrong = "the capture has no end"
    elif rows != (end.doorbells, end.entries, end.bytes):
        wrong = (
            f"the rows have {rows[0]:,} doorbells, {rows[1]:,} entries and {rows[2]:,} bytes; the "
            f"library counted {end.doorbells:,}, {end.entries:,} and {end.bytes:,}"
        )
    elif made.unknown or made.problems:
        wrong = f"{sum(made.unknown.values()) + made.problems} words have no name"
    methods = sum(sum(found.methods.values()) for _, found in submissions if found is not None)
    copied = sum(
        operation.bytes
        for _, found in submissions
        if found is not None
        for operation in found.operations
        if operation.kind == "copy"
    )
    cells = [summary.cells(cost) for cost in made.costs]
    return Found(
        did="A program made copies, launched kernels and graphs on an H100 while the lens watched: "
        f"{made.doorbells:,} doorbells, {methods:,} methods by name, {copied:,} bytes copied. "
        "Recorded without root and without a kernel module; read here.",
        checked="Doorbells, entries and bytes of all rows are what the library counted itself, and "
        "every word of the stream has a name.",
        wrong=wrong,
        device=f"read on this machine; recorded with driver {capture.header.driver}",
        pictures=[
            Picture(
                _points([(s.doorbell.time_ns, s.doorbell.bytes) for s, _ in submissions]),
                "Each doorbell: when it was rung, and how many bytes of commands it stood for. The "
                "whole page: denizen lens report FILE.",
            )
        ],
        table=(
            "what each call submitted",
            ("API", "doorbells", "bytes", "engines"),
            [(cell[0], cell[3], cell[5], cell[7]) for cell in cells[:6]],
        ),
    )


def _points(bells: Sequence[tuple[int, int]]) -> str:
    first, last = min(t for t, _ in bells), max(t for t, _ in bells)
    most = math.log10(max(size for _, size in bells) + 1)
    body = []
    for power in range(0, math.ceil(most) + 1):
        y = _HEIGHT - 24 - (_HEIGHT - 40) * power / most
        if y > 4:
            body.append(
                f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH}" y1="{y:.0f}" y2="{y:.0f}"/>'
                f'<text x="{_LEFT - 6}" y="{y + 4:.0f}" text-anchor="end">{10**power:,} B</text>'
            )
    for time, size in bells:
        x = _LEFT + 6 + (_WIDTH - _LEFT - 12) * (time - first) / max(1, last - first)
        y = _HEIGHT - 24 - (_HEIGHT - 40) * math.log10(size + 1) / most
        body.append(f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="3"/>')
    body.append(
        f'<text x="{_LEFT}" y="{_HEIGHT - 4}">0 ms</text><text x="{_WIDTH}" y="{_HEIGHT - 4}" '
        f'text-anchor="end">{(last - first) * 1e-6:,.1f} ms</text>'
    )
    return draw.svg(_WIDTH, _HEIGHT, "".join(body), "doorbells by time and bytes")
