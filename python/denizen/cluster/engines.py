# SPDX-License-Identifier: Apache-2.0
"""An engine on each host of a cluster: a function that takes arrays and gives arrays.

For work that is no program of actors, as a stage of transactions is none. Each host runs the
function on a thread of its own. Arrays go between the hosts as messages of 8 KiB to an actor, the
host's desk, which passes them on to its process: so they have what messages have, order, bounds
and the loss of a host that is told (docs/scale.md).
"""

from __future__ import annotations

import importlib
import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import denizen
from denizen import errors, threads
from denizen.closing import Closing
from denizen.cluster.cluster import Cluster
from denizen.cluster.host import Local
from denizen.errors import ArgumentError, DeadlineError, DenizenError, HostLostError
from denizen.runtime import Runtime

_BYTES = 8192  # of a message's data
_FIELDS: list[Any] = [
    ("sender", "u4"),
    ("tag", "u4"),
    ("number", "u8"),
    ("size", "u8"),
    ("data", "u1", (_BYTES,)),
]
# Two types, as host 0's process has two readers: its engine, and the caller.
_TO_ENGINE = denizen.message("ToEngine", _FIELDS)
_TO_CALLER = denizen.message("ToCaller", _FIELDS)
_TEXT = """
struct Desk {
    void on(const ToEngine& m, auto& ctx) { ctx.send(denizen::host, m); }
    void on(const ToCaller& m, auto& ctx) { ctx.send(denizen::host, m); }
};
"""
CALLER = 2**32 - 1
"""Who sends what the caller sends: host 0's process has an engine that sends beside it."""
_FAILED = 2**32 - 1  # tag of an engine's error
_AT_ONCE = 64  # messages taken together
_LONGEST = 0.002  # seconds between two looks for messages


@dataclass(frozen=True, slots=True)
class Arrived:
    """An array that has come, as bytes: ``data.view(dtype)`` is what was sent."""

    sender: int
    """The host, or CALLER."""
    tag: int
    number: int
    data: NDArray[np.uint8]


class Port:
    """What an engine, or the caller, sends arrays by and gets them from.

    ``number`` is the engine's host, or CALLER.
    """

    def __init__(
        self, runtime: Runtime, number: int, desks: Sequence[int], reads: denizen.MessageType
    ) -> None:
        self._runtime, self.number, self._desks, self._reads = runtime, number, desks, reads
        self._sending = threading.Lock()
        self._parts: dict[int, list[NDArray[np.uint8]]] = {}
        self._waiting: list[Arrived] = []
        self.closed = False

    @property
    def hosts(self) -> int:
        """How many there are."""
        return len(self._desks)

    def send(self, host: int, tag: int, array: NDArray[Any], number: int = 0) -> None:
        """An array to the engine of a host. HostLostError if that is lost."""
        self._send(_TO_ENGINE, host, tag, array, number)

    def answer(self, tag: int, array: NDArray[Any], number: int = 0) -> None:
        """An array to the caller."""
        self._send(_TO_CALLER, 0, tag, array, number)

    def fail(self, error: BaseException) -> None:
        """Tells the caller that this engine has ended by an error."""
        text = json.dumps([type(error).__name__, str(error)]).encode()
        with suppress(DenizenError):
            self.answer(_FAILED, np.frombuffer(text, np.uint8))

    def _send(
        self, kind: denizen.MessageType, host: int, tag: int, array: NDArray[Any], number: int
    ) -> None:
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        messages = kind.zeros(max(1, -(-len(data) // _BYTES)))
        messages["sender"], messages["tag"] = self.number, tag
        messages["number"], messages["size"] = number, len(data)
        whole = len(data) // _BYTES
        messages["data"][:whole] = data[: whole * _BYTES].reshape(whole, _BYTES)
        if rest := len(data) - whole * _BYTES:
            messages["data"][whole, :rest] = data[whole * _BYTES :]
        with self._sending:  # those of an array follow one another
            self._runtime.send_many(self._desks[host], messages)

    def receive(self, until: Callable[[], bool] = lambda: False) -> Arrived | None:
        """The next array. None: the host is closing, or ``until()``."""
        pause = 0.0
        while not self.closed:  # ends by an array, or by the host's end
            if self._waiting:
                return self._waiting.pop(0)
            messages, _ = self._runtime.receive_many(self._reads, _AT_ONCE)
            for m in messages:
                self._take(m)
            if len(messages):
                pause = 0.0
                continue
            if until():
                return None
            pause = min(pause + 50e-6, _LONGEST)
            time.sleep(pause)
        return None

    def _take(self, m: np.void) -> None:
        sender, size = int(m["sender"]), int(m["size"])
        parts = self._parts.setdefault(sender, [])
        parts.append(m["data"])
        if len(parts) * _BYTES >= size:
            data = np.concatenate(self._parts.pop(sender))[:size]
            self._waiting.append(Arrived(sender, int(m["tag"]), int(m["number"]), data))


def begin(local: Local, engine: str, desks: list[int], given: Mapping[str, Any]) -> None:
    """Starts the engine "module:function" on a thread of this host (Cluster.call())."""
    module, _, name = engine.partition(":")
    try:
        function: Callable[..., None] = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ArgumentError(f'no engine "{engine}": {error}; give "module:function"') from error
    port = Port(local.runtime, local.number, desks, _TO_ENGINE)

    def work() -> None:
        try:
            function(port, **given)
        except BaseException as error:
            if not port.closed:
                port.fail(error)

    thread = threads.start(work, "denizen engine")

    def end() -> None:
        port.closed = True
        thread.join(5.0)

    local.at_close.append(end)


class Engines(Closing):
    """Runs an engine on each host of a new cluster. Any host that is lost ends all of it.

    Args:
        engine: "module:function", called as ``function(port, **given)`` on a thread of each host.
            It receives until there is None.
        hosts: how many.
        given: for it; as JSON has it.
        transport, deadline: as of Cluster.
    """

    def __init__(
        self,
        engine: str,
        hosts: int,
        given: Mapping[str, Any],
        *,
        transport: str = "rings",
        deadline: float = 10.0,
    ) -> None:
        program = denizen.Program(
            _TEXT, actors=["Desk"], messages=[_TO_ENGINE, _TO_CALLER], name="desks"
        )
        self.cluster = Cluster(program, hosts, transport=transport, deadline=deadline)
        try:
            desks = [int(self.cluster.spawn("Desk", host=h)[0]) for h in range(hosts)]
            self._port = Port(self.cluster._hosts.local.runtime, CALLER, desks, _TO_CALLER)
            for host in range(hosts):
                self.cluster.call(
                    host, f"{__name__}:begin", engine=engine, desks=desks, given=dict(given)
                )
        except BaseException:
            self.cluster.close()
            raise

    @property
    def hosts(self) -> int:
        """How many there are."""
        return self._port.hosts

    def send(self, host: int, tag: int, array: NDArray[Any], number: int = 0) -> None:
        """An array to a host's engine: any dtype, it arrives as bytes. ``number`` goes with it."""
        self._check()
        self._port.send(host, tag, array, number)

    def receive(self, *, timeout: float = 60.0) -> Arrived:
        """The next answer.

        Raises HostLostError, an engine's own error, or DeadlineError if there is none in time.
        """
        end = time.monotonic() + timeout

        def until() -> bool:
            self._check()
            return time.monotonic() > end

        if (got := self._port.receive(until)) is None:
            raise DeadlineError(f"no host's engine has answered within {timeout:.3g} s")
        if got.tag == _FAILED:
            self._check()  # a lost host is why, if there is one
            kind, text = json.loads(got.data.tobytes())
            raise getattr(errors, kind, DenizenError)(f"host {got.sender}: {text}")
        return got

    def _check(self) -> None:
        if self.cluster._hosts.closed:
            raise errors.ClosedError("the engines are closed")
        for why in self.cluster.lost.values():
            raise HostLostError(f"{why}; its part of the work is gone, begin anew")

    def close(self) -> None:
        """Ends all hosts; what is under way is given up."""
        self.cluster.close()


def host_of(keys: NDArray[np.uint64], hosts: int) -> NDArray[np.uint32]:
    """Which host a key's state is on: spreads whole numbers of any pattern evenly."""
    if hosts < 1:
        raise ArgumentError(f"{hosts} hosts; use 1 or more")
    mixed = keys.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    return ((mixed >> np.uint64(32)) % np.uint64(hosts)).astype(np.uint32)
