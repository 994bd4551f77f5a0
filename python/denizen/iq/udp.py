# SPDX-License-Identifier: Apache-2.0
"""I/Q in datagrams: ``udp://HOST:PORT?format=u8&rate=2e6&header=seq&timeout=5&size=1472``.

Format of a datagram, that of GNU Radio's UDP blocks: samples alone (``header=none``), or before
them a sequence number of 64 bits, little-endian, one more in each (``header=seq``, which is what is
written and expected unless something else is said); an empty datagram ends the stream. Reading,
HOST is the interface to listen on (empty: all; a multicast group is joined) and ``timeout`` the
seconds without a datagram after which reading ends; writing, ``size`` is the most bytes of one,
1472 being what fits into a frame of Ethernet.
"""

from __future__ import annotations

import contextlib
import ipaddress
import math
import queue
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from denizen import threads
from denizen.errors import ArgumentError, ExhaustedError
from denizen.iq.address import Address, number, one_of
from denizen.iq.format import DataError, Format
from denizen.iq.raw import PIECE
from denizen.iq.stream import Sink, Source

__all__ = ["OPTIONS", "Udp", "create"]

OPTIONS: dict[str, Callable[[str], Any]] = {
    "header": one_of("seq", "none"),
    "timeout": number,
    "size": int,
}
_BUFFER = 1 << 24  # bytes of the kernel's buffer, as far as it allows
_QUEUE = 1 << 24  # bytes that wait for who reads
_LOOK = 0.2  # seconds between two looks whether to end
_END = b""
_SEQUENCE = struct.Struct("<Q")


class Udp(Source):
    """What comes to a port. A thread takes it from there, so that decoding loses nothing.

    ``received`` counts datagrams with samples; ``lost`` those that never came, by the gaps in their
    numbers; ``late`` those that came after a later one, and are left out; ``overrun`` those that
    came while the queue of 16 MiB was full, and are among the lost once a later one is read.
    Without sequence numbers only the last is known.
    """

    live = True

    def __init__(self, address: Address, form: Format, rate: int | None, expected: str) -> None:
        super().__init__(address.text, form, rate, expected)
        self.received = self.lost = self.late = self.overrun = 0
        self._numbered = address.options.get("header", "seq") == "seq"
        self._timeout: float | None = address.options.get("timeout")
        # Without a lock of ours: Ctrl-C may come when a thread has just acquired one.
        self._queue: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._put = 0  # bytes, all told; of the thread
        self._taken = 0  # and of who reads
        self._closed = threading.Event()
        self._next: int | None = None
        self._socket = _listening(address)
        self.port: int = self._socket.getsockname()[1]
        """Where it listens, also if the address had port 0."""
        try:
            self._thread = threads.start(self._take, "denizen-udp")
        except ExhaustedError:
            self._socket.close()
            raise

    @property
    def losses(self) -> str:
        counts = [("lost", self.lost), ("late", self.late), ("dropped here", self.overrun)]
        told = ", ".join(f"{count:,} {what}" for what, count in counts if count)
        return f"{self.received:,} datagrams, {told}" if told else ""

    def _take(self) -> None:
        """Ends with an empty datagram, or within a fifth of a second after close()."""
        while not self._closed.is_set():
            try:
                data = self._socket.recv(65536)
            except TimeoutError:
                continue
            if data == _END or self._put - self._taken < _QUEUE:
                self._put += len(data)
                self._queue.put(data)
            else:
                self.overrun += 1
            if data == _END:
                return

    def _samples(self, data: bytes) -> bytes:
        """What a datagram holds, after a look at its number; empty if it is to be left out."""
        if not self._numbered:
            self.received += 1
            return data
        if len(data) < _SEQUENCE.size or (len(data) - _SEQUENCE.size) % self.form.size:
            raise DataError(
                f"{self.name}: a datagram of {len(data)} bytes is no sequence number of 8 bytes "
                f"and whole samples; expected {self.expected} (header=none if there are no numbers)"
            )
        (now,) = _SEQUENCE.unpack_from(data)
        if self._next is not None and now < self._next:
            self.late += 1
            return b""
        self.lost += 0 if self._next is None else now - self._next
        self._next = now + 1
        self.received += 1
        return data[_SEQUENCE.size :]

    def pieces(self) -> Iterator[bytes]:
        ended = False
        while not ended:  # ends with an empty datagram, or by the timeout
            data = self._next_datagram()
            if data is None:
                if self.received == 0:
                    raise DataError(
                        f"{self.name}: no datagram came in {self._timeout:g} s; expected "
                        f"{self.expected}"
                    )
                return
            taken: list[bytes] = []
            total = 0
            with contextlib.suppress(queue.Empty):
                while data != _END:  # ends: what is there, or enough for a piece
                    taken.append(data)
                    total += len(data)
                    if total >= PIECE:
                        break
                    data = self._queue.get_nowait()
            ended = data == _END
            self._taken += total
            piece = b"".join(map(self._samples, taken))
            if piece:
                yield piece

    def _next_datagram(self) -> bytes | None:
        """None if none came in time."""
        end = math.inf if self._timeout is None else time.monotonic() + self._timeout
        while True:  # ends with a datagram, or by the timeout
            left = max(0.0, end - time.monotonic())
            # A signal that comes when the wait is just about to begin is seen after it.
            with contextlib.suppress(queue.Empty):
                return self._queue.get(timeout=min(left, _LOOK))
            if left <= _LOOK:
                return None

    def close(self) -> None:
        self._closed.set()
        self._thread.join()
        self._socket.close()


def _resolved(address: Address, host: str, port: int) -> tuple[int, tuple[str, int]]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
    except socket.gaierror as error:
        raise ArgumentError(f"{address.text}: {error.strerror}") from error
    return found[0][0], (str(found[0][4][0]), int(found[0][4][1]))


def _listening(address: Address) -> socket.socket:
    host, port = address.host_and_port()
    family, where = _resolved(address, host or "0.0.0.0", port)
    sock = socket.socket(family, socket.SOCK_DGRAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
        group = ipaddress.ip_address(where[0])
        if group.is_multicast:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(where)
        if group.is_multicast and group.version == 4:
            member = group.packed + socket.inet_aton("0.0.0.0")
            sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, member)
    except OSError as error:
        sock.close()
        raise DataError(f"{address.text}: {error.strerror}") from error
    sock.settimeout(_LOOK)
    return sock


def create(address: Address, form: Format, rate: int | None) -> Sink:
    """Sends to a port, no faster than ``rate`` samples a second if there is one."""
    numbered = address.options.get("header", "seq") == "seq"
    size = address.options.get("size", 1472)
    most = (size - _SEQUENCE.size * numbered) // form.size * form.size
    if most <= 0 or size > 65507:
        raise ArgumentError(
            f"{address.text}: size is {size}; give up to 65507, at least one sample"
        )
    host, port = address.host_and_port()
    if not host or port == 0:
        raise ArgumentError(f"{address.text}: say where to send: udp://HOST:PORT")
    family, where = _resolved(address, host, port)
    sock = socket.socket(family, socket.SOCK_DGRAM)
    try:
        sock.connect(where)
    except OSError as error:
        sock.close()
        raise DataError(f"{address.text}: {error.strerror}") from error
    sent = 0  # datagrams
    samples = 0
    begin = time.monotonic()

    def one(data: bytes) -> None:
        with contextlib.suppress(ConnectionRefusedError):  # nobody listens yet: they are lost
            sock.send(data)

    def put(data: bytes) -> None:
        nonlocal sent, samples
        for at in range(0, len(data), most):
            part = data[at : at + most]
            if rate:
                time.sleep(max(0.0, begin + samples / rate - time.monotonic()))
            sent += 1
            samples += len(part) // form.size
            one((_SEQUENCE.pack(sent) if numbered else b"") + part)

    def close() -> None:
        one(_END)
        sock.close()

    return Sink(address.text, form, put, close)
