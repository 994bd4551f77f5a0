# SPDX-License-Identifier: Apache-2.0
"""Requests to a host as a whole: spawn, stop, stats, drain.

As JSON over a Unix socket between the cluster's process and the host that it has started. Threads
ask side by side: none waits for what another one has asked, nor for what nobody waits for any more.
No message of an actor goes this way.
"""

from __future__ import annotations

import itertools
import json
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

from denizen import errors, threads
from denizen.errors import DeadlineError, DenizenError, HostLostError

MOST = 64 << 20  # bytes of a request or an answer

_LOOK = 0.05  # seconds between two looks whether a host that is silent is lost
_AT_ONCE = 1 << 16  # bytes that a socket's buffer takes in one call, which Ctrl-C does not cut
_LENGTH = struct.Struct("<I")


def put(sock: socket.socket, what: Mapping[str, Any]) -> None:
    """TypeError or ValueError if it is no JSON, DenizenError if it is too long; nothing is sent."""
    sock.sendall(_frame(what))


def _frame(what: Mapping[str, Any]) -> bytes:
    data = json.dumps(what).encode()
    if len(data) > MOST:
        raise DenizenError(f"{len(data):,} bytes of JSON between hosts; the most is {MOST:,}")
    return _LENGTH.pack(len(data)) + data


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
    """Asks one host, from any thread. An error there is raised here, as the same class.

    A thread of its own takes the answers, so Ctrl-C ends a wait and never cuts one.
    """

    def __init__(self, sock: socket.socket, host: int) -> None:
        self._sock, self._host = sock, host
        self._sending = threading.Lock()
        self._numbers = itertools.count(1)
        self._changed = threading.Condition()
        self._answers: dict[int, dict[str, Any] | None] = {}  # None: it is waited for
        self._ended = False

    def call(
        self, method: str, patience: float, lost: Callable[[], str | None], /, **given: Any
    ) -> Any:
        """``lost`` says why the host is lost once it is: an answer is waited for until then."""
        number = next(self._numbers)
        # The host keeps the deadline; this one is for a host that does not.
        end = time.monotonic() + patience + 5.0
        self._answers[number] = None
        try:
            self._send(_frame({"n": number, "do": method, "given": given}), patience + 5.0)
            answer = self._await(number, end, lost)
        except TimeoutError:
            raise DeadlineError(
                f"host {self._host} has not answered {method} within {patience + 5.0:.3g} s"
            ) from None
        except OSError as error:
            raise HostLostError(f"host {self._host} was lost: {error.strerror}") from error
        finally:
            with self._changed:  # whose holder looks whether it is waited for
                del self._answers[number]
        return result(answer, self._host)

    def _send(self, frame: bytes, patience: float) -> None:
        def send() -> None:
            with self._sending:
                self._sock.settimeout(patience)
                self._sock.sendall(frame)

        if len(frame) <= _AT_ONCE:
            send()
        else:
            threads.uninterrupted(send, "denizen asks")

    def _await(self, number: int, end: float, lost: Callable[[], str | None]) -> dict[str, Any]:
        """Until the host answers. TimeoutError, or HostLostError."""
        while True:  # ends: by the answer, the end of the socket, the loss, the deadline
            with self._changed:
                if self._answers[number] is None and not self._ended:
                    self._changed.wait(_LOOK)
                if (answer := self._answers[number]) is not None:
                    return answer
                if self._ended:
                    raise HostLostError(f"host {self._host} was lost: its process has ended")
            if why := lost():
                raise HostLostError(why)
            if time.monotonic() > end:
                raise TimeoutError

    def _take(self) -> None:
        """Answers, each to who waits for it. One that nobody waits for any more is passed over."""
        poll = select.poll()
        try:
            poll.register(self._sock, select.POLLIN)
            # ends with the socket, whose time-out is for sending
            while poll.poll() and (answer := get(self._sock)) is not None:
                with self._changed:
                    if answer.get("n") in self._answers:
                        self._answers[answer["n"]] = answer
                        self._changed.notify_all()
        except (OSError, ValueError):
            pass  # it is closed
        finally:
            with self._changed:
                self._ended = True
                self._changed.notify_all()

    def hear(self, patience: float) -> Any:
        """What the host says by itself, once it is up. None: its process has ended.

        TimeoutError if it has not within ``patience`` seconds.
        """
        self._sock.settimeout(patience)
        said = get(self._sock)
        if said is None:
            return None
        found = result(said, self._host)
        threads.start(self._take, f"denizen host {self._host}")
        return found

    def close(self) -> None:
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)  # wakes who takes its answers
        self._sock.close()


def serve(sock: socket.socket, answer: Callable[[str, Mapping[str, Any]], Any]) -> None:
    """Answers until the other side is gone, what is asked meanwhile by another thread."""
    idle: list[SimpleQueue[dict[str, Any]]] = []
    sending = threading.Lock()

    def work(asked: SimpleQueue[dict[str, Any]]) -> None:
        while True:  # ends with the process
            request = asked.get()
            said = {"n": request["n"], **attempt(answer, request["do"], request["given"])}
            try:
                frame = _frame(said)
            except (TypeError, ValueError, DenizenError) as error:
                text = f"the answer to {request['do']} cannot be sent: {error}"
                frame = _frame({"n": request["n"], "error": "DenizenError", "text": text})
            idle.append(asked)
            with suppress(OSError), sending:  # who has asked may be gone
                sock.sendall(frame)

    # ends: with the cluster's process, or by its close()
    while (request := get(sock)) is not None:
        if idle:
            asked = idle.pop()
        else:
            asked = SimpleQueue()
            threads.start(work, "denizen answers", (asked,))
        asked.put(request)


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
