# SPDX-License-Identifier: Apache-2.0
"""Requests to a host as a whole: spawn, stop, stats, drain.

One after the other, as JSON over a Unix socket between the cluster's process and the host that it
has started. No message of an actor goes this way.
"""

from __future__ import annotations

import json
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from denizen import errors
from denizen.errors import DeadlineError, DenizenError, HostLostError

MOST = 64 << 20  # bytes of a request or an answer

_LOOK = 50  # milliseconds between two looks whether a host that is silent is lost
_LENGTH = struct.Struct("<I")


def put(sock: socket.socket, what: Mapping[str, Any]) -> None:
    data = json.dumps(what).encode()
    sock.sendall(_LENGTH.pack(len(data)) + data)


def get(sock: socket.socket) -> dict[str, Any] | None:
    """The next, or None at the end."""
    head = _exactly(sock, _LENGTH.size)
    if head is None:
        return None
    (length,) = _LENGTH.unpack(head)
    if length > MOST:
        raise DenizenError(f"a request of {length:,} bytes; the most is {MOST:,}")
    data = _exactly(sock, length)
    return None if data is None else json.loads(data)


def _exactly(sock: socket.socket, count: int) -> bytes | None:
    data = bytearray()
    while len(data) < count:  # ends: by its bytes, or its end
        part = sock.recv(min(count - len(data), 1 << 20))
        if not part:
            return None
        data += part
    return bytes(data)


class Caller:
    """Asks one host. An error there is raised here, as the same class."""

    def __init__(self, sock: socket.socket, host: int) -> None:
        self._sock, self._host = sock, host
        self._lock = threading.Lock()
        self._number = 0

    def call(
        self, method: str, patience: float, lost: Callable[[], str | None], /, **given: Any
    ) -> Any:
        """``lost`` says why the host is lost once it is: an answer is waited for until then."""
        with self._lock:
            self._number += 1
            number = self._number
            # The host keeps the deadline; this one is for a host that does not.
            self._sock.settimeout(patience + 5.0)
            end = time.monotonic() + patience + 5.0
            try:
                put(self._sock, {"n": number, "do": method, "given": given})
                while True:  # ends: by the answer; what answers an earlier request is passed over
                    self._await(end, lost)
                    answer = get(self._sock)
                    if answer is None:
                        raise HostLostError(f"host {self._host} was lost: its process has ended")
                    if answer.get("n") == number:
                        break
            except TimeoutError:
                raise DeadlineError(
                    f"host {self._host} has not answered {method} within {patience + 5.0:.3g} s"
                ) from None
            except OSError as error:
                raise HostLostError(f"host {self._host} was lost: {error.strerror}") from error
        return result(answer, self._host)

    def _await(self, end: float, lost: Callable[[], str | None]) -> None:
        """Until the host says something. TimeoutError, or HostLostError."""
        poll = select.poll()
        poll.register(self._sock, select.POLLIN)
        while not poll.poll(_LOOK):  # ends: by a word, the end of the socket, the deadline
            if why := lost():
                raise HostLostError(why)
            if time.monotonic() > end:
                raise TimeoutError

    def hear(self, patience: float) -> Any:
        """What the host says by itself, once it is up. None: its process has ended.

        TimeoutError if it has not within ``patience`` seconds.
        """
        self._sock.settimeout(patience)
        said = get(self._sock)
        return None if said is None else result(said, self._host)

    def close(self) -> None:
        self._sock.close()


def serve(sock: socket.socket, answer: Callable[[str, Mapping[str, Any]], Any]) -> None:
    """Answers until the other side is gone."""
    while (request := get(sock)) is not None:  # ends: with the cluster's process, or by its close()
        put(sock, {"n": request["n"], **attempt(answer, request["do"], request["given"])})


def attempt(do: Callable[..., Any], *given: Any) -> dict[str, Any]:
    """What it returns or raises, for :func:`result` of another process."""
    try:
        return {"result": do(*given)}
    except DenizenError as error:
        return {"error": type(error).__name__, "text": str(error)}
    except Exception as error:  # ours: who asks is told
        return {"error": "DenizenError", "text": f"{type(error).__name__}: {error}"}


def result(answer: Mapping[str, Any], host: int) -> Any:
    """What host ``host`` has returned; what it has raised is raised here, as the same class."""
    if "error" in answer:
        kind = getattr(errors, str(answer["error"]), DenizenError)
        raise kind(f"host {host}: {answer['text']}")
    return answer["result"]
