# SPDX-License-Identifier: Apache-2.0
"""Process mining from Python: events streamed through actors, and what pm4py and Polars do."""

from __future__ import annotations

import importlib.util
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from denizen import _core, procmine
from denizen.lab.record import Measured, Scalar

Counts = dict[tuple[str, str], tuple[int, float]]  # times and median in microseconds, by edge


def _polars(log: procmine.Log) -> Callable[[], Counts]:
    import polars as pl  # noqa: PLC0415

    table = pl.DataFrame({"case": log.case, "activity": log.activity, "time": log.time})

    def graph() -> Any:
        # The same work: order, steps, times, mean, median, 95th percentile, least and most.
        spent = pl.col("to_time") - pl.col("time")
        return (
            table.lazy()
            .sort("case", "time", maintain_order=True)
            .with_columns(
                pl.col("case").shift(-1).alias("to_case"),
                pl.col("activity").shift(-1).alias("to"),
                pl.col("time").shift(-1).alias("to_time"),
            )
            .filter(pl.col("case") == pl.col("to_case"))
            .group_by("activity", "to")
            .agg(
                pl.len().alias("count"),
                spent.mean().alias("mean"),
                spent.median().alias("median"),
                spent.quantile(0.95, "linear").alias("p95"),
                spent.min().alias("least"),
                spent.max().alias("most"),
            )
            .collect()
        )

    def counts() -> Counts:
        found = graph()
        names = log.activities
        rows = found.select("activity", "to", "count", "median").iter_rows()
        return {(names[a], names[b]): (n, median) for a, b, n, median in rows}

    return counts


def _pm4py(log: procmine.Log) -> Callable[[], Counts]:
    os.environ.setdefault("PM4PY_SHOW_PROGRESS_BAR", "False")
    import pandas as pd  # noqa: PLC0415
    import pm4py  # noqa: PLC0415

    table = pd.DataFrame(
        {
            "case:concept:name": pd.Categorical.from_codes(log.case, log.cases).astype(str),
            "concept:name": pd.Categorical.from_codes(log.activity, log.activities).astype(str),
            "time:timestamp": pd.to_datetime(log.time, unit="us", utc=True),
        }
    )

    def counts() -> Counts:
        graph, _, _ = pm4py.discover_dfg(table)
        spent, _, _ = pm4py.discover_performance_dfg(table)
        return {edge: (int(n), 1e6 * float(spent[edge]["median"])) for edge, n in graph.items()}

    return counts


RIVALS = {"graph, pm4py": ("pm4py", _pm4py), "graph, Polars": ("polars", _polars)}


def rivals(_device: str, *, quick: bool) -> list[Measured]:
    """Millions of events per second of the rivals that are installed, on the CPU.

    Each has the log as a table of its own before the clock starts. Polars uses all cores; pm4py
    gets a smaller log, and finds median and least but no percentile.
    """
    measured = []
    for name, (package, prepare) in RIVALS.items():
        if importlib.util.find_spec(package) is None:
            continue
        events = 100_000 if quick else 1_000_000 if package == "pm4py" else 10_000_000
        log = procmine.generate(events)
        expected = {
            (e.source, e.to): (e.count, e.median) for e in procmine.mine(log, variants=False).edges
        }
        run = prepare(log)
        samples, right = [], True
        for _ in range(2 if quick else 5):
            begin = time.perf_counter()
            found = run()
            samples.append(len(log) / (time.perf_counter() - begin) * 1e-6)
            right &= found.keys() == expected.keys() and all(
                found[edge][0] == n and abs(found[edge][1] - median) <= max(1.0, 1e-6 * median)
                for edge, (n, median) in expected.items()
            )
        params: dict[str, Scalar] = {"events": len(log), "cases": len(log.cases)}
        measured.append(
            Measured(name, params, "M/s", np.array(samples), len(log) * len(samples), right)
        )
    return measured


def streamed(device: str, *, quick: bool) -> list[Measured]:
    """Millions of events per second through case actors, from NumPy arrays to the last counted.

    The graph, starts, ends and every case's path at the end must be those of the log mined at once.
    """
    from denizen.procmine import stream  # noqa: PLC0415  (compiles a program)

    on_gpu = _core.gpu_count() > 0 and not device.startswith("cpu")
    events = 20_000_000 if on_gpu else 4_000_000
    log = procmine.generate(events // 10 if quick else events)
    mined = procmine.mine(log)
    samples, right = [], True
    for i in range(-1, 2 if quick else 5):  # the first is a warm-up
        found = stream.replay(log, device=device, glances=0)
        right &= found.differences(mined) == []
        if i >= 0:
            samples.append(found.events / found.seconds * 1e-6)
    params: dict[str, Scalar] = {"events": len(log), "cases": len(log.cases)}
    return [Measured("streamed", params, "M/s", np.array(samples), len(log) * len(samples), right)]
