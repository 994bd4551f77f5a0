# SPDX-License-Identifier: Apache-2.0
"""The home page's numbers and picture, out of the committed records, and the numbers that other
pages quote from them. As a program it writes these anew: after new records."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RESULTS = "benchmarks/results"
REASONS = "python/denizen/lab/shortfalls.toml"  # becomes a part of docs/figures.md


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


QUOTED = re.compile(r'\[([0-9.,]+)\]\(((?:\.\./)?benchmarks/results/)([\w./-]+)\.json "([^"]+)"\)')
# A record by its commit: [`0123abcd`](….json "commit").
COMMIT = re.compile(
    r'\[`([0-9a-f]{8})`\]\(((?:\.\./)?benchmarks/results/)([\w./-]+)\.json "commit"\)'
)
_UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "share": 1.0, "%": 0.01}


def _quoted(record: str, title: str) -> float:
    """What ``case; key=value; in=ns`` is in the record, in another unit if it says so: the median,
    or the row's field of ``is=p99``, or with ``to=CASE`` its ratio to another case."""
    case, *given = title.split("; ")
    wanted = dict(one.split("=", 1) for one in given)
    unit, field, base = wanted.pop("in", None), wanted.pop("is", "median"), wanted.pop("to", None)
    found = Row(record, case, tuple((key, _value(value)) for key, value in wanted.items())).found()
    told = found[field] if base is None else found["ratio_to"].get(base)
    if told is None:
        raise ValueError(f'{record}: no {base or field} of "{case}"')
    measured_in = "share" if base is not None or field == "cv" else found["unit"]
    return float(told) if unit is None else float(told) * _UNITS[measured_in] / _UNITS[unit]


def _commit(record: str) -> str:
    found = json.loads((ROOT / RESULTS / f"{record}.json").read_text("utf-8"))["commit"]
    return str(found)[:8]


def _as_shown(shown: str, value: float) -> str:
    """``value`` with the digits of ``shown``: its decimals, or its zeros at the end."""
    digits = shown.replace(",", "")
    decimals = len(digits.partition(".")[2])
    zeros = 0 if decimals else len(digits) - len(digits.rstrip("0"))
    return f"{round(value, decimals or -zeros):{',' if ',' in shown else ''}.{decimals}f}"


def misquoted(text: str, page: str) -> Iterator[str]:
    """Each number and commit that is not its record's: ``[2.5](….json "case; key=value")``."""
    for shown, _, record, title in QUOTED.findall(text):
        value = _quoted(record, title)
        if _as_shown(shown, value) != shown:
            yield f'{page}: {shown} is quoted for "{title}"; {record} has {value:g}'
    for shown, _, record in COMMIT.findall(text):
        if shown != _commit(record):
            yield f"{page}: {record} is of {_commit(record)}, not of {shown}"


def requoted(text: str) -> str:
    """``text`` with each number as its record has it: three digits if it changed, counts whole; and
    with each record's commit."""

    def turned(found: re.Match[str]) -> str:
        shown, folder, record, title = found.groups()
        value = _quoted(record, title)
        if _as_shown(shown, value) != shown:
            decimals = max(0, 2 - math.floor(math.log10(abs(value)))) if value else 0
            counted = value.is_integer() and value < 10_000
            shown = f"{value:,.0f}" if counted else f"{float(f'{value:.3g}'):,.{decimals}f}"
        return f'[{shown}]({folder}{record}.json "{title}")'

    text = COMMIT.sub(lambda found: found[0].replace(found[1], _commit(found[3])), text)
    return QUOTED.sub(turned, text)


# What looks like a measurement: a rate, nanoseconds, a share of a core, so many times as fast.
_MEASURED = re.compile(
    r"(?<![\w\[.,-])[0-9][0-9.,]* ?"
    r"(?:[kMG]/s|[kMG]i?B/s|Msps|[MG]cells/s|[kM] messages|ns\b|[\u00b5u]s\b|% of a core|"
    r"(?:times|x|\u00d7) (?:as )?(?:fast|long|many))"
)
# By page what is none, or is another's: settings, standards, clocks, and what a link beside names.
NO_MEASUREMENT = {
    "docs/comparison.md": (  # NVIDIA's, and what others published
        "1 ns",
        "30 ns",
        "47.9 ns",
        "72.28 ns",
        "5.54 M/s",
        "78,089 Mcells/s",
        "18,633 Mcells/s",
        "205.31 G/s",
        "10.83 M/s",
        "3.05 M/s",
        "16.4 M/s",
        "648 M/s",
        "35.7 M/s",
        "20.37 M/s",
        "0.000 \u00b5s",
        "0.2 \u00b5s",
        "0.878 \u00b5s",
        "1.875 \u00b5s",
        "4.826 \u00b5s",
        "100 \u00b5s",
        "197 \u00b5s",
    ),
    "docs/flow.md": ("50 \u00b5s",),  # a nap
    "docs/gpu-sharing.md": ("100 \u00b5s", "800 \u00b5s", "5,000 \u00b5s"),  # naps, breaths
    "docs/graphs.md": ("80 \u00b5s",),  # what `auto` goes by
    "docs/group.md": (  # a setting, and a model
        "10 GB/s",
        "0.9 us",
        "1.3 us",
        "4.5 us",
        "15.2 us",
        "230 us",
    ),
    "docs/inference.md": ("3 \u00b5s",),  # a goal
    "docs/lens.md": ("24 ns", "500 ns", "22 GiB/s", "32 ns"),  # the paper's, and the clock's
    "docs/observe.md": ("1 ns", "32 ns"),  # buckets, a clock
    "docs/radio.md": ("2 Msps",),  # what the receiver works at
    "docs/scale.md": ("1.5 \u00b5s", "40 \u00b5s", "50 \u00b5s"),  # a goal, handlers, a nap
    "docs/testing.md": ("20 us",),  # a nap
    "docs/transactions.md": ("40 \u00b5s",),  # a wait
    "docs/wire.md": ("100 \u00b5s",),  # likewise
}
_HAS_A_CHECK = frozenset({"docs/ab.md"})  # of its own, in tests/ab: its records have their own form


def like_measurements(text: str) -> list[str]:
    """What looks measured in the prose, but for what is quoted from a record."""
    text = re.sub(r"^(```+).*?^\1", "", text, flags=re.M | re.S)
    return _MEASURED.findall(re.sub(r"`[^`\n]*`", "", text))


def unsupported(text: str, page: str) -> Iterator[str]:
    """Each number of the prose that looks measured and is quoted from no record."""
    if page in _HAS_A_CHECK:
        return
    for found in like_measurements(text):
        if found not in NO_MEASUREMENT.get(page, ()):
            yield f'{page}: "{found}" is of no record: quote one, or leave it out'


def _value(text: str) -> Any:
    return int(text) if text.isdecimal() else text


def main() -> None:
    """Puts what the records say into every page that quotes them."""
    for page in [ROOT / "README.md", ROOT / REASONS, *sorted((ROOT / "docs").glob("*.md"))]:
        old = page.read_text("utf-8")
        if (new := requoted(old)) != old:
            page.write_text(new, "utf-8")
            print(f"{page.relative_to(ROOT)}: written")


if __name__ == "__main__":
    main()
