# SPDX-License-Identifier: Apache-2.0
"""The directly-follows graph of a log, its variants and its cases' figures."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from denizen import _core
from denizen.device import parse_device
from denizen.errors import ArgumentError
from denizen.procmine.log import Log
from denizen.shown import Shown

NO_VARIANT = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Edge:
    """``to`` came directly after ``source`` this often; durations in microseconds.

    The quantiles are exact: those of NumPy and pandas, linear between two values.
    """

    source: str
    to: str
    count: int
    mean: float
    median: float
    p95: float
    least: int
    most: int


@dataclass(frozen=True, slots=True)
class Variant:
    """A path and how many cases took it."""

    path: tuple[str, ...]
    count: int


class Mined(Shown):
    """What mine() found. Arrays are by number; the names are the log's.

    Attributes:
        log: the log.
        edge_from, edge_to: uint32, shape (edges,), in their order.
        edge_count, edge_least, edge_most: uint64; durations in microseconds.
        edge_mean, edge_median, edge_p95: float64, in microseconds.
        activity_counts, starts, ends: uint64, shape (activities,): events of it, cases that begin
            and end with it.
        variant_count: uint64, shape (variants,), most frequent first.
        case_variants: uint32, shape (cases,): the variant of each, NO_VARIANT if it has no events.
        case_events: uint32, shape (cases,).
        case_begins, case_ends: int64, shape (cases,): times of its first and last event.
        seconds: that mining took, without reading the log.
        device: where it ran.
    """

    def __init__(self, log: Log, arrays: dict[str, Any], device: str) -> None:
        self.log = log
        self.device = device
        self.seconds: float = arrays["seconds"]
        self.edge_from: NDArray[np.uint32] = arrays["edge_from"]
        self.edge_to: NDArray[np.uint32] = arrays["edge_to"]
        self.edge_count: NDArray[np.uint64] = arrays["edge_count"]
        self.edge_least: NDArray[np.uint64] = arrays["edge_least"]
        self.edge_most: NDArray[np.uint64] = arrays["edge_most"]
        self.edge_mean: NDArray[np.float64] = arrays["edge_mean"]
        self.edge_median: NDArray[np.float64] = arrays["edge_median"]
        self.edge_p95: NDArray[np.float64] = arrays["edge_p95"]
        self.activity_counts: NDArray[np.uint64] = arrays["activity_counts"]
        self.starts: NDArray[np.uint64] = arrays["starts"]
        self.ends: NDArray[np.uint64] = arrays["ends"]
        self.variant_count: NDArray[np.uint64] = arrays["variant_count"]
        self.case_variants: NDArray[np.uint32] = arrays["case_variants"]
        self.case_events: NDArray[np.uint32] = arrays["case_events"]
        self.case_begins: NDArray[np.int64] = arrays["case_begins"]
        self.case_ends: NDArray[np.int64] = arrays["case_ends"]
        self._offset: NDArray[np.uint64] = arrays["variant_offset"]
        self._length: NDArray[np.uint32] = arrays["variant_length"]
        self._paths: NDArray[np.uint32] = arrays["paths"]

    def _facts(self) -> list[tuple[str, str]]:
        return [
            ("events", f"{int(self.activity_counts.sum()):,}"),
            ("cases", f"{len(self.case_events):,}"),
            ("edges", f"{len(self.edge_count):,}"),
            ("variants", f"{len(self.variant_count):,}"),
            ("on", self.device),
        ]

    @cached_property
    def edges(self) -> list[Edge]:
        """All edges, by the numbers of their activities."""
        names = self.log.activities
        columns = (
            self.edge_from, self.edge_to, self.edge_count, self.edge_mean, self.edge_median,
            self.edge_p95, self.edge_least, self.edge_most,
        )  # fmt: skip
        rows = zip(*(column.tolist() for column in columns), strict=True)
        return [Edge(names[a], names[b], *rest) for a, b, *rest in rows]

    @property
    def counts(self) -> dict[tuple[str, str], int]:
        """How often each edge was gone."""
        return {(edge.source, edge.to): edge.count for edge in self.edges}

    @property
    def start_activities(self) -> dict[str, int]:
        """How many cases begin with each."""
        return self._named(self.starts)

    @property
    def end_activities(self) -> dict[str, int]:
        """How many cases end with each."""
        return self._named(self.ends)

    def _named(self, counts: NDArray[np.uint64]) -> dict[str, int]:
        return {self.log.activities[i]: int(counts[i]) for i in np.flatnonzero(counts)}

    def path(self, variant: int) -> NDArray[np.uint32]:
        """The activities of a variant, by number."""
        begin = int(self._offset[variant])
        return self._paths[begin : begin + int(self._length[variant])]

    @cached_property
    def variants(self) -> list[Variant]:
        """All of them, most frequent first."""
        names = self.log.activities
        return [
            Variant(tuple(names[a] for a in self.path(i)), int(count))
            for i, count in enumerate(self.variant_count)
        ]

    def cases_of(self, variant: int) -> list[str]:
        """The cases that took a variant."""
        return [self.log.cases[c] for c in np.flatnonzero(self.case_variants == variant)]

    @property
    def case_seconds(self) -> NDArray[np.float64]:
        """From its first event to its last, shape (cases,)."""
        return (self.case_ends - self.case_begins).astype(np.float64) * 1e-6


def mine(
    log: Log,
    *,
    device: str = "cpu",
    quantiles: bool = True,
    variants: bool = True,
    hosts: int | None = None,
    transport: str = "rings",
) -> Mined:
    """Mine a log.

    Args:
        log: the log.
        device: "cpu" (all its cores), "cpu:THREADS", "gpu" or "gpu:N"; "auto": a GPU for logs of
            more than 2,000,000 events, if there is one.
        quantiles, variants: without them less is computed; edges' median and p95 are 0 then, and
            there are no variants.
        hosts: processes of this machine over which the cases are spread, each with ``device``; the
            result is the same. ``transport``: between them, as of denizen.Cluster.

    Raises DeviceError (no GPU, or a package that was built without CUDA), ExhaustedError (memory),
    HostLostError (one of several hosts).
    """
    if hosts is not None:
        from denizen.procmine.sharded import mine_on_hosts  # noqa: PLC0415  (mines by this module)

        return mine_on_hosts(log, device, hosts, transport, quantiles=quantiles, variants=variants)
    if device == "auto" and (len(log) < _WORTH_A_GPU or not _core.procmine_has_gpu):
        device = "cpu"
    where = parse_device(device)
    if where.nodes != 1:
        raise ArgumentError(f'device "{device}"; mining uses one GPU or the CPU')
    columns = (log.case, log.activity, log.time, len(log.cases), len(log.activities))
    if where.on_gpu:
        arrays, name = _core.procmine_mine_gpu(*columns, where.first, quantiles, variants)
    else:
        threads = where.threads or 0
        arrays = _core.procmine_mine(*columns, threads, quantiles, variants)
        name = "CPU" if not threads else f"CPU, {threads} thread{'s' * (threads != 1)}"
    return Mined(log, arrays, name)


_WORTH_A_GPU = 2_000_000
