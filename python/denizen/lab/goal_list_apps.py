# SPDX-License-Identifier: Apache-2.0
"""The goals of what comes with the runtime: searches, logs, radio, the wave, payments, models."""

from __future__ import annotations

from denizen.lab.asked import (
    Asked,
    at_p99,
    faster,
    first_of,
    least_faster,
    median,
    ratio,
)


def _loaded_us(mb: float, sms: int) -> float:
    """Most that so many SMs may take to load ``mb`` of a model's weights out of the L2 cache.

    An SM gets 64 bytes a clock, 109 GB/s at 1.7 GHz, all SMs of an H100 or H200 together some
    5 TB/s. The other 3 us: a block asks for 64 KiB at a time and waits for them, four times at
    most, its instructions come anew, and it meets its own warps and those of its cluster.
    """
    return round(3 + max(mb / sms / 0.109, mb / 5), 1)


APPS: tuple[Asked, ...] = (
    *(
        Asked(
            "wave", f"{cells} x {cells} x {cells}, tiles, breath / one kernel for a run", "tiles",
            {"cells": cells}, ">=", 0.985, "x", ratio("tiles, one kernel for a run"),
        )
        for cells in (64, 128)
    ),
    Asked(
        "adsb", "resident receiver, breath / one kernel", "resident receiver", {}, ">=", 0.985, "x",
        ratio("resident receiver, one kernel"),
    ),
    *(
        Asked(
            "bfs", f"BFS, {graph}, faster than {what}", "auto", {"graph": graph}, ">=", bound,
            "x", faster(rival),
        )
        for graph in ("NY", "FLA", "chain 20,000")
        for rival, what, bound in (
            ("launch per level", "a launch per level", 10),
            ("while graph", "a graph with a while node", 3),
        )
        if graph != "chain 20,000" or rival == "launch per level"
    ),
    *(
        Asked(
            "bfs", f"BFS, Kronecker scale {scale}, speed / the best method's", "auto",
            {"graph": f"Kronecker {scale}"}, ">=", 0.9, "x", least_faster,
        )
        for scale in (20, 21, 22)
    ),
    *(
        Asked(
            "bfs", f"{what}, {graph}: who was not told where / a thread of the host",
            f"{case}chosen place, seen by the host", {"graph": graph}, ">=", 0.9, "x",
            faster(f"{case}one thread, seen by the host"),
        )
        for what, case in (("BFS", ""), ("shortest paths", "shortest paths, "))
        for graph in (
            "chain 5,000", "chain 20,000", "random 10,000, p = 0.0002", "random 10,000, p = 0.001",
            "random 10,000, p = 0.01", "NY", "FLA", "grid 1000 x 1000", "Kronecker 20",
        )
    ),
    Asked(
        "procmine", "graph with frequencies and durations, 10^8 events", "graph",
        {"events": 100_000_000}, ">=", 2000, "M/s", median,
    ),
    Asked(
        "procmine", "graph with frequencies and durations, one core", "graph, one thread",
        {"events": 10_000_000}, ">=",
        20, "M/s", median, needs_gpu=False,
    ),
    Asked("procmine", "streamed through case actors", "streamed", {}, ">=", 50, "M/s", median),
    Asked(
        "adsb", "one core over a recorded signal / dump1090", "recorded signal", {}, ">=", 3, "x",
        first_of("recorded signal, dump1090 in memory", "recorded signal, dump1090"),
        needs_gpu=False,
    ),
    *(
        Asked(
            "adsb", f"frames found of those {low} to {low + 3} dB over the noise / dump1090",
            "detection", {"db": f"{low} to {low + 3}"}, ">=", 1, "x", ratio("detection, dump1090"),
            needs_gpu=False,
        )
        for low in range(6, 30, 3)
    ),
    Asked(
        "adsb", "one core over a recorded signal", "recorded signal", {}, ">=", 330, "Msps",
        median, needs_gpu=False,
    ),
    Asked(
        "adsb", "resident receiver, pinned host memory to messages", "resident receiver",
        {"memory": "pinned", "samples": "in place"}, ">=", 5000, "Msps", median,
    ),
    Asked(
        "wave", "64 x 64 x 64", "auto", {"cells": 64}, ">=", 250_000, "Mcells/s", median,
    ),
    *(
        Asked(
            "wave", f"{cells} x {cells} x {cells} / the captured graph's", "auto",
            {"cells": cells}, ">=", bound, "x", ratio("graph"),
        )
        for cells, bound in ((64, 1.5), (128, 1.3), (256, 1.0))
    ),
    Asked(
        "wave", "512 x 512 x 512, share of the copy's bandwidth at 12 B per cell", "auto",
        {"cells": 512}, ">=", 0.85, "x", ratio("copy"),
    ),
    Asked(
        "wave", "CPU threads, 256 x 256 x 256, share of the memory's bandwidth", "CPU threads",
        {"cells": 256}, ">=", 0.8, "x", ratio("update of two arrays"), needs_gpu=False,
    ),
    Asked(
        "wave", "steering, from the call to its effect seen, of two steps and 5 us", "steering", {},
        "<=", 1, "x", ratio("two steps and 5 us"),
    ),
    Asked(
        "transactions", "streamed from pinned host memory", "streamed", {"memory": "pinned"}, ">=",
        150, "M/s", median,
    ),
    Asked(
        "transactions", "alert latency at 10 M/s, p99", "alert latency", {"rate_m": 10}, "<=", 100,
        "us", at_p99,
    ),
    Asked(
        "transactions", "resident in device memory, all rules", "resident in device memory", {},
        ">=", 2000, "M/s", median,
    ),
    *(
        Asked(
            "transactions", f"{case} / launches of the same passes", case, {}, ">=", 1, "x",
            ratio(f"launches per batch, {short}"),
        )
        for case, short in (
            ("streamed", "streamed"), ("resident in device memory", "resident"),
        )
    ),
    # Beside what Vollo publishes for FPGAs, mean / p99, of the same models (lab/infer_models.py).
    *(
        Asked(
            "infer", f"{model}, one step, {what}, beside an FPGA's {published} us",
            "resident, bf16",
            {"model": model}, "<=", bound, "us", value,
        )
        for model, mean, tail, p50, p99 in (
            ("lstm_tiny, 2 x 128", 1.9, 2.0, 3.3, 4.5),
            ("lstm_small, 3 x 256", 3.0, 3.1, 4.2, 5.5),
            ("lstm_med, 3 x 480", 4.2, 4.4, 5.5, 7.0),
            ("lstm_med_deep, 6 x 320", 4.3, 4.5, 7.5, 9.0),
            ("lstm_large, 3 x 960", 8.5, 8.7, 7.5, 8.7),
        )
        for what, published, bound, value in (
            ("p50", mean, p50, median), ("p99", tail, p99, at_p99),
        )
    ),
    *(
        Asked(
            "infer", f"{model}, one step from Python, p50, faster than a CUDA graph",
            "resident, bf16, from Python", {"model": model}, ">=", 5, "x",
            faster("CUDA graph, pinned copies"),
        )
        for model in (
            "lstm_tiny, 2 x 128", "lstm_small, 3 x 256", "lstm_med, 3 x 480",
            "lstm_med_deep, 6 x 320", "lstm_large, 3 x 960",
        )
    ),
    *(
        Asked(
            "infer", f"{model}, weights loaded anew, p99",
            "resident, bf16, weights loaded anew by the next kernel", {"model": model}, "<=",
            _loaded_us(mb, sms), "us", at_p99,
        )
        # Of lstm_large what fits into shared memory, 227 KiB of each SM.
        for model, mb, sms in (
            ("lstm_tiny, 2 x 128", 0.5, 16), ("lstm_small, 3 x 256", 3.2, 16),
            ("lstm_med, 3 x 480", 11.1, 64), ("lstm_med_deep, 6 x 320", 9.9, 64),
            ("lstm_large, 3 x 960", 29.8, 128),
        )
    ),
    Asked(
        "infer", "lstm_small, 3 x 256, steps of 1,024 streams", "steps of 1,024 streams",
        {"model": "lstm_small, 3 x 256"}, ">=", 1, "M/s", median,
    ),
)  # fmt: skip
