# SPDX-License-Identifier: Apache-2.0
"""The processes of a cluster: started, looked after, asked, and ended."""

from __future__ import annotations

import base64
import logging
import os
import pickle
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from denizen import errors, threads
from denizen.cluster import control
from denizen.cluster.host import Local
from denizen.errors import DeadlineError, DenizenError, HostLostError, MissingPackageError
from denizen.program import Program
from denizen.values import seconds as _seconds

log = logging.getLogger(__name__)

_HOST = "import sys; from denizen.cluster import host; sys.exit(host.main(int(sys.argv[1])))"
_PAUSE = 0.005  # seconds between two looks at the processes


class Processes:
    """Host 0 here, the others in processes of their own.

    Args:
        devices: of each host.
        given: what all of them are told (:class:`denizen.cluster.host.Local`).
        files: of each host, what it is restored from.
        timeout: seconds until all are linked to each other.

    ``on_loss``, if it is set, is called when the process of a host has ended.
    """

    on_loss: Callable[[], None] | None = None

    def __init__(
        self,
        program: Program,
        devices: Sequence[str],
        given: Mapping[str, Any],
        files: Mapping[int, str],
        timeout: float,
    ) -> None:
        self._process = os.getpid()
        self._devices = list(devices)
        self._changing = threading.RLock()  # processes are started or given up
        self.closed = False
        self._lost: dict[int, str] = {}
        self._children: dict[int, subprocess.Popen[bytes]] = {}
        self._callers: dict[int, control.Caller] = {}
        self._local: Local | None = None
        self._folder = Path(tempfile.mkdtemp(prefix="denizen-cluster-"))
        token = secrets.token_bytes(32)
        given = {**given, "hosts": len(devices), "folder": str(self._folder), "path": sys.path}
        self._given = {**given, "token": token.hex()}
        end = time.monotonic() + timeout
        try:
            self._given["program"] = base64.b64encode(_pack(program)).decode()
            for number in range(1, len(devices)):
                self._start(number, files.get(number))
            here = {**given, "number": 0, "device": devices[0], "restore": files.get(0)}
            self._local = Local(program, here, token)
            self.about = {0: self._local.describe()}
            for number in self._callers:
                self.about[number] = self._hear(number, end)
            self._connect(list(self.about), max(end - time.monotonic(), 1.0))
        except BaseException:
            self.close(5.0)
            raise
        self._watching = threads.start(self._look_after, "denizen cluster")

    # ---- who is asked

    @property
    def local(self) -> Local:
        """The host in this process. ClosedError if there is none."""
        if self.closed or self._local is None:
            raise errors.ClosedError("the cluster is closed")
        return self._local

    @property
    def lost(self) -> dict[int, str]:
        """The hosts that are lost to this one, and why."""
        return {**self._lost, **self.local.links.lost()}

    @property
    def children(self) -> list[int]:
        """The hosts that are in processes of their own."""
        return list(self._children)

    def living(self) -> list[int]:
        """Those that are not lost."""
        lost = self.lost
        return [n for n in sorted(self.about) if n not in lost]

    def call(self, host: int, method: str, patience: float, /, **given: Any) -> Any:
        """Has a host do something. HostLostError if it is lost."""
        here = self.local
        if host == 0:
            return here.answer(method, given)

        def lost() -> str | None:
            return self._lost.get(host) or here.links.lost().get(host)

        if why := lost():
            raise HostLostError(why)
        return self._callers[host].call(method, _seconds(patience), lost, **given)

    def call_living(self, method: str, patience: float, /, **given: Any) -> dict[int, Any]:
        """Has each host that lives do something; by host, without those that are lost meanwhile."""
        results: dict[int, Any] = {}
        for host in self.living():
            with suppress(HostLostError):
                results[host] = self.call(host, method, patience, **given)
        return results

    def call_anyway(self, host: int, method: str, patience: float, /, **given: Any) -> Any:
        """As call() for one whose process may live although it is lost."""
        return self._callers[host].call(method, _seconds(patience), lambda: None, **given)

    def has_ended(self, host: int, *, patience: float) -> bool:
        """Whether the process of a host has ended, or does so within ``patience`` seconds."""
        try:
            self._children[host].wait(patience)
        except subprocess.TimeoutExpired:
            return False
        return True

    # ---- from start to end

    def _start(self, number: int, file: str | None) -> None:
        place = {"number": number, "device": self._devices[number], "restore": file}
        ours, theirs = socket.socketpair()
        try:
            child = subprocess.Popen(
                [sys.executable, "-c", _HOST, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
            )
        finally:
            theirs.close()
        self._children[number] = child
        self._callers[number] = control.Caller(ours, number)
        control.put(ours, {**self._given, **place})

    def _hear(self, number: int, end: float) -> dict[str, Any]:
        """What a host says when it is up."""
        try:
            said = self._callers[number].hear(max(end - time.monotonic(), 0.1))
        except TimeoutError:
            raise DeadlineError(f"host {number} is not up in time (start_timeout)") from None
        if said is None:
            status = self._children[number].wait()
            raise HostLostError(f"host {number} ended with status {status} before it was up")
        return dict(said)

    def _connect(self, hosts: Sequence[int], timeout: float) -> None:
        """These to all others; who has a link to another keeps it."""
        places = {str(n): about["place"] for n, about in self.about.items()}
        results: list[BaseException] = []

        def connect(host: int) -> None:
            given = {"places": places, "timeout": timeout}
            try:
                if host == 0:
                    self.local.answer("connect", given)
                else:
                    self.call_anyway(host, "connect", timeout, **given)
            except BaseException as error:
                results.append(error)

        running = [threads.start(connect, "denizen connects", (n,)) for n in hosts]
        for thread in running:
            thread.join()
        if results:
            raise results[0]

    def _look_after(self) -> None:
        """Processes that have ended: the links know by themselves, the callers here."""
        while not self.closed:  # ends by close()
            ended = False
            with self._changing:
                for number, child in self._children.items():
                    if number not in self._lost and (status := child.poll()) is not None:
                        if self.closed:
                            return
                        self._give_up(number, f"its process has ended ({_how(status)})")
                        ended = True
            if ended and self.on_loss is not None:
                self.on_loss()
            time.sleep(_PAUSE)

    def _give_up(self, number: int, why: str) -> None:
        self._lost[number] = f"host {number} was lost: {why}"
        self.local.links.lose(number, why)
        log.warning("%s", self._lost[number])

    def restart(
        self, files: Mapping[int, str], timeout: float
    ) -> dict[int, dict[int, dict[str, int]]]:
        """Starts lost hosts again from these files. All others have to live.

        Returns the counts of the links that the others had to them, by other host and lost one.
        """
        end = time.monotonic() + timeout
        with self._changing:
            for number in files:
                child = self._children[number]
                self._callers[number].close()
                child.kill()
                how = _how(child.wait())
                if number not in self._lost:
                    self._give_up(number, f"its process was ended ({how})")
            others = self.living()
            before: dict[int, dict[int, dict[str, int]]] = {h: {} for h in others}
            try:
                for number, file in files.items():
                    if self.closed:
                        raise errors.ClosedError("the cluster is closed")
                    self._start(number, file)
                for number in files:
                    self.about[number] = self._hear(number, end)
                    self.call_anyway(number, "renew", max(end - time.monotonic(), 0.1))
                for other in others:
                    for number in files:
                        left = max(end - time.monotonic(), 0.1)
                        given = {"host": number, "why": "its process has ended", "timeout": left}
                        before[other][number] = self.call(other, "leave", left, **given)
                self._connect(list(self.about), max(end - time.monotonic(), 0.1))
            except BaseException as error:
                self._abandon(others, list(files), f"it was not started again: {error}")
                raise
            for number in files:
                self._lost.pop(number)
        return before

    def _abandon(self, others: Sequence[int], lost: Sequence[int], why: str) -> None:
        for number in lost:
            self._lost[number] = f"host {number} was lost: {why}"
            self._children[number].kill()
            for other in others:
                with suppress(DenizenError, OSError):
                    self.call(other, "abandon", 5.0, host=number, why=why)

    def close(self, timeout: float) -> None:
        """Ends all of them."""
        if os.getpid() != self._process or self.closed:
            return
        self.closed = True
        for caller in list(self._callers.values()):
            caller.close()  # each host ends by that
        started = self._changing.acquire(timeout=timeout)  # one that is being started ends too
        try:
            if self._local is not None:
                self._local.close(timeout)
        finally:
            if started:
                self._changing.release()
            end = time.monotonic() + timeout
            for child in self._children.values():
                try:
                    child.wait(max(end - time.monotonic(), 0.1))
                except subprocess.TimeoutExpired:
                    child.kill()
                    child.wait()
            shutil.rmtree(self._folder, ignore_errors=True)


def _pack(program: Program) -> bytes:
    """As a process can take it that does not have what the main module defines."""
    pack: Callable[[Any], bytes] = pickle.dumps
    if program.in_python:
        try:
            from numba import cloudpickle  # noqa: PLC0415  (what compiles the handlers has it)
        except ImportError:
            raise MissingPackageError("Numba") from None
        pack = cloudpickle.dumps
    return pack(program)


def _how(status: int) -> str:
    if status >= 0:
        return f"status {status}"
    with suppress(ValueError):
        return signal.Signals(-status).name
    return f"signal {-status}"
