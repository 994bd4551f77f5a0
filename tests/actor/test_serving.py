# SPDX-License-Identifier: Apache-2.0
"""The base of our HTTP servers, as a stranger finds it."""

import contextlib
import http.client
import socket
import threading
import time

import pytest

from denizen import serving
from denizen.serving import Answer, Server


def echo(request):
    if request.path == "/broken":
        raise RecursionError("deep")
    return Answer(200, request.method.encode() + b" " + request.path.encode() + request.body)


@pytest.fixture
def port():
    server = Server(echo, 0, hosts=["box.example"])
    try:
        yield int(server.url.rpartition(":")[2])
    finally:
        server.close()


def ask(port, text):
    """All that comes for these bytes, as the last ones said."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as line:
        line.sendall(text if isinstance(text, bytes) else text.encode())
        with contextlib.suppress(OSError):  # it may have hung up: the text is too long
            line.shutdown(socket.SHUT_WR)
        got = b""
        with contextlib.suppress(ConnectionError):
            while piece := line.recv(65536):
                got += piece
        return got.decode()


def get(port, *headers, target="/"):
    return ask(port, "\r\n".join([f"GET {target} HTTP/1.0", *headers, "", ""]))


def post(port, body, *headers):
    lines = ["POST /x HTTP/1.0", "Host: localhost", *headers, "", body]
    return ask(port, "\r\n".join(lines))


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost:80", "[::1]:9", "LOCALHOST", "box.example", "10.0.0.7:1"]
)
def test_hosts_that_are_here(port, host):
    assert get(port, f"Host: {host}").endswith("GET /")


@pytest.mark.parametrize(
    "headers",
    [
        ["Host: example.org"], ["Host: 127.0.0.1.example.org:80"], ["Host: "], [], ["Host: ["],
        ["Host: localhost", "Host: localhost"], ["Host: localhost@example.org"],
        ["Host: localhost", "Origin: http://example.org"], ["Host: localhost", "Origin: null"],
        ["Host: localhost:1", "Origin: http://localhost:2"],
    ],
)  # fmt: skip
def test_hosts_and_origins_that_are_not(port, headers):
    assert " 403 " in get(port, *headers).splitlines()[0]


def test_the_same_origin(port):
    assert get(port, "Host: localhost:1", "Origin: http://localhost:1").endswith("GET /")


@pytest.mark.parametrize(
    ("length", "status"),
    [
        (None, 411), ("-1", 411), ("abc", 411), ("1e3", 411), ("+5", 411), ("\u0665", 411),
        ("65537", 413), ("9" * 5000, 413), ("5", 400), ("3", 200), ("0", 200),
    ],
)  # fmt: skip
def test_lengths(port, length, status):
    given = [] if length is None else [f"Content-Length: {length}"]
    answer = post(port, "abc", *given)
    assert f" {status} " in answer.splitlines()[0]
    assert status != 200 or answer.endswith("POST /xabc"[: 7 + int(length)])


def test_two_lengths(port):
    assert " 411 " in post(port, "abc", "Content-Length: 3", "Content-Length: 1").splitlines()[0]


@pytest.mark.parametrize(
    "text",
    [
        b"", b"\0" * 100, b"GET\r\n\r\n", b"GET http://[ HTTP/1.0\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n", b"FLY / HTTP/1.0\r\n\r\n", b"\x16\x03\x01\x02\x00",
        b"G" * 200_000,
        b"GET / HTTP/1.0\r\n" + b"A: b\r\n" * 50_000 + b"\r\n",
        b"GET /broken HTTP/1.0\r\nHost: localhost\r\n\r\n",
    ],
)  # fmt: skip
def test_noise_is_answered_or_dropped_and_nothing_is_printed(port, text, capfd):
    answer = ask(port, text)
    assert " 200 " not in answer
    assert get(port, "Host: localhost").endswith("GET /")
    out, err = capfd.readouterr()
    assert (out, err) == ("", "")


def test_a_connection_that_is_reset_is_no_news(port, capfd):
    for text in (b"", b"GET / HTTP/1.0\r\n", b"POST / HTTP/1.0\r\nHost: localhost\r\n"
                 b"Content-Length: 100\r\n\r\nabc"):  # fmt: skip
        line = socket.create_connection(("127.0.0.1", port), timeout=10)
        line.sendall(text)
        line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        line.close()
    assert get(port, "Host: localhost").endswith("GET /")
    assert capfd.readouterr() == ("", "")


def until_closed(line, seconds):
    """Whether the other side closes the connection within so many seconds."""
    line.settimeout(seconds)
    with contextlib.suppress(ConnectionError):
        try:
            while line.recv(65536):
                pass
        except TimeoutError:
            return False
    return True


def test_who_says_nothing_or_one_byte_now_and_then_is_left(monkeypatch):
    monkeypatch.setattr(serving, "PATIENCE", 0.5)
    server = Server(echo, 0)
    port = int(server.url.rpartition(":")[2])
    with contextlib.closing(server), contextlib.ExitStack() as stack:
        silent, slow = (
            stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(2)
        )
        ended = threading.Event()

        def drip():
            with contextlib.suppress(OSError):
                while not ended.wait(0.1):
                    slow.send(b"A")

        thread = threading.Thread(target=drip)
        thread.start()
        try:
            assert until_closed(silent, 20)
            assert until_closed(slow, 20)
        finally:
            ended.set()
            thread.join()


def test_connections_have_a_number(monkeypatch):
    monkeypatch.setattr(serving, "MOST_CONNECTIONS", 4)
    server = Server(echo, 0)
    port = int(server.url.rpartition(":")[2])
    with contextlib.closing(server), contextlib.ExitStack() as stack:
        before = threading.active_count()
        held = [
            stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(50)
        ]
        answers = [line for line in held[4:] if line.recv(100).startswith(b"HTTP/1.0 503")]
        assert len(answers) == 46
        assert threading.active_count() <= before + 4
        for line in held:
            line.close()
        deadline = time.monotonic() + 20
        while True:  # ends when the places are free again
            if get(port, "Host: localhost").endswith("GET /"):
                break
            assert time.monotonic() < deadline
            time.sleep(0.02)


def test_getting_a_page_from_it(port):
    assert serving.get("127.0.0.1", port, "/y", most=100, seconds=10) == (200, b"GET /y")
    with pytest.raises(http.client.HTTPException, match="over 3 bytes"):
        serving.get("127.0.0.1", port, "/y", most=3, seconds=10)
