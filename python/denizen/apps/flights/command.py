# SPDX-License-Identifier: Apache-2.0
"""What ``denizen run flights`` prints and answers."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from denizen import terminal
from denizen.apps.flights import app, load
from denizen.lab import bench, programs, show
from denizen.lab.record import LabError


def microseconds(seconds: float) -> str:
    return f"{1e6 * seconds:,.1f} µs"


def rows(result: app.Result) -> list[tuple[str, str]]:
    """The lines of the final table."""
    lines = [
        ("device", result.device),
        ("flights", f"{result.flights:,}"),
        ("figures compared", f"{result.figures:,}"),
        ("events per second", f"{result.flights / result.seconds:,.0f}"),
        ("messages handled per second", f"{3 * result.flights / result.seconds:,.0f}"),
    ]
    # A percentile needs a sample beyond it; a stream may be over after a few asks.
    asks = len(result.asks)
    for name, q, enough in (("p50", 50, 1), ("p99", 99, 100)):
        what = f"ask under load, {name} of {asks:,}"
        value = microseconds(float(np.percentile(result.asks, q))) if asks >= enough else "-"
        lines.append((what, value))
    return lines


def run(
    csv: Path | None,
    device: str,
    *,
    dispatch: bool,
    metrics: int | None = None,
    trace: Path | None = None,
    hosts: int | None = None,
    transport: str = "rings",
) -> int:
    """The whole command; the exit status: 0 if every figure agreed, else 1.

    ``metrics``: the port to serve metrics at meanwhile; ``trace``: a file to trace to;
    ``hosts``: spread over so many.
    Raises DataError for data that cannot be used, before any actor is made.
    """
    path = csv or load.package_file()
    with terminal.working(f"reading {path.name}"):
        flights = load.load(path)
    with terminal.progress("flights", len(flights)) as advance:
        result = app.replay(
            flights, device, advance, metrics, trace, hosts=hosts, transport=transport
        )
    if result.first_difference is not None:
        terminal.error(f"not verified: {result.first_difference}")
    print(f"verified {result.verified:,} / {result.flights:,}")
    terminal.table("denizen run flights", ("figure", "value"), rows(result), right=(1,))
    if not result.ok:
        return 1
    if dispatch:
        try:
            programs.find("dispatch")
        except LabError:  # an installed package has none, nor a checkout that was not asked for it
            print("round trips: `make bench` in a checkout, then `denizen bench dispatch`")
            return 0
        record = bench.run("dispatch", device, quick=True)
        show.show(record)
        if not record.verified:
            terminal.error("the dispatch benchmark's work was not verified")
            return 1
    return 0
