# SPDX-License-Identifier: Apache-2.0
"""The figures the project set itself for an H100, experiment by experiment."""

from __future__ import annotations

from denizen.lab import observers
from denizen.lab.asked import (
    Asked,
    cv_percent,
    faster,
    faster_than_all,
    faster_than_first,
    highest,
    least_of,
    lowest,
    median,
    p99_to_p50,
    ratio,
)
from denizen.lab.goal_list_apps import APPS
from denizen.lab.goal_list_beside import BESIDE

_ASK = "round trip, C++ API, p50"
_PAIR = "dependent pair, N = 50,000"
_TASKS = (20, 22, 24, 26)  # 2 to this many
_NODES = (20, 22, 24)
GOALS: tuple[Asked, ...] = (
    Asked("dispatch", f"{_ASK} / raw ping-pong", "ask", {}, "<=", 1.15, "x", ratio("raw mailbox")),
    Asked(
        "dispatch", f"{_ASK}, faster than launch + sync", "ask", {}, ">=", 2.5, "x",
        faster_than_first("launch + sync, alone", "launch + sync"),
    ),
    Asked(
        "dispatch", f"{_ASK}, faster than graph + sync", "ask", {}, ">=", 1.8, "x",
        faster_than_first("graph + sync, alone", "graph + sync"),
    ),
    Asked("dispatch", "round trip, C++ API, p99 / p50", "ask", {}, "<=", 2, "x", p99_to_p50),
    Asked(
        "dispatch", "round trip, Python ask, p50", "ask from Python", {}, "<=", 3.5, "us", median,
    ),
    Asked(
        "dispatch", "round trip on CPU threads, C++ API, p50", "ask", {"memory": "host"}, "<=", 1.5,
        "us", median, needs_gpu=False,
    ),
    Asked(
        "handlers", "ask, p50: handlers in Python / C++ text", "ask, Python", {}, "<=", 1.03, "x",
        ratio("ask"), needs_gpu=False,
    ),
    Asked(
        "handlers", "random targets: handlers in Python / C++ text", "random targets, Python", {},
        ">=", 0.97, "x", ratio("random targets"), needs_gpu=False,
    ),
    *(
        Asked(
            "handlers", f"{where}, {way}, {cache}, to the first answer", case,
            {"handlers": way, "cache": cache, **({"code": code} if gpu and code else {})}, "<=",
            bound, "s", median, needs_gpu=gpu,
        )
        for where, case, gpu, bounds in (
            ("GPU", "first answer", True, (1.5, 2, 0.2)),
            ("CPU", "first answer on CPU threads", False, (1, 2, 0.2)),
        )
        for way, cache, code, bound in (
            ("Python", "cold", "quick", bounds[0]),
            ("C++ text", "cold", "quick", bounds[1]),
            ("Python", "cached", "optimised", bounds[2]),
        )
    ),
    *BESIDE,
    *APPS,
    Asked(
        "group", "message to a resident group, 8 KB, breath / one kernel",
        "message to a resident group", {"bytes": 8192}, "<=", 1.015, "x",
        ratio("message to a resident group, one kernel"),
    ),
    Asked(
        "ring", "host to device, 64 B, executed, pinned memory", "host to device",
        {"bytes": 64, "memory": "pinned"}, ">=", 150, "M/s", median,
    ),
    Asked(
        "ring", "host to device, 64 B, executed, CPU-mapped device memory", "host to device",
        {"bytes": 64, "memory": "mapped"}, ">=", 250, "M/s", median,
    ),
    Asked(
        "ring", "CPU ring, two threads, 64 B: slowest against a peer",
        "cpu to cpu, denizen spsc", {}, ">=", 1, "x",
        least_of(
            "cpu to cpu, boost spsc_queue", "cpu to cpu, boost queue",
            "cpu to cpu, moodycamel readerwriter", "cpu to cpu, moodycamel concurrent",
        ),
        needs_gpu=False,
    ),
    Asked(
        "ring", "Python send_many from a NumPy array", "send_many from NumPy", {}, ">=", 80, "M/s",
        median,
    ),
    Asked(
        "channels", "receive + send loop, 32 B, 64 deep / best rival", "denizen channel", {}, ">=",
        1.3, "x",
        least_of(
            "mutex and condition", "boost spsc_queue", "moodycamel readerwriter",
            ("moodycamel concurrent with tokens", "moodycamel concurrent"),
        ),
        needs_gpu=False,
    ),
    Asked(
        "saxpy", "one core, 16 KiB quanta, of the kernel without a runtime", "saxpy, one core",
        {"bytes": 16_384, "kind": "futex"}, ">=", 98, "%", median, needs_gpu=False,
    ),
    *(
        Asked(
            "saxpy", f"ring of all cores, movement removed, {kind}, of the compute bound",
            "ring, movement removed", {"all cores": True, "bytes": 16_384, "kind": kind}, ">=",
            bound, "%", median, needs_gpu=False,
        )
        for kind, bound in (("futex", 96), ("coroutine", 94))
    ),
    # Of each kind of executor, with a kernel in vectors; the samples of the plain ring move.
    *(
        Asked(
            "saxpy", f"{what}, {kind}, vectors", case,
            {**where, "bytes": 16_384, "kind": kind}, ">=", bound, "%", median, needs_gpu=False,
        )
        for what, case, where, bound in (
            ("one core, 16 KiB quanta", "saxpy, one core", {}, 90),
            ("ring of all cores, 16 KiB quanta", "ring", {"all cores": True}, 80),
            (
                "ring of all cores, 16 KiB quanta, movement removed", "ring, movement removed",
                {"all cores": True}, 80,
            ),
        )
        for kind in ("futex", "coroutine", "stealing")
    ),
    # With a kernel of about one sample a cycle, as those were that 98, 96 and 94 % come from.
    Asked(
        "saxpy", "the same by sample: one core, 16 KiB quanta", "saxpy by sample, one core",
        {"bytes": 16_384, "kind": "futex"}, ">=", 98, "%", median, needs_gpu=False,
    ),
    *(
        Asked(
            "saxpy", f"the same by sample: ring of all cores, movement removed, {kind}",
            "ring by sample, movement removed", {"bytes": 16_384, "kind": kind}, ">=", bound, "%",
            median, needs_gpu=False,
        )
        for kind, bound in (("futex", 96), ("coroutine", 94))
    ),
    # Of older records the first: its time holds the start and stop of GNU Radio's graph.
    *(
        Asked(
            "flow", f"chain of {blocks} saxpy blocks, {what}throughput / GNU Radio's",
            f"{case}, GNU Radio", {"blocks": blocks}, ">=", 3, "x", faster(case),
            needs_gpu=False,
        )
        for case, what in (("chain of saxpy", ""), ("chain with data", "data in and out, "))
        for blocks in (1, 4, 12)
    ),
    Asked(
        "flow", "filter and demodulate, 16 KiB quanta, from memory to result, p50",
        "filter and demodulate, one quantum", {}, "<=", 25, "us", median,
    ),
    Asked(
        "flow", "filter and demodulate, throughput / a launch per block and buffer",
        "filter and demodulate, stream", {}, ">=", 5, "x",
        ratio("filter and demodulate, stream, launches"),
    ),
    Asked(
        "throughput", f"{_PAIR}, one at a time, seen by the host", "pair, one at a time",
        {"n": 50_000}, "<=", 4.5, "us", median,
    ),
    Asked(
        "throughput", f"{_PAIR}, faster than two launches + syncs", "pair, one at a time",
        {"n": 50_000}, ">=", 3.5, "x", faster("pair, two launches + syncs"),
    ),
    Asked(
        "throughput", f"{_PAIR}, pipelined", "pair, pipelined", {"n": 50_000}, "<=", 0.05, "us",
        median,
    ),
    *(
        Asked(
            "throughput", f"tasks from one host thread, N = 1,000,000, {words} to a message",
            "tasks, resident", {"n": 1_000_000, "tasks_per_message": each}, ">=", 200, "M/s",
            median,
        )
        for words, each in (("one", 1), ("eight", 8))
    ),
    *(
        Asked(
            "start", f"{memory} memory of a runtime with one actor", f"{memory} memory", {}, "<=",
            64, "MB", highest, needs_gpu=memory == "device",
        )
        for memory in ("device", "host")
    ),
    Asked(
        "sustained", "echoes, coefficient of variation over 60 s", "echoes", {}, "<=", 1, "%",
        cv_percent,
    ),
    Asked("sustained", "echoes, 60 s", "echoes", {}, ">=", 50, "M/s", median),
    *(
        Asked(
            "routes", f"handler to handler, 64 B, one way, {where}", "one way",
            {"route": route, "bytes": 64}, "<=", bound, "us", median,
        )
        for route, where, bound in (
            ("worker", "same worker", 0.10),
            ("sm", "same SM", 0.33),
            ("cluster", "same cluster", 0.25),
            ("gpu", "same GPU", 0.50),
            ("peer", "peer GPU", 1.3),
        )
    ),
    *(
        Asked(
            "routes", f"handler to handler, {nbytes:,} B, one way, {where}",
            "one way, alone on an SM", {"route": route, "bytes": nbytes}, "<=", bound, "us", median,
        )
        for nbytes, bound in ((256, 1.0), (1024, 1.4), (4096, 3.0))
        for route, where in (("cluster", "same cluster"), ("gpu", "same GPU"))
    ),
    *(
        Asked(
            "geometry", f"{name}, the chosen geometry of the best", f"{name}, of the best", params,
            ">=", 0.75, "x", median,
        )
        for name, params in (("chains", {}), ("hot spot", {}), ("random", {"in flight": 64}))
    ),
    *(
        asked
        for tokens in (64, 256, 1024, 4096, 8192)
        for asked in (
            Asked(
                "geometry", f"random targets, chosen geometry, {tokens:,} in flight", "random",
                {"geometry": "chosen", "in flight": tokens}, ">=", 1000, "M/s", median,
            ),
            Asked(
                "geometry", f"random targets, chosen geometry, {tokens:,} in flight, of its peak",
                "random, of its peak", {"in flight": tokens}, ">=", 0.6, "x", median,
            ),
        )
    ),
    Asked(
        "routes", "uniformly random targets, all workers busy", "random targets", {}, ">=", 1000,
        "M/s", median,
    ),
    *(
        Asked(
            "group", f"all-reduce inside a kernel, 2 GPUs, {size}", "inside a kernel",
            {"bytes": nbytes, "ranks": 2}, "<=", bound, "us", median,
        )
        for size, nbytes, bound in (
            ("64 KB", 64 << 10, 1.5),
            ("256 KB", 256 << 10, 2.0),
            ("1 MB", 1 << 20, 5.0),
            ("4 MB", 4 << 20, 14.0),
        )
    ),
    *(
        Asked(
            "group", f"all-reduce, 2 GPUs, {size}, {how}, faster than {rival}", how,
            {"bytes": nbytes, "ranks": 2}, ">=", bound, "x",
            faster_than_all(rival, f"{rival}, windows"),
        )
        for size, nbytes, how, rival, bound in (
            ("64 KB", 64 << 10, "inside a kernel", "NCCL in a graph", 4),
            ("64 MB", 64 << 20, "inside a kernel", "NCCL in a graph", 1.2),
            ("1 GB", 1 << 30, "inside a kernel", "NCCL in a graph", 1.0),
            ("64 KB", 64 << 10, "message to a resident group", "NCCL eager, synchronised", 3),
            ("64 KB", 64 << 10, "kernel in a graph", "NCCL in a graph", 1.5),
        )
    ),
    Asked(
        "group", "all-reduce inside a kernel, 4 GPUs, 64 KB", "inside a kernel",
        {"bytes": 64 << 10, "ranks": 4}, "<=", 2.2, "us", median,
    ),
    *(
        Asked(
            "group", f"all-reduce, 4 GPUs, {size}, inside a kernel, faster than NCCL in a graph",
            "inside a kernel", {"bytes": nbytes, "ranks": 4}, ">=", bound, "x",
            faster_than_all("NCCL in a graph", "NCCL in a graph, windows"),
        )
        for size, nbytes, bound in (("64 MB", 64 << 20, 1.2), ("1 GB", 1 << 30, 1.0))
    ),
    *(
        Asked(
            "group", f"{name}, 2 GPUs, 64 MB, kernel in a graph, faster than NCCL in a graph",
            f"{case}, kernel in a graph", {"bytes": 64 << 20, "ranks": 2}, ">=", 1.0, "x",
            faster_than_all(f"{case}, NCCL in a graph", f"{case}, NCCL in a graph, windows"),
        )
        for name, case in (("all-gather", "all_gather"), ("all-to-all", "all_to_all"))
    ),
    Asked("actors", "spawn, seen by the host", "spawn", {}, "<=", 2.5, "us", median),
    Asked("actors", "restart, seen by the host", "restart", {}, "<=", 2.5, "us", median),
    Asked(
        "actors", "100,000 spawned at once", "spawn at once", {"actors": 100_000}, "<=", 20, "ms",
        median,
    ),
    Asked(
        "actors", "supervised, 1 % of handlers failing / none", "supervised, 1 % failing", {}, ">=",
        0.8, "x", ratio("supervised, none failing"),
    ),
    *(
        Asked(
            "tasks", f"{what}, {count:,} tasks", case, {name: count}, ">=", 20_000, "M/s", median,
        )
        for what, case, name, counts in (
            ("independent tasks of a thread", "thread tasks", "n", [1 << n for n in _TASKS]),
            (
                "fork-join tree, tasks spawned by tasks", "fork-join tree", "tasks",
                [(1 << n) - 1 for n in _NODES],
            ),
        )
        for count in counts
    ),
    Asked("tasks", "independent tasks of a warp", "warp tasks", {}, ">=", 500, "M/s", median),
    Asked(
        "tasks", "dependent chain across SMs, one hop", "chain, one hop", {}, "<=", 0.65, "us",
        median,
    ),
    *(
        Asked(
            "arena", f"malloc, {size} B, 1 Mi threads", "malloc",
            {"bytes": size, "threads": 1 << 20}, ">=", bound, "M/s", median,
        )
        for size, bound in ((16, 12_000), (64, 10_000), (256, 5_000), (1024, 2_000), (4096, 1_000))
    ),
    *(
        Asked(
            "arena", f"churn, {size} B, 65,536 threads", "churn",
            {"bytes": size, "threads": 65_536, "touch": 0}, ">=", bound, "M/s", median,
        )
        for size, bound in ((16, 10_000), (64, 8_000), (256, 5_000), (1024, 2_000), (4096, 1_000))
    ),
    *(
        Asked(
            "arena", f"requests met until 95 % are live, {sizes}",
            "requests met until 95 % are live", {"sizes": sizes}, ">=", 100, "%", lowest,
        )
        for sizes in ("16 B to 8 KB", "nine of ten 64 B")
    ),
    # What the paper "Revealing NVIDIA Closed-Source Driver Command Streams for CPU-GPU Runtime
    # Behavior Insight" found on an A40: copies inline up to 24 KiB, graphs of 340 to 2216 bytes.
    Asked(
        "driver", "largest inline copy from pinned memory, beside the paper's 24 KiB",
        "largest inline copy", {"direction": "to device", "memory": "pinned"}, ">=", 24 * 1024, "B",
        median,
    ),
    *(
        Asked(
            "driver", f"launch of a graph of {kernels} kernels, beside the paper's {bound} {unit}",
            "graph, a chain, submitted", {"kernels": kernels, "of": unit}, "<=", bound, unit,
            median,
        )
        for kernels, bound, unit in (
            (1, 340, "B"), (2000, 2216, "B"), (1, 1, "doorbells"), (2000, 1, "doorbells"),
        )
    ),
    *(
        Asked(
            "driver", f"{way}, {mode} mode: doorbells other than one a launch",
            "doorbells other than one a launch", {"way": way, "mode": mode}, "<=", 0, "doorbells",
            highest,
        )
        for way in ("launch + sync", "graph + sync")
        for mode in ("count", "full")
    ),
    *(
        Asked(
            "driver", f"count mode adds to a doorbell, {way}", "added to a doorbell",
            {"way": way, "mode": "count"}, "<=", 10, "us", median,
        )
        for way in ("launch + sync", "graph + sync")
    ),
    # A process that could be attached to runs as if nobody could.
    *(
        Asked(
            "driver", f"launches of {of}, {what} / alone", case, {"of": of, **params}, ">=", 0.98,
            "x", ratio(observers.ALONE),
        )
        for of in ("kernels", "graphs")
        for what, case, params in (
            ("the lens asleep", observers.ASLEEP, {}),
            *(
                (f"after a detach from {mode} mode", observers.DETACHED, {"mode": mode})
                for mode in ("count", "full")
            ),
        )
    ),
    *(
        Asked(
            "cluster", f"{what}, one way between hosts, p50", "one way, actor to actor",
            {"hosts": "CPU threads", "transport": transport, "waits": waits}, "<=", most, "us",
            median, needs_gpu=False,
        )
        for what, transport, waits, most in (
            ("shared memory, spinning", "rings", "spinning", 1.5),
            ("loopback TCP, spinning", "tcp", "spinning", 10),
            ("loopback TCP, sleeping", "tcp", "sleeping", 60),
        )
    ),
    *(
        Asked(
            "cluster", f"shared memory, one way between hosts, {hosts}, p50",
            "one way, actor to actor",
            {"hosts": hosts, "transport": "rings", "waits": "spinning"}, "<=", 8, "us", median,
        )
        for hosts in ("one GPU", "2 GPUs")
    ),
    *(
        Asked(
            "cluster", f"64-byte slots between hosts, {what}", "64-byte slots, a pair of hosts",
            {"hosts": "CPU threads", "transport": transport}, ">=", least, "M/s", median,
            needs_gpu=False,
        )
        for what, transport, least in (("shared memory", "rings", 10), ("TCP", "tcp", 5))
    ),
    *(
        Asked(
            "cluster", f"64-byte slots between hosts, {what}, {hosts}",
            "64-byte slots, a pair of hosts", {"hosts": hosts, "transport": transport}, ">=",
            least, "M/s", median,
        )
        for hosts in ("one GPU", "2 GPUs")
        for what, transport, least in (("shared memory", "rings", 10), ("TCP", "tcp", 5))
    ),
    *(
        Asked(
            "cluster", f"a {which} host is known, {what}, most", f"{which} host is known",
            {"hosts": "CPU threads", "transport": transport, "deadline_s": 2.0}, "<=", most, "ms",
            highest, needs_gpu=False,
        )
        for which, most in (("killed", 50), ("stopped", 2000))
        for what, transport in (("shared memory", "rings"), ("TCP", "tcp"))
    ),
    *(
        Asked(
            "cluster", f"a {which} host is known, under load, most",
            f"{which} host is known, under load", {"hosts": "CPU threads", "deadline_s": 2.0},
            "<=", most, "ms", highest, needs_gpu=False,
        )
        for which, most in (("killed", 50), ("stopped", 2000))
    ),
)  # fmt: skip
