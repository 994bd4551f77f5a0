# SPDX-License-Identifier: Apache-2.0
"""One host: its runtime, its links, and what it does when it is asked.

``main`` is a host in a process of its own, which the cluster has started. It lasts as long as that
one's end of the socket.
"""

from __future__ import annotations

import base64
import importlib
import os
import pickle
import socket
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import denizen
from denizen import _core
from denizen.cluster import control
from denizen.cluster.links import Links
from denizen.cluster.tracing import HostTrace
from denizen.errors import ArgumentError, DeadlineError, StuckError
from denizen.life import HOST
from denizen.program import Program
from denizen.runtime import Runtime


def version() -> list[Any]:
    """What all hosts of a cluster have in common: the version, and the layout of their memory."""
    return [denizen.__version__, _core.layout_abi]


def check_version(given: Mapping[str, Any]) -> None:
    """ArgumentError if the cluster's process has another denizen than this one.

    Before the program is unpickled: another version may not know what is in it.
    """
    theirs, ours = list(given["version"]), version()
    if theirs != ours:
        raise ArgumentError(
            f"denizen here is {_named(ours)}, that of the cluster's process {_named(theirs)}; "
            "install the same on all hosts"
        )


def _named(of: list[Any]) -> str:
    return f"{of[0]} (layout {of[1]})"


def unpacked(program: bytes) -> Program:
    """What the cluster's process has sent. ArgumentError if it names a module that is not here."""
    try:
        return pickle.loads(program)  # type: ignore[no-any-return]
    except ModuleNotFoundError as error:
        raise ArgumentError(
            f'the program is of a module "{error.name}", which cannot be imported there; put its '
            "folder on sys.path, or install it"
        ) from None


class Local:
    """A runtime that is a host of a cluster, and what others may ask of it."""

    def __init__(self, program: Program, given: Mapping[str, Any], token: bytes) -> None:
        self.number, self.hosts, self.node = given["number"], given["hosts"], given["node"]
        self.at_close: list[Callable[[], None]] = []
        self.runtime = Runtime(
            program,
            given["device"],
            restore=given.get("restore"),
            _place=(self.number, self.hosts),
            **given["options"],
        )
        self.core: _core.Runtime = self.runtime._native("cluster")
        self.tracing = HostTrace(self.core)
        try:
            if given["durable"]:
                _core.durable(self.core, list(given["durable"]), given["log_bytes"])
            self.links = Links(
                self.core,
                self.number,
                self.hosts,
                token,
                transport=given["transport"],
                why=given["why"],
                machine=given.get("machine", ""),
                folder=Path(given["folder"]),
                address=given["address"],
                deadline=given["deadline"],
                spin=given["spin"],
            )
        except BaseException:
            self.runtime.close()
            raise

    def far(self, addresses: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """The form that means the same on every host."""
        out = np.array(addresses, np.uint32, ndmin=1)
        _core.to_far(self.core, out)
        return out

    def short(self, address: int) -> int:
        return _core.to_short(self.core, address)

    def close(self, timeout: float) -> None:
        for end in self.at_close:
            end()
        self.links.close()
        self.tracing.stop()
        self.runtime.close(timeout=timeout)

    # ---- what others ask; all of it crosses as JSON

    def answer(self, method: str, given: Mapping[str, Any]) -> Any:
        if method not in _METHODS:
            raise ArgumentError(f'no host does "{method}"')
        return getattr(self, method)(**given)

    def describe(self) -> dict[str, Any]:
        return {
            "device": self.runtime.description["device"],
            "workers": self.runtime.description["workers"],
            "pid": os.getpid(),
            "place": self.links.place,
            "node": self.node,
        }

    def call(self, function: str, given: Mapping[str, Any]) -> Any:
        """Runs function(self, **given) of a module: "module:function"."""
        module, _, name = function.partition(":")
        return getattr(importlib.import_module(module), name)(self, **given)

    def connect(self, places: Mapping[str, str], timeout: float) -> None:
        self.links.connect({int(h): place for h, place in places.items()}, timeout)

    def spawn(
        self, actor: str, count: int, name: str | None, near: int | None, timeout: float
    ) -> list[int]:
        near = None if near is None else self.short(near)
        found = self.runtime.spawn(actor, count, name=name, near=near, timeout=timeout)
        return [int(a) for a in self.far(found)]

    def find(self, name: str, timeout: float) -> int:
        return int(self.far(np.array([self.runtime.find(name, timeout=timeout)], np.uint32))[0])

    def life(self, verb: str, address: int, timeout: float) -> None:
        if verb not in ("stop", "pause", "resume", "restart", "drain"):
            raise ArgumentError(f'no actor can be told to "{verb}"')
        if verb == "drain":
            self.runtime.stop(self.short(address), drain=True, timeout=timeout)
        else:
            getattr(self.runtime, verb)(self.short(address), timeout=timeout)

    def watch(self, watcher: int, watched: int, timeout: float, *, ends: bool) -> None:
        watcher = watcher if watcher == HOST else self.short(watcher)
        do = self.runtime.unwatch if ends else self.runtime.watch
        do(watcher, self.short(watched), timeout=timeout)

    def topic(self, verb: str, address: int, pattern: str, timeout: float) -> list[int]:
        """Subscribes or unsubscribes. By host: how many changes have left for it by then."""
        if verb not in ("subscribe", "unsubscribe"):
            raise ArgumentError(f'no actor can "{verb}" to a topic')
        end = time.monotonic() + timeout
        address = address if address == HOST else self.short(address)
        getattr(self.runtime, verb)(address, pattern, timeout=timeout)
        told: list[int] = []
        while not self.links.quiet(self.number):  # ends by the lane's thread
            _wait(end, "this host has not noted the change yet")
        for host in range(self.hosts):
            while (count := _core.topics_told(self.core, host)) is None:  # ends by the link
                _wait(end, f"host {host} has not been told of all subscriptions")
            told.append(count)
        return told

    def hear_topics(self, host: int, count: int, pattern: str, timeout: float) -> None:
        """Returns once publishers here know what host `host` had told of by `count` changes."""
        end = time.monotonic() + timeout
        while _core.topics_heard(self.core, host) < count:  # ends by these, its loss or `end`
            if host in self.links.lost():
                return
            _wait(end, f"host {host}'s subscriptions have not come")
        _core.topics_settle(self.core, host, pattern, max(end - time.monotonic(), 0.1))

    def quiet(self, timeout: float) -> list[list[int]]:
        """Waits until nothing is under way here; then what has gone to each host and come from it.

        By host: taken, delivered and refused, and whether nothing is on its way.
        """
        self.runtime.drain(timeout=timeout)
        return self.flow()

    def flow(self) -> list[list[int]]:
        """The same at once."""
        rows = [[0, 0, 1] for _ in range(self.hosts)]
        for host, c in self.links.counts().items():
            rows[host] = [c["taken"], c["delivered"] + c["refused"], int(c["idle"])]
            if c["state"] == "lost":
                rows[host] = [-1, -1, int(c["idle"])]  # all is buried
        return rows

    def stats(self) -> dict[str, Any]:
        stats = self.runtime.stats()
        links = {str(h): c for h, c in self.links.counts().items() if h != self.number}
        return {**_plain(stats), "links": links, "refused_connections": self.links.refused}

    def dead_letters(self) -> list[dict[str, Any]]:
        return [
            {
                "reason": d.reason,
                "type": d.type,
                "sender": d.sender,
                "destination": d.destination,
                "payload": d.payload.hex(),
                "text": d.text,
            }
            for d in self.runtime.dead_letters()
        ]

    def open_logs(self, *, on: bool) -> None:
        """While a snapshot is taken, logs of durable actors' messages are never full."""
        _core.open_logs(self.core, on)

    def mark_logs(self) -> None:
        """All that is in them now is in the snapshot that is being taken."""
        for host in range(self.hosts):
            _core.mark_log(self.core, host)

    def cut_logs(self) -> None:
        """That snapshot is written."""
        for host in range(self.hosts):
            _core.cut_log(self.core, host)

    def hold(self, timeout: float) -> None:
        _core.hold(self.core, timeout)

    def let_go(self) -> None:
        _core.let_go(self.core)

    def save(self, path: str, timeout: float) -> None:
        self.runtime.save(path, timeout=timeout)

    def link_counts(self) -> dict[str, dict[str, int]]:
        return {
            str(h): {k: int(c[k]) for k in ("acknowledged", "delivered")}
            for h, c in self.links.counts().items()
        }

    def pause(self, host: int, timeout: float, *, on: bool) -> None:
        """What is sent to a host waits here; returns when all that was sent has arrived."""
        self.links.pause(host, timeout, on=on)

    def detach(self, host: int) -> dict[str, int]:
        """Has no link to a host, which goes on in another process. Returns what it had counted."""
        return self.links.detach(host)

    def leave(self, host: int, why: str, timeout: float) -> dict[str, int]:
        """Has no link to a lost host any more. Returns what the link had counted."""
        return self.links.leave(host, why, timeout)

    def abandon(self, host: int, why: str) -> None:
        """It was left, and is lost after all."""
        self.links.abandon(host, why)

    def renew(self) -> None:
        """This one has been restored, and the others have not: they have left it."""
        for host in range(self.hosts):
            if host != self.number:
                _core.renew(self.core, host)

    def serve_metrics(self) -> str:
        return self.runtime.serve_metrics()

    def trace(self, verb: str) -> Any:
        """Begins and ends a trace: see HostTrace."""
        return self.tracing.answer(verb)

    def trace_part(self, first: int, count: int) -> str:
        """Records of the trace that has ended."""
        return self.tracing.part(first, count)

    def transports(self) -> dict[str, list[str]]:
        """By other host: what carries the link's messages, and why that."""
        return {str(h): list(taken) for h, taken in self.links.taken().items()}

    def lost(self) -> dict[str, str]:
        return {str(h): why for h, why in self.links.lost().items()}

    def lose(self, host: int, why: str) -> None:
        self.links.lose(host, why)

    def partition(self, others: list[int]) -> None:
        self.links.partition(set(others))


_METHODS = frozenset(
    {
        "call",
        "describe",
        "connect",
        "spawn",
        "find",
        "life",
        "watch",
        "topic",
        "hear_topics",
        "quiet",
        "flow",
        "open_logs",
        "mark_logs",
        "cut_logs",
        "hold",
        "let_go",
        "save",
        "link_counts",
        "pause",
        "detach",
        "leave",
        "abandon",
        "renew",
        "serve_metrics",
        "trace",
        "trace_part",
        "transports",
        "stats",
        "dead_letters",
        "lost",
        "lose",
        "partition",
    }
)


def all_arrived(flows: Mapping[int, list[list[int]]], ended: Mapping[int, bool]) -> bool:
    """Whether nothing is on its way between hosts, by what flow() has told of each.

    Of one that is not among them, all have to know if its process has ``ended``.
    """
    return all(
        idle and (b == a or (flows[b][a][1] == taken if b in flows else taken < 0 or not ended[b]))
        for a, rows in flows.items()
        for b, (taken, _, idle) in enumerate(rows)
    )


def _wait(end: float, what: str) -> None:
    if time.monotonic() > end:
        raise DeadlineError(what)
    time.sleep(0.0005)


def _plain(what: Any) -> Any:
    """As JSON knows it."""
    if isinstance(what, Mapping):
        return {str(k): _plain(v) for k, v in what.items()}
    if isinstance(what, list | tuple | np.ndarray):
        return [_plain(v) for v in what]
    if isinstance(what, np.generic):
        return what.item()
    return what


def main(fd: int) -> int:
    """A host, until the cluster's process closes its end."""
    with socket.socket(fileno=fd) as sock:
        given = control.get(sock)
        if given is None:
            return 1
        sys.path[:] = given["path"]
        failed = None
        try:
            check_version(given)
            # From the process that has started this one, over its own socket.
            program = unpacked(base64.b64decode(given["program"]))
            local = Local(program, given, bytes.fromhex(given["token"]))
        except Exception as error:
            failed = {"n": 0, "error": type(error).__name__, "text": str(error)}
        if failed is not None:
            with suppress(OSError):
                control.put(sock, failed)
            return 1
        try:
            control.put(sock, {"n": 0, "result": local.describe()})
            control.serve(sock, local.answer)
        except OSError:
            pass  # the cluster's process is gone
        finally:
            with suppress(StuckError):  # a handler that does not return ends with the process
                local.close(2.0)
    return 0
