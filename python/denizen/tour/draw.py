# SPDX-License-Identifier: Apache-2.0
"""Small pictures: SVG and PNG for the page, characters for a terminal."""

from __future__ import annotations

import base64
import struct
import sys
import zlib
from collections.abc import Sequence
from html import escape

import numpy as np
from numpy.typing import ArrayLike, NDArray

from denizen import terminal

_SHADES = " .:-=+*#%@"
_LEFT, _RIGHT, _ROW = 104, 76, 22  # of a chart of bars

Colours = NDArray[np.uint8]

# Viridis at nine places (matplotlib, CC0).
_VIRIDIS = np.array(
    [[68, 1, 84], [71, 45, 123], [59, 82, 139], [44, 114, 142], [33, 145, 140], [40, 174, 128],
     [94, 201, 98], [173, 220, 48], [253, 231, 37]]
)  # fmt: skip


def viridis(level: ArrayLike) -> Colours:
    """Colours, shape (..., 3), of levels from 0 to 1."""
    at = np.clip(np.asarray(level, np.float64), 0, 1) * (len(_VIRIDIS) - 1)
    places = np.arange(len(_VIRIDIS))
    parts = [np.interp(at, places, _VIRIDIS[:, i]) for i in range(3)]
    colours: Colours = np.rint(np.stack(parts, axis=-1)).astype(np.uint8)
    return colours


def css(colour: ArrayLike) -> str:
    """``#rrggbb``."""
    r, g, b = (int(part) for part in np.asarray(colour).tolist())
    return f"#{r:02x}{g:02x}{b:02x}"


class Labels:
    """Where names of points on a map go: beside them, within its width, and over nothing else if
    there is such a place.

    Args:
        width: of the map.
        letter: the width of a letter.
    """

    _BESIDE = (
        (8, 4, "start"), (-8, 4, "end"), (8, -8, "start"), (8, 16, "start"), (-8, -8, "end"),
        (-8, 16, "end"),
    )  # fmt: skip

    def __init__(self, width: float, letter: float = 7.5) -> None:
        self._width = width
        self._letter = letter
        self._taken: list[tuple[float, float, float]] = []  # left, right, base line

    def take(self, left: float, right: float, y: float) -> None:
        """What else there is, one line high."""
        self._taken.append((left, right, y))

    def place(self, x: float, y: float, text: str) -> str:
        """The attributes of the name of the point at x, y."""
        wide = self._letter * len(text)
        places = []
        for dx, dy, anchor in self._BESIDE:
            left = x + dx - (wide if anchor == "end" else 0)
            if left >= 0 and left + wide <= self._width:
                places.append((left, left + wide, y + dy, x + dx, anchor))
        free = [p for p in places if not any(self._meet(p[:3], other) for other in self._taken)]
        left, right, base, at, anchor = (free or places or [(x, x + wide, y + 4, x + 8, "start")])[
            0
        ]
        self.take(left, right, base)
        return f'x="{at:.1f}" y="{base:.1f}" text-anchor="{anchor}"'

    @staticmethod
    def _meet(one: tuple[float, float, float], other: tuple[float, float, float]) -> bool:
        return one[0] < other[1] and other[0] < one[1] and abs(one[2] - other[2]) < 12


def png(image: Colours) -> bytes:
    """A PNG file of an image of shape (height, width, 3)."""
    height, width, _ = image.shape
    rows = np.zeros((height, 1 + 3 * width), np.uint8)  # each row begins with its filter: none
    rows[:, 1:] = image.reshape(height, -1)

    def chunk(kind: bytes, body: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + body))
        return struct.pack(">I", len(body)) + kind + body + check

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = zlib.compress(rows.tobytes(), 9)
    parts = chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


def image(pixels: Colours, alt: str) -> str:
    """An img that carries its own data."""
    code = base64.b64encode(png(pixels)).decode()
    return f'<img alt="{escape(alt)}" src="data:image/png;base64,{code}">'


def bars(rows: Sequence[tuple[str, float, str]], alt: str) -> str:
    """An SVG of bars to the right: (name, value from 0 on, what is written beside it)."""
    most = max((value for _, value, _ in rows), default=1) or 1
    width = 480
    room = width - _LEFT - _RIGHT
    body = []
    for i, (name, value, told) in enumerate(rows):
        y = i * _ROW
        long = max(1.0, room * value / most)
        body.append(
            f'<text x="{_LEFT - 8}" y="{y + 15}" text-anchor="end">{escape(name)}</text>'
            f'<rect class="bar" x="{_LEFT}" y="{y + 4}" width="{long:.1f}" height="14" rx="2"/>'
            f'<text x="{_LEFT + long + 6:.1f}" y="{y + 15}">{escape(told)}</text>'
        )
    return svg(width, _ROW * len(rows) + 4, "".join(body), alt)


def curves(
    lines: Sequence[NDArray[np.float64]],
    span: tuple[float, float],
    marks: Sequence[tuple[float, str]],
    below: Sequence[tuple[float, str]],
    alt: str,
) -> str:
    """An SVG of up to two curves, of values at equal distances.

    Args:
        lines: the values.
        span: the lowest value and the highest.
        marks: values that have a line of their own, and what is written beside it.
        below: what is written below, by its place from 0 to 1.
        alt: what is shown.
    """
    width, height, left = 480, 220, 60
    low, high = span

    def down(value: float) -> float:
        return 10 + (height - 30) * (high - value) / (high - low)

    body = [
        f'<line class="grid" x1="{left}" x2="{width}" y1="{down(at):.0f}" y2="{down(at):.0f}"/>'
        f'<text x="{left - 6}" y="{down(at) + 4:.0f}" text-anchor="end">{escape(name)}</text>'
        for at, name in marks
    ]
    for number, values in enumerate(lines):
        points = " ".join(
            f"{left + (width - left) * i / len(values):.1f},{down(value):.1f}"
            for i, value in enumerate(values.tolist())
        )
        body.append(f'<polyline class="curve{number}" points="{points}"/>')
    for at, name in below:
        anchor = "end" if at == 1 else "middle"
        x = left + (width - left) * at
        body.append(
            f'<text x="{x:.0f}" y="{height - 2}" text-anchor="{anchor}">{escape(name)}</text>'
        )
    return svg(width, height, "".join(body), alt)


def svg(width: float, height: float, body: str, alt: str) -> str:
    """An SVG as wide as its column."""
    return (
        f'<svg viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="{escape(alt)}">'
        f"{body}</svg>"
    )


def bars_in_text(rows: Sequence[tuple[str, float, str]], columns: int = 40) -> list[str]:
    """The same as lines of text."""
    most = max((value for _, value, _ in rows), default=1) or 1
    left = max((len(name) for name, _, _ in rows), default=0)
    block = "█" if _unicode() else "#"
    return [
        f"{name.rjust(left)} {block * max(1, round(columns * value / most))} {told}"
        for name, value, told in rows
    ]


def pixels_in_text(pixels: Colours, columns: int = 72) -> list[str]:
    """An image as lines of half blocks in colour, or of shades where stdout shows no colours."""
    height, width, _ = pixels.shape
    columns = min(columns, width)
    rows = max(2, round(height * columns / width)) // 2 * 2
    small = _shrunk(pixels, rows, columns)
    if terminal.coloured(sys.stdout) and _unicode():
        lines = []
        for upper, lower in zip(small[::2], small[1::2], strict=True):
            cells = [
                f"\x1b[38;2;{a};{b};{c};48;2;{d};{e};{f}m▀"
                for (a, b, c), (d, e, f) in zip(upper.tolist(), lower.tolist(), strict=True)
            ]
            lines.append("".join(cells) + "\x1b[0m")
        return lines
    grey = small.reshape(rows // 2, 2, columns, 3).mean(axis=(1, 3))
    # What is most frequent is the background.
    values, counts = np.unique(np.rint(grey).astype(int), return_counts=True)
    off = np.abs(grey - values[np.argmax(counts)])
    level = np.sqrt(off / (off.max() or 1.0)) * (len(_SHADES) - 1)
    return ["".join(_SHADES[int(i)] for i in row).rstrip() for row in level]


def _shrunk(pixels: Colours, rows: int, columns: int) -> Colours:
    """The mean colour of each part."""
    height, width, _ = pixels.shape
    down = np.linspace(0, height, rows + 1).astype(int)[:-1]
    across = np.linspace(0, width, columns + 1).astype(int)[:-1]
    total = np.add.reduceat(np.add.reduceat(pixels.astype(np.float64), down, 0), across, 1)
    ones = np.add.reduceat(np.add.reduceat(np.ones((height, width, 1)), down, 0), across, 1)
    return np.rint(total / ones).astype(np.uint8)


def _unicode() -> bool:
    return (sys.stdout.encoding or "").lower().replace("-", "") in ("utf8", "utf16")
