# SPDX-License-Identifier: Apache-2.0
"""A report as one HTML page that needs nothing from a network: map, variants, patterns."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from denizen import style
from denizen.apps.procmine import layout
from denizen.apps.procmine.show import evidence
from denizen.files import write_text
from denizen.procmine import Concurrency, Conformance, Mined, Pattern
from denizen.procmine.times import span_of, text_of

_MOST_VARIANTS = 200
_SHARE = 0.92
_MOST_EDGES = 400  # of the map; the tables of the command and --json have all


def _main(edges: list[dict[str, Any]]) -> list[bool]:
    """The most frequent edges that make up a share of all steps, and those that are the strongest
    to or from an activity: what the page shows at first."""
    order = sorted(range(len(edges)), key=lambda i: -edges[i]["count"])
    total = sum(edge["count"] for edge in edges)
    main = [False] * len(edges)
    into, out, passed = set(), set(), 0
    for i in order:
        edge = edges[i]
        loop = edge["from"] == edge["to"]
        strongest = not loop and (edge["to"] not in into or edge["from"] not in out)
        main[i] = strongest or passed < _SHARE * total
        if not loop:
            into.add(edge["to"])
            out.add(edge["from"])
        passed += edge["count"]
    return main


def _map(mined: Mined) -> dict[str, Any]:
    """Nodes and edges with their places. Two more nodes stand for the begin and end of cases."""
    used = np.flatnonzero(mined.activity_counts)
    number = {int(a): i for i, a in enumerate(used)}
    begin, end = len(used), len(used) + 1
    kept = np.sort(np.argsort(-mined.edge_count.astype(np.int64), kind="stable")[:_MOST_EDGES])
    edges: list[dict[str, Any]] = [
        {
            "from": number[int(mined.edge_from[i])],
            "to": number[int(mined.edge_to[i])],
            "count": int(mined.edge_count[i]),
            "mean": float(mined.edge_mean[i]),
            "median": float(mined.edge_median[i]),
            "p95": float(mined.edge_p95[i]),
        }
        for i in kept
    ]
    for a, i in number.items():
        for count, step in ((mined.starts[a], (begin, i)), (mined.ends[a], (i, end))):
            if count:
                edges.append({"from": step[0], "to": step[1], "count": int(count)})
    main = _main(edges)
    drawn = layout.lay_out(
        len(used) + 2,
        [(edge["from"], edge["to"]) for edge in edges],
        [edge["count"] for edge in edges],
        main,
        (begin, end),
    )
    for edge, points in zip(edges, drawn.edges, strict=True):
        edge["points"] = points
    nodes: list[dict[str, Any]] = [
        {"name": mined.log.activities[a], "count": int(mined.activity_counts[a])} for a in used
    ]
    cases = int((mined.case_events > 0).sum())
    nodes += [{"name": "begin", "count": cases}, {"name": "end", "count": cases}]
    for node, place in zip(nodes, drawn.nodes, strict=True):
        node["x"], node["y"] = place
    return {
        "nodes": nodes,
        "edges": edges,
        "width": drawn.width,
        "height": drawn.height,
        "share": _SHARE,
        "box": [layout.WIDTH, layout.HEIGHT],
        "leftOut": len(mined.edge_count) - len(kept),
    }


def data_of(
    mined: Mined,
    patterns: list[Pattern],
    together: Concurrency,
    agreement: Conformance | None,
) -> dict[str, Any]:
    """What the page shows."""
    log = mined.log
    there = mined.case_events > 0
    cases = int(there.sum())
    figures = [("events", f"{len(log):,}"), ("cases", f"{cases:,}")]
    if cases:
        lasted = (mined.case_ends - mined.case_begins)[there]
        figures += [
            ("variants", f"{len(mined.variant_count):,}"),
            ("median case", span_of(float(np.median(lasted)))),
            ("from", text_of(log.time.min())[:10]),
            ("to", text_of(log.time.max())[:10]),
            ("widest partial order", f"{int(together.width.max())}"),
        ]
    if agreement is not None:
        figures += [
            ("fitness", f"{agreement.fitness:.3f}"),
            ("precision", f"{agreement.precision:.3f}"),
        ]
    median = np.zeros(len(mined.variant_count))
    known = np.flatnonzero(there)
    order = known[np.argsort(mined.case_variants[known], kind="stable")]
    bounds = np.searchsorted(mined.case_variants[order], np.arange(len(median) + 1))
    for v in range(min(len(median), _MOST_VARIANTS)):
        of = order[bounds[v] : bounds[v + 1]]
        median[v] = float(np.median(mined.case_ends[of] - mined.case_begins[of]))
    return {
        "source": Path(log.source).name,
        "figures": figures,
        "map": _map(mined),
        "variants": [
            {"path": v.path, "count": v.count, "median": median[i]}
            for i, v in enumerate(mined.variants[:_MOST_VARIANTS])
        ],
        "variantCount": len(mined.variant_count),
        "cases": cases,
        "patterns": [
            {
                "kind": p.kind,
                "what": " → ".join(p.activities) or "cases",
                "cases": p.cases,
                "confidence": p.confidence,
                "evidence": evidence(p),
                "names": p.evidence,
                "activities": p.activities,
            }
            for p in patterns
        ],
        "deviations": [] if agreement is None else agreement.deviations[:50],
        "problems": [
            f"{kind}: {count:,} times, first {log.first_problems[kind]}"
            for kind, count in log.problems.items()
        ],
    }


def write(
    path: Path,
    mined: Mined,
    patterns: list[Pattern],
    together: Concurrency,
    agreement: Conformance | None = None,
) -> None:
    """Write the page to ``path``."""
    page = files("denizen.apps.procmine").joinpath("report.html").read_text(encoding="utf-8")
    data = json.dumps(data_of(mined, patterns, together, agreement))
    # Names come out of a log: none may end the script element.
    parts = {"style": style.sheet(), "data": data.replace("<", "\\u003c")}
    write_text(path, style.fill(page, parts))
