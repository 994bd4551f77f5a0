# SPDX-License-Identifier: Apache-2.0
"""The records of a lens log; log.py reads them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Header(NamedTuple):
    """What the capture was made of. ``mode``: ``count`` or ``full``."""

    mode: str
    pid: int
    monotonic_ns: int
    realtime_ns: int
    driver: str
    forced: bool
    process: str


class Process(NamedTuple):
    arguments: list[str]


class Thread(NamedTuple):
    tid: int
    name: str


class Page(NamedTuple):
    gpu: int
    class_id: int
    address: int
    real: int
    bytes: int
    bar1: int


class Channel(NamedTuple):
    channel: int
    gpu: int
    class_id: int
    client: int
    handle: int
    parent: int
    engine: int
    entries: int
    gpfifo: int
    userd: int
    token: int
    chid: int
    time_ns: int
    inferred: bool


class ChannelClosed(NamedTuple):
    channel: int
    time_ns: int


class Engine(NamedTuple):
    channel: int
    class_id: int
    handle: int


class Doorbell(NamedTuple):
    """One store. ``entry``: shape (n,), dtype uint64, the GPFIFO entries that it announced."""

    sequence: int
    time_ns: int
    tid: int
    channel: int
    gpu: int
    token: int
    put_old: int
    put_new: int
    entries: int
    page_offset: int
    bytes: int
    api: int
    api_inner: int
    call: int
    caller: int
    entry: NDArray[np.uint64]
    flags: int

    @property
    def unreadable(self) -> bool:
        return bool(self.flags & (1 | 4))


class Pushbuffer(NamedTuple):
    """A piece of entry number ``entry``: ``data`` from byte ``offset`` of ``total``."""

    doorbell: int
    address: int
    entry: int
    offset: int
    length: int
    total: int
    data: NDArray[np.uint32]
    flags: int


class Instruction(NamedTuple):
    time_ns: int
    address: int
    tid: int
    page_offset: int
    code: bytes
    stepped: bool


class Lost(NamedTuple):
    time_ns: int
    records: int
    bytes: int
    doorbells: int


class ApiName(NamedTuple):
    api: int
    name: str


class ApiCall(NamedTuple):
    call: int
    begin_ns: int
    end_ns: int
    tid: int
    api: int
    doorbells: int
    correlation: int


class ApiCount(NamedTuple):
    api: int
    calls: int


class Note(NamedTuple):
    time_ns: int
    text: str


class End(NamedTuple):
    time_ns: int
    doorbells: int
    entries: int
    bytes: int
    loads: int
    other_stores: int
    unknown_tokens: int
    unknown_instructions: int
    lost_records: int
    lost_bytes: int
    lost_doorbells: int
    waits: int


class Overhead(NamedTuple):
    """Nanoseconds in the library's handler, of ``doorbells`` doorbells. The delivery of their
    signals is not in it."""

    doorbells: int
    ns: int


class KernelCall(NamedTuple):
    """What the process asked of the kernel driver; only in a recording (lens/format.hpp)."""

    call: int
    fd: int
    value: tuple[int, ...]
    first: bytes
    second: bytes


class Memory(NamedTuple):
    """A mapping of the driver's memory: made at ``time_ns``, or ``gone`` then.

    ``aperture``: "system" memory, what a "device" has behind its BAR, or "unknown". ``address`` is
    the same for CPU and GPU; ``bytes`` its length; ``handle`` RM's.
    """

    time_ns: int
    address: int
    bytes: int
    aperture: str
    handle: int
    gone: bool


class Release(NamedTuple):
    """What a channel's last release had written at ``time_ns``: its payload, and the GPU's time."""

    time_ns: int
    address: int
    gpu_ns: int
    channel: int
    payload: int


Record = (
    Process | Thread | Page | Channel | ChannelClosed | Engine | Doorbell | Pushbuffer | Instruction
    | Lost | ApiName | ApiCall | ApiCount | Note | End | Overhead
    | KernelCall | Memory | Release
)  # fmt: skip
