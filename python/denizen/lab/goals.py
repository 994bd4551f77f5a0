# SPDX-License-Identifier: Apache-2.0
"""The figures the project set itself for an H100, and what a record reached of them.

A goal is never a test: a machine that misses it is reported, not failed. It is looked for by case
and parameters, so a record that has no such row has no such goal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from denizen.lab import neighbours, stats
from denizen.lab.beside import FOR_EVER
from denizen.lab.record import Goal, Row, Scalar

# A figure and its interval, None where the samples are too few for one. What a goal asks of a run
# itself (its longest call, messages lost in it, its variation) is known: both ends are the figure.
_Value = tuple[float, stats.Interval | None]


@dataclass(frozen=True, slots=True)
class _Goal:
    """``value`` of the row with ``case`` and ``params`` must be ``<=`` or ``>=`` the bound.

    What the longest sample of case ``besides`` took may be added.
    """

    experiment: str
    what: str
    case: str
    params: Mapping[str, Scalar]
    sign: str
    bound: float
    unit: str
    value: Callable[[Row], _Value | None]
    needs_gpu: bool = True
    besides: str = ""


def _median(row: Row) -> _Value:
    return row.median, row.ci95


def _ratio(name: str) -> Callable[[Row], _Value | None]:
    def value(row: Row) -> _Value | None:
        return (row.ratio_to[name], row.ratio_ci95[name]) if name in row.ratio_to else None

    return value


def _least(row: Row) -> _Value:
    return row.min, (row.min, row.min)


def _most(row: Row) -> _Value:
    return row.max, (row.max, row.max)


def _inverse(value: _Value | None) -> _Value | None:
    if value is None or value[0] == 0:
        return None
    ci95 = value[1]
    return 1 / value[0], None if ci95 is None else (1 / ci95[1], 1 / ci95[0])


def _faster(name: str) -> Callable[[Row], _Value | None]:
    """How many times shorter than case ``name``."""
    return lambda row: _inverse(_ratio(name)(row))


def _smallest(values: Sequence[_Value]) -> _Value | None:
    """The least of several ratios: as small as the least end of any interval, and no larger than
    the least of the other ends."""
    if not values:
        return None
    intervals = [ci95 for _, ci95 in values if ci95 is not None]
    whole = len(intervals) == len(values)
    ends = (min(low for low, _ in intervals), min(high for _, high in intervals)) if whole else None
    return min(value for value, _ in values), ends


def _least_faster(row: Row) -> _Value | None:
    """How many times shorter than the shortest of all others."""
    found = [_faster(name)(row) for name in row.ratio_to]
    return _smallest([value for value in found if value is not None])


def _first_of(*names: str) -> Callable[[Row], _Value | None]:
    """Against the first of these that ran: the fairer one, that older records have not."""

    def value(row: Row) -> _Value | None:
        return next((found for name in names if (found := _ratio(name)(row)) is not None), None)

    return value


def _least_of(*rivals: str | tuple[str, ...]) -> Callable[[Row], _Value | None]:
    """Against the best of these; no answer if one did not run: it may not have been built in.

    Of several names for a rival the first that ran counts.
    """

    def value(row: Row) -> _Value | None:
        found = [_first_of(*((name,) if isinstance(name, str) else name))(row) for name in rivals]
        known = [one for one in found if one is not None]
        return _smallest(known) if len(known) == len(rivals) else None

    return value


def _tail(row: Row) -> _Value | None:
    if row.p99 is None or not row.p50:
        return None
    return row.p99 / row.p50, stats.ratio_ci(row.p99, row.p99_ci95, row.p50, row.ci95)


def _p99(row: Row) -> _Value | None:
    return None if row.p99 is None else (row.p99, row.p99_ci95)


def _cv_percent(row: Row) -> _Value | None:
    return None if row.cv is None else (100 * row.cv, (100 * row.cv, 100 * row.cv))


MET, MISSED, UNDECIDED = "met", "missed", "undecided"
# Units of what is counted, not timed: where all samples agree, that is the figure.
_COUNTS = frozenset({"B", "doorbells", "messages"})

_ASK = "round trip, C++ API, p50"
_PAIR = "dependent pair, N = 50,000"
_GOALS: tuple[_Goal, ...] = (
    _Goal("dispatch", f"{_ASK} / raw ping-pong", "ask", {}, "<=", 1.15, "x", _ratio("raw mailbox")),
    _Goal(
        "dispatch", f"{_ASK}, faster than launch + sync", "ask", {}, ">=", 2.5, "x",
        _faster("launch + sync"),
    ),
    _Goal(
        "dispatch", f"{_ASK}, faster than graph + sync", "ask", {}, ">=", 1.8, "x",
        _faster("graph + sync"),
    ),
    _Goal("dispatch", "round trip, C++ API, p99 / p50", "ask", {}, "<=", 2, "x", _tail),
    _Goal("dispatch", "round trip, Python ask, p50", "ask from Python", {}, "<=", 8, "us", _median),
    _Goal(
        "handlers", "ask, p50: handlers in Python / C++ text", "ask, Python", {}, "<=", 1.03, "x",
        _ratio("ask"), needs_gpu=False,
    ),
    _Goal(
        "handlers", "random targets: handlers in Python / C++ text", "random targets, Python", {},
        ">=", 0.97, "x", _ratio("random targets"), needs_gpu=False,
    ),
    _Goal(
        "beside", "round trip, p50, with a breath of 2 ms / one kernel for ever", "ask",
        {"breath_us": 2000}, "<=", 1.03, "x", _ratio("ask, one kernel for ever"),
    ),
    *(
        _Goal(
            "beside", f"random targets, breath of {us // 1000} ms / one kernel for ever",
            "random targets", {"breath_us": us}, ">=", 0.985, "x",
            _ratio("random targets, one kernel for ever"),
        )
        for us in (2000, 5000)
    ),
    _Goal(
        "beside", "nobody there between two incarnations, mean", "hand-over",
        {"breath_us": 2000, "of all": "mean"}, "<=", 7.8, "us", _median,
    ),
    *(
        _Goal(
            "beside", f"{call} beside a program, worst, three breaths and what it took alone",
            f"beside: {call}", {"breath_us": 2000}, "<=", 6000, "us", _most,
            besides=f"alone: {call}",
        )
        for call in (
            "cudaDeviceSynchronize", "cudaMalloc + cudaFree 64 MiB",
            "cudaHostAlloc + cudaFreeHost 1 MiB", "first launch of a kernel", "cudaDeviceSetLimit",
            "cudaMemGetInfo",
        )
    ),
    _Goal(
        "beside", "a cooperative grid on every SM, worst",
        "beside: cooperative grid, every SM whole", {"breath_us": 2000}, "<=", 25_000, "us", _most,
    ),
    _Goal(
        "beside", "round trip beside a handler of 50 ms, p99", "ask beside: a handler of 50 ms",
        {"breath_us": 2000}, "<=", 20, "us", _p99,
    ),
    *(
        _Goal(
            "frameworks", f"{name} beside messages / alone", f"{name}, beside", {}, "<=", 1.3,
            "x", _ratio(f"{name}, alone"),
        )
        for name in neighbours.ALL
    ),
    _Goal(
        "beside", "the GPU is free of a killed host, worst", "killed under load: the GPU is free",
        {}, "<=", 50, "ms", _most,
    ),
    *(
        _Goal(
            "audit", f"messages that were {what}", what, {}, "<=", 0, "messages", _most,
            needs_gpu=False,
        )
        for what in ("lost", "doubled or overtaken")
    ),
    # Loads with the breath they have by default, beside themselves as one kernel for ever.
    *(
        _Goal(
            "beside", f"{case}, breath / one kernel for ever", case, params, sign, bound, "x",
            _ratio(case + FOR_EVER),
        )
        for case, params, sign, bound in (
            ("tasks: thread tasks", {}, ">=", 0.985),
            ("tasks: fork-join tree", {}, ">=", 0.985),
            ("tasks: chain, one hop", {}, "<=", 1.015),
            ("transactions: streamed", {"warps": 528}, ">=", 0.985),
            ("transactions: resident in device memory", {"warps": 528}, ">=", 0.985),
        )
    ),
    *(
        _Goal(
            "wave", f"{cells} x {cells} x {cells}, tiles, breath / one kernel for a run", "tiles",
            {"cells": cells}, ">=", 0.985, "x", _ratio("tiles, one kernel for a run"),
        )
        for cells in (64, 128)
    ),
    _Goal(
        "adsb", "resident receiver, breath / one kernel", "resident receiver", {}, ">=", 0.985, "x",
        _ratio("resident receiver, one kernel"),
    ),
    _Goal(
        "group", "message to a resident group, 8 KB, breath / one kernel",
        "message to a resident group", {"bytes": 8192}, "<=", 1.015, "x",
        _ratio("message to a resident group, one kernel"),
    ),
    _Goal(
        "ring", "host to device, 64 B, executed, pinned memory", "host to device",
        {"bytes": 64, "memory": "pinned"}, ">=", 150, "M/s", _median,
    ),
    _Goal(
        "ring", "host to device, 64 B, executed, CPU-mapped device memory", "host to device",
        {"bytes": 64, "memory": "mapped"}, ">=", 250, "M/s", _median,
    ),
    _Goal(
        "ring", "CPU ring, two threads, 64 B: slowest against a peer",
        "cpu to cpu, denizen spsc", {}, ">=", 1, "x",
        _least_of(
            "cpu to cpu, boost spsc_queue", "cpu to cpu, boost queue",
            "cpu to cpu, moodycamel readerwriter", "cpu to cpu, moodycamel concurrent",
        ),
        needs_gpu=False,
    ),
    _Goal(
        "ring", "Python send_many from a NumPy array", "send_many from NumPy", {}, ">=", 80, "M/s",
        _median,
    ),
    _Goal(
        "channels", "receive + send loop, 32 B, 64 deep / best rival", "denizen channel", {}, ">=",
        1.3, "x",
        _least_of(
            "mutex and condition", "boost spsc_queue", "moodycamel readerwriter",
            ("moodycamel concurrent with tokens", "moodycamel concurrent"),
        ),
        needs_gpu=False,
    ),
    _Goal(
        "saxpy", "one core, 16 KiB quanta, of the kernel without a runtime", "saxpy, one core",
        {"bytes": 16_384, "kind": "futex"}, ">=", 98, "%", _median, needs_gpu=False,
    ),
    *(
        _Goal(
            "saxpy", f"ring of all cores, movement removed, {kind}, of the compute bound",
            "ring, movement removed", {"all cores": True, "bytes": 16_384, "kind": kind}, ">=",
            bound, "%", _median, needs_gpu=False,
        )
        for kind, bound in (("futex", 96), ("coroutine", 94))
    ),
    # With a kernel of about one sample a cycle, as those were that the three bounds come from.
    _Goal(
        "saxpy", "the same by sample: one core, 16 KiB quanta", "saxpy by sample, one core",
        {"bytes": 16_384, "kind": "futex"}, ">=", 98, "%", _median, needs_gpu=False,
    ),
    *(
        _Goal(
            "saxpy", f"the same by sample: ring of all cores, movement removed, {kind}",
            "ring by sample, movement removed", {"bytes": 16_384, "kind": kind}, ">=", bound, "%",
            _median, needs_gpu=False,
        )
        for kind, bound in (("futex", 96), ("coroutine", 94))
    ),
    # Of older records the first: its time holds the start and stop of GNU Radio's graph.
    *(
        _Goal(
            "flow", f"chain of {blocks} saxpy blocks, {what}throughput / GNU Radio's",
            f"{case}, GNU Radio", {"blocks": blocks}, ">=", 3, "x", _faster(case),
            needs_gpu=False,
        )
        for case, what in (("chain of saxpy", ""), ("chain with data", "data in and out, "))
        for blocks in (1, 4, 12)
    ),
    _Goal(
        "flow", "filter and demodulate, 16 KiB quanta, file read to result, p50",
        "filter and demodulate, one quantum", {}, "<=", 25, "us", _median,
    ),
    _Goal(
        "flow", "filter and demodulate, throughput / a launch per block and buffer",
        "filter and demodulate, stream", {}, ">=", 5, "x",
        _ratio("filter and demodulate, stream, launches"),
    ),
    _Goal(
        "throughput", f"{_PAIR}, one at a time, seen by the host", "pair, one at a time",
        {"n": 50_000}, "<=", 4.5, "us", _median,
    ),
    _Goal(
        "throughput", f"{_PAIR}, faster than two launches + syncs", "pair, one at a time",
        {"n": 50_000}, ">=", 3.5, "x", _faster("pair, two launches + syncs"),
    ),
    _Goal(
        "throughput", f"{_PAIR}, pipelined", "pair, pipelined", {"n": 50_000}, "<=", 0.05, "us",
        _median,
    ),
    _Goal(
        "throughput", "tasks from one host thread, N = 1,000,000, executed and checked",
        "tasks, resident", {"n": 1_000_000}, ">=", 200, "M/s", _median,
    ),
    _Goal(
        "sustained", "echoes, coefficient of variation over 60 s", "echoes", {}, "<=", 1, "%",
        _cv_percent,
    ),
    _Goal("sustained", "echoes, 60 s", "echoes", {}, ">=", 50, "M/s", _median),
    *(
        _Goal(
            "routes", f"handler to handler, 64 B, one way, {where}", "one way",
            {"route": route, "bytes": 64}, "<=", bound, "us", _median,
        )
        for route, where, bound in (
            ("worker", "same worker", 0.10),
            ("cluster", "same cluster", 0.25),
            ("gpu", "same GPU", 0.50),
            ("peer", "peer GPU", 1.3),
        )
    ),
    _Goal(
        "routes", "uniformly random targets, all workers busy", "random targets", {}, ">=", 1000,
        "M/s", _median,
    ),
    *(
        _Goal(
            "group", f"all-reduce inside a kernel, 2 GPUs, {size}", "inside a kernel",
            {"bytes": nbytes, "ranks": 2}, "<=", bound, "us", _median,
        )
        for size, nbytes, bound in (
            ("64 KB", 64 << 10, 1.5),
            ("256 KB", 256 << 10, 2.0),
            ("1 MB", 1 << 20, 5.0),
            ("4 MB", 4 << 20, 14.0),
        )
    ),
    *(
        _Goal(
            "group", f"all-reduce, 2 GPUs, {size}, {how}, faster than {rival}", how,
            {"bytes": nbytes, "ranks": 2}, ">=", bound, "x", _faster(rival),
        )
        for size, nbytes, how, rival, bound in (
            ("64 KB", 64 << 10, "inside a kernel", "NCCL in a graph", 4),
            ("64 MB", 64 << 20, "inside a kernel", "NCCL in a graph", 1.2),
            ("1 GB", 1 << 30, "inside a kernel", "NCCL in a graph", 1.0),
            ("64 KB", 64 << 10, "message to a resident group", "NCCL eager, synchronised", 3),
            ("64 KB", 64 << 10, "kernel in a graph", "NCCL in a graph", 1.5),
        )
    ),
    _Goal(
        "group", "all-reduce inside a kernel, 4 GPUs, 64 KB", "inside a kernel",
        {"bytes": 64 << 10, "ranks": 4}, "<=", 2.2, "us", _median,
    ),
    *(
        _Goal(
            "group", f"all-reduce, 4 GPUs, {size}, inside a kernel, faster than NCCL in a graph",
            "inside a kernel", {"bytes": nbytes, "ranks": 4}, ">=", bound, "x",
            _faster("NCCL in a graph"),
        )
        for size, nbytes, bound in (("64 MB", 64 << 20, 1.2), ("1 GB", 1 << 30, 1.0))
    ),
    _Goal("actors", "spawn, seen by the host", "spawn", {}, "<=", 5, "us", _median),
    _Goal("actors", "restart, seen by the host", "restart", {}, "<=", 5, "us", _median),
    _Goal(
        "actors", "100,000 spawned at once", "spawn at once", {"actors": 100_000}, "<=", 20, "ms",
        _median,
    ),
    *(
        _Goal(
            "bfs", f"BFS, {graph}, faster than {what}", "auto", {"graph": graph}, ">=", bound,
            "x", _faster(rival),
        )
        for graph in ("NY", "FLA", "chain 20,000")
        for rival, what, bound in (
            ("launch per level", "a launch per level", 10),
            ("while graph", "a graph with a while node", 3),
        )
        if graph != "chain 20,000" or rival == "launch per level"
    ),
    *(
        _Goal(
            "bfs", f"BFS, Kronecker scale {scale}, speed / the best method's", "auto",
            {"graph": f"Kronecker {scale}"}, ">=", 0.9, "x", _least_faster,
        )
        for scale in (20, 21, 22)
    ),
    _Goal(
        "actors", "supervised, 1 % of handlers failing / none", "supervised, 1 % failing", {}, ">=",
        0.8, "x", _ratio("supervised, none failing"),
    ),
    _Goal(
        "procmine", "graph with frequencies and durations, 10^8 events", "graph",
        {"events": 100_000_000}, ">=", 2000, "M/s", _median,
    ),
    _Goal(
        "procmine", "graph with frequencies and durations, one core", "graph, one thread",
        {"events": 10_000_000}, ">=",
        20, "M/s", _median, needs_gpu=False,
    ),
    _Goal("procmine", "streamed through case actors", "streamed", {}, ">=", 50, "M/s", _median),
    *(
        _Goal("tasks", what, case, {}, sign, bound, unit, _median)
        for what, case, sign, bound, unit in (
            ("independent tasks of a thread", "thread tasks", ">=", 10_000, "M/s"),
            ("independent tasks of a warp", "warp tasks", ">=", 500, "M/s"),
            ("fork-join tree, tasks spawned by tasks", "fork-join tree", ">=", 500, "M/s"),
            ("dependent chain across SMs, one hop", "chain, one hop", "<=", 0.7, "us"),
        )
    ),
    _Goal(
        "adsb", "one core over a recorded signal / dump1090", "recorded signal", {}, ">=", 3, "x",
        _first_of("recorded signal, dump1090 in memory", "recorded signal, dump1090"),
        needs_gpu=False,
    ),
    _Goal(
        "adsb", "one core over a recorded signal", "recorded signal", {}, ">=", 330, "Msps",
        _median, needs_gpu=False,
    ),
    _Goal(
        "adsb", "resident receiver, pinned host memory to messages", "resident receiver",
        {"memory": "pinned", "samples": "in place"}, ">=", 5000, "Msps", _median,
    ),
    _Goal(
        "wave", "64 x 64 x 64", "auto", {"cells": 64}, ">=", 250_000, "Mcells/s", _median,
    ),
    *(
        _Goal(
            "wave", f"{cells} x {cells} x {cells} / the captured graph's", "auto",
            {"cells": cells}, ">=", bound, "x", _ratio("graph"),
        )
        for cells, bound in ((64, 1.5), (128, 1.3), (256, 1.0))
    ),
    _Goal(
        "wave", "512 x 512 x 512, share of the copy's bandwidth at 12 B per cell", "auto",
        {"cells": 512}, ">=", 0.85, "x", _ratio("copy"),
    ),
    _Goal(
        "wave", "CPU threads, 256 x 256 x 256, share of the memory's bandwidth", "CPU threads",
        {"cells": 256}, ">=", 0.8, "x", _ratio("update of two arrays"), needs_gpu=False,
    ),
    _Goal(
        "wave", "steering, from the call to its effect seen, of two steps and 5 us", "steering", {},
        "<=", 1, "x", _ratio("two steps and 5 us"),
    ),
    *(
        _Goal(
            "arena", f"malloc, {size} B, 1 Mi threads", "malloc",
            {"bytes": size, "threads": 1 << 20}, ">=", bound, "M/s", _median,
        )
        for size, bound in ((16, 12_000), (64, 10_000), (256, 5_000), (1024, 2_000), (4096, 1_000))
    ),
    *(
        _Goal(
            "arena", f"churn, {size} B, 65,536 threads", "churn",
            {"bytes": size, "threads": 65_536, "touch": 0}, ">=", bound, "M/s", _median,
        )
        for size, bound in ((16, 10_000), (64, 8_000), (256, 5_000), (1024, 2_000), (4096, 1_000))
    ),
    *(
        _Goal(
            "arena", f"requests met until 95 % are live, {sizes}",
            "requests met until 95 % are live", {"sizes": sizes}, ">=", 100, "%", _least,
        )
        for sizes in ("16 B to 8 KB", "nine of ten 64 B")
    ),
    # What the paper "Revealing NVIDIA Closed-Source Driver Command Streams for CPU-GPU Runtime
    # Behavior Insight" found on an A40: copies inline up to 24 KiB, graphs of 340 to 2216 bytes.
    _Goal(
        "driver", "largest inline copy from pinned memory, beside the paper's 24 KiB",
        "largest inline copy", {"direction": "to device", "memory": "pinned"}, ">=", 24 * 1024, "B",
        _median,
    ),
    *(
        _Goal(
            "driver", f"launch of a graph of {kernels} kernels, beside the paper's {bound} {unit}",
            "graph, a chain, submitted", {"kernels": kernels, "of": unit}, "<=", bound, unit,
            _median,
        )
        for kernels, bound, unit in (
            (1, 340, "B"), (2000, 2216, "B"), (1, 1, "doorbells"), (2000, 1, "doorbells"),
        )
    ),
    *(
        _Goal(
            "driver", f"{way}, {mode} mode: doorbells other than one a launch",
            "doorbells other than one a launch", {"way": way, "mode": mode}, "<=", 0, "doorbells",
            _most,
        )
        for way in ("launch + sync", "graph + sync")
        for mode in ("count", "full")
    ),
    *(
        _Goal(
            "driver", f"count mode adds to a doorbell, {way}", "added to a doorbell",
            {"way": way, "mode": "count"}, "<=", 10, "us", _median,
        )
        for way in ("launch + sync", "graph + sync")
    ),
    _Goal(
        "transactions", "streamed from pinned host memory", "streamed", {"memory": "pinned"}, ">=",
        150, "M/s", _median,
    ),
    _Goal(
        "transactions", "alert latency at 10 M/s, p99", "alert latency", {"rate_m": 10}, "<=", 100,
        "us", _p99,
    ),
    _Goal(
        "transactions", "resident in device memory, all rules", "resident in device memory", {},
        ">=", 2000, "M/s", _median,
    ),
    *(
        _Goal(
            "cluster", f"{what}, one way between hosts, p50", "one way, actor to actor",
            {"transport": transport, "links": links}, "<=", most, "us", _median, needs_gpu=False,
        )
        for what, transport, links, most in (
            ("shared memory, spinning", "rings", "spinning", 1.5),
            ("loopback TCP, spinning", "tcp", "spinning", 10),
            ("loopback TCP, sleeping", "tcp", "sleeping", 60),
        )
    ),
    *(
        _Goal(
            "cluster", f"64-byte slots between hosts, {what}", "64-byte slots, a pair of hosts",
            {"transport": transport}, ">=", least, "M/s", _median, needs_gpu=False,
        )
        for what, transport, least in (("shared memory", "rings", 10), ("TCP", "tcp", 5))
    ),
    _Goal(
        "cluster", "a killed host is known, most", "killed host is known", {}, "<=", 50, "ms",
        _most, needs_gpu=False,
    ),
    # Beside what Vollo publishes for FPGAs, mean / p99, of the same models (lab/infer.py).
    *(
        _Goal(
            "infer", f"{model}, one step, {what}, beside an FPGA's {published} us", "resident",
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
            ("p50", mean, p50, _median), ("p99", tail, p99, _p99),
        )
    ),
    *(
        _Goal(
            "infer", f"{model}, one step, p50, faster than a CUDA graph", "resident",
            {"model": model}, ">=", 5, "x", _faster("CUDA graph, pinned copies"),
        )
        for model in (
            "lstm_tiny, 2 x 128", "lstm_small, 3 x 256", "lstm_med, 3 x 480",
            "lstm_med_deep, 6 x 320", "lstm_large, 3 x 960",
        )
    ),
    _Goal(
        "infer", "lstm_small, 3 x 256, steps of 1,024 streams", "steps of 1,024 streams",
        {"model": "lstm_small, 3 x 256"}, ">=", 1, "M/s", _median,
    ),
)  # fmt: skip


def reached(experiment: str, rows: Sequence[Row], *, gpu: bool) -> list[Goal]:
    """The goals of ``experiment`` that ``rows``, measured with a GPU or without, can answer.

    Where several rows fit (a case measured over both kinds of memory), the best one counts, and the
    answer says of how many.
    """
    answers = []
    for goal in _GOALS:
        if goal.experiment != experiment or (goal.needs_gpu and not gpu):
            continue
        values = [
            value
            for row in rows
            if row.case == goal.case
            and all(row.params.get(key) == item for key, item in goal.params.items())
            and (value := _of(goal, row)) is not None
        ]
        if not values:
            continue
        best, ci95 = (min if goal.sign == "<=" else max)(values, key=lambda value: value[0])
        bound = goal.bound + max((row.max for row in rows if row.case == goal.besides), default=0)
        sign = "≤" if goal.sign == "<=" else "≥"
        verdict = _verdict(goal.sign, bound, ci95)
        answers.append(
            Goal(goal.what, f"{sign} {bound:g} {goal.unit}", best, ci95, verdict, len(values))
        )
    return answers


def _of(goal: _Goal, row: Row) -> _Value | None:
    value = goal.value(row)
    counted = row.unit in _COUNTS and goal.value is _median and row.min == row.max
    return (row.median, (row.min, row.max)) if counted else value


def _verdict(sign: str, bound: float, ci95: stats.Interval | None) -> str:
    if ci95 is None:
        return UNDECIDED
    low, high = ci95
    if sign == ">=":
        low, high, bound = -high, -low, -bound
    return MET if high <= bound else MISSED if low > bound else UNDECIDED
