# SPDX-License-Identifier: Apache-2.0
"""Traces of a whole cluster: the records of all hosts, in one order.

The order is that of the hybrid logical clock, which no host's own clock can turn round: each
message carries a stamp, and who handles it draws greater ones from then on.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Mapping
from contextlib import suppress
from itertools import pairwise
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from denizen import _core
from denizen.errors import ArgumentError, DenizenError, HostLostError
from denizen.trace import HANDLER, SEND, TRACE_RECORD, Where, require_perfetto, write_perfetto
from denizen.trace import HOST as HOST_WORKER
from denizen.tracing import Collector

if TYPE_CHECKING:
    from denizen.cluster.processes import Processes
    from denizen.program import Program
    from denizen.snapshot import Path

# A record of a trace, and the host that it is of. Addresses mean the same on every host.
CLUSTER_RECORD = np.dtype([("host", "<u4"), *TRACE_RECORD.descr])

MAX_NODES = 5  # of a host: max_nodes of include/denizen/actor/detail/rings.hpp
_PART = 100_000  # records that a host hands over at a time
_PATIENCE = 10.0


class HostTrace:
    """Of one host: what it is asked for a trace of all."""

    def __init__(self, core: _core.Runtime) -> None:
        self._core = core
        self._collector: Collector | None = None
        self._records = np.empty(0, TRACE_RECORD)

    def begin(self) -> None:
        self.stop()
        collector = Collector(self._core)
        collector.begin()
        self._collector = collector

    def stop(self) -> None:
        if self._collector is not None:
            self._collector.stop()
            self._collector = None

    @property
    def running(self) -> bool:
        return self._collector is not None

    def end(self) -> dict[str, int]:
        """How many records there are, and by how much its clock is behind the time of day, in ns.

        None, if it was started again after begin().
        """
        overwritten = 0
        if self._collector is not None:
            self._collector.stop()
            records = self._collector.records()
            self._records = records
            for field in ("actor", "other"):
                addresses = np.ascontiguousarray(records[field])
                _core.to_far(self._core, addresses)
                self._records[field] = addresses
            overwritten = self._collector.overwritten
            self._collector = None
        return {
            "records": self._records.size,
            "overwritten": overwritten,
            "clock_ns": time.time_ns() - time.monotonic_ns(),
        }

    def answer(self, verb: str) -> Any:
        """What another host may ask of it."""
        if verb not in ("begin", "end", "stop", "drop"):
            raise ArgumentError(f'no trace can be told to "{verb}"')
        return getattr(self, verb)()

    def part(self, first: int, count: int) -> str:
        return base64.b64encode(self._records[first : first + count].tobytes()).decode()

    def drop(self) -> None:
        self._records = np.empty(0, TRACE_RECORD)


class ClusterTrace:
    """One trace of all hosts, from entering it, or begin(), to leaving it, or end().

    Attributes:
        events: after the end: shape (n,), dtype CLUSTER_RECORD, in the order of the hybrid clock.
            What happened because of something else stands behind it, also where hosts' clocks
            differ, by less than a minute.
        overwritten: records that were lost, as Tracer's.
    """

    def __init__(self, hosts: Processes, program: Program, path: Path | None) -> None:
        self._hosts, self._program, self._path = hosts, program, path
        self._running = False
        self.events: NDArray[np.void] = np.empty(0, CLUSTER_RECORD)
        self.overwritten = 0

    def begin(self) -> None:
        """Traces what is sent on any host from now on."""
        if self._path is not None:
            require_perfetto()  # not only at the end
        if self._hosts.local.tracing.running:
            raise ArgumentError("a trace of this cluster is being taken; end it first")
        self._tell_all("begin")
        self._running = True

    def end(self) -> None:
        """Ends the trace, and writes the file if there is to be one.

        It has the handlers that have ended by now: drain() first for those of all messages. Of a
        host that was lost there is nothing.
        """
        if not self._running:
            return
        self._running = False
        parts = []
        clocks: dict[int, int] = {}
        for host, told in self._tell_all("end").items():
            with suppress(HostLostError):
                part = self._take(host, int(told["records"]))
                clocks[host] = int(told["clock_ns"])
                self.overwritten += int(told["overwritten"])
                parts.append(part)
        records = np.concatenate(parts) if parts else np.empty(0, CLUSTER_RECORD)
        self.events = in_order(records)
        if self._path is not None:
            self._write(clocks)

    def drop(self) -> None:
        """Ends the trace; what it has is lost, and no file is written."""
        if self._running:
            self._running = False
            with suppress(DenizenError):  # of a host that is lost
                self._tell_all("stop")

    @property
    def records(self) -> int:
        """How many events there are."""
        return self.events.size

    def _tell_all(self, verb: str) -> dict[int, Any]:
        """What each host that lives says to it. If one fails, none traces any more."""
        try:
            return self._hosts.call_living("trace", _PATIENCE, verb=verb)
        except BaseException:
            for host in self._hosts.living():
                with suppress(DenizenError):
                    self._hosts.call(host, "trace", _PATIENCE, verb="stop")
            raise

    def _take(self, host: int, count: int) -> NDArray[np.void]:
        out = np.empty(count, CLUSTER_RECORD)
        out["host"] = host
        for first in range(0, count, _PART):
            packed = self._hosts.call(host, "trace_part", _PATIENCE, first=first, count=_PART)
            part = np.frombuffer(base64.b64decode(packed), TRACE_RECORD)
            for field in TRACE_RECORD.names or ():
                out[field][first : first + part.size] = part[field]
        self._hosts.call(host, "trace", _PATIENCE, verb="drop")
        return out

    def _write(self, clocks: Mapping[int, int]) -> None:
        assert self._path is not None
        events = in_time(self.events, clocks)
        workers = {n: int(about["workers"]) for n, about in self._hosts.about.items()}
        # Tracks: a number for each worker of each host.
        of = events["host"].astype(np.uint64) << np.uint64(32) | events["worker"]
        names, numbers = np.unique(of, return_inverse=True)
        where = {}
        for number, name in enumerate(names.tolist()):
            host, worker = name >> 32, name & 0xFFFF_FFFF
            node = -1 if worker == HOST_WORKER else worker // workers[host]
            process = f"host {host}" + ("" if node == -1 else f", node {node}")
            thread = "threads" if node == -1 else f"worker {worker % workers[host]}"
            pid = host * (MAX_NODES + 1) + node + 2
            where[number] = Where(pid, process, thread, of_host=node == -1)
        table = np.empty(events.size, TRACE_RECORD)
        for field in TRACE_RECORD.names or ():
            table[field] = events[field]
        table["worker"] = numbers
        write_perfetto(
            self._path,
            table,
            actors=list(self._program.actors),
            messages=list(self._program.messages),
            workers_per_node=1,
            where=where,
            place=self._place,
        )

    def _place(self, address: int) -> str:
        host = _core.host_of(self._hosts.local.core, address)
        return f"{address:#010x}" + (f" of host {host}" if host >= 0 else "")

    def __enter__(self) -> ClusterTrace:
        self.begin()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()


class Traces:
    """The part of Cluster that is about tracing."""

    _hosts: Processes
    program: Program

    def trace(self, path: Path | None = None) -> ClusterTrace:
        """Traces what is sent on any host inside `with cluster.trace(path) as trace:`.

        ``trace.events`` has the records of all hosts in the order of the hybrid clock. The file, if
        there is to be one, gets them for ui.perfetto.dev: causes before effects, although hosts'
        clocks differ. As Runtime.trace() otherwise. The cluster must have been made with
        `trace=True`.
        """
        return ClusterTrace(self._hosts, self.program, path)


def in_order(records: NDArray[np.void]) -> NDArray[np.void]:
    """Records (dtype CLUSTER_RECORD) so that causes come before what they have caused.

    The time of a sending is its message's stamp. The time of a handling is the greatest stamp that
    its actor had met by then, its message's included: what the actor sends later has greater ones.
    A sending comes before what has the same time. That holds as long as the clocks of hosts differ
    by less than a minute (hlc::max_drift_us), and for what was not overwritten.
    """
    handles = records["kind"] == HANDLER
    # The threads of a host share a clock: they are one actor here.
    actor = np.where(records["worker"] == HOST_WORKER, 0, records["actor"])
    by_actor = np.lexsort((records["start_ns"], actor, records["host"]))
    time_of = records["stamp"].copy()
    sorted_time = time_of[by_actor]
    new = np.ones(records.size, bool)
    new[1:] = (np.diff(actor[by_actor].astype(np.int64)) != 0) | (
        np.diff(records["host"][by_actor].astype(np.int64)) != 0
    )
    bounds = [*np.flatnonzero(new).tolist(), records.size]
    for first, last in pairwise(bounds):
        sorted_time[first:last] = np.maximum.accumulate(sorted_time[first:last])
    met = np.empty_like(time_of)
    met[by_actor] = sorted_time
    time_of[handles] = met[handles]
    return records[np.lexsort((records["start_ns"], handles, time_of))]


def in_time(records: NDArray[np.void], clocks: Mapping[int, int]) -> NDArray[np.void]:
    """The same with times of one clock: the time of day in ns, as near as hosts know it.

    Args:
        clocks: by host, what makes the time of day of its ``start_ns``.

    A host's clock is put forward by the least that lets each message be handled after its sending.
    """
    out = records.copy()
    hosts = sorted(set(records["host"].tolist()))
    for host in hosts:
        out["start_ns"][out["host"] == host] += np.uint64(clocks[host])
    sends = out[(out["kind"] == SEND) & (out["stamp"] != 0)]
    sent = dict(
        zip(
            zip(sends["stamp"].tolist(), sends["actor"].tolist(), strict=True),
            zip(sends["host"].tolist(), sends["start_ns"].tolist(), strict=True),
            strict=True,
        )
    )
    least: dict[tuple[int, int], int] = {}  # from host to host: of all messages' ways
    for r in out[(out["kind"] == HANDLER) & (out["stamp"] != 0)]:
        found = sent.get((int(r["stamp"]), int(r["other"])))
        if found is not None and found[0] != r["host"]:
            pair = (found[0], int(r["host"]))
            way = int(r["start_ns"]) - found[1]
            least[pair] = min(least.get(pair, way), way)
    forward = dict.fromkeys(hosts, 0)
    for _ in hosts:  # a chain of hosts is no longer than there are
        for (a, b), way in least.items():
            forward[b] = max(forward[b], forward[a] - way)
    for host in hosts:
        out["start_ns"][out["host"] == host] += np.uint64(forward[host])
    return out
