# SPDX-License-Identifier: Apache-2.0
"""A capture as one HTML page without any other file: page.html with what is said here filled in."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from statistics import median
from typing import Any

from denizen import style
from denizen.files import write_text
from denizen.lens import summary
from denizen.lens.log import NONE, Capture, Submission
from denizen.lens.operation import Decoded
from denizen.lens.summary import Cost

# Doorbells on the timeline. More would make a page of tens of megabytes; the page says so.
SHOWN = 100_000
_GRAPH = ("GraphLaunch",)


def write(path: str | os.PathLike[str], capture: Capture) -> None:
    """Write the page to ``path``; a file that exists is replaced."""
    write_text(path, render(capture))


def render(capture: Capture) -> str:
    """The page's HTML."""
    submissions = list(summary.decoded(capture))
    made = summary.summarize(capture, submissions)
    warnings = summary.warnings(capture, made)
    shown = submissions[:SHOWN]
    left_out = len(submissions) - len(shown)
    timeline = "The clock is the host's; a doorbell takes longer under the lens than without it."
    if left_out:
        timeline = f"The first {SHOWN:,} of {len(submissions):,} doorbells. {timeline}"
    totals = {
        "doorbells": made.doorbells,
        "entries": made.entries,
        "bytes": made.bytes,
        "API functions": sum(cost.api != summary.NO_CALL for cost in made.costs),
    }
    counted = (
        "Called: how often at all. Rang: calls that rang a doorbell, over which means are taken."
        if capture.counts
        else "Calls are not numbered without CUPTI: means are over doorbells."
    )
    full = capture.header.mode == "full"
    named = bool(capture.counts)
    parts = {
        "title": f"denizen lens: {escape(capture.header.process)}",
        "command": escape(" ".join(capture.arguments) or capture.header.process),
        "about": escape(
            f"Process {capture.header.pid}, driver {capture.header.driver}, mode "
            f"{capture.header.mode}, {len(capture.channels)} channels. {summary.overhead(capture)}"
        ),
        "warnings": "".join(f'<div class="warning">{escape(text)}</div>' for text in warnings),
        "totals": "".join(
            f"<div><b>{value:,}</b>{escape(name)}</div>" for name, value in totals.items()
        ),
        "header": "".join(f"<th>{escape(name)}</th>" for name in _columns(summary.HEADER, named)),
        "rows": "\n".join(_row(cost, made.costs, named) for cost in made.costs),
        "counted": counted,
        "graphs": _graphs(capture),
        "timeline": timeline,
        "operations": _operations(submissions, made.unknown) if full else "",
        "data": json.dumps(_data(capture, shown), separators=(",", ":")).replace("</", "<\\/"),
    }
    template = files("denizen.lens").joinpath("page.html").read_text(encoding="utf-8")
    return style.fill(template, parts | {"style": style.sheet()})


def _columns(all_of: Sequence[str], named: bool) -> Sequence[str]:
    """Without "called" and "rang" where nobody counted calls."""
    return all_of if named else (*all_of[:1], *all_of[3:])


def _row(cost: Cost, costs: Sequence[Cost], named: bool) -> str:
    numbers: tuple[float, ...] = (
        cost.called or 0, cost.rang, cost.doorbells, cost.entries, cost.bytes, cost.bytes_per_call,
    )  # fmt: skip
    share = 100 * cost.bytes / max(1, *(other.bytes for other in costs))
    texts = _columns(summary.cells(cost), named)
    numbers = numbers if named else numbers[2:]
    middle = "".join(
        f'<td data-n="{number}">{escape(text)}</td>'
        for number, text in zip(numbers, texts[1:-1], strict=True)
    )
    bar = f'<span class="share" style="width:{share:.1f}%"></span>'
    return f"<tr><td>{escape(texts[0])}{bar}</td>{middle}<td>{escape(texts[-1])}</td></tr>"


def _graphs(capture: Capture) -> str:
    """The bytes and doorbells of each launch of a graph, in their order."""
    calls = summary.calls_of(capture, _GRAPH)
    if not calls:
        return ""
    sizes = [size for *_, size in calls]
    bells = [count for _, _, count, _ in calls]
    text = (
        f"{len(calls):,} launches; bytes: least {min(sizes):,}, median {median(sizes):,.0f}, most "
        f"{max(sizes):,}; doorbells: least {min(bells)}, most {max(bells)}. From left to right in "
        "their order: a program that launches ever longer graphs draws their curve."
    )
    return (
        f'<h2>Graph launches: bytes and doorbells</h2><p>{text}</p><div class="wide">'
        + _curve(sizes, "bytes", "var(--compute)")
        + _curve(bells, "doorbells", "var(--copy)")
        + "</div>"
    )


def _curve(values: Sequence[int], name: str, colour: str) -> str:
    """A line over the launches, as SVG; of many launches the least and the most of each pixel."""
    width, height, left, low = 1100, 150, 70, 22
    top = max(values) or 1
    count = len(values)
    span = max(1, count - 1)

    def place(i: int, value: int) -> str:
        x = left + (width - left - 10) * i / span
        y = height - low - (height - low - 14) * value / top
        return f"{x:.1f},{y:.1f}"

    bucket = max(1, -(-count // 1000))
    points: list[str] = []
    for begin in range(0, count, bucket):
        part = values[begin : begin + bucket]
        extremes = {part.index(min(part)), part.index(max(part))}
        points += [place(begin + i, part[i]) for i in sorted(extremes)]
    marks = ""
    if count <= 60:
        marks = "".join(
            f'<circle cx="{x}" cy="{y}" r="2.6" fill="{colour}"/>'
            for x, y in (point.split(",") for point in points)
        )
    floor = height - low
    return (
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{name} of each graph launch">'
        f'<line x1="{left}" y1="{floor}" x2="{width - 10}" y2="{floor}" stroke="var(--line)"/>'
        f'<line x1="{left}" y1="14" x2="{width - 10}" y2="14" stroke="var(--line)"/>'
        f'<polyline points="{" ".join(points)}" fill="none" stroke="{colour}" stroke-width="1.6"/>'
        f'{marks}<text x="{left - 8}" y="18" text-anchor="end">{top:,}</text>'
        f'<text x="{left - 8}" y="{floor + 4}" text-anchor="end">0</text>'
        f'<text x="{left - 8}" y="{(floor + 18) / 2}" text-anchor="end">{name}</text>'
        f'<text x="{left}" y="{height - 5}">launch 1</text>'
        f'<text x="{width - 10}" y="{height - 5}" text-anchor="end">{count:,}</text></svg>'
    )


def _operations(
    submissions: Sequence[tuple[Submission, Decoded | None]], unknown: Counter[str]
) -> str:
    counts: Counter[tuple[str, str]] = Counter()
    sizes: Counter[tuple[str, str]] = Counter()
    for _, found in submissions:
        for operation in found.operations if found else ():
            counts[operation.kind, operation.engine] += 1
            sizes[operation.kind, operation.engine] += operation.bytes
    rows = "".join(
        f"<tr><td>{escape(kind)}</td><td>{count:,}</td><td>{sizes[kind, engine]:,}</td>"
        f"<td>{escape(engine)}</td></tr>"
        for (kind, engine), count in counts.most_common()
    )
    text = (
        "<h2>What the GPU was told to do</h2><div class=wide><table><thead><tr><th>operation</th>"
        f"<th>times</th><th>bytes moved</th><th>engine</th></tr></thead><tbody>{rows}</tbody>"
        "</table></div>"
    )
    if unknown:
        names = ", ".join(f"{name} ({count:,})" for name, count in unknown.most_common(40))
        more = f" and {len(unknown) - 40} more" if len(unknown) > 40 else ""
        text += f"<p>Methods that no table has, by class:offset and words: {names}{more}.</p>"
    return text


def _engine(capture: Capture, submission: Submission, found: Decoded | None) -> str:
    engines = (
        found.engines
        if found is not None and found.operations
        else summary.channel_engines(capture, submission.doorbell.channel)
    )
    compute, copy = "compute" in engines, "copy" in engines
    return "b" if compute and copy else "c" if compute else "p" if copy else "o"


def _data(
    capture: Capture, submissions: Sequence[tuple[Submission, Decoded | None]]
) -> dict[str, Any]:
    """What the timeline draws: doorbells by their time, calls, the names of the tracks."""
    submissions = sorted(submissions, key=lambda item: item[0].doorbell.time_ns)
    bells = [submission.doorbell for submission, _ in submissions]
    last = bells[-1].time_ns if bells else 0
    calls = [call for call in capture.calls.values() if call.begin_ns <= last]
    start = min((*(bell.time_ns for bell in bells), *(call.begin_ns for call in calls)), default=0)
    end = max((last, *(call.end_ns for call in calls)))
    threads = {tid: i for i, tid in enumerate(dict.fromkeys(bell.tid for bell in bells))}
    numbers = sorted({bell.channel for bell in bells})
    channels = {number: len(threads) + i for i, number in enumerate(numbers)}
    tracks = [f"thread {tid} {capture.threads.get(tid, '')}".strip() for tid in threads]
    for number in numbers:
        engines = "/".join(sorted(summary.channel_engines(capture, number)))
        tracks.append("no known channel" if number == NONE else f"channel {number} {engines}")
    apis: dict[str, int] = {}
    whats: dict[str, int] = {}

    def us(ns: int) -> float:
        return round((ns - start) / 1000, 3)

    def what(found: Decoded | None) -> str:
        if found is None:
            return ""
        counts = Counter(operation.kind for operation in found.operations)
        return ", ".join(f"{count} {kind}" if count > 1 else kind for kind, count in counts.items())

    return {
        "span": max(us(end), 1.0),
        "tracks": tracks,
        "calls": [
            [us(call.begin_ns), us(call.end_ns), threads[call.tid]]
            for call in calls
            if call.tid in threads
        ],
        "most": max((bell.bytes for bell in bells), default=0),
        "t": [us(bell.time_ns) for bell in bells],
        "thread": [threads[bell.tid] for bell in bells],
        "channel": [channels[bell.channel] for bell in bells],
        "bytes": [bell.bytes for bell in bells],
        "entries": [bell.entries for bell in bells],
        "engine": [_engine(capture, submission, found) for submission, found in submissions],
        "api": [apis.setdefault(summary.api_of(capture, bell), len(apis)) for bell in bells],
        "apis": list(apis),
        "what": [whats.setdefault(what(found), len(whats)) for _, found in submissions],
        "whats": list(whats),
    }
