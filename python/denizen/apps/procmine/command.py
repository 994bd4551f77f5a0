# SPDX-License-Identifier: Apache-2.0
"""What ``denizen run procmine`` does."""

from __future__ import annotations

import csv
import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from denizen import errors, procmine, terminal
from denizen.apps.procmine import show
from denizen.apps.traced import traced
from denizen.errors import ArgumentError
from denizen.files import whole
from denizen.procmine.times import text_of

_LOG = "a log of events: .xes or .csv, also .gz, or .parquet"


def run(
    file: Path,
    device: str,
    *,
    reading: Mapping[str, Any],
    cases: Mapping[str, Any],
    thresholds: procmine.Thresholds,
    as_json: bool = False,
    html: Path | None = None,
    variants: int = 10,
    reference: Path | None = None,
    save_reference: Path | None = None,
    least: int = 1,
    executions: bool = False,
    stream: int | None = None,
    edges: int | None = None,
    hosts: int | None = None,
    transport: str = "rings",
    trace: Path | None = None,
) -> int:
    """Mine ``file`` and show what was found; the exit status.

    ``reading``: arguments of procmine.read(); ``cases``: of procmine.select(). ``variants``: how
    many the table has. ``reference``: a log or a graph to hold it against; ``least``: how often an
    edge of a log must occur to count as reference. ``executions``: one event for each start and
    complete event, in the reference too. ``stream``: mine by an actor for each case too, waiting
    this many microseconds for late events, with room for ``edges`` different edges, and compare;
    status 1 if they differ. ``hosts``: spread the cases over so many. ``trace``: with ``stream``, a
    file to trace its messages to.

    Raises ArgumentError for what cannot be used, DataError for a file that cannot be opened.
    """
    if hosts is not None and stream is not None:
        raise ArgumentError("--stream is of one host: leave it out, or --hosts")
    began = time.perf_counter()
    with terminal.working(f"reading {file.name}"), errors.reading(file, _LOG):
        log = procmine.read(file, keep=tuple(cases["where"]), **reading)
    seconds = time.perf_counter() - began
    everything = len(log.cases)
    if any(value for key, value in cases.items() if key != "window"):
        log = procmine.select(log, **cases)
    if executions:
        log = procmine.by_execution(log)
    with terminal.working(f"mining {len(log):,} events"):
        mined = procmine.mine(log, device=device, hosts=hosts, transport=transport)
        patterns = procmine.find(mined, thresholds)
        together = procmine.concurrency(log)
    agreement = None
    if reference is not None:
        agreement = procmine.check(mined, _reference(reference, reading, least, executions))
    if save_reference is not None:
        procmine.Reference.of_mined(mined, least).write(save_reference)
    if html is not None:
        from denizen.apps.procmine import page  # noqa: PLC0415

        page.write(html, mined, patterns, together, agreement)
        print(f"{html}: {len(mined.edge_count)} edges, {len(patterns)} patterns", file=sys.stderr)
    _warn(log)
    status = 0
    if stream is not None:
        status = _stream(log, mined, device, stream, edges=edges, quiet=as_json, trace=trace)
    if as_json:
        json.dump(
            show.as_dict(mined, patterns, together, agreement), sys.stdout, ensure_ascii=False
        )
        print()
        return status
    read = f"{seconds:.2f} s ({len(log) / max(seconds, 1e-9):,.0f} events/s)"
    show.tables(
        mined, patterns, together, agreement, variants=variants, everything=everything, read=read
    )
    return status


def _reference(
    path: Path, reading: Mapping[str, Any], least: int, executions: bool
) -> procmine.Reference:
    with errors.reading(path, f"a reference: a graph as JSON, or {_LOG}"):
        if path.suffix == ".json":
            return procmine.Reference.read(path)
        log = procmine.read(path, **reading)
    if executions:
        log = procmine.by_execution(log)
    return procmine.Reference.of_mined(procmine.mine(log), least)


def _warn(log: procmine.Log) -> None:
    for kind, count in log.problems.items():
        terminal.error(f"{kind}: {count:,} times, first {log.first_problems[kind]}")
    if log.lifecycle is not None and {1, 2} <= set(np.unique(log.lifecycle).tolist()):
        print(
            "The log tells activities' start and completion apart, so each may follow itself: "
            "--executions makes one event of both.",
            file=sys.stderr,
        )


def _stream(
    log: procmine.Log,
    mined: procmine.Mined,
    device: str,
    late: int,
    *,
    edges: int | None,
    quiet: bool,
    trace: Path | None,
) -> int:
    from denizen.procmine import stream  # noqa: PLC0415  (compiles a program)

    with terminal.working("replaying them through an actor for each case"):
        found = stream.replay(
            log,
            late=late,
            device=device,
            edges=edges,
            traced=None if trace is None else lambda runtime: traced(runtime, trace),
        )
    different = found.differences(mined)
    if different:
        terminal.error(f"not verified: {different[0]}")
    elif not quiet:
        print(f"verified {found.events:,} / {len(log):,}")
    if not quiet:
        show.stream(found)
    return 1 if different else 0


def generate(path: Path, events: int, seed: int) -> int:
    """Write a made log to ``path``, a CSV file; the exit status."""
    if path.suffix != ".csv":
        raise ArgumentError(f"{path}: a made log is written as .csv")
    with (
        terminal.working(f"making {events:,} events"),
        whole(path) as part,
        open(part, "w", encoding="utf-8", newline="") as file,
    ):
        log = procmine.generate(events, seed=seed)
        rows = csv.writer(file)
        rows.writerow(("case_id", "activity", "timestamp"))
        for c, a, t in zip(
            log.case.tolist(), log.activity.tolist(), log.time.tolist(), strict=True
        ):
            rows.writerow((log.cases[c], log.activities[a], text_of(t)))
    print(f"{path}: {len(log):,} events of {len(log.cases):,} cases")
    return 0
