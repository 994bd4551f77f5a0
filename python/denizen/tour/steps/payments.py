# SPDX-License-Identifier: Apache-2.0
"""Rules over a stream of payments (denizen run transactions)."""

from __future__ import annotations

import time
from collections import Counter

from denizen.tour import draw
from denizen.tour.step import Found, Picture, Place

_COUNT = 200_000
_PIECE = 1 << 14


def compile_ahead(architecture: int) -> None:
    """What a GPU runs, into the cache."""
    from denizen.apps.transactions import stage  # noqa: PLC0415

    stage.program().compile_gpu(architecture)


def run(place: Place) -> Found:
    import numpy as np  # noqa: PLC0415

    from denizen import machine, terminal  # noqa: PLC0415
    from denizen.apps import transactions as tx  # noqa: PLC0415

    place.tell("making payments")
    records, profiles = tx.generate(_COUNT, seed=1)
    place.tell("compiling the rules")
    parts = []
    with tx.Stage(place.device) as stage:
        stage.put(profiles)
        begin = time.perf_counter()
        for at in range(0, len(records), _PIECE):
            stage.feed(records[at : at + _PIECE])
            parts.append(stage.take())
            place.tell(f"{at + _PIECE:,} of {len(records):,} payments")
        parts.append(stage.drain())
        seconds = time.perf_counter() - begin
        about = stage.runtime.description
        customers, shards = stage.customers(), stage.shards
    alerts = np.concatenate(parts)
    place.tell("the same on one thread")
    reference = tx.Reference()
    reference.put(profiles)
    expected = np.concatenate(
        [reference.feed(records[at : at + _PIECE]) for at in range(0, len(records), _PIECE)]
    )
    wrong = None
    if alerts.tobytes() != expected.tobytes():
        same = min(len(alerts), len(expected))
        differ = np.flatnonzero(alerts[:same] != expected[:same])
        first = int(differ[0]) if differ.size else same
        wrong = (
            f"of {len(expected):,} alerts, number {first:,} differs from the reference's "
            f"({len(alerts):,} came)"
        )
    counts = Counter(alerts["rule"].tolist())
    bars = [
        (name, float(counts[rule]), f"{counts[rule]:,}")
        for rule, name in enumerate(tx.RULE_NAMES, 1)
        if counts[rule]
    ]
    return Found(
        did=f"{len(records):,} made payments of {customers:,} customers went to "
        f"{terminal.counted(shards, 'actor')}, by their customers: limits, bursts, structuring, "
        "round trips of money; alerts come out in the order of the stream.",
        checked=f"All {len(expected):,} alerts are, byte for byte, those of a second writing "
        "of the rules "
        "on one thread.",
        wrong=wrong,
        device=str(about["device"]) if about["on_gpu"] else machine.cpu_name(),
        figures=[
            ("payments per second", f"{len(records) / seconds:,.0f}"),
            ("alerts", f"{len(alerts):,}"),
        ],
        pictures=[Picture(draw.bars(bars, "alerts by rule"), "Alerts by rule.")],
        screen=draw.bars_in_text(bars),
    )
