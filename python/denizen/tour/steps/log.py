# SPDX-License-Identifier: Apache-2.0
"""The days of aircraft as a log of events, mined, and its map."""

from __future__ import annotations

from collections import Counter
from html import escape
from importlib.resources import as_file
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from denizen.tour import draw
from denizen.tour.step import Found, Picture, Place, data

if TYPE_CHECKING:
    from denizen.procmine import Log

_DAY = 24 * 60  # minutes
_LATE = 15  # minutes after the timetable, as the Bureau of Transportation Statistics counts
_AIRPORTS = {"EWR": "Newark", "JFK": "Kennedy", "LGA": "LaGuardia"}


def days() -> Log:
    """A case is what one aircraft does in one day: it leaves one of New York's airports, or is
    cancelled, and lands, in time or late, after the minutes that it was in the air. The month's
    flights without a tail number are left out, as are landings that nobody wrote down.
    """
    from denizen import procmine  # noqa: PLC0415
    from denizen.apps.flights import load  # noqa: PLC0415

    with as_file(data("flights-2013-02.csv.zip")) as path:
        flights = load.load(path)
    known = np.array([tail != "" for tail in flights.tails])[flights.aircraft]
    gone = known & (flights.dep_delay != load.MISSING)
    down = gone & (flights.arr_delay != load.MISSING)
    left = flights.minute + flights.dep_delay
    leaves = np.array([f"leaves {_AIRPORTS.get(a, a)}" for a in flights.airports])[flights.origin]
    lands = np.where(flights.arr_delay > _LATE, "lands late", "lands in time")
    of = np.flatnonzero
    flight = np.concatenate([of(known & ~gone), of(gone), of(down)])
    minute = np.concatenate(
        [flights.minute[known & ~gone], left[gone], (left + flights.air_time)[down]]
    )
    activity = np.concatenate(
        [np.full((known & ~gone).sum(), "is cancelled"), leaves[gone], lands[down]]
    )
    order = np.lexsort((flight, minute))
    tails = np.array(flights.tails)[flights.aircraft[flight]]
    day = (flights.minute[flight] // _DAY).astype("datetime64[D]")
    cases = [f"{tail} on {d}" for tail, d in zip(tails[order], day[order], strict=True)]
    times = minute[order] * 60 * 10**6  # microseconds
    return procmine.from_columns(cases, activity[order].tolist(), times, source="days of aircraft")


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

    place.tell("reading the flights")
    log = days()
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
        did=f"{len(log):,} departures and landings of February 2013, in {len(log.cases):,} days of "
        "aircraft that left New York: what follows what, how often, after how long. Late is more "
        f"than {_LATE} minutes.",
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
        middle = f'x="{node["x"]}" text-anchor="middle"'
        body.append(
            f'<rect class="node" x="{x}" y="{y}" width="{width}" height="{height}" rx="8"/>'
            f'<text class="name" {middle} y="{node["y"] - 2}">{escape(node["name"])}</text>'
            f'<text class="count" {middle} y="{node["y"] + 16}">{node["count"]:,}</text>'
        )
    return draw.svg(drawn["width"], drawn["height"], "".join(body), "map of the process")
