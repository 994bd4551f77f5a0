# SPDX-License-Identifier: Apache-2.0
"""HTTP between processes of one machine: what the wave page, the metrics and ``denizen top`` share.

The other side is not believed. A request has a size, a time and a place among the others; its
``Host`` must be an address or a name of this machine, and its ``Origin``, if it has one, the same
host: so a page from elsewhere can neither read nor steer, also if its name leads here. Nothing is
printed.
"""

from __future__ import annotations

import ipaddress
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPException, HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedReader, RawIOBase
from typing import Any, BinaryIO, cast
from urllib.parse import urlsplit

from denizen import threads
from denizen.errors import ExhaustedError

MOST_BYTES = 1 << 17  # of a request, headers and body
MOST_BODY = 1 << 16
MOST_CONNECTIONS = 32  # at the same time
PATIENCE = 10.0  # seconds from a connection's first byte to its last

_TEXT = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Request:
    """What somebody asks: ``headers`` by their lower-case names."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Answer:
    """What they get."""

    status: int
    content: bytes
    kind: str = _TEXT
    headers: Mapping[str, str] = field(default_factory=dict)


class _Bounded(RawIOBase):
    """A socket's bytes, ``most`` of them and for so many ``seconds``; TimeoutError after them.

    A time-out of the socket alone begins again with every byte.
    """

    def __init__(self, sock: socket.socket, most: int, seconds: float) -> None:
        self._sock, self._left = sock, most
        self._end = time.monotonic() + seconds

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        seconds = self._end - time.monotonic()
        if seconds <= 0:
            raise TimeoutError("it takes too long")
        self._sock.settimeout(seconds)
        count = self._sock.recv_into(memoryview(buffer)[: self._left])
        self._left -= count
        return count


class Server:
    """Serves ``answer(request)`` at ``address`` from threads of its own until closed.

    ``port``: 0 for any that is free. ``hosts``: names that requests may use beside the addresses
    and the name of this machine. Raises OSError or OverflowError if it cannot listen there.
    """

    def __init__(
        self,
        answer: Callable[[Request], Answer],
        port: int,
        address: str = "127.0.0.1",
        *,
        hosts: Sequence[str] = (),
        name: str = "denizen http",
    ) -> None:
        class Handler(_Handler):
            answer_to = staticmethod(answer)
            names = frozenset(host.lower() for host in ("localhost", address, *hosts))

        class Http(_Http):
            address_family = socket.AF_INET6 if ":" in address else socket.AF_INET

        self._http = Http((address, port), Handler)
        # A wildcard is no address to go to.
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address, address)
        host = f"[{host}]" if ":" in host else host
        self.url = f"http://{host}:{self._http.server_address[1]}"
        try:
            self._thread = threads.start(self._http.serve_forever, name, (0.1,))
        except ExhaustedError:
            self._http.server_close()
            raise

    def close(self) -> None:
        """Stop serving; harmless when called again."""
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


class _Http(ThreadingHTTPServer):
    daemon_threads = True  # a request under way does not hold up the process
    request_queue_size = (
        MOST_CONNECTIONS  # who finds no place in the queue is told nothing for seconds
    )

    def __init__(self, where: tuple[str, int], handler: type[_Handler]) -> None:
        self._places = threading.BoundedSemaphore(MOST_CONNECTIONS)
        super().__init__(where, handler)

    def server_bind(self) -> None:
        # HTTPServer's own asks the name service who this machine is.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._places.acquire(blocking=False):
            with suppress(OSError):
                request.setblocking(False)
                request.send(b"HTTP/1.0 503 Too many connections\r\nContent-Length: 0\r\n\r\n")
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread to be had
            self._places.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """The terminal is the program's: what a stranger breaks off is no news."""


class _RefusedError(Exception):
    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class _Handler(BaseHTTPRequestHandler):
    answer_to: Callable[[Request], Answer]
    names: frozenset[str]
    server_version = "denizen"
    sys_version = ""

    def setup(self) -> None:
        super().setup()
        self.connection.settimeout(PATIENCE)
        raw = _Bounded(self.connection, MOST_BYTES, PATIENCE)
        self.rfile = BufferedReader(raw)

    def do_GET(self) -> None:
        self._respond()

    def do_POST(self) -> None:
        self._respond()

    def log_message(self, *_: object) -> None:
        """Not on the program's stderr."""

    def _respond(self) -> None:
        try:
            self._check_host()
            headers = {key.lower(): value for key, value in self.headers.items()}
            body = self._body() if self.command == "POST" else b""
            found = self.answer_to(Request(self.command, _path_of(self.path), headers, body))
        except _RefusedError as error:
            found = Answer(error.status, f"{error}\n".encode())
        except (OSError, TimeoutError):  # gone, or too slow
            self.close_connection = True
            return
        except Exception as error:  # ours: the program goes on, and who asks is told
            found = Answer(500, f"{type(error).__name__}: {error}\n".encode(errors="replace"))
        self.connection.settimeout(PATIENCE)  # of all of the answer
        self.send_response(found.status)
        self.send_header("Content-Type", found.kind)
        self.send_header("Content-Length", str(len(found.content)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Content-Security-Policy", "frame-ancestors 'none'")  # no stolen clicks
        for name, value in found.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(found.content)

    def _check_host(self) -> None:
        given = self.headers.get_all("Host") or []
        if len(given) != 1 or not self._is_here(given[0]):
            raise _RefusedError(
                403, "the request's Host is no address of this machine and not its name"
            )
        origin = self.headers.get("Origin")
        if origin is not None and origin.lower() != f"http://{given[0].lower()}":
            raise _RefusedError(403, "the request comes from a page of another origin")

    # An address cannot be made to mean another machine, as a name can.
    def _is_here(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        with suppress(ValueError):
            ipaddress.ip_address(name)
            return True
        return name in self.names or name == socket.gethostname().lower()

    def _body(self) -> bytes:
        given = self.headers.get_all("Content-Length") or []
        if len(given) != 1 or not (given[0].isascii() and given[0].isdecimal()):
            raise _RefusedError(411, "the request needs one Content-Length, a number from 0")
        if len(given[0]) > 9 or int(given[0]) > MOST_BODY:
            raise _RefusedError(413, f"the request's body is over {MOST_BODY:,} bytes")
        length = int(given[0])
        body = self.rfile.read(length)
        if len(body) < length:
            raise _RefusedError(400, "the request ends before its Content-Length")
        return body


def _path_of(target: str) -> str:
    try:
        return urlsplit(target).path
    except ValueError as error:
        raise _RefusedError(400, f"the request's target is no path: {error}") from error


class _Made:
    """What HTTPResponse reads from, in a socket's place."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def makefile(self, _mode: str) -> BinaryIO:
        return self._file


def get(host: str, port: int, path: str, *, most: int, seconds: float) -> tuple[int, bytes]:
    """Status and body of one page: straight there, whatever proxy the environment names.

    Raises OSError if nobody answers, HTTPException for what is no HTTP, is over ``most`` bytes, or
    takes longer than ``seconds``.
    """
    with socket.create_connection((host, port), timeout=seconds) as sock:
        shown = f"[{host}]" if ":" in host else host
        sock.sendall(f"GET {path} HTTP/1.0\r\nHost: {shown}:{port}\r\n\r\n".encode())
        # One more, so that too much is seen.
        with BufferedReader(_Bounded(sock, most + MOST_BYTES + 1, seconds)) as file:
            answer = HTTPResponse(
                cast("socket.socket", _Made(cast("BinaryIO", file))), method="GET"
            )
            try:
                answer.begin()
                body = answer.read(most + 1)
                if len(body) > most:
                    raise HTTPException(f"the answer is over {most:,} bytes")
                if answer.length:
                    raise HTTPException("the answer ends too early")
            except TimeoutError as error:
                raise HTTPException(f"no whole answer within {seconds:g} s") from error
            except ValueError as error:
                raise HTTPException(str(error)) from error
            return answer.status, body
