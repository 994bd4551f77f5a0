# SPDX-License-Identifier: Apache-2.0
"""Perfetto traces: what each worker handled and sent, on the device's clock.

Open the file with https://ui.perfetto.dev, which reads it in the browser.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from denizen.errors import ArgumentError, MissingPackageError
from denizen.files import whole

# denizen::TraceRecord of include/denizen/actor/detail/trace.hpp, byte for byte.
TRACE_RECORD = np.dtype(
    [
        ("start_ns", "<u8"),
        ("duration_ns", "<u8"),
        ("stamp", "<u8"),  # hybrid logical clock of the message; 0: it carries none
        ("actor", "<u4"),  # address of the one that handles, or sends
        ("actor_type", "<u4"),
        ("other", "<u4"),  # address of the sender, or of the destination
        ("message", "<u4"),  # message type
        ("worker", "<u4"),  # counted over all nodes, or HOST
        ("kind", "<u4"),  # HANDLER or SEND
    ]
)
HANDLER, SEND = 1, 2  # denizen::TraceKind
HOST = 0xFFFF_FFFF  # the worker of what the host sends

_HOST_NODE = 7  # include/denizen/actor/address.hpp
_FIRST_TID = 10_000  # worker 17's reads 10017, and none is a process's number too
_BATCH = 4096  # packets serialised at once
_BEGIN, _END, _INSTANT = 1, 2, 3  # perfetto's TrackEvent.Type
_NEW_SEQUENCE = 1  # perfetto's TracePacket.SEQ_INCREMENTAL_STATE_CLEARED


class _Record(NamedTuple):
    start: int
    duration: int
    stamp: int
    actor: int
    actor_type: int
    other: int
    message: int
    worker: int
    kind: int

    @property
    def end(self) -> int:
        return self.start + self.duration

    @property
    def key(self) -> tuple[int, int]:
        """What the records of a message's send and of its handling share."""
        return self.stamp, self.other if self.kind == HANDLER else self.actor


class Where(NamedTuple):
    """What a number of a record's worker means, where that is not a worker of one host."""

    process: int  # number of the process that it is shown in, from 1
    process_name: str
    name: str
    of_host: bool  # threads of a host


class _Event(NamedTuple):
    time: int
    type: int
    track: tuple[int, int]  # worker, row
    record: _Record


def require_perfetto() -> Any:
    """The class that builds traces. MissingPackageError if the package perfetto is missing."""
    try:
        from perfetto.trace_builder.proto_builder import TraceProtoBuilder  # noqa: PLC0415
    except ImportError as error:
        raise MissingPackageError("perfetto") from error
    return TraceProtoBuilder


def write_perfetto(
    path: str | os.PathLike[str],
    records: NDArray[np.void] | Sequence[tuple[int, ...]],
    *,
    actors: Sequence[str],
    messages: Sequence[str],
    workers_per_node: int,
    where: Mapping[int, Where] | None = None,
    place: Callable[[int], str] | None = None,
) -> None:
    """Write trace records as a Perfetto trace (protobuf; docs at https://perfetto.dev).

    Each node is a process, each worker a thread in it, each handler's run a slice named
    ``Actor: Message``, each send an instant. Handlers that ran side by side on the lanes of one
    warp lie on tracks below their worker's. A flow leads from a send to the handler of its
    message: the two records with the same stamp and the same sender.

    Args:
        path: the file; one that exists is replaced.
        records: shape (n,), dtype TRACE_RECORD, in any order; or tuples of its fields.
            Times are in nanoseconds and stay as they are: all nodes' must be of one clock.
        actors: names by actor type; a type beyond them is called ``actor``.
        messages: names by message type; a type beyond them is called ``message N``.
        workers_per_node: worker w is number w mod workers_per_node of node w // workers_per_node,
        where: if it does not say what each number of a worker means.
        place: the words for an address; those of one host if not given.

    Raises:
        ArgumentError: records of another dtype or shape, of an unknown kind, or that end at 2^64 ns
            or later; no workers.
        MissingPackageError: the package perfetto is not installed.
    """
    new_builder = require_perfetto()
    if workers_per_node < 1:
        raise ArgumentError(f"workers_per_node = {workers_per_node}; use 1 or more")
    table = _checked(records)
    flows = _flows(table)
    with whole(path) as part, open(part, "wb") as file:
        numbers = {r.worker for r in table}
        tracks = _Tracks(file, new_builder, where or _of_one_host(numbers, workers_per_node))
        for event in _events(table):
            uuid = tracks.uuid(*event.track)
            packet = tracks.packet()
            packet.timestamp = event.time
            packet.track_event.type = event.type
            packet.track_event.track_uuid = uuid
            if event.type != _END:
                r = event.record
                of_host = tracks.where[r.worker].of_host
                _describe(packet.track_event, r, "host" if of_host else None, actors, messages)
                _annotate(packet.track_event, r, place or _place)
                if r.stamp:
                    packet.track_event.flow_ids.append(flows[r.key])
        tracks.flush()


class _Tracks:
    """The packets of a trace on their way to a file. A track is described when it is first used."""

    def __init__(self, file: IO[bytes], new_builder: Any, where: Mapping[int, Where]) -> None:
        self._file = file
        self._new_builder = new_builder
        self._builder = new_builder()
        self.where = where
        self._uuids: dict[tuple[int, int], int] = {}
        self._first = 1 + max((w.process for w in where.values()), default=0)
        self._described: set[int] = set()

    def packet(self) -> Any:
        if len(self._builder.trace.packet) == _BATCH:
            self.flush()
        packet = self._builder.add_packet()
        packet.trusted_packet_sequence_id = 1
        return packet

    def flush(self) -> None:
        self._file.write(self._builder.serialize())  # serialised traces in a row are one trace
        self._builder = self._new_builder()

    def uuid(self, worker: int, row: int) -> int:
        """The track of a worker (row 0), or one below it."""
        known = self._uuids.get((worker, row))
        if known is not None:
            return known
        pid = self._process(worker)
        above = self.uuid(worker, 0) if row else pid
        uuid = self._uuids[worker, row] = self._first + len(self._uuids)
        name = self.where[worker].name
        track = self.packet().track_descriptor
        track.uuid = uuid
        if row:
            track.parent_uuid = above
            track.name = f"{name}, side by side"  # Perfetto shows tracks of one name as one
        else:
            track.thread.pid = pid
            track.thread.tid = _FIRST_TID - 1 if worker == HOST else _FIRST_TID + worker
            track.thread.thread_name = name
        return uuid

    def _process(self, worker: int) -> int:
        """The number of a node's process, which is its track's uuid too."""
        where = self.where[worker]
        pid = where.process
        if pid not in self._described:
            packet = self.packet()
            if not self._described:
                packet.sequence_flags = _NEW_SEQUENCE
            self._described.add(pid)
            track = packet.track_descriptor
            track.uuid = pid
            track.process.pid = pid
            track.process.process_name = where.process_name
        return pid


def _of_one_host(workers: Collection[int], per_node: int) -> dict[int, Where]:
    where = {}
    for worker in workers:
        if worker == HOST:
            where[worker] = Where(_HOST_NODE + 1, "host", "host", of_host=True)
        else:
            node = worker // per_node
            name = f"worker {worker % per_node}"
            where[worker] = Where(node + 1, f"node {node}", name, of_host=False)
    return where


def _describe(
    track_event: Any,
    r: _Record,
    who: str | None,
    actors: Sequence[str],
    messages: Sequence[str],
) -> None:
    message = messages[r.message] if r.message < len(messages) else f"message {r.message}"
    actor = who or (actors[r.actor_type] if r.actor_type < len(actors) else "actor")
    track_event.name = f"{actor} sends {message}" if r.kind == SEND else f"{actor}: {message}"


def _annotate(track_event: Any, r: _Record, place: Callable[[int], str]) -> None:
    for name, value in (
        ("actor", place(r.actor)),
        ("to" if r.kind == SEND else "from", place(r.other)),
        ("stamp", f"{r.stamp >> 16}.{r.stamp & 0xFFFF}" if r.stamp else "none"),
    ):
        note = track_event.debug_annotations.add()
        note.name = name
        note.string_value = value


def _place(address: int) -> str:
    """An address in the words of errors; its layout is in include/denizen/actor/address.hpp."""
    node, worker, local = address >> 29, address >> 18 & 0x7FF, address & 0x3FFFF
    if node == _HOST_NODE:
        return "host"
    return f"#{local} of worker {worker}" + (f" of node {node}" if node else "")


def _checked(records: NDArray[np.void] | Sequence[tuple[int, ...]]) -> list[_Record]:
    if isinstance(records, np.ndarray):
        if records.dtype != TRACE_RECORD or records.ndim != 1:
            raise ArgumentError(
                f"records have dtype {records.dtype} and shape {records.shape}; "
                "use an array of shape (n,) and dtype denizen.trace.TRACE_RECORD"
            )
        table = records
    else:
        try:
            table = np.array(list(records), dtype=TRACE_RECORD)
        except (TypeError, ValueError, OverflowError) as error:
            raise ArgumentError(f"records: {error}; use tuples of TRACE_RECORD's fields") from error
    known = np.isin(table["kind"], (HANDLER, SEND))
    if not known.all():
        i = int(np.argmin(known))
        raise ArgumentError(
            f"record {i} is of kind {table['kind'][i]}; use {HANDLER} (HANDLER) or {SEND} (SEND)"
        )
    fits = table["duration_ns"] <= ~table["start_ns"]  # 2^64 - 1 less the start
    if not fits.all():
        i = int(np.argmin(fits))
        start, duration = table["start_ns"][i], table["duration_ns"][i]
        raise ArgumentError(
            f"record {i} begins at {start} ns and takes {duration} ns; "
            "use records that end before 2^64 ns"
        )
    return [_Record(*row) for row in table.tolist()]


def _flows(table: Sequence[_Record]) -> dict[tuple[int, int], int]:
    """The number of each message's flow, from 1 in the order of the stamps.

    Two clocks can give the same stamp, so the sender is part of what names a message.
    """
    keys = sorted({r.key for r in table if r.stamp})
    return {key: i for i, key in enumerate(keys, start=1)}


def _events(table: Sequence[_Record]) -> list[_Event]:
    """What happens, in order.

    Device clocks tick coarsely, so cause and effect often have the same time. The sort by time
    leaves such events as they were put here: handlers by their messages' stamps, which order
    causally, each with its sends between its begin and its end.
    """
    spans = sorted((r for r in table if r.kind == HANDLER), key=lambda r: (r.start, r.stamp))
    starts = defaultdict(list)  # of each actor's spans
    indices = defaultdict(list)
    for i, r in enumerate(spans):
        starts[r.worker, r.actor].append(r.start)
        indices[r.worker, r.actor].append(i)
    events = []
    sends = defaultdict(list)  # by the index of the span they happened in
    for r in sorted((r for r in table if r.kind == SEND), key=lambda r: (r.start, r.stamp)):
        at = bisect_right(starts[r.worker, r.actor], r.start)
        span = indices[r.worker, r.actor][at - 1] if at else None
        if span is not None and r.start <= spans[span].end:
            sends[span].append(r)
        else:  # the host's, or its handler has no record: it still runs, or was overwritten
            events.append(_Event(r.start, _INSTANT, (r.worker, 0), r))
    free: dict[int, list[int]] = defaultdict(
        list
    )  # for each row of a worker, when its last span ends
    for i, r in enumerate(spans):
        # The slices of one track must not overlap.
        rows = free[r.worker]
        row = next((row for row, end in enumerate(rows) if end <= r.start), len(rows))
        rows[row:] = [r.end, *rows[row + 1 :]]
        track = (r.worker, row)
        events.append(_Event(r.start, _BEGIN, track, r))
        events += [_Event(s.start, _INSTANT, track, s) for s in sends[i]]
        events.append(_Event(r.end, _END, track, r))
    events.sort(key=lambda event: event.time)
    return events
