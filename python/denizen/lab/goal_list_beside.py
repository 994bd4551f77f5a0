# SPDX-License-Identifier: Apache-2.0
"""The goals of a resident program that stands in nobody's way: what a breath costs it, and what
others wait for.
"""

from __future__ import annotations

from denizen.lab import neighbours
from denizen.lab.asked import Asked, at_p99, at_p999, highest, lowest, median, p999_of, ratio
from denizen.lab.beside import FOR_EVER

BESIDE: tuple[Asked, ...] = (
    Asked(
        "beside", "round trip, p50, with a breath of 2 ms / one kernel for ever", "ask",
        {"breath_us": 2000}, "<=", 1.03, "x", ratio("ask, one kernel for ever"),
    ),
    Asked(
        "beside", "round trip, p99.9, with a breath of 2 ms, 5 us more than one kernel for ever",
        "ask", {"breath_us": 2000}, "<=", 5, "us", at_p999, besides="ask, one kernel for ever",
        of_besides=p999_of,
    ),
    *(
        Asked(
            "beside", f"random targets, breath of {us // 1000} ms / one kernel for ever",
            "random targets", {"breath_us": us}, ">=", 0.985, "x",
            ratio("random targets, one kernel for ever"),
        )
        for us in (2000, 5000)
    ),
    Asked(
        "beside", "nobody there between two incarnations, mean", "hand-over",
        {"breath_us": 2000, "of all": "mean"}, "<=", 7.8, "us", highest,
    ),
    *(
        Asked(
            "beside", f"all workers put down and take up what lies in shared memory, {load}, mean",
            "hand-over",
            {"breath_us": 2000, "load": load, "of all": "putting down and taking up, mean"}, "<=",
            5, "us", highest,
        )
        for load in ("asks", "random targets")
    ),
    *(
        Asked(
            "beside", f"{call} beside a program, worst, three breaths and what it took alone",
            f"beside: {call}", {"breath_us": 2000}, "<=", 6000, "us", highest,
            besides=f"alone: {call}",
        )
        for call in (
            "cudaDeviceSynchronize", "cudaMalloc + cudaFree 64 MiB", "cudaMalloc 1 MiB",
            "cudaHostAlloc + cudaFreeHost 1 MiB", "cudaMemset, legacy stream",
            "cudaMemcpy within the device", "kernel, legacy stream", "kernel, own stream",
            "first launch of a kernel", "cudaStreamCreate + Destroy", "cudaEventCreate + Destroy",
            "cuModuleLoadData + Unload", "cudaMallocAsync 64 MiB, the pool grows",
            "cudaDeviceSetLimit", "cudaMemGetInfo",
        )
    ),
    Asked(
        "beside", "the host's share of a core for a program that nobody asks",
        "host's share of a core", {"breath_us": 2000}, "<=", 5, "%", median,
    ),
    Asked(
        "beside", "a cooperative grid on every SM, worst",
        "beside: cooperative grid, every SM whole", {"breath_us": 2000}, "<=", 25_000, "us",
        highest,
    ),
    Asked(
        "beside", "round trip beside a handler of 50 ms, p99", "ask beside: a handler of 50 ms",
        {"breath_us": 2000}, "<=", 20, "us", at_p99,
    ),
    *(
        Asked(
            "frameworks", f"{name} beside messages / alone", f"{name}, beside", {}, "<=", 1.3,
            "x", ratio(f"{name}, alone"),
        )
        for name in neighbours.ALL
    ),
    *(
        Asked(
            "frameworks", f"messages beside {name}, least", f"messages beside {name}", {}, ">=", 1,
            "M/s", lowest,
        )
        for name in neighbours.ALL
    ),
    Asked(
        "beside", "the GPU is free of a killed host, worst", "killed under load: the GPU is free",
        {}, "<=", 50, "ms", highest,
    ),
    *(
        Asked(
            "audit", f"messages that were {what}", what, {}, "<=", 0, "messages", highest,
            needs_gpu=False,
        )
        for what in ("lost", "doubled or overtaken")
    ),
    # Loads with the breath they have by default, beside themselves as one kernel for ever.
    *(
        Asked(
            "beside", f"{case}, breath / one kernel for ever", case, params, sign, bound, "x",
            ratio(case + FOR_EVER),
        )
        for case, params, sign, bound in (
            ("tasks: thread tasks", {}, ">=", 0.985),
            ("tasks: fork-join tree", {}, ">=", 0.985),
            ("tasks: chain, one hop", {}, "<=", 1.015),
            ("transactions: streamed", {"warps": 528}, ">=", 0.985),
            ("transactions: resident in device memory", {"warps": 528}, ">=", 0.985),
        )
    ),
)  # fmt: skip
