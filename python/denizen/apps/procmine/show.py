# SPDX-License-Identifier: Apache-2.0
"""What was found, as tables for a terminal and as one JSON object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from denizen import terminal
from denizen.procmine import Concurrency, Conformance, Mined, Pattern
from denizen.procmine.times import span_of, text_of

if TYPE_CHECKING:
    from denizen.procmine.stream import Streamed

_MOST_EDGES = 20
_MOST_NAMES = 3


def as_dict(
    mined: Mined,
    patterns: list[Pattern],
    together: Concurrency,
    agreement: Conformance | None,
) -> dict[str, Any]:
    """Everything that was found; durations in microseconds."""
    log = mined.log
    value: dict[str, Any] = {
        "source": log.source,
        "events": len(log),
        "cases": int((mined.case_events > 0).sum()),
        "activities": [
            {"name": name, "count": int(count)}
            for name, count in zip(log.activities, mined.activity_counts, strict=True)
            if count
        ],
        "edges": [
            {
                "from": edge.source,
                "to": edge.to,
                "count": edge.count,
                "mean": edge.mean,
                "median": edge.median,
                "p95": edge.p95,
                "least": edge.least,
                "most": edge.most,
            }
            for edge in mined.edges
        ],
        "starts": mined.start_activities,
        "ends": mined.end_activities,
        "variants": [{"path": v.path, "count": v.count} for v in mined.variants],
        "patterns": [pattern.as_dict() for pattern in patterns],
        "concurrency": {
            "widest": int(together.width.max(initial=0)),
            "cases": int((together.width > 1).sum()),
            "pairs": together.pairs,
        },
        "problems": log.problems,
    }
    if len(log):
        value["begin"], value["end"] = text_of(log.time.min()), text_of(log.time.max())
    if agreement is not None:
        value["conformance"] = {
            "fitness": agreement.fitness,
            "fitting_cases": agreement.fitting_cases,
            "precision": agreement.precision,
            "deviations": agreement.deviations,
        }
    return value


def evidence(pattern: Pattern) -> str:
    """Its figures and some cases, as a line."""
    f = pattern.figures
    if pattern.kind == "bottleneck":
        told = (
            f"{f['share']:.0%} of all time; median {span_of(f['median'])}, "
            f"p95 {span_of(f['p95'])} (usual {span_of(f['usual median'])})"
        )
    elif pattern.kind == "long-running":
        told = f"longer than {span_of(f['fence'])}; longest {span_of(f['longest'])}"
    else:
        again = f"{f['repetitions']:,.0f} times again, at most {f['most']:.0f}"
        told = f"{f['share']:.1%} of cases; {again}"
    names = ", ".join(pattern.evidence[:_MOST_NAMES])
    return f"{told}; {names}{', …' if pattern.cases > _MOST_NAMES else ''}"


def tables(
    mined: Mined,
    patterns: list[Pattern],
    together: Concurrency,
    agreement: Conformance | None,
    *,
    variants: int,
    everything: int,
    read: str,
) -> None:
    """Print all tables.

    ``variants``: how many of them; ``everything``: the cases before filters; ``read``: how long
    reading took.
    """
    log = mined.log
    cases = int((mined.case_events > 0).sum())
    figures = [
        ("events", f"{len(log):,}"),
        ("cases", f"{cases:,}" + (f" of {everything:,}" if cases != everything else "")),
        ("activities", f"{int((mined.activity_counts > 0).sum()):,}"),
        ("edges", f"{len(mined.edge_count):,}"),
        ("variants", f"{len(mined.variant_count):,}"),
    ]
    if len(log):
        lasted = (mined.case_ends - mined.case_begins)[mined.case_events > 0]
        figures += [
            ("from", text_of(log.time.min())),
            ("to", text_of(log.time.max())),
            ("case, median", span_of(float(np.median(lasted)))),
            ("case, longest", span_of(float(lasted.max()))),
            ("cases with something concurrent", f"{int((together.width > 1).sum()):,}"),
            ("widest partial order", f"{int(together.width.max()):,}"),
        ]
    if agreement is not None:
        figures += [
            ("fitness", f"{agreement.fitness:.4f}"),
            ("cases that fit", f"{agreement.fitting_cases:.2%}"),
            ("precision", f"{agreement.precision:.4f}"),
        ]
    figures += [
        ("file read in", read),
        ("mined in", f"{1e3 * mined.seconds:,.2f} ms, {mined.device}"),
    ]
    terminal.table("denizen run procmine", ("figure", "value"), figures, right=(1,))
    _edges(mined)
    _ends(mined)
    total = max(int(mined.variant_count.sum()), 1)
    told = mined.variants[:variants]
    terminal.table(
        f"{len(told)} of {len(mined.variants):,} variants",
        ("cases", "share", "path"),
        [(f"{v.count:,}", f"{v.count / total:.1%}", " → ".join(v.path)) for v in told],
        right=(0, 1),
    )
    terminal.table(
        f"{len(patterns)} patterns",
        ("kind", "what", "cases", "confidence", "evidence"),
        [
            (
                p.kind,
                " → ".join(p.activities) or "cases",
                f"{p.cases:,}",
                f"{p.confidence:.2f}",
                evidence(p),
            )
            for p in patterns
        ],
        right=(2, 3),
    )
    if together.pairs:
        terminal.table(
            "concurrent activities",
            ("one", "other", "times"),
            [(a, b, f"{n:,}") for a, b, n in together.pairs[:10]],
            right=(2,),
        )
    if agreement is not None and agreement.deviations:
        terminal.table(
            "deviations",
            ("from", "to", "times"),
            [(a or "(start)", b or "(end)", f"{n:,}") for a, b, n in agreement.deviations[:20]],
            right=(2,),
        )


def _edges(mined: Mined) -> None:
    order = np.argsort(-mined.edge_count.astype(np.int64), kind="stable")[:_MOST_EDGES]
    rows = [
        (
            edge.source,
            edge.to,
            f"{edge.count:,}",
            span_of(edge.mean),
            span_of(edge.median),
            span_of(edge.p95),
        )
        for edge in (mined.edges[i] for i in order)
    ]
    terminal.table(
        f"{len(rows)} of {len(mined.edges):,} edges",
        ("from", "to", "times", "mean", "median", "p95"),
        rows,
        right=(2, 3, 4, 5),
    )


def _ends(mined: Mined) -> None:
    rows = [
        (name, f"{begin:,}" if begin else "-", f"{end:,}" if end else "-")
        for name in mined.log.activities
        for begin, end in [(mined.start_activities.get(name, 0), mined.end_activities.get(name, 0))]
        if begin or end
    ]
    terminal.table("where cases start and end", ("activity", "start", "end"), rows, right=(1, 2))


def stream(found: Streamed) -> None:
    """What the actors did."""
    terminal.table(
        "by an actor for each case",
        ("figure", "value"),
        [
            ("device", found.device),
            ("events", f"{found.events:,}"),
            ("too late", f"{found.late:,}"),
            ("events per second", f"{found.events / found.seconds:,.0f}"),
            ("edges read while it grew", f"{found.glances:,} times"),
        ],
        right=(1,),
    )
