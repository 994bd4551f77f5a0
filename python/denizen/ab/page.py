# SPDX-License-Identifier: Apache-2.0
"""Records as one HTML page without any other file: a verdict grid, intervals, gates, timelines.

Drawn as SVG here, so the page needs no script.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from html import escape
from importlib.resources import files

from denizen import style
from denizen.ab import profiler
from denizen.ab.experiment import Span
from denizen.ab.gates import FAILED
from denizen.ab.measure import AGAIN
from denizen.ab.record import CellRecord, Compared, RunRecord
from denizen.lab.record import Scalar

_WIDTH, _LEFT, _RIGHT, _ROW = 1000.0, 190.0, 150.0, 26.0


def cell_name(params: Mapping[str, Scalar]) -> str:
    """The parameters of a cell, as ``kib 64, sms 8``."""
    return ", ".join(f"{key} {value}" for key, value in params.items()) or "the only cell"


def duration(seconds: float) -> str:
    """Seconds with three digits and a unit that fits."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= 0.9995 * scale:  # 0.9996 s is 1 s, not 1e+03 ms
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns" if seconds else "0"


def render(records: Sequence[RunRecord]) -> str:
    """The page's HTML."""
    parts = {
        "title": escape("denizen ab: " + ", ".join(r.experiment for r in records)),
        "body": "\n".join(_record(record) for record in records),
    }
    template = files("denizen.ab").joinpath("page.html").read_text(encoding="utf-8")
    return style.fill(template, parts | {"style": style.sheet()})


def _record(record: RunRecord) -> str:
    margin = (
        "no margin was stated, so nothing is called equivalent"
        if record.margin is None
        else f"equivalent means a ratio within {1 / (1 + record.margin):.3f} and "
        f"{1 + record.margin:.3f}"
    )
    about = (
        f"{record.device}; {record.processes} processes of {record.blocks} blocks; {record.utc}; "
        f"commit {record.commit[:12]}. Ratios are times over those of “{record.base}”: below 1 is "
        f"faster. Level {record.alpha:g} for the whole sweep (Holm); {margin}."
    )
    cells = "\n".join(_cell(record, cell) for cell in record.cells)
    return f"<h1>{escape(record.experiment)}</h1>\n<p>{escape(about)}</p>\n{_grid(record)}\n{cells}"


def _grid(record: RunRecord) -> str:
    names = [arm.arm for arm in record.cells[0].arms if arm.role == "arm"]
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    rows = []
    for cell in record.cells:
        by_name = {arm.arm: arm for arm in cell.arms if arm.role == "arm"}
        boxes = []
        for name in names:
            arm = by_name.get(name)
            if arm is None:
                boxes.append("<td></td>")
                continue
            ratio = "" if cell.void else f"<small>{arm.ratio:.3f}</small>"
            boxes.append(f'<td class="{arm.verdict}">{arm.verdict}{ratio}</td>')
        rows.append(f"<tr><th>{escape(cell_name(cell.params))}</th>{''.join(boxes)}</tr>")
    return (
        f'<h2>Verdicts</h2><div class="wide"><table class="grid"><thead><tr><th></th>{head}</tr>'
        f"</thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _cell(record: RunRecord, cell: CellRecord) -> str:
    void = "".join(f'<div class="warning">Void: {escape(reason)}</div>' for reason in cell.void)
    return "\n".join(
        (
            f"<h2>{escape(cell_name(cell.params))}</h2>",
            f"<p>{escape(record.base)}: {duration(cell.base_seconds)} an operation.</p>",
            void,
            _intervals(record, cell),
            _timeline(cell.slots, "Slots of the first blocks, by the clock of the process"),
            _spans(cell),
            _profile(cell),
            _gates(cell),
        )
    )


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers from ``low`` to ``high``, four to nine of them."""
    step = 10 ** math.floor(math.log10(high - low))
    for divisor in (1, 2, 5, 10):
        if (high - low) / (step / divisor) >= 4:
            step /= divisor
            break
    first = math.ceil(low / step)
    return [i * step for i in range(first, math.floor(high / step) + 1)]


def _intervals(record: RunRecord, cell: CellRecord) -> str:
    """A row an arm: the interval, the estimate, each process as a tick; the margin as a band.

    The control is off to the side on purpose: it must not set the scale.
    """
    shown = [arm for arm in cell.arms if arm.role != "control"]
    ends = [edge for arm in shown for edge in (*arm.ci95, *arm.by_process)] + [1.0]
    if record.margin is not None:
        ends += [1 / (1 + record.margin), 1 + record.margin]
    low, high = min(ends), max(ends)
    pad = max((high - low) * 0.06, 1e-4)
    low, high = low - pad, high + pad

    def x(ratio: float) -> float:
        inside = min(max(ratio, low), high)
        return _LEFT + (inside - low) / (high - low) * (_WIDTH - _LEFT - _RIGHT)

    bottom = len(cell.arms) * _ROW + 8
    parts = []
    if record.margin is not None:
        left, right = x(1 / (1 + record.margin)), x(1 + record.margin)
        parts.append(
            f'<rect class="margin" x="{left:.1f}" y="4" width="{right - left:.1f}" '
            f'height="{bottom - 4:.1f}"/>'
        )
    for tick in _ticks(low, high):
        parts.append(f'<path class="tick" d="M{x(tick):.1f} {bottom:.1f}v4"/>')
        parts.append(_text(x(tick), bottom + 16, f"{tick:.6g}", "middle"))
    parts.append(f'<path class="one" d="M{x(1):.1f} 4V{bottom:.1f}"/>')
    for i, arm in enumerate(cell.arms):
        parts.append(_row(arm, 4 + _ROW * (i + 0.5), x, arm.ratio > high))
    height = bottom + 22
    return f'<svg viewBox="0 0 {_WIDTH:g} {height:g}" role="img">{"".join(parts)}</svg>'


def _row(arm: Compared, y: float, x: Callable[[float], float], beyond: bool) -> str:
    name = f"{arm.arm} (control)" if arm.role == "control" else arm.arm
    low, high = arm.ci95
    parts = [_text(_LEFT - 10, y + 4, "base again (A/A)" if arm.role == "again" else name, "end")]
    if beyond:
        parts.append(_text(_WIDTH - _RIGHT - 6, y + 4, "off the scale →", "end"))
    else:
        parts.append(
            f'<g class="{arm.verdict}"><path class="bar" d="M{x(low):.1f} {y:.1f}H{x(high):.1f}"/>'
            f'<circle cx="{x(arm.ratio):.1f}" cy="{y:.1f}" r="4.5"/></g>'
        )
        ticks = "".join(f"M{x(ratio):.1f} {y + 5:.1f}v5" for ratio in arm.by_process)
        parts.append(f'<path class="process" d="{ticks}"/>')
    parts.append(_text(_WIDTH - _RIGHT + 10, y + 4, f"{arm.ratio:.4f}  {arm.verdict}"))
    tip = f"{name}: {arm.ratio:.4f}, 95 % {low:.4f} to {high:.4f}, p {arm.p_different:.2g}"
    return f"<g><title>{escape(tip)}</title>{''.join(parts)}</g>"


def _timeline(bars: Sequence[tuple[str, float, float]], title: str) -> str:
    """A track a name, a bar for each time it ran."""
    if not bars:
        return ""
    tracks = list(dict.fromkeys(sorted(name for name, _, _ in bars)))
    begin, end = min(b for _, b, _ in bars), max(e for _, _, e in bars)
    scale = (_WIDTH - _LEFT - 40) / max(end - begin, 1e-12)
    bottom = len(tracks) * 20 + 6
    parts = []
    for i, track in enumerate(tracks):
        label = "base again (A/A)" if track == AGAIN else track
        parts.append(_text(_LEFT - 10, i * 20 + 17, label, "end"))
        parts.append(f'<path class="tick" d="M{_LEFT:g} {i * 20 + 21}H{_WIDTH - 40:g}"/>')
    for name, b, e in bars:
        row = tracks.index(name)
        parts.append(
            f'<rect class="slot track{row % 6}" x="{_LEFT + (b - begin) * scale:.1f}" '
            f'y="{row * 20 + 6}" width="{max((e - b) * scale, 0.8):.1f}" height="13">'
            f"<title>{escape(name)}: {duration(e - b)} from {duration(b - begin)}</title></rect>"
        )
    for part in range(5):
        at = (end - begin) * part / 4
        parts.append(_text(_LEFT + at * scale, bottom + 14, duration(at), "middle"))
    return (
        f"<h3>{escape(title)}</h3>"
        f'<svg viewBox="0 0 {_WIDTH:g} {bottom + 20:g}" role="img">{"".join(parts)}</svg>'
    )


def _spans(cell: CellRecord) -> str:
    """One timeline for each arm that tells what ran inside of a slot, with what ran at once."""
    drawn = []
    for name in dict.fromkeys(name for name, _, _, _ in cell.spans):
        spans = [Span(track, begin, end) for arm, track, begin, end in cell.spans if arm == name]
        title = f"Inside {name}"
        if told := profiler.overlaps(spans):
            title += f": {told}"
        drawn.append(_timeline([(span.track, span.begin, span.end) for span in spans], title))
    return "\n".join(drawn)


def profile_lines(cell: CellRecord) -> list[str]:
    """What a profiler saw, a line for each kernel and one for the copies."""
    found: dict[tuple[str, str], list[float]] = {}
    for tool, name, begin, end in cell.profile:
        found.setdefault((tool, name), []).append(end - begin)
    lines = [
        f"{tool}: {name}: {len(times)} x {duration(statistics.median(times))}"
        for (tool, name), times in found.items()
    ]
    spans = [Span(name, begin, end) for tool, name, begin, end in cell.profile if tool == "nsys"]
    copies = [span for span in spans if span.track == "copy"]
    if copies:
        kernels = [span for span in spans if span.track != "copy"]
        share = profiler.overlap(copies, kernels) / (profiler.busy(copies) or 1.0)
        lines.append(f"nsys: kernels ran during {share:.0%} of the copies")
    return lines


def _profile(cell: CellRecord) -> str:
    """What a profiler saw: a line a kernel, and of nsys, which has a clock, a timeline."""
    if not cell.profile:
        return ""
    rows = "".join(f"<li>{escape(line)}</li>" for line in profile_lines(cell))
    bars = [(name, begin, end) for tool, name, begin, end in cell.profile if tool == "nsys"]
    return f"<h3>Under a profiler</h3><ul>{rows}</ul>" + _timeline(bars, "By the clock of nsys")


def _gates(cell: CellRecord) -> str:
    rows = "".join(
        f'<tr class="{"failed" if gate.status == FAILED else ""}"><td>{escape(gate.gate)}</td>'
        f"<td>{escape(gate.arm)}</td><td>{escape(gate.status)}</td>"
        f"<td>{escape(gate.detail)}</td></tr>"
        for gate in cell.gates
    )
    failed = sum(gate.status == FAILED for gate in cell.gates)
    text = f"{len(cell.gates)} gates" + (f", {failed} failed" if failed else ", none failed")
    return (
        f"<details{' open' if failed else ''}><summary>{text}</summary><table><thead><tr><th>gate"
        f"</th><th>arm</th><th>status</th><th>what was found</th></tr></thead><tbody>{rows}"
        "</tbody></table></details>"
    )
