# SPDX-License-Identifier: Apache-2.0
"""A capture as a Perfetto trace: API calls and doorbells by thread, bytes by channel.

Open the file with https://ui.perfetto.dev. Times are those of a run under the lens, whose doorbells
take longer than without it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from denizen.files import whole
from denizen.lens import summary
from denizen.lens.log import NONE, Capture, LensError, Submission
from denizen.lens.operation import Decoded, Operation
from denizen.trace import require_perfetto

_BEGIN, _END, _INSTANT, _COUNTER = 1, 2, 3, 4  # perfetto's TrackEvent.Type
_NEW_SEQUENCE = 1  # TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
_SIZE_BYTES = 3  # CounterDescriptor.Unit
_MONOTONIC = 3  # perfetto's builtin clock of CLOCK_MONOTONIC
_BATCH = 4096


def write(
    path: str | os.PathLike[str],
    captures: Iterable[tuple[Capture, Iterable[tuple[Submission, Decoded | None]]]],
) -> None:
    """Write some captures, each a process, to ``path``; a file that exists is replaced.

    Raises MissingPackageError if the package perfetto is not installed, LensError if a capture has
    a number that a Perfetto trace has no room for, as a damaged one may.
    """
    new_builder = require_perfetto()
    with whole(path) as part, open(part, "wb") as file:
        for number, (capture, submissions) in enumerate(captures, start=1):
            trace = _Trace(new_builder, number)
            try:
                for chunk in trace.chunks(capture, submissions):
                    file.write(chunk)
            except ValueError as error:  # protobuf's
                raise LensError(
                    f"{capture.path} has a number that a Perfetto trace has no room for: {error}"
                ) from error


class _Trace:
    def __init__(self, new_builder: Any, sequence: int) -> None:
        self._new_builder = new_builder
        self._builder = new_builder()
        self._sequence = sequence
        self._first = True
        self._uuids: dict[tuple[str, int], int] = {}

    def _packet(self) -> Any:
        packet = self._builder.add_packet()
        packet.trusted_packet_sequence_id = self._sequence
        packet.timestamp_clock_id = _MONOTONIC
        if self._first:
            packet.sequence_flags = _NEW_SEQUENCE
            self._first = False
        return packet

    def chunks(
        self, capture: Capture, submissions: Iterable[tuple[Submission, Decoded | None]]
    ) -> Iterable[bytes]:
        """The trace, serialised in parts: serialised traces in a row are one trace."""
        pid = capture.header.pid
        process = self._descriptor("process", 0)
        process.process.pid = pid
        process.process.process_name = capture.header.process
        for call in sorted(capture.calls.values(), key=lambda c: (c.begin_ns, -c.end_ns)):
            track = self._thread(capture, call.tid)
            begin = self._event(call.begin_ns, _BEGIN, track)
            begin.name = capture.api(call.api)
            note = begin.debug_annotations.add()
            note.name = "correlation"
            note.int_value = call.correlation
            self._event(call.end_ns, _END, track)
            if len(self._builder.trace.packet) >= _BATCH:
                yield self._flush()
        sums: dict[int, int] = {}
        for submission, found in submissions:
            bell = submission.doorbell
            event = self._event(bell.time_ns, _INSTANT, self._thread(capture, bell.tid))
            event.name = "doorbell"
            notes = {
                "bytes": bell.bytes,
                "entries": bell.entries,
                "channel": -1 if bell.channel == NONE else bell.channel,
                "sequence": bell.sequence,
                "api": summary.api_of(capture, bell),
            }
            for name, value in notes.items():
                note = event.debug_annotations.add()
                note.name = name
                if isinstance(value, int):
                    note.int_value = value
                else:
                    note.string_value = value
            for i, operation in enumerate(found.operations if found else ()):
                note = event.debug_annotations.add()
                note.name = f"operation {i}"
                note.string_value = describe(operation)
            sums[bell.channel] = sums.get(bell.channel, 0) + bell.bytes
            counter = self._event(bell.time_ns, _COUNTER, self._counter(capture, bell.channel))
            counter.counter_value = sums[bell.channel]
            if len(self._builder.trace.packet) >= _BATCH:
                yield self._flush()
        yield self._flush()

    def _flush(self) -> bytes:
        data: bytes = self._builder.serialize()
        self._builder = self._new_builder()
        return data

    def _event(self, time: int, kind: int, track: int) -> Any:
        packet = self._packet()
        packet.timestamp = time
        packet.track_event.type = kind
        packet.track_event.track_uuid = track
        return packet.track_event

    def _descriptor(self, kind: str, number: int) -> Any:
        uuid = self._uuids[kind, number] = self._sequence << 32 | len(self._uuids) + 1
        track = self._packet().track_descriptor
        track.uuid = uuid
        return track

    def _thread(self, capture: Capture, tid: int) -> int:
        if ("thread", tid) not in self._uuids:
            track = self._descriptor("thread", tid)
            track.parent_uuid = self._uuids["process", 0]
            track.thread.pid = capture.header.pid
            track.thread.tid = tid
            track.thread.thread_name = capture.threads.get(tid, "")
        return self._uuids["thread", tid]

    def _counter(self, capture: Capture, channel: int) -> int:
        if ("counter", channel) not in self._uuids:
            track = self._descriptor("counter", channel)
            track.parent_uuid = self._uuids["process", 0]
            engines = "/".join(sorted(summary.channel_engines(capture, channel)))
            name = "no known channel" if channel == NONE else f"channel {channel} {engines}"
            track.name = f"{name.strip()}, bytes"
            track.counter.unit = _SIZE_BYTES
        return self._uuids["counter", channel]


def describe(operation: Operation) -> str:
    """An operation in one line."""
    words = [f"{operation.engine}: {operation.kind}"]
    if operation.bytes:
        words.append(f"{operation.bytes:,} bytes")
    for name, value in operation.detail.items():
        if isinstance(value, bool):
            text = name if value else f"no {name}"
        elif isinstance(value, int) and value >= 1 << 16:
            text = f"{name} {value:#x}"
        else:
            text = f"{name} {value}"
        words.append(text)
    return ", ".join(words)
