# SPDX-License-Identifier: Apache-2.0
"""``denizen tune``: measures which algorithm is the fastest for each size, and keeps the answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from denizen import _core, terminal
from denizen.device import parse_device
from denizen.errors import ArgumentError
from denizen.group import table as tables
from denizen.group.group import _prepare
from denizen.group.table import MAIN, Row


class Timing(NamedTuple):
    """A collective of float32, as a call of its own."""

    #: Of the result; of all_gather and all_to_all of one rank's part.
    bytes: int
    algorithm: str
    channels: int
    seconds: float
    collective: str = MAIN


class Tuned(NamedTuple):
    """What was measured and decided."""

    timings: list[Timing]
    #: Of each collective (up to so many bytes, algorithm, channels); the last row is for all larger
    #: ones.
    tables: dict[str, list[Row]]
    #: Where `local` and `join` find the table from now on.
    path: Path


def tune(ranks: int = 2, device: str = "auto", *, quick: bool = False) -> Tuned:
    """Measure all algorithms of all collectives among ``ranks`` ranks, and keep the tables.

    Args:
        ranks: 2 to 8, in this process.
        device: "auto" (GPUs if there are as many, else the CPU), "cpu", "gpu" or "gpu:N".
        quick: seconds instead of minutes: smaller sizes, fewer repetitions.
    """
    if not 2 <= ranks <= 8:
        raise ArgumentError(f"{ranks} ranks; 2 to 8 can be tuned")
    if device == "auto":
        device = "gpu" if _core.gpu_count() >= ranks else "cpu"
    where = parse_device(device)
    if where.nodes != 1 or where.threads is not None:
        raise ArgumentError(f'device "{device}"; use "cpu", "gpu" or "gpu:N"')
    most = (1 << 22 if quick else 1 << 28) if where.on_gpu else (1 << 16 if quick else 1 << 22)
    found, rows = _core.group_tune(
        ranks, where.on_gpu, where.first, _prepare(where, ranks), most, quick
    )
    timings = [Timing(*timing) for timing in found]
    path = tables.path_of(ranks, where.on_gpu, where.first)
    found_tables = tables.by_collective(rows)
    kept = {"tables": found_tables, "timings": timings, "quick": quick}
    tables.save(path, json.dumps(kept, indent=1) + "\n")
    return Tuned(timings, found_tables, path)


def show(ranks: int, device: str, *, quick: bool) -> int:
    """The command: the tables, and for each size how the algorithms compare."""
    with terminal.working(f"trying all ways for {ranks} ranks"):
        tuned = tune(ranks, device, quick=quick)
    for name, rows in tuned.tables.items():
        _show(name, ranks, [t for t in tuned.timings if t.collective == name], rows)
    print(f"kept in {tuned.path}")
    return 0


def _show(collective: str, ranks: int, timings: list[Timing], rows: list[Row]) -> None:
    sizes = sorted({timing.bytes for timing in timings})
    names = list(dict.fromkeys(timing.algorithm for timing in timings))
    print(f"{collective} of float32 among {ranks} ranks, microseconds (channels)")
    print("     bytes" + "".join(f"{name:>18}" for name in names))
    for size in sizes:
        line = f"{size:10}"
        for name in names:
            best = min(
                (t for t in timings if t.bytes == size and t.algorithm == name),
                key=lambda t: t.seconds,
                default=None,
            )
            text = f"{best.seconds * 1e6:.1f} ({best.channels})" if best else "-"
            line += f"{text:>18}"
        print(line)
    for up_to, algorithm, channels in rows:
        until = f"up to {up_to} bytes" if up_to else "larger"
        print(f"{until}: {algorithm}, {channels} channels")
    print()
