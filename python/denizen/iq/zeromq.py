# SPDX-License-Identifier: Apache-2.0
"""I/Q in ZeroMQ messages: ``zmq://HOST:PORT?format=f32&rate=2e6&kind=sub&timeout=5``.

A message holds samples alone, as those of GNU Radio's ZMQ blocks do with "Pass Tags" off; an empty
one ends the stream. Reading connects, by ``kind=sub`` (to a publisher; what came before, and what
ZeroMQ drops because we are slow, is lost without a word) or ``kind=pull`` (from a pusher, which
waits for us). Writing binds, by ``kind=pub`` or ``kind=push``; HOST may then be ``*``. ``timeout``:
seconds without a message after which reading ends, or writing to nobody fails. Needs PyPI's pyzmq.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from denizen import threads
from denizen.errors import ArgumentError, MissingPackageError
from denizen.iq.address import Address, number, one_of
from denizen.iq.format import DataError, Format
from denizen.iq.stream import Sink, Source

__all__ = ["OPTIONS", "ZeroMq", "create"]

OPTIONS: dict[str, Callable[[str], Any]] = {
    "kind": one_of("sub", "pull", "pub", "push"),
    "timeout": number,
}
_PIECE = 1 << 16  # bytes of a message, about


def _zmq() -> Any:
    try:
        import zmq  # noqa: PLC0415  (optional)
    except ImportError as error:
        raise MissingPackageError("pyzmq") from error
    return zmq


def _socket(address: Address, kinds: tuple[str, str], bind: bool) -> tuple[Any, Any]:
    zmq = _zmq()
    kind = address.options.get("kind", kinds[0])
    if kind not in kinds:
        raise ArgumentError(f"{address.text}: kind is {kind}; here it is {' or '.join(kinds)}")
    context = zmq.Context()
    sock = context.socket(getattr(zmq, kind.upper()))
    try:
        if kind == "sub":
            sock.setsockopt(zmq.SUBSCRIBE, b"")
        (sock.bind if bind else sock.connect)(f"tcp://{address.place}")
    except zmq.ZMQError as error:
        context.destroy(linger=0)
        raise DataError(f"{address.text}: {error}; expected zmq://HOST:PORT") from error
    return context, sock


def _end(context: Any, patience: float) -> None:
    """End a context without open sockets, whose last messages have ``patience`` seconds to go.

    libzmq 4.3.5 has been seen to wait for ever here, on a loaded machine and with no connection
    left, though its own linger time was over: then it is left alone with that.
    """
    threads.start(context.term, "zeromq's end").join(patience + 1)


class ZeroMq(Source):
    """What a publisher or a pusher sends."""

    live = True

    def __init__(self, address: Address, form: Format, rate: int | None, expected: str) -> None:
        super().__init__(address.text, form, rate, expected)
        self._timeout: float | None = address.options.get("timeout")
        self._context, self._socket = _socket(address, ("sub", "pull"), bind=False)

    def pieces(self) -> Iterator[bytes]:
        wait = None if self._timeout is None else 1e3 * self._timeout
        came = False
        while True:  # ends with an empty message, or by the timeout
            if not self._socket.poll(wait):
                if not came:
                    raise DataError(
                        f"{self.name}: no message came in {self._timeout:g} s; expected "
                        f"{self.expected}"
                    )
                return
            data: bytes = self._socket.recv()
            if not data:
                return
            if len(data) % self.form.size:
                raise DataError(
                    f"{self.name}: a message of {len(data):,} bytes is no whole number of I/Q "
                    f"pairs; expected {self.expected}"
                )
            came = True
            yield data

    def close(self) -> None:
        self._socket.close(linger=0)
        _end(self._context, 0)


def create(address: Address, form: Format, rate: int | None) -> Sink:
    """Publishes or pushes, no faster than ``rate`` samples a second if there is one.

    A pusher waits for a reader; a publisher sends to those who are there.
    """
    zmq = _zmq()
    context, sock = _socket(address, ("pub", "push"), bind=True)
    timeout = address.options.get("timeout")
    if timeout is not None:
        sock.setsockopt(zmq.SNDTIMEO, int(1e3 * timeout))
    samples = 0
    begin = time.monotonic()

    def one(data: bytes) -> None:
        try:
            sock.send(data)
        except zmq.Again as error:
            raise DataError(f"{address.text}: nobody took a message in {timeout:g} s") from error

    def put(data: bytes) -> None:
        nonlocal samples
        step = _PIECE // form.size * form.size
        for at in range(0, len(data), step):
            if rate:
                time.sleep(max(0.0, begin + samples / rate - time.monotonic()))
            part = data[at : at + step]
            samples += len(part) // form.size
            one(part)

    def close() -> None:
        one(b"")
        patience = 1.0 if timeout is None else timeout
        sock.close(linger=int(1e3 * patience))
        _end(context, patience)

    return Sink(address.text, form, put, close)
