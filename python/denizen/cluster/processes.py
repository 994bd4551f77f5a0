# SPDX-License-Identifier: Apache-2.0
"""The processes of a cluster: started, looked after, asked, and ended."""

from __future__ import annotations

import logging
import os
import pickle
import secrets
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from denizen import errors, threads
from denizen.cluster.child import Child, Starter
from denizen.cluster.host import Local, version
from denizen.errors import DeadlineError, DenizenError, HostLostError, MissingPackageError
from denizen.program import Program
from denizen.values import seconds as _seconds

log = logging.getLogger(__name__)

_packing = threading.Lock()  # which modules are sent is a list of the whole process
_PAUSE = 0.005  # seconds between two looks at the processes


class Processes:
    """Host 0 here, the others in processes of their own.

    Args:
        devices: of each host.
        given: what all of them are told (:class:`denizen.cluster.host.Local`).
        files: of each host, what it is restored from.
        end: time.monotonic() by which all are linked to each other.
        starter: of the others; it is closed with this.

    ``on_loss``, if it is set, is called when the process of a host has ended.
    """

    on_loss: Callable[[], None] | None = None

    def __init__(  # noqa: PLR0917
        self,
        program: Program,
        devices: Sequence[str],
        given: Mapping[str, Any],
        files: Mapping[int, str],
        end: float,
        starter: Starter,
    ) -> None:
        self._process = os.getpid()
        self._devices, self._starter = list(devices), starter
        self._changing = threading.RLock()  # processes are started or given up
        self._away = Away()
        self.closed = False
        self._lost: dict[int, str] = {}
        self._children: dict[int, Child] = {}
        self._local: Local | None = None
        self._token = secrets.token_bytes(32)
        self._given = {**given, "hosts": len(devices), "version": version()}
        try:
            self._program = _pack(program)
            for number in range(1, len(devices)):
                self._start(number, files.get(number), end)
            here = {**starter.here, **self._place(0, files.get(0))}
            self._local = Local(program, here, self._token)
            self.about = {0: self._local.describe()}
            for number in self._children:
                self.about[number] = self._hear(number, end)
            self._connect(list(self.about), max(end - time.monotonic(), 1.0))
        except BaseException:
            for child in self._children.values():  # one that is still importing hears nothing
                child.kill()
            self.close(5.0)
            raise
        self._watching = threads.start(self._look_after, "denizen cluster")

    # ---- who is asked

    @property
    def local(self) -> Local:
        """The host in this process. ClosedError if there is none."""
        if os.getpid() != self._process:
            raise errors.ClosedError("this cluster belongs to another process; make one here")
        if self.closed or self._local is None:
            raise errors.ClosedError("the cluster is closed")
        return self._local

    @contextmanager
    def here(self) -> Iterator[Local]:
        """The host in this process, which stays the one that it is until the block ends."""
        with self._away.using():
            yield self.local

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
        if host == 0:
            with self.here() as local:
                return local.answer(method, given)
        here = self.local
        self._away.wait(host, patience)

        def lost() -> str | None:
            return self._lost.get(host) or here.links.lost().get(host)

        if why := lost():
            raise HostLostError(why)
        return self._children[host].call(method, _seconds(patience), lost, **given)

    def call_living(self, method: str, patience: float, /, **given: Any) -> dict[int, Any]:
        """Has each host that lives do something; by host, without those that are lost meanwhile."""
        results: dict[int, Any] = {}
        for host in self.living():
            with suppress(HostLostError):
                results[host] = self.call(host, method, patience, **given)
        return results

    def call_anyway(self, host: int, method: str, patience: float, /, **given: Any) -> Any:
        """As call() for one whose process may live although it is lost."""
        return self._children[host].call(method, _seconds(patience), lambda: None, **given)

    def has_ended(self, host: int, *, wait: bool) -> bool:
        """Whether the process of a host has ended; ``wait``: as soon as its links have."""
        child = self._children[host]
        return child.ended(child.ends_within if wait else 0.0) is not None

    # ---- from start to end

    def _place(self, number: int, file: str | None) -> dict[str, Any]:
        device = self._devices[number]
        return {**self._given, "number": number, "device": device, "restore": file}

    def _start(self, number: int, file: str | None, end: float) -> None:
        self._children[number] = self._starter.start(
            number, self._place(number, file), self._program, self._token, end
        )

    def _hear(self, number: int, end: float) -> dict[str, Any]:
        """What a host says when it is up."""
        try:
            return self._children[number].hear(max(end - time.monotonic(), 0.1))
        except TimeoutError:
            raise DeadlineError(f"host {number} is not up in time (start_timeout)") from None

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
                    if number not in self._lost and (how := child.ended()) is not None:
                        if self.closed:
                            return
                        self._give_up(number, how)
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
                how = self._children[number].kill()
                if number not in self._lost:
                    self._give_up(number, how)
            others = self.living()
            before: dict[int, dict[int, dict[str, int]]] = {h: {} for h in others}
            try:
                for number, file in files.items():
                    if self.closed:
                        raise errors.ClosedError("the cluster is closed")
                    self._start(number, file, end)
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

    @contextmanager
    def away(self, host: int, end: float) -> Iterator[None]:
        """Other threads that ask something of this host wait until the block ends."""
        with self._away.keep(host, end):
            yield

    def replace(
        self, number: int, file: str, program: Program, end: float
    ) -> dict[int, dict[str, int]]:
        """A host goes on in another process, from the file of how it is.

        It is held, the others' links to it are paused, and this is its away(). If the other process
        does not come up, nothing has happened. Returns what the others' links to it had counted.
        """
        with self._changing:
            packed = _pack(program)
            child, local = self._prepare(number, file, program, packed, end)
            others = [h for h in self.living() if h != number]
            counts = {}
            old = self.local
            try:
                if child is None:
                    self._local = local
                for other in others:
                    counts[other] = self.call(other, "detach", 5.0, host=number)
                if child is None:
                    old.close(1.0)
                    self.about[0] = self.local.describe()
                else:
                    self._children.pop(number).kill()
                    self._children[number] = child
                for lost, why in self._lost.items():
                    self.call(number, "abandon", 5.0, host=lost, why=why)
                self._connect(self.living(), max(end - time.monotonic(), 1.0))
            except BaseException as error:
                if child is not None:
                    child.kill()
                    self._children[number] = child
                    self._abandon(others, [number], f"it did not go on: {error}")
                raise
        return counts

    def _prepare(
        self, number: int, file: str, program: Program, packed: bytes, end: float
    ) -> tuple[Child | None, Local | None]:
        """Another process for a host, or another runtime of this one; what it needs comes first."""
        if number == 0:
            return None, Local(program, {**self._starter.here, **self._place(0, file)}, self._token)
        place = self._place(number, file)
        child = self._starter.start(number, place, packed, self._token, end)
        try:
            try:
                self.about[number] = child.hear(max(end - time.monotonic(), 0.1))
            except TimeoutError:
                raise DeadlineError(f"host {number} is not up again in time") from None
        except BaseException:
            child.kill()
            raise
        return child, None

    def use(self, program: Program) -> None:
        """For hosts that are started from now on."""
        self._program = _pack(program)

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
        for child in list(self._children.values()):
            child.close()  # each host ends by that
        started = self._changing.acquire(timeout=timeout)  # one that is being started ends too
        try:
            if self._local is not None:
                self._local.close(timeout)
        finally:
            if started:
                self._changing.release()
            end = time.monotonic() + timeout
            try:
                for child in self._children.values():
                    child.ended(max(end - time.monotonic(), 0.1))
            finally:  # also after Ctrl-C, which ends their time
                for child in self._children.values():
                    child.kill()
                self._starter.close()


class Away:
    """Which host is being replaced: who asks something of it waits, but the thread that does it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._host: int | None = None
        self._by: int | None = None
        self._users = 0  # of the host in this process

    @contextmanager
    def using(self) -> Iterator[None]:
        """Something of the host in this process."""
        with self._changed:
            while self._held(0):  # ends with keep()
                self._changed.wait()
            self._users += 1
        try:
            yield
        finally:
            with self._changed:
                self._users -= 1
                self._changed.notify_all()

    def wait(self, host: int, patience: float) -> None:
        """Until it is back. DeadlineError if that takes longer."""
        with self._changed:
            if not self._changed.wait_for(lambda: not self._held(host), patience):
                raise DeadlineError(f"host {host} is being restarted with another program")

    @contextmanager
    def keep(self, host: int, end: float) -> Iterator[None]:
        """It is away. Of the host in this process: once nobody else uses it."""
        with self._changed:
            self._host, self._by = host, threading.get_ident()
        try:
            with self._changed:
                left = max(end - time.monotonic(), 0.0)
                if host == 0 and not self._changed.wait_for(lambda: self._users == 0, left):
                    raise DeadlineError(
                        "host 0 was not restarted: calls of this process that use it have not "
                        "ended, asks or receive() for instance"
                    )
            yield
        finally:
            with self._changed:
                self._host = self._by = None
                self._changed.notify_all()

    def _held(self, host: int) -> bool:
        return self._host == host and self._by != threading.get_ident()


def _pack(program: Program) -> bytes:
    """As a process can take it that does not have the modules of the program's handlers.

    These are sent themselves: what their modules have become there might be another program.
    """
    if not program.in_python:
        return pickle.dumps(program)
    try:
        from numba import cloudpickle  # noqa: PLC0415  (what compiles the handlers has it)
    except ImportError:
        raise MissingPackageError("Numba") from None
    pickler: Any = cloudpickle
    functions = [f for actor in program.in_python for f in actor.functions()]
    with _packing, ExitStack() as after:
        for name in {f.__module__ for f in functions} - pickler.list_registry_pickle_by_value():
            if (module := sys.modules.get(name)) and not name.startswith("denizen."):
                pickler.register_pickle_by_value(module)
                after.callback(pickler.unregister_pickle_by_value, module)
        return bytes(pickler.dumps(program))
