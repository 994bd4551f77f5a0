# SPDX-License-Identifier: Apache-2.0
"""Files and sockets for handlers: a handler asks by a message to the host, and gets one back.

    from denizen import io

    Line = io.write("Line", 100)              # a message type: up to 100 bytes to write

    @denizen.actor
    class Writer:
        file: np.uint32

        def on_tick(self, m: Tick, ctx):
            line = Line(file=self.file, length=6, offset=io.NEXT)
            ...
            ctx.send(denizen.HOST, line)

        def on_done(self, m: io.Done, ctx):   # once for each
            ...

    with denizen.Runtime(Writer) as rt, io.Service(rt, "logs", modes=io.WRITE | io.CREATE) as files:
        number = files.open("today.log", io.WRITE | io.CREATE)

docs/io.md tells what is promised, and what the types are called in C++ text.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from enum import IntEnum
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from denizen import _core
from denizen.closing import Closing
from denizen.errors import ArgumentError
from denizen.message import BUFFER, MAX_BYTES, Field, MessageType
from denizen.runtime import Runtime
from denizen.shown import Shown
from denizen.values import seconds as _seconds

# As denizen::io::Mode.
READ = 1
WRITE = 2
APPEND = 4
CREATE = 8
EXCLUSIVE = 16
TRUNCATE = 32

NEXT = 2**64 - 1
"""As an offset: where the last one has ended."""

PATH_BYTES = 112


class Op(IntEnum):
    """What was asked: `op` of a Done. As denizen::io::Op."""

    OPEN = 1
    CONNECT = 2
    ACCEPT = 3
    READ = 4
    WRITE = 5
    READ_INTO = 6
    WRITE_FROM = 7
    SYNC = 8
    CLOSE = 9


class Error(IntEnum):
    """`error` of a Done or of data. As denizen::io::Error, which says what each is."""

    NONE = 0
    DENIED = 1
    ESCAPES = 2
    NOT_FOUND = 3
    EXISTS = 4
    NOT_A_FILE = 5
    BAD_FILE = 6
    BAD_RANGE = 7
    STALE = 8
    UNREACHABLE = 9
    LIMIT = 10
    NO_SPACE = 11
    TOO_LARGE = 12
    ENDED = 13
    REFUSED = 14
    TIMEOUT = 15
    CANCELLED = 16
    FAILED = 17


class _Request(MessageType):
    """A message type that a service takes."""

    def __init__(self, name: str, op: Op, fields: Sequence[Field], capacity: int = 0) -> None:
        super().__init__(name, fields)
        self.op = op
        self.capacity = capacity


class _Answer(MessageType):
    """Data that a Read brings."""

    def __init__(self, name: str, capacity: int) -> None:
        head: list[Field] = [("file", "u4"), ("tag", "u4"), ("error", "u4"), ("length", "u4")]
        super().__init__(name, [*head, ("bytes", "u1", capacity)])
        self.capacity = capacity


_FILE: list[Field] = [("file", "u4"), ("tag", "u4")]
_INTO: list[Field] = [("offset", "u8"), ("buffer", BUFFER), ("begin", "u8"), ("length", "u8")]

Open = _Request("IoOpen", Op.OPEN, [("tag", "u4"), ("mode", "u4"), ("path", "u1", PATH_BYTES)])
"""A file below the root. Its Done has the file's number, and its length as `bytes`."""
Connect = _Request("IoConnect", Op.CONNECT, [("tag", "u4"), ("place", "u4")])
"""To address `place` of those that the service may connect to. A Done with the socket's number."""
Accept = _Request("IoAccept", Op.ACCEPT, [("tag", "u4"), ("place", "u4")])
"""The next connection to address `place` of those on which the service listens."""
Read = _Request("IoRead", Op.READ, [*_FILE, ("length", "u4"), ("unused", "u4"), ("offset", "u8")])
"""Brings the shortest data message of the program that holds `length` bytes; see data()."""
ReadInto = _Request("IoReadInto", Op.READ_INTO, [*_FILE, *_INTO])
"""Into a buffer, `length` bytes from its byte `begin` on."""
WriteFrom = _Request("IoWriteFrom", Op.WRITE_FROM, [*_FILE, *_INTO])
"""From a buffer."""
Sync = _Request("IoSync", Op.SYNC, _FILE)
"""Done once what was written before is on its medium."""
Close = _Request("IoClose", Op.CLOSE, _FILE)
Done = MessageType(
    "IoDone",
    [*_FILE, ("error", "u4"), ("number", "u4"), ("bytes", "u8"), ("op", "u4"), ("unused", "u4")],
)
"""The answer: `error` of Error, `number` the system's errno, `bytes` how many, `op` of Op."""


def write(name: str, capacity: int) -> MessageType:
    """A message type that writes up to `capacity` bytes.

    Its fields: file, tag, length (u4), offset (u8, or NEXT), bytes (u1, shape (capacity,)).
    """
    _check_capacity(name, capacity, MAX_BYTES - 24)
    fields: list[Field] = [("length", "u4"), ("unused", "u4"), ("offset", "u8")]
    return _Request(name, Op.WRITE, [*_FILE, *fields, ("bytes", "u1", capacity)], capacity)


def data(name: str, capacity: int) -> MessageType:
    """A message type that brings up to `capacity` bytes, asked for by a Read.

    Its fields: file, tag, error (of Error), length (u4), bytes (u1, shape (capacity,)).
    """
    _check_capacity(name, capacity, MAX_BYTES - 16)
    return _Answer(name, capacity)


def _check_capacity(name: str, capacity: object, most: int) -> None:
    if not isinstance(capacity, int | np.integer) or not 1 <= capacity <= most:
        raise ArgumentError(
            f"message {name} of {capacity!r} bytes; use 1 to {most}, or a buffer for more"
        )


def path(text: str) -> NDArray[np.uint8]:
    """The `path` of an Open: uint8, shape (112,)."""
    raw = os.fsencode(text)
    if len(raw) > PATH_BYTES or b"\0" in raw or not raw:
        raise ArgumentError(f"path {text!r}; use 1 to {PATH_BYTES} bytes without a zero")
    out = np.zeros(PATH_BYTES, np.uint8)
    out[: len(raw)] = np.frombuffer(raw, np.uint8)
    return out


class Service(Shown, Closing):
    """The host's side: a thread that does what handlers ask for, and answers.

    Args:
        runtime: of a program that has Done among its messages, and those that it asks with.
            On CPU threads or a GPU, not device="python". One service for each.
        root: the folder below which files are opened; None: no files. A path with "..", an absolute
            one and symbolic links are refused (Error.ESCAPES).
        modes: what an Open may ask for: a sum of READ, WRITE, APPEND, CREATE, EXCLUSIVE, TRUNCATE.
        files: files and sockets that may be open at a time, 1 to 4096 (Error.LIMIT).
        requests: under way at a time, 1 to 4096. While there are as many, no more are taken, and
            senders wait as for any ring that is full. Sockets are not counted: of each, 16 reads
            and 64 writes may wait (Error.LIMIT).
        bytes: of these requests.
        connect: addresses that a Connect may name by their place: "127.0.0.1:9000", "[::1]:9000".
        listen: addresses of which an Accept may take connections. Port 0: any; see `addresses`.
        engine: "io_uring" (ArgumentError where the kernel does not allow it), "portable" (the
            thread itself reads, writes and polls), or "automatic": the first that there is.

    Raises ArgumentError for what is not one of these, and FailedError if it cannot listen.
    """

    def __init__(
        self,
        runtime: Runtime,
        root: str | os.PathLike[str] | None = None,
        *,
        modes: int = READ,
        files: int = 64,
        requests: int = 256,
        bytes: int = 64 << 20,
        connect: Sequence[str] = (),
        listen: Sequence[str] = (),
        engine: Literal["automatic", "io_uring", "portable"] = "automatic",
    ) -> None:
        if not isinstance(runtime, Runtime):
            raise ArgumentError(f"an I/O service is of a running Runtime, not of {runtime!r}")
        for what, one in (("connect", connect), ("listen", listen)):
            if isinstance(one, str):
                raise ArgumentError(f'{what} = "{one}"; give a list')
        if engine not in _ENGINES:
            raise ArgumentError(f'engine = "{engine}"; use {", ".join(_ENGINES)}')
        sizes = {"modes": modes, "files": files, "requests": requests, "bytes": bytes}
        for name, value in sizes.items():
            if not isinstance(value, int | np.integer) or not 0 <= value < 2**32 * 256:
                raise ArgumentError(f"{name} = {value!r}; use a whole number")
        types = list(runtime.program.messages.values())
        by_name = {m.name: i for i, m in enumerate(types)}
        asked = [(i, int(m.op), m.capacity) for i, m in enumerate(types) if isinstance(m, _Request)]
        brought = [(i, 0, m.capacity) for i, m in enumerate(types) if isinstance(m, _Answer)]
        self._core = _core.IoService(
            runtime._native("I/O service"),
            asked,
            brought,
            by_name.get(Done.name, 2**32 - 1),
            "" if root is None else os.fspath(root),
            int(modes),
            min(int(files), 2**32 - 1),
            min(int(requests), 2**32 - 1),
            int(bytes),
            list(connect),
            list(listen),
            _ENGINES.index(engine),
        )
        self._of, self._engine = runtime.program.name, str(self._core.stats()["engine"])
        self.addresses = [self._core.address(i) for i in range(len(listen))]

    def _facts(self) -> list[tuple[str, str]]:
        return [
            ("of", self._of),
            ("engine", self._engine),
        ]

    def open(self, path: str, mode: int = READ) -> int:
        """Opens a file below the root, and returns its number, for actors.

        Raises ArgumentError with what an Open would have been answered.
        """
        return self._core.open(path, mode)

    def drain(self, *, timeout: float = 60.0) -> None:
        """Waits until all that had been sent is answered, but for what waits on a socket.

        A handler that gets an answer may ask again: `rt.drain()` and this, in turn, until the
        program has what it wants. DeadlineError otherwise.
        """
        self._core.drain(_seconds(timeout))

    def stats(self) -> dict[str, Any]:
        """The engine's name, files open, requests, answers, bytes, and what could not be answered.

        "operations" of the system may be fewer than requests: writes that follow each other are
        one. "submissions": calls by which io_uring got them, none for what the service's own thread
        writes. "undelivered": answers whose actor has stopped or has no handler of them, with the
        first one's text.
        """
        return self._core.stats()

    def close(self, *, timeout: float = 5.0) -> None:
        """Does what has been sent, cancels what waits on sockets, closes all files.

        Requests that are sent later wait for `Runtime.receive`. Harmless when called again.
        """
        self._core.close(_seconds(timeout))


_ENGINES = ("automatic", "io_uring", "portable")
