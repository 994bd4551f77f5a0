# SPDX-License-Identifier: Apache-2.0
"""A made log of a building authority, mined, and its map."""

from __future__ import annotations

import random
from collections import Counter
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from denizen.tour import draw
from denizen.tour.step import Found, Picture, Place

if TYPE_CHECKING:
    from denizen.procmine import Log

_CASES = 3000
_HOUR = 3600 * 10**6  # microseconds
_BEGIN = 1_704_096_000_000_000  # 2024-01-01, 8:00


def _case(choose: random.Random) -> list[tuple[str, float]]:
    """Activities and how many hours each comes after the one before it."""
    path = [("receive", 0.0), ("check", choose.expovariate(1 / 6))]
    while choose.random() < 0.35 and len(path) < 12:  # ends: by chance, and by its length
        path += [
            ("ask for papers", choose.expovariate(1 / 4)),
            ("papers arrive", 24 + choose.expovariate(1 / 120)),
            ("check", choose.expovariate(1 / 6)),
        ]
    if choose.random() < 0.6:
        path.append(("visit the site", 20 + choose.expovariate(1 / 50)))
    path.append(("decide", choose.expovariate(1 / 30)))
    granted = choose.random() < 0.8
    path.append(("grant" if granted else "refuse", choose.expovariate(1 / 2)))
    if not granted and choose.random() < 0.3:
        path += [
            ("appeal", 48 + choose.expovariate(1 / 200)),
            ("decide", choose.expovariate(1 / 90)),
            ("grant" if choose.random() < 0.4 else "refuse", choose.expovariate(1 / 2)),
        ]
    path += [("send the bill", choose.expovariate(1 / 8)), ("close", choose.expovariate(1 / 150))]
    return path


def made() -> Log:
    """3,000 applications of a year, in the order of time."""
    from denizen import procmine  # noqa: PLC0415

    choose = random.Random(7)
    events = []
    for number in range(_CASES):
        at = _BEGIN + choose.random() * 365 * 24 * _HOUR
        for activity, hours in _case(choose):
            at += hours * _HOUR
            events.append((round(at), f"A{number:04}", activity))
    events.sort()
    times, cases, activities = zip(*events, strict=True)
    return procmine.from_columns(cases, activities, times, source="made applications")


def _by_hand(log: Log) -> tuple[Counter[tuple[str, str]], Counter[tuple[str, ...]]]:
    """What directly follows what, and the variants, in plain Python."""
    paths: dict[int, list[str]] = {}
    for i in log.order().tolist():
        paths.setdefault(int(log.case[i]), []).append(log.activities[log.activity[i]])
    follows: Counter[tuple[str, str]] = Counter()
    for path in paths.values():
        follows.update(pairwise(path))
    return follows, Counter(tuple(path) for path in paths.values())


def run(place: Place) -> Found:
    from denizen import procmine  # noqa: PLC0415
    from denizen.apps.procmine import page  # noqa: PLC0415
    from denizen.apps.procmine.show import evidence  # noqa: PLC0415

    place.tell("making a log")
    log = made()
    place.tell("mining it")
    mined = procmine.mine(log, device="auto" if place.device == "auto" else place.device)
    patterns = procmine.find(mined, procmine.Thresholds())
    place.tell("the same in plain Python")
    follows, variants = _by_hand(log)
    wrong = None
    if mined.counts != follows:
        pair = next(p for p in mined.counts | follows if mined.counts.get(p) != follows.get(p))
        wrong = (
            f'"{pair[1]}" follows "{pair[0]}" {mined.counts.get(pair, 0):,} times as mined, and '
            f"{follows[pair]:,} times in the log"
        )
    elif {v.path: v.count for v in mined.variants} != variants:
        wrong = f"{len(mined.variants):,} variants were mined, the log has {len(variants):,}"
    total = int(mined.variant_count.sum())
    rows = [
        (f"{v.count:,}", f"{v.count / total:.0%}", " → ".join(v.path)) for v in mined.variants[:5]
    ]
    told = [
        (f"{p.kind}", f"{' → '.join(p.activities) or 'cases'}: {evidence(p)}") for p in patterns
    ]
    return Found(
        did=f"{len(log):,} events of {len(log.cases):,} applications to a building authority "
        "(made, with "
        "loops, waits and appeals): which activity follows which, how often, how long it takes.",
        checked=f"{len(follows)} counts and {len(variants)} variants equal those of plain Python.",
        wrong=wrong,
        device=mined.device,
        figures=[("mined in", f"{1e3 * mined.seconds:.2f} ms"), *told[:4]],
        pictures=[
            Picture(
                _map(page.data_of(mined, patterns, procmine.concurrency(log), None)["map"]),
                "What follows what: thick is often, orange takes long. The whole page: "
                "denizen run procmine FILE --html map.html.",
            )
        ],
        table=("the most frequent of the variants", ("cases", "share", "path"), rows),
    )


def _map(drawn: dict[str, Any]) -> str:
    """The report's map, at rest, with its main edges."""
    width, height = drawn["box"]
    most = max(edge["count"] for edge in drawn["edges"])
    longest = max(edge.get("median", 0.0) for edge in drawn["edges"]) or 1.0
    body = []
    for edge in drawn["edges"]:
        points = edge["points"]
        share = edge["count"] / most
        slow = (edge.get("median", 0.0) / longest) ** 0.5
        kind = "edge slow" if slow > 0.6 else "edge"
        (x, y), *_ = points
        if edge["from"] == edge["to"]:
            line = f"M{x + width / 2} {y - 8}c50 -14 50 30 0 16"
        else:
            line = f"M{x} {y}" + "".join(
                f"C{a} {(b + d) / 2} {c} {(b + d) / 2} {c} {d}"
                for (a, b), (c, d) in pairwise(points)
            )
        body.append(f'<path class="{kind}" d="{line}" stroke-width="{1 + 9 * share:.1f}"/>')
    for node in drawn["nodes"]:
        x, y = node["x"] - width / 2, node["y"] - height / 2
        body.append(
            f'<rect class="node" x="{x}" y="{y}" width="{width}" height="{height}" rx="8"/>'
            f'<text class="name" x="{node["x"]}" y="{node["y"] - 2}" text-anchor="middle">'
            f'{escape(node["name"])}</text><text x="{node["x"]}" y="{node["y"] + 14}" '
            f'text-anchor="middle">{node["count"]:,}</text>'
        )
    return draw.svg(drawn["width"], drawn["height"], "".join(body), "map of the process")
