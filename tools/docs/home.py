# SPDX-License-Identifier: Apache-2.0
"""The home page's numbers and picture, out of the committed records."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RESULTS = "benchmarks/results"


@dataclass(frozen=True)
class Row:
    """A case of a record, the first that has these parameters."""

    record: str
    case: str
    params: tuple[tuple[str, Any], ...] = ()

    def found(self) -> dict[str, Any]:
        record = json.loads((ROOT / RESULTS / f"{self.record}.json").read_text("utf-8"))
        if not record["verified"]:
            raise ValueError(f"{self.record}: the record's work was not verified")
        for row in record["rows"]:
            if row["case"] == self.case and all(row["params"].get(k) == v for k, v in self.params):
                return dict(row) | {"device": record["device"], "commit": record["commit"]}
        raise ValueError(f'{self.record}: no case "{self.case}" with {dict(self.params)}')

    @property
    def median(self) -> float:
        return float(self.found()["median"])


DISPATCH = "dispatch/nvidia-h200"
WAYS = (
    ("ask an actor", Row(DISPATCH, "ask")),
    ("launch a graph from the device", Row(DISPATCH, "device graph launch")),
    ("replay a graph and wait", Row(DISPATCH, "graph + sync")),
    ("launch a kernel and wait", Row(DISPATCH, "launch + sync")),
)
MESSAGES = Row("beside/nvidia-h200", "random targets")
INSIDE = Row("group/nvidia-h200", "inside a kernel")
NCCL = Row("group/nvidia-h200", "NCCL in a graph")


def numbers() -> str:
    """Three figures, each with where it is from."""
    ask, launch = WAYS[0][1], WAYS[3][1]
    told = (
        (
            f"{ask.median:.1f} µs",
            "to ask an actor on the GPU and have its answer; a kernel launched and waited for "
            "takes "
            f"{launch.median:.1f} µs",
            ask.record,
        ),
        (
            f"{MESSAGES.median / 1000:.1f} billion",
            "messages a second between actors at random places, while other programs use the "
            "GPU, too",
            MESSAGES.record,
        ),
        (
            f"{INSIDE.median:.1f} µs",
            "for a small all-reduce of two GPUs from inside a kernel; NCCL in a graph takes "
            f"{NCCL.median:.1f} µs",
            INSIDE.record,
        ),
    )
    cells = "".join(
        f'<div><b>{escape(value)}</b>{escape(text)} (<a href="source/{RESULTS}/{record}.json">'
        "record</a>)</div>"
        for value, text, record in told
    )
    return f'<div class="numbers">{cells}</div>\n'


def picture() -> str:
    """Round trips as bars."""
    left, room, row = 232, 330, 34
    most = max(way.median for _, way in WAYS)
    body = []
    for i, (name, way) in enumerate(WAYS):
        y, long = i * row, room * way.median / most
        kind = "ours" if i == 0 else "theirs"
        told = f"{way.median:.1f} µs"
        body.append(
            f'<text x="{left - 10}" y="{y + 20}" text-anchor="end">{escape(name)}</text>'
            f'<rect class="{kind}" x="{left}" y="{y + 6}" width="{long:.1f}" height="20" rx="3"/>'
            f'<text x="{left + long + 8:.1f}" y="{y + 20}">{told}</text>'
        )
    size = f"0 0 {left + room + 70} {row * len(WAYS) + 4}"
    label = "round trips from the host to the GPU and back"
    device = escape(WAYS[0][1].found()["device"])
    record = f'<a href="source/{RESULTS}/{DISPATCH}.json">record</a>'
    caption = "One acknowledged round trip from the host to the GPU and back, median"
    return (
        f'<figure class="trips"><svg viewBox="{size}" role="img" aria-label="{label}">'
        f"{''.join(body)}</svg><figcaption>{caption}, {device} ({record}).</figcaption></figure>\n"
    )


QUOTED = re.compile(r'\[([0-9.,]+)\]\(\.\./benchmarks/results/([\w./-]+)\.json "([^"]+)"\)')


def misquoted(text: str, page: str) -> Iterator[str]:
    """Each number that is not its record's: ``[2.5](….json "case; key=value")``."""
    for shown, record, title in QUOTED.findall(text):
        case, *given = title.split("; ")
        params = tuple((key, _value(value)) for key, value in (one.split("=", 1) for one in given))
        median = Row(record, case, params).median
        digits = shown.replace(",", "")
        decimals = len(digits.partition(".")[2])
        zeros = 0 if decimals else len(digits) - len(digits.rstrip("0"))
        if abs(float(digits) - median) > 0.5 * 10 ** (zeros - decimals) * 1.0001:
            yield f'{page}: {shown} is quoted for "{title}"; {record} has {median:g}'


def _value(text: str) -> Any:
    return int(text) if text.isdecimal() else text
