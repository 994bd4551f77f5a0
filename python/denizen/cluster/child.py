# SPDX-License-Identifier: Apache-2.0
"""A host outside of the cluster's process, as the cluster sees it, and one that is a subprocess."""

from __future__ import annotations

import base64
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Protocol

from denizen.cluster import control, ucx
from denizen.cluster.folder import Folder
from denizen.errors import ArgumentError, ExhaustedError, HostLostError, starting

TRANSPORTS = ("auto", "rings", "tcp", "ucx")
LOOPBACK = "127.0.0.1"

# Ctrl-C is the cluster's, also while its hosts are still importing.
_HOST = """
import signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
from denizen.cluster import host
sys.exit(host.main(int(sys.argv[1])))
"""


class Child(Protocol):
    """One that has been started."""

    # Seconds from the end of its links, by which other hosts know, until ended() tells of it.
    ends_within: float

    def hear(self, patience: float) -> dict[str, Any]:
        """Local.describe(), once it is up. TimeoutError; HostLostError if it ends before."""

    def call(
        self, method: str, patience: float, lost: Callable[[], str | None], /, **given: Any
    ) -> Any:
        """Has it do something: Local.answer(). DeadlineError, HostLostError or its own error.

        ``lost`` says why the host is lost once it is: an answer is waited for until then.
        """

    def ended(self, patience: float = 0.0) -> str | None:
        """How it has ended, by then or within ``patience`` seconds; None: it lives."""

    def close(self) -> None:
        """Tells it to end."""

    def kill(self) -> str:
        """Ends it whatever it does, and says how it has ended."""


class Starter(Protocol):
    """Starts hosts, and says where they listen."""

    here: Mapping[str, Any]  # what host 0 is told: transport, address, folder, node

    def start(
        self, number: int, given: Mapping[str, Any], program: bytes, token: bytes, end: float
    ) -> Child:
        """Host ``number``, by ``end`` of time.monotonic(); ``given`` has what all are told."""

    def close(self) -> None:
        """Nothing is started any more, and what is left of the hosts is removed."""


def check_transport(transport: str | None) -> None:
    if transport is not None and transport not in TRANSPORTS:
        raise ArgumentError(f'transport = "{transport}"; use {" or ".join(TRANSPORTS)}')
    if transport == "ucx":
        ucx.check()


def given_by(transport: str | None) -> str:
    """Why it is this one, if the user has said so."""
    return "" if transport in (None, "auto") else f'transport = "{transport}" was given'


class Subprocesses:
    """Starts hosts as processes of this one."""

    def __init__(self, transport: str | None, address: str | None) -> None:
        self._folder = Folder("cluster")
        self.here: Mapping[str, Any] = {
            "transport": "rings" if transport in (None, "auto") else transport,
            "why": given_by(transport) or "all hosts are processes of this machine",
            "address": address or LOOPBACK,
            "folder": str(self._folder.path),
            "node": "",
        }

    def start(
        self, number: int, given: Mapping[str, Any], program: bytes, token: bytes, _: float
    ) -> Subprocess:
        with starting(f"host {number}", ExhaustedError):
            ours, theirs = socket.socketpair()
            try:
                process = subprocess.Popen(
                    [sys.executable, "-c", _HOST, str(theirs.fileno())],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
                )
            except BaseException:
                ours.close()
                raise
            finally:
                theirs.close()
        told = {
            **self.here,
            **given,
            "path": sys.path,
            "program": base64.b64encode(program).decode(),
            "token": token.hex(),
        }
        child = Subprocess(process, control.Caller(ours, number), number)
        try:
            control.put(ours, told)
        except BaseException:
            child.kill()
            raise
        return child

    def close(self) -> None:
        self._folder.close()


class Subprocess:
    """A host in a process that this one has started; it ends with its end of the socket."""

    ends_within = 0.1

    def __init__(
        self, process: subprocess.Popen[bytes], caller: control.Caller, number: int
    ) -> None:
        self._process, self._caller, self._number = process, caller, number

    def hear(self, patience: float) -> dict[str, Any]:
        said = self._caller.hear(patience)
        if said is None:
            raise HostLostError(
                f"host {self._number} ended with status {self._process.wait()} before it was up"
            )
        return dict(said)

    def call(
        self, method: str, patience: float, lost: Callable[[], str | None], /, **given: Any
    ) -> Any:
        return self._caller.call(method, patience, lost, **given)

    def ended(self, patience: float = 0.0) -> str | None:
        if self._process.poll() is None:
            if patience <= 0:
                return None
            try:
                self._process.wait(patience)
            except subprocess.TimeoutExpired:
                return None
        return f"its process has ended ({_how(self._process.wait())})"

    def close(self) -> None:
        self._caller.close()

    def kill(self) -> str:
        self._caller.close()
        self._process.kill()
        return f"its process was ended ({_how(self._process.wait())})"


def _how(status: int) -> str:
    if status >= 0:
        return f"status {status}"
    with suppress(ValueError):
        return signal.Signals(-status).name
    return f"signal {-status}"
