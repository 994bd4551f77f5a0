# SPDX-License-Identifier: Apache-2.0
"""Process mining from Python: events streamed through actors, and what pm4py and Polars do."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from denizen import _core, procmine, terminal
from denizen.lab.record import LabError, Measured, Scalar

_TIMEOUT = 3600.0
_ROUNDS = 11  # fewer than nine have no interval
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


# pm4py is under the AGPL: it runs in a process of its own, to which arrays and names go as files
# and from which figures come as JSON. Its table is there before the clock starts.
_PM4PY = """
import json, os, sys, time
os.environ.setdefault("PM4PY_SHOW_PROGRESS_BAR", "False")
import numpy as np, pandas as pd, pm4py
folder, rounds = sys.argv[1], int(sys.argv[2])
log = np.load(os.path.join(folder, "log.npz"), allow_pickle=False)
with open(os.path.join(folder, "names.json"), encoding="utf-8") as file:
    names = json.load(file)
categories = pd.Categorical.from_codes
table = pd.DataFrame({
    "case:concept:name": categories(log["case"], names["cases"]).astype(str),
    "concept:name": categories(log["activity"], names["activities"]).astype(str),
    "time:timestamp": pd.to_datetime(log["time"], unit="us", utc=True),
})
seconds, found = [], []
for _ in range(rounds):
    begin = time.perf_counter()
    graph, _, _ = pm4py.discover_dfg(table)
    spent, _, _ = pm4py.discover_performance_dfg(table)
    seconds.append(time.perf_counter() - begin)
    found = [[*edge, int(n), 1e6 * float(spent[edge]["median"])] for edge, n in graph.items()]
print(json.dumps({"seconds": seconds, "edges": found}))
"""


def _timed_pm4py(log: procmine.Log, rounds: int) -> tuple[list[float], list[Counts]]:
    with tempfile.TemporaryDirectory(prefix="denizen-pm4py-") as folder:
        np.savez(Path(folder, "log.npz"), case=log.case, activity=log.activity, time=log.time)
        names = {"cases": log.cases, "activities": log.activities}
        Path(folder, "names.json").write_text(json.dumps(names), encoding="utf-8")
        command = [sys.executable, "-c", _PM4PY, folder, str(rounds)]
        done = subprocess.run(
            command, capture_output=True, timeout=_TIMEOUT, check=False, text=True
        )
    if done.returncode != 0:
        why = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise LabError(f"pm4py failed: {why}")
    answer = json.loads(done.stdout.splitlines()[-1])
    counts: Counts = {(a, b): (n, median) for a, b, n, median in answer["edges"]}
    return answer["seconds"], [counts]


def _timed_polars(log: procmine.Log, rounds: int) -> tuple[list[float], list[Counts]]:
    run = _polars(log)
    seconds, found = [], []
    for _ in range(rounds):
        begin = time.perf_counter()
        found.append(run())
        seconds.append(time.perf_counter() - begin)
    return seconds, found


# Each gives the seconds of so many rounds, and what they counted.
RIVALS = {
    "graph, pm4py": ("pm4py", _timed_pm4py),
    "graph, Polars": ("polars", _timed_polars),
}


def rivals(_device: str, *, quick: bool) -> list[Measured]:
    """Millions of events per second of the rivals that are installed, on the CPU.

    Each has the log as a table of its own before the clock starts. Polars uses all cores; pm4py
    gets a smaller log, and finds median and least but no percentile.
    """
    measured = []
    for name, (package, timed) in RIVALS.items():
        if importlib.util.find_spec(package) is None:
            terminal.error(f"no arm of {name}: there is no Python package {package}")
            continue
        events = 100_000 if quick else 1_000_000 if package == "pm4py" else 10_000_000
        log = procmine.generate(events)
        expected = {
            (e.source, e.to): (e.count, e.median) for e in procmine.mine(log, variants=False).edges
        }
        seconds, counted = timed(log, 2 if quick else _ROUNDS)
        samples = [len(log) / each * 1e-6 for each in seconds]
        right = all(
            found.keys() == expected.keys()
            and all(
                found[edge][0] == n and abs(found[edge][1] - median) <= max(1.0, 1e-6 * median)
                for edge, (n, median) in expected.items()
            )
            for found in counted
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
    for i in range(-1, 2 if quick else _ROUNDS):  # the first is a warm-up
        found = stream.replay(log, device=device, glances=0)
        right &= found.differences(mined) == []
        if i >= 0:
            samples.append(found.events / found.seconds * 1e-6)
    params: dict[str, Scalar] = {"events": len(log), "cases": len(log.cases)}
    return [Measured("streamed", params, "M/s", np.array(samples), len(log) * len(samples), right)]


def analysed(_device: str, *, quick: bool) -> list[Measured]:
    """Milliseconds to find all patterns of a log that has been mined, and millions of cases per
    second whose partial order's width is found, on one core.

    Rework is counted anew, event by event; widths of a thousand cases from their executions, at
    each one's start.
    """
    log = procmine.generate(100_000 if quick else 1_000_000)
    rng = np.random.default_rng(1)
    log = replace(log, start=log.time - rng.integers(1, 86_400_000_000, len(log)))
    mined, found = procmine.mine(log), procmine.executions(log)
    cases = len(log.cases)
    milliseconds, rates = [], []
    patterns: list[procmine.Pattern] = []
    widths = np.zeros(0, np.uint32)
    for i in range(-1, 3 if quick else _ROUNDS):  # the first is a warm-up
        begin = time.perf_counter()
        patterns = procmine.find(mined)
        between = time.perf_counter()
        widths = procmine.widths(found, cases)
        end = time.perf_counter()
        if i >= 0:
            milliseconds.append(1e3 * (between - begin))
            rates.append(cases / (end - between) * 1e-6)
    params: dict[str, Scalar] = {"events": len(log), "cases": cases}
    return [
        Measured(
            "patterns",
            params | {"found": len(patterns)},
            "ms",
            np.array(milliseconds),
            len(log) * len(milliseconds),
            _rework(patterns) == _repeated(log),
        ),
        Measured(
            "partial orders, cases",
            params,
            "M/s",
            np.array(rates),
            cases * len(rates),
            bool((widths[:1000] == _most_at_once(found, min(cases, 1000))).all()),
        ),
    ]


def _rework(patterns: list[procmine.Pattern]) -> dict[str, int]:
    return {p.activities[0]: p.cases for p in patterns if p.kind == "rework"}


def _repeated(log: procmine.Log) -> dict[str, int]:
    """How many cases do an activity again, where that is a pattern."""
    kinds = len(log.activities)
    pairs = log.case.astype(np.int64) * kinds + log.activity
    done, times = np.unique(pairs, return_counts=True)
    having = np.bincount(done % kinds, minlength=kinds)
    again = np.bincount(done[times > 1] % kinds, minlength=kinds)
    least = procmine.Thresholds().rework
    return {
        log.activities[a]: int(again[a])
        for a in range(kinds)
        if again[a] and again[a] >= least * having[a]
    }


def _most_at_once(found: procmine.Executions, cases: int) -> NDArray[np.uint32]:
    """The most executions under way at any one's start, case by case."""
    most = np.zeros(cases, np.uint32)
    for case in range(cases):
        mine = found.case == case
        start, end = found.start[mine], found.end[mine]
        if start.size:
            most[case] = ((start <= start[:, None]) & (start[:, None] < end)).sum(axis=1).max()
    return most
