# SPDX-License-Identifier: Apache-2.0
"""One picture of each experiment, an SVG without any other file, made of the records alone.

Beside rivals: how many times better, with intervals, a line for each comparison. Without rivals:
what each case took, median with interval and p99. Both on a logarithmic axis, and with a mark for
each set of parameters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from denizen.lab import summary, table
from denizen.lab.record import EXPERIMENTS, Record, Row, lower_is_better

_WIDTH, _SIDE, _LINE, _TOP = 480.0, 12.0, 40.0, 66.0
_MOST_LINES = 24
_LETTER, _SMALL = 7.1, 6.3  # widths of a letter, in the mean of the fonts that systems have
_STYLE = """
.card{fill:#fff;stroke:#d0d7de}text{font:13px system-ui,sans-serif;fill:#1f2328}
.small{font-size:11.5px;fill:#59636e}.grid{stroke:#d8dee4}.one{stroke:#59636e}
.ahead{fill:#1a7f37;stroke:#1a7f37}.behind{fill:#b3261e;stroke:#b3261e}
.level{fill:#0969da;stroke:#0969da}.undecided,.plain{fill:#6e7781;stroke:#6e7781}
@media(prefers-color-scheme:dark){.card{fill:#161b22;stroke:#3d444d}text{fill:#e6edf3}
.small{fill:#9198a1}.grid{stroke:#30363d}.one{stroke:#9198a1}
.ahead{fill:#3fb950;stroke:#3fb950}.behind{fill:#ff7b72;stroke:#ff7b72}
.level{fill:#58a6ff;stroke:#58a6ff}.undecided,.plain{fill:#9198a1;stroke:#9198a1}}
"""


class _Axis:
    """A logarithmic axis that holds all values."""

    def __init__(self, values: Sequence[float]) -> None:
        self.low, self.high = min(values) / 1.15, max(values) * 1.15

    def x(self, value: float) -> float:
        part = math.log(value / self.low) / math.log(self.high / self.low)
        return _SIDE + 6 + part * (_WIDTH - 2 * _SIDE - 12)

    def ticks(self) -> list[float]:
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        steps = (1.0,) if last - first > 3 else (1.0, 2.0, 5.0)
        found = [step * 10.0**power for power in range(first, last + 1) for step in steps]
        found = [value for value in found if self.low <= value <= self.high]
        return found[:: max(1, math.ceil(len(found) / 7))]


# A line of a picture: its words, what stands at its right, and marks: the class of a mark, its
# value and its interval.
_Mark = tuple[str, float, tuple[float, float] | None]
_Line = tuple[str, str, list[_Mark]]


def _cut(words: str, most: int) -> str:
    return words if len(words) <= most else words[: most - 1] + "…"


def said(value: float) -> str:
    """A tick's number, short: ``100k``."""
    for size, word in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{word}"
    return f"{value:g}"


def begin(title: str, about: str, width: float, height: float, style: str) -> list[str]:
    """The parts of an SVG's text that come first: a card with its title and a line about it.

    Of a title too long for the card only what stands before its colon is drawn.
    """
    drawn = title if len(title) * _LETTER < width - 2 * _SIDE else title.partition(": ")[0]
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
        f'width="{width:g}" height="{height:g}" role="img"><title>{escape(title)}</title>',
        f"<style>{style}</style>",
        f'<rect class="card" x="0.5" y="0.5" width="{width - 1:g}" height="{height - 1:g}"/>',
        f'<text x="{_SIDE:g}" y="24" font-weight="600">{escape(drawn)}</text>',
        f'<text class="small" x="{_SIDE:g}" y="43">{escape(about)}</text>',
    ]


def _draw(title: str, about: str, lines: Sequence[_Line], left: int, *, one: bool) -> str:
    values = [end for _, _, marks in lines for _, value, ci95 in marks
              for end in (value, *(ci95 or ())) if end > 0] + ([1.0] if one else [])  # fmt: skip
    axis = _Axis(values)
    height = _TOP + _LINE * len(lines) + (54 if left else 34)
    bottom = _TOP + _LINE * len(lines)
    parts = begin(title, about, _WIDTH, height, _STYLE)
    for tick in axis.ticks():
        x = axis.x(tick)
        kind = "one" if one and tick == 1 else "grid"
        parts.append(f'<line class="{kind}" x1="{x:.1f}" x2="{x:.1f}" y1="52" y2="{bottom:g}"/>')
        words = said(tick) + ("x" if one else "")
        half = len(words) * _SMALL / 2
        inside = min(max(x, _SIDE + half), _WIDTH - _SIDE - half)
        parts.append(
            f'<text class="small" text-anchor="middle" x="{inside:.1f}" y="{bottom + 16:g}">'
            f"{words}</text>"
        )
    for i, (words, right, marks) in enumerate(lines):
        y = _TOP + _LINE * i
        room = int((_WIDTH - 3 * _SIDE - len(right) * _SMALL) / _LETTER)
        parts.append(f'<text x="{_SIDE:g}" y="{y + 8:g}">{escape(_cut(words, room))}</text>')
        parts.append(
            f'<text class="small" text-anchor="end" x="{_WIDTH - _SIDE:g}" y="{y + 8:g}">'
            f"{escape(right)}</text>"
        )
        for kind, value, ci95 in marks:
            x = axis.x(value)
            if ci95 is not None:  # one that reaches zero begins at the left edge
                low, high = (axis.x(max(end, axis.low)) for end in ci95)
                ends = f'x1="{low:.1f}" x2="{high:.1f}"'
                parts.append(
                    f'<line class="{kind}" stroke-width="2" opacity="0.6" {ends} '
                    f'y1="{y + 20:g}" y2="{y + 20:g}"/>'
                )
            hollow = ' fill-opacity="0"' if ci95 is None else ""
            parts.append(f'<circle class="{kind}" cx="{x:.1f}" cy="{y + 20:g}" r="3.5"{hollow}/>')
    if left:
        parts.append(
            f'<text class="small" x="{_SIDE:g}" y="{bottom + 40:g}">'
            f"and {left} more, in the tables</text>"
        )
    return "\n".join([*parts, "</svg>"]) + "\n"


def picture(experiment: str, records: Sequence[Record]) -> str:
    """The picture of one experiment from its records, as the text of an SVG file."""
    title = EXPERIMENTS[experiment]
    rivals = summary.comparisons(records)
    if rivals:
        lines: list[_Line] = [
            (
                f"{one.case} / {one.against}",
                summary.short(one.device),
                [(row.standing, row.gain, row.ci95) for row in one.rows],
            )
            for one in rivals
        ]
        about = "times better: green ahead, red behind, blue level, grey undecided (hollow: few)"
        return _draw(title, about, lines[:_MOST_LINES], len(lines[_MOST_LINES:]), one=True)
    rows = [(record, row) for record in records for row in record.rows if row.median > 0]
    units = [row.unit for _, row in rows]
    unit = max(dict.fromkeys(units), key=units.count)
    cases: dict[tuple[str, str], list[Row]] = {}
    for record, row in rows:
        if row.unit == unit and not (row.ratio_to and experiment == "driver"):
            cases.setdefault((row.case, summary.short(record.device)), []).append(row)
    lines = []
    for (case, device), of in cases.items():
        marks: list[_Mark] = []
        for row in of:
            marks.append(("plain", row.median, row.ci95))
            if row.p99 is not None and lower_is_better(unit) and row.p99 > 0:
                marks.append(("level", row.p99, row.p99_ci95))
        told = table.params(of[0]) if len(of) == 1 else f"{len(of)} ways"
        lines.append((f"{case} ({told})" if told else case, device, marks))
    about = f"{unit}: median with 95 % interval (hollow: too few samples); blue: p99"
    return _draw(title, about, lines[:_MOST_LINES], len(lines[_MOST_LINES:]), one=False)
