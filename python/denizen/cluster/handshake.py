# SPDX-License-Identifier: Apache-2.0
"""How two hosts show each other that they know the token, without sending it.

    dialer    -> hello: who it is, whom it calls, its epoch, what has arrived, 16 random bytes
    acceptor  -> answer: its epoch, 16 random bytes; a proof of all of that
    dialer    -> its proof
    acceptor  -> what has arrived, which ends the connection before this one; a proof

A proof is an HMAC-SHA256 with the token, over hello and answer and the side's own word, so none can
be sent back or used again. The frames' nonce is made of the same. Every read has a size and a time.
"""

from __future__ import annotations

import hmac
import secrets
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass

from denizen.errors import ArgumentError, DenizenError

PATIENCE = 5.0  # seconds for all of it

_MAGIC = b"denizen cluster\x01"
_HELLO = struct.Struct("<16sIIQQ16s")
_ANSWER = struct.Struct("<Q16s")
_ARRIVED = struct.Struct("<Q")
_PROOF = 32
_LENGTH = struct.Struct("<I")
MOST_SWAPPED = 1 << 16


class RefusedError(DenizenError):
    """The other side does not know the token, or speaks another protocol."""


@dataclass(frozen=True)
class Met:
    """Whom we have met."""

    host: int
    epoch: int  # of its process: another after a restart
    arrived: int  # bytes of our messages, if it goes on with a link
    nonce: int  # for the frames


def listen(address: str, backlog: int) -> socket.socket:
    """Where others connect, at a free port. ArgumentError if this machine has no such address."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        return socket.create_server((address, 0), family=family, backlog=backlog)
    except OSError as error:
        why = str(error.strerror).partition(" (while attempting")[0]
        raise ArgumentError(
            f'address = "{address}": {why}; use an address of this machine'
        ) from None


def dial(  # noqa: PLR0917
    sock: socket.socket, token: bytes, own: int, other: int, epoch: int, arrived: int
) -> Met:
    """The side that connects. Raises RefusedError, or OSError if the connection ends."""
    end = time.monotonic() + PATIENCE
    hello = _HELLO.pack(_MAGIC, own, other, epoch, arrived, secrets.token_bytes(16))
    sock.sendall(hello)
    answer = _read(sock, _ANSWER.size, end)
    proof = _read(sock, _PROOF, end)
    if not hmac.compare_digest(proof, _proof(token, b"accept", hello, answer)):
        raise RefusedError(f"host {other} does not know this cluster's token")
    sock.sendall(_proof(token, b"dial", hello, answer))
    last = _read(sock, _ARRIVED.size, end)
    if not hmac.compare_digest(
        _read(sock, _PROOF, end), _proof(token, b"arrived", hello, answer + last)
    ):
        raise RefusedError(f"host {other} has not proved what it says")
    its_epoch, _ = _ANSWER.unpack(answer)
    (its_arrived,) = _ARRIVED.unpack(last)
    return Met(other, its_epoch, its_arrived, _nonce(token, hello, answer))


def accept(
    sock: socket.socket, token: bytes, own: int, epoch: int, arrived: Callable[[int, int], int]
) -> Met | None:
    """The side that is called; None if nothing was said.

    ``arrived(host, epoch)`` tells how much has come from that host; it may raise RefusedError.
    """
    end = time.monotonic() + PATIENCE
    hello = _read(sock, _HELLO.size, end, may_end=True)
    if not hello:
        return None
    magic, host, other, its_epoch, its_arrived, _ = _HELLO.unpack(hello)
    if magic != _MAGIC or other != own or host == own:
        raise RefusedError("what has connected is no host that looks for this one")
    answer = _ANSWER.pack(epoch, secrets.token_bytes(16))
    sock.sendall(answer + _proof(token, b"accept", hello, answer))
    proof = _read(sock, _PROOF, end)
    if not hmac.compare_digest(proof, _proof(token, b"dial", hello, answer)):
        raise RefusedError(f"what says that it is host {host} does not know this cluster's token")
    last = _ARRIVED.pack(arrived(host, its_epoch))
    sock.sendall(last + _proof(token, b"arrived", hello, answer + last))
    return Met(host, its_epoch, its_arrived, _nonce(token, hello, answer))


def swap(sock: socket.socket, given: bytes) -> bytes:
    """After a handshake: this side's bytes for the other's, at most MOST_SWAPPED."""
    end = time.monotonic() + PATIENCE
    sock.settimeout(PATIENCE)
    sock.sendall(_LENGTH.pack(len(given)) + given)
    (length,) = _LENGTH.unpack(_read(sock, _LENGTH.size, end))
    if length > MOST_SWAPPED:
        raise RefusedError(f"the other side would send {length:,} bytes")
    return _read(sock, length, end)


def _proof(token: bytes, side: bytes, hello: bytes, answer: bytes) -> bytes:
    return hmac.digest(token, side + b"\0" + hello + answer, "sha256")


def _nonce(token: bytes, hello: bytes, answer: bytes) -> int:
    return int.from_bytes(_proof(token, b"frames", hello, answer)[:8], "little")


def _read(sock: socket.socket, count: int, end: float, *, may_end: bool = False) -> bytes:
    data = b""
    while len(data) < count:  # ends: by its bytes, its end, or the time
        left = end - time.monotonic()
        if left <= 0:
            raise TimeoutError("the handshake takes too long")
        sock.settimeout(left)
        part = sock.recv(count - len(data))
        if not part:
            if may_end and not data:
                return b""
            raise RefusedError("the other side ended the handshake: it may have another token")
        data += part
    return data
