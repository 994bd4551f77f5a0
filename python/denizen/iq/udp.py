# SPDX-License-Identifier: Apache-2.0
"""I/Q in datagrams: ``udp://HOST:PORT?format=u8&rate=2e6&header=seq&timeout=5&size=1472``.

Format of a datagram, that of GNU Radio's UDP blocks: samples alone (``header=none``), or before
them a sequence number of 64 bits, little-endian, one more in each (``header=seq``, which is what is
written and expected unless something else is said); an empty datagram of the sender ends the
stream. Writing, ``size`` is the most bytes of one, 1472 being what fits into a frame of Ethernet.

Reading, HOST is the interface to listen on: empty is this machine alone (127.0.0.1), ``0.0.0.0``
all interfaces; a multicast group is joined. ``timeout``: seconds without samples after which
reading ends. One sender is heard, the first whose datagram holds samples, and another one only
after two seconds without that one; ``source=HOST`` or ``source=HOST:PORT`` hears no other sender at
all. Whoever can send here can do so under any address: datagrams are for networks that are trusted.
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
    "source": str,
}
_BUFFER = 1 << 24  # bytes of the kernel's buffer, as far as it allows
_QUEUE = 1 << 24  # bytes that wait for who reads
_LOOK = 0.2  # seconds between two looks whether to end
_SILENCE = 2.0  # seconds without the sender after which another one is heard
_JUMP = 1 << 20  # in numbers: datagrams are not lost in such rows, nor late by so many
_END = b""
_SEQUENCE = struct.Struct("<Q")
_NUMBERS = 1 << 64


class Udp(Source):
    """What comes to a port. A thread takes it from there, so that decoding loses nothing.

    ``received`` counts datagrams with samples; ``lost`` those that never came, by the gaps in their
    numbers; ``late`` those that came after a later one, and are left out; ``overrun`` those that
    came while the queue of 16 MiB was full, and are among the lost once a later one is read.
    Without sequence numbers only the last is known. Left out as well are, in ``bad``, what is no
    number and whole samples, or has a number far from the others' (a sender that begins again is
    heard from its second datagram on); in ``strangers``, what another sender sent.
    """

    live = True

    def __init__(self, address: Address, form: Format, rate: int | None, expected: str) -> None:
        super().__init__(address.text, form, rate, expected)
        self.received = self.lost = self.late = self.overrun = self.strangers = 0
        self._broken = 0  # of the thread
        self._far = 0  # of who reads
        self._first_broken = ""
        self._numbered = address.options.get("header", "seq") == "seq"
        self._timeout: float | None = address.options.get("timeout")
        # Without a lock of ours: Ctrl-C may come when a thread has just acquired one.
        self._queue: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._put = 0  # bytes, all told; of the thread
        self._taken = 0  # and of who reads
        self._closed = threading.Event()
        self._next: int | None = None
        self._again: int | None = None  # the number that would make a far one a new beginning
        self._socket = _listening(address)
        self._only = _source(address, self._socket.family)
        self._sender: tuple[str, int] | None = None
        self._heard = 0.0  # when the sender was, of time.monotonic()
        self.port: int = self._socket.getsockname()[1]
        """Where it listens, also if the address had port 0."""
        try:
            self._thread = threads.start(self._take, "denizen-udp")
        except ExhaustedError:
            self._socket.close()
            raise

    @property
    def bad(self) -> int:
        """How many were left out for what they are."""
        return self._broken + self._far

    @property
    def losses(self) -> str:
        counts = [
            ("lost", self.lost),
            ("late", self.late),
            ("dropped here", self.overrun),
            ("without whole samples or far from the others' numbers", self.bad),
            ("of other senders", self.strangers),
        ]
        told = ", ".join(f"{count:,} {what}" for what, count in counts if count)
        return f"{self.received:,} datagrams, {told}" if told else ""

    def _take(self) -> None:
        """Ends with the sender's empty datagram, or within a fifth of a second after close()."""
        while not self._closed.is_set():
            try:
                data, sender = self._socket.recvfrom(65536)
            except TimeoutError:
                continue
            if not self._is_of_sender(data, (str(sender[0]), int(sender[1]))):
                continue
            if data == _END or self._put - self._taken < _QUEUE:
                self._put += len(data)
                self._queue.put(data)
            else:
                self.overrun += 1
            if data == _END:
                return

    def _is_of_sender(self, data: bytes, sender: tuple[str, int]) -> bool:
        if self._only is not None and self._only not in (sender, (sender[0], 0)):
            self.strangers += 1
            return False
        now = time.monotonic()
        if sender == self._sender:
            if data != _END and not self._is_whole(data):
                return False
            self._heard = now
            return True
        if self._sender is not None and now - self._heard < _SILENCE:
            self.strangers += 1
            return False
        if not self._is_whole(data):  # also an end before a beginning
            return False
        self._sender, self._heard = sender, now
        return True

    def _is_whole(self, data: bytes) -> bool:
        """Whether it holds samples, and no part of one."""
        size = len(data) - (_SEQUENCE.size if self._numbered else 0)
        if size >= 0 and size % self.form.size == 0 and data != _END:
            return True
        self._broken += 1
        number = "a sequence number of 8 bytes and " if self._numbered else ""
        what = f"{len(data)} bytes, which is not {number}whole samples"
        self._first_broken = self._first_broken or what
        return False

    def _samples(self, data: bytes) -> bytes:
        """What a datagram holds, after a look at its number; empty if it is to be left out."""
        if not self._numbered:
            self.received += 1
            return data
        (now,) = _SEQUENCE.unpack_from(data)
        if self._next is not None:
            ahead = (now - self._next) % _NUMBERS
            behind = _NUMBERS - ahead
            if min(ahead, behind) > _JUMP and now != self._again:
                # RFC 3550, A.1: one far number is a fault, two in a row are a new beginning.
                self._again = (now + 1) % _NUMBERS
                self._far += 1
                return b""
            if behind <= _JUMP:
                self.late += 1
                return b""
            self.lost += ahead if ahead <= _JUMP else 0
        self._again = None
        self._next = (now + 1) % _NUMBERS
        self.received += 1
        return data[_SEQUENCE.size :]

    def pieces(self) -> Iterator[bytes]:
        ended = False
        while not ended:  # ends with an empty datagram, or by the timeout
            data = self._next_datagram()
            if data is None:
                if self.received == 0:
                    raise DataError(f"{self.name}: {self._nothing()}; expected {self.expected}")
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

    def _nothing(self) -> str:
        why = f"no datagram with samples came in {self._timeout:g} s"
        if self._broken:
            why += f"; {self._broken:,} without came, the first of {self._first_broken}"
            why += " (header=none if there are no numbers)" if self._numbered else ""
        if self.strangers:
            why += f"; {self.strangers:,} came of other senders than source says"
        return why

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
    family, where = _resolved(address, host or "127.0.0.1", port)
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


def _source(address: Address, family: int) -> tuple[str, int] | None:
    """Whom alone to hear; port 0 for any of that host's."""
    given: str | None = address.options.get("source")
    if given is None:
        return None
    alone = given.count(":") != 1 and not given.startswith("[")  # a host, or an IPv6 address
    one = Address(f"{address.text}: source", f"{given}:0" if alone else given, {})
    host, port = one.host_and_port()
    found = _resolved(one, host, port)
    if found[0] != family:
        raise ArgumentError(f"{address.text}: source is no address of the kind that is listened at")
    return found[1]


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
