# SPDX-License-Identifier: Apache-2.0
"""The cluster: starts the hosts, and talks to all of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import cycle, product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from denizen import _core
from denizen.actor import ActorType
from denizen.closing import Closing
from denizen.cluster.child import Starter, Subprocesses, check_transport
from denizen.cluster.described import Described
from denizen.cluster.given import check_address, devices_of, on_cpu, placed, times, whole
from denizen.cluster.host import all_arrived
from denizen.cluster.processes import Processes
from denizen.cluster.ray_placement import RayActors, RayPlacement
from denizen.cluster.rolling import Rolling
from denizen.cluster.snapshots import PathLike, Saved, durable_of
from denizen.cluster.topics import Topics
from denizen.cluster.tracing import Traces
from denizen.device import capability, parse_device
from denizen.errors import ArgumentError, DeadlineError, HostLostError, NoActorError
from denizen.life import HOST
from denizen.message import MessageType
from denizen.messaging import Addresses, Messages, Received
from denizen.program import Program
from denizen.starting import program_of
from denizen.tracing import slots
from denizen.values import address as _address
from denizen.values import seconds as _seconds

_TURN = 0.25  # seconds that receive() waits at a time: rolling_restart() comes between
# What comes from another host waits in host rings; on a GPU these are dear.
_ROOM = {"host_ring_slots": 2048}


@dataclass(frozen=True)
class Host:
    """A host of a cluster, as :attr:`Cluster.hosts` lists it."""

    number: int
    device: str
    workers: int
    pid: int
    lost: str  # why; empty: it lives
    node: str = ""  # the ID of its node, if Ray has placed it


class Cluster(Described, Topics, Traces, Rolling, Closing):
    """Runs a program on several hosts: processes, each with a runtime of its own.

    An actor's address means the same on all of them: a handler sends to an actor on another host by
    the same ``ctx.send``, and ``ctx.self()`` and ``ctx.sender()`` may go into a message. Host 0 is
    in this process; the others are started here. docs/scale.md says what is promised.

    Args:
        program: as Runtime's. Types that the main module or a function defines are sent along.
        hosts: how many, 2 if not given; or the device of each: ``["gpu:0", "gpu:1", "cpu:2"]``; or
            "ray": one on each node of Ray's cluster, this process being the one of its own.
        device: of every host, where `hosts` is no list.
        placement: where Ray starts the hosts, each but host 0 in an actor: "ray", or a
            RayPlacement. None: they are processes of this machine.
        transport: "rings": memory that the processes share; "tcp": connections; "ucx": these, with
            the bytes going by UCX (`pip install libucx-cu13`). None or "auto": for each two hosts
            rings if they are on one machine, else ucx if it is installed on both and reaches, else
            tcp; :attr:`description` says which, and why.
        address: that hosts listen on with "tcp". None: loopback, or, where Ray has placed hosts on
            several machines, each one's node's.
        deadline: seconds, 0.01 or more: a host that is silent is known to be lost by then.
        spin: seconds that a link's threads look for the next message before they sleep; one whose
            core others want sleeps sooner.
        start_timeout: seconds until all hosts are up.
        restore: what save() wrote of a cluster of the same program and sizes: go on from there, on
            as many hosts and the same devices if not given.
        restart: "snapshot": a host whose process ends is started again from the last snapshot, see
            restart_lost().
        durable: actor types. To one of these on a host that is started again, the others send once
            more what had been acknowledged and is not in the snapshot.
        log_bytes: that each host keeps for each other one to that end. A log that is full holds
            back what is sent to that host, until save() empties it.
        trace: with memory for trace(): 256 KB for each worker.
        options: sizes, as Runtime's, of every host.

    MissingPackageError if UCX is wanted and not installed, DeviceError if it does not start. With
    Ray: MissingPackageError if it is not installed, ExhaustedError if it has no room for the
    placement group, DeadlineError if it does not start an actor by `start_timeout`.
    """

    def __init__(
        self,
        program: Program | ActorType | Sequence[ActorType],
        hosts: int | Sequence[str] | None = None,
        *,
        device: str = "cpu:1",
        placement: RayPlacement | str | None = None,
        transport: str | None = None,
        address: str | None = None,
        deadline: float = 2.0,
        spin: float = 20e-6,
        start_timeout: float = 120.0,
        restore: PathLike | None = None,
        restart: str | None = None,
        durable: Sequence[str] = (),
        log_bytes: int = 64 << 20,
        trace: bool = False,
        **options: int,
    ) -> None:
        program = program_of(program)
        if restart not in (None, "snapshot"):
            raise ArgumentError(f'restart = "{restart}"; use "snapshot", or leave it out')
        self._saved = None if restore is None else Saved.read(restore)
        if hosts is None and self._saved is not None:
            hosts = self._saved.devices
        check_transport(transport)
        check_address(address)
        placement, hosts = placed(placement, hosts)
        devices = devices_of(2 if hosts is None else hosts, device)
        if self._saved is not None and len(devices) != len(self._saved.devices):
            raise ArgumentError(
                f"{len(devices)} hosts; the snapshot is of {len(self._saved.devices)}"
            )
        deadline, spin, start_timeout = times(deadline, spin, start_timeout)
        if placement is not None:
            placement.check(len(devices))
        # Once, and not by every host; on another machine each compiles for itself.
        for one in dict.fromkeys(devices if placement is None else devices[:1]):
            where = parse_device(one)
            if where.on_gpu:
                program.compile_gpu(capability(where))
            elif not where.interpreted:
                program.compile_cpu()
        given = {
            "deadline": deadline,
            "spin": spin,
            "durable": durable_of(durable, program),
            "log_bytes": whole("log_bytes", log_bytes),
            "options": slots(trace, {**_ROOM, **options} if on_cpu(devices) else options),
        }
        self._devices, self._links_then, self.restarts = devices, {}, []
        self._saving = threading.RLock()
        files = {} if self._saved is None else {h: self._saved.file(h) for h in range(len(devices))}
        end = time.monotonic() + start_timeout
        starter: Starter = (
            Subprocesses(transport, address)
            if placement is None
            else RayActors(placement, devices, transport, address, end)
        )
        self._hosts = Processes(program, devices, given, files, end, starter)
        if restart == "snapshot":
            self._hosts.on_loss = self._start_again
        self.program, self._placed = program, placement is not None
        self._next = cycle(range(len(devices)))

    def __repr__(self) -> str:
        if self._hosts.closed:
            return f"<denizen.Cluster {self.program.name}: closed>"
        lost = f", {len(self.lost)} lost" if self.lost else ""
        return f"<denizen.Cluster {self.program.name}: {len(self._hosts.about)} hosts{lost}>"

    # ---- the hosts

    @property
    def hosts(self) -> list[Host]:
        """All of them, in the order of their numbers."""
        lost = self.lost
        return [
            Host(n, a["device"], a["workers"], a["pid"], lost.get(n, ""), a["node"])
            for n, a in sorted(self._hosts.about.items())
        ]

    @property
    def lost(self) -> dict[int, str]:
        """The hosts that are lost to this one, and why."""
        return self._hosts.lost

    def host_of(self, address: int) -> int:
        """The number of the host that an address is on. ArgumentError if it is of no cluster."""
        host = _core.host_of(self._hosts.local.core, _address(address))
        if host < 0:
            raise ArgumentError(
                f"{int(address):#010x} is no address of this cluster; use one that its spawn() "
                "returned, or that a handler's ctx told"
            )
        return int(host)

    def call(self, host: int, function: str, *, timeout: float = 10.0, **given: Any) -> Any:
        """Runs a function of a module in a host's process; ``given`` and what it returns are JSON.

        Args:
            function: "module:function", called as ``function(local, **given)`` with the host's
                :class:`denizen.cluster.host.Local`, on a thread that answers for the host.
        """
        number = self._number(host)
        return self._hosts.call(number, "call", timeout, function=function, given=given)

    # ---- actors

    def spawn(
        self,
        actor: str | ActorType,
        count: int = 1,
        *,
        host: int | None = None,
        near: int | None = None,
        name: str | None = None,
        timeout: float = 10.0,
    ) -> Addresses:
        """Spawns actors; they exist when the call returns.

        Args:
            host: all of them there. None: spread over all hosts that live, in turn.
            near: an address: on the same worker as that actor.
            name: of one actor, by which :meth:`find` finds it.

        Returns their addresses: uint32, shape (count,).
        """
        if not isinstance(count, int | np.integer) or not 0 <= count < 2**32:
            raise ArgumentError(f"count = {count!r}; use a whole number from 0")
        kind = actor.name if isinstance(actor, ActorType) else actor
        if near is not None:
            if host is not None and host != self.host_of(near):
                raise ArgumentError(
                    f"near an actor of host {self.host_of(near)}, and host = {host}"
                )
            host = self.host_of(near)
            near = int(near)
        if host is not None or name is not None:
            at = self._pick() if host is None else self._number(host)
            return self._spawn(at, kind, int(count), name, near, timeout)
        turn = [self._pick() for _ in range(min(int(count), len(self._hosts.living())))]
        out = np.empty(int(count), np.uint32)
        for i, at in enumerate(turn):
            own = out[i :: len(turn)]
            own[:] = self._spawn(at, kind, len(own), None, None, timeout)
        for _ in range(int(count) % len(turn) if len(turn) < count else 0):
            self._pick()  # the next goes where this one's turn would have gone on
        return out

    def _spawn(  # noqa: PLR0917
        self, host: int, kind: str, count: int, name: str | None, near: int | None, timeout: float
    ) -> Addresses:
        found = self._hosts.call(
            host, "spawn", timeout, actor=kind, count=count, name=name, near=near, timeout=timeout
        )
        return np.array(found, np.uint32)

    def find(self, name: str, *, timeout: float = 1.0) -> int:
        """The address of the actor of this name, on whichever host; NoActorError if none lives."""
        for host in self._hosts.living():
            with suppress(NoActorError, HostLostError):
                return int(self._hosts.call(host, "find", timeout, name=name, timeout=timeout))
        raise NoActorError(f'no host has an actor that is called "{name}"')

    def stop(self, actor: int, *, drain: bool = False, timeout: float = 1.0) -> None:
        """Ends an actor, as Runtime.stop()."""
        self._life("drain" if drain else "stop", actor, timeout)

    def pause(self, actor: int, *, timeout: float = 1.0) -> None:
        """Lets the messages of an actor wait, until resume()."""
        self._life("pause", actor, timeout)

    def resume(self, actor: int, *, timeout: float = 1.0) -> None:
        """An actor goes on after pause(), or after a failure."""
        self._life("resume", actor, timeout)

    def restart(self, actor: int, *, timeout: float = 1.0) -> None:
        """An actor's state is made anew."""
        self._life("restart", actor, timeout)

    def watch(self, watcher: int, watched: int, *, timeout: float = 1.0) -> None:
        """Has DOWN sent to `watcher` when `watched` stops, fails or restarts, wherever both are.

        `watcher` is an actor of any host, or HOST: this process, which gets it by receive(). If the
        host of `watched` is lost to the watcher's, DOWN says so: its life is "stopped", its code
        denizen.life.FAILED_HOST. The program lists DOWN among its messages.
        """
        self._watch_actor(watcher, watched, timeout, ends=False)

    def unwatch(self, watcher: int, watched: int, *, timeout: float = 1.0) -> None:
        """Ends a watch."""
        self._watch_actor(watcher, watched, timeout, ends=True)

    def _watch_actor(self, watcher: int, watched: int, timeout: float, *, ends: bool) -> None:
        at = 0 if watcher == HOST else self.host_of(watcher)
        given = {"watcher": int(watcher), "watched": int(watched), "ends": ends}
        self.host_of(watched)
        self._hosts.call(at, "watch", timeout, timeout=timeout, **given)

    def _life(self, verb: str, actor: int, timeout: float) -> None:
        host = self.host_of(actor)
        self._hosts.call(host, "life", timeout, verb=verb, address=int(actor), timeout=timeout)

    # ---- messages, from this process's threads

    def send(
        self,
        address: int,
        message: np.void | Messages | str,
        *,
        timeout: float = 1.0,
        **fields: Any,
    ) -> None:
        """As Runtime.send(). HostLostError if the actor's host is lost."""
        with self._hosts.here() as local:
            local.runtime.send(address, message, timeout=timeout, **fields)

    def send_many(self, addresses: ArrayLike, messages: Messages, *, timeout: float = 60.0) -> None:
        """As Runtime.send_many()."""
        with self._hosts.here() as local:
            local.runtime.send_many(addresses, messages, timeout=timeout)

    def ask(
        self,
        address: int,
        message: np.void | Messages | str,
        *,
        timeout: float = 1.0,
        **fields: Any,
    ) -> np.void:
        """As Runtime.ask(). HostLostError if the actor's host is lost before it answers."""
        with self._hosts.here() as local:
            return local.runtime.ask(address, message, timeout=timeout, **fields)

    def ask_many(
        self,
        addresses: ArrayLike,
        messages: np.void | Messages | str,
        reply: MessageType | str,
        *,
        timeout: float = 10.0,
    ) -> Messages:
        """As Runtime.ask_many()."""
        with self._hosts.here() as local:
            return local.runtime.ask_many(addresses, messages, reply, timeout=timeout)

    async def ask_async(
        self,
        address: int,
        message: np.void | Messages | str,
        *,
        timeout: float = 1.0,
        **fields: Any,
    ) -> np.void:
        """As Runtime.ask_async()."""
        with self._hosts.here() as local:
            return await local.runtime.ask_async(address, message, timeout=timeout, **fields)

    def receive(self, *, timeout: float = 1.0) -> Received:
        """The next message to this process.

        From host 0's own actors to ``denizen::host``, or a reply of an actor of any host to what
        this process's threads have sent it.
        """
        end = time.monotonic() + _seconds(timeout)
        while True:  # ends by a message, or the deadline
            left = end - time.monotonic()
            try:
                with self._hosts.here() as local:
                    got = local.runtime.receive(timeout=max(min(left, _TURN), 0.0))
                    return Received(got.type, got.message, int(local.far(_one(got.sender))[0]))
            except DeadlineError:
                if left <= _TURN:
                    raise

    # ---- all of it

    def drain(self, *, timeout: float = 60.0) -> None:
        """Waits until nothing is under way on any host that lives, nor between them."""
        end = time.monotonic() + _seconds(timeout)
        before: Any = None
        ended: dict[int, bool] = {}
        # All have to know of a process that has ended. One that is lost to this host and lives may
        # be anything to the others.
        while True:  # ends when two rounds have told the same, or by the deadline
            left = end - time.monotonic()
            if left <= 0:
                raise DeadlineError(f"messages are still under way after {timeout:.3g} s")
            now = self._hosts.call_living("quiet", left, timeout=left)
            for b in set(self._hosts.children) - now.keys():
                if not ended.get(b):
                    ended[b] = self._hosts.has_ended(b, wait=b not in ended)
            arrived = all_arrived(now, ended)
            if arrived and now == before:
                return
            before = now if arrived else None
            time.sleep(0.001)

    def stats(self) -> dict[int, dict[str, Any]]:
        """By host that lives: Runtime.stats(), and its "links" to the others by their numbers.

        Of a link: messages "taken" for that host, "acknowledged" by it, "lost" with it (dead
        letters here), "delivered" from it, "refused" (for nobody, or no messages), its "state"
        ("up", "broken", "lost") and "why" it is lost.
        """
        stats = self._hosts.call_living("stats", 10.0)
        for of_host in stats.values():
            of_host["links"] = {int(h): c for h, c in of_host["links"].items()}
        return stats

    def serve_metrics(self) -> dict[int, str]:
        """Each host that lives serves its metrics, as Runtime.serve_metrics(); returns their URLs.

        ``denizen top --pid PID`` shows one (:attr:`hosts` has the processes).
        """
        return self._hosts.call_living("serve_metrics", 10.0)

    def dead_letters(self) -> dict[int, list[dict[str, Any]]]:
        """By host that lives: the dead letters since the last call, each with its "text".

        "payload" has the first bytes of the message, at most 24.
        """
        letters = self._hosts.call_living("dead_letters", 10.0)
        for of_host in letters.values():
            for letter in of_host:
                letter["payload"] = bytes.fromhex(letter["payload"])
        return letters

    def partition(self, one: Sequence[int], other: Sequence[int]) -> None:
        """Cuts all connections between two groups of hosts, for tests of what comes after.

        Within the deadline each group gives the other up. An empty group mends all cuts of the
        other; hosts that have not given each other up by then go on. ArgumentError for hosts that
        share memory: use transport="tcp".
        """
        groups = [self._number(h) for h in one], [self._number(h) for h in other]
        if both := sorted(set(groups[0]) & set(groups[1])):
            raise ArgumentError(f"host {both[0]} is in both groups; a cut is between two")
        links = self.description["links"] if one and other else {}
        for a, b in ((min(pair), max(pair)) for pair in product(*groups)):
            if links.get((a, b), {}).get("transport") == "rings":
                raise ArgumentError(
                    f'hosts {a} and {b} share memory, which nobody can cut; use transport="tcp"'
                )
        for own, far in (groups, groups[::-1]):
            for host in own:
                self._hosts.call(host, "partition", 5.0, others=far)

    def close(self, *, timeout: float = 5.0) -> None:
        """Ends all hosts, without waiting for messages under way (:meth:`drain` does)."""
        self._hosts.close(timeout)

    # ---- which host

    def _number(self, host: int) -> int:
        if not isinstance(host, int | np.integer) or not 0 <= host < len(self._hosts.about):
            raise ArgumentError(
                f"host = {host!r}; there are {len(self._hosts.about)}, counted from 0"
            )
        return int(host)

    def _pick(self) -> int:
        lost = self.lost
        return next(n for n in self._next if n not in lost)  # ends: host 0 lives


def _one(address: int) -> NDArray[np.uint32]:
    return np.array([address], np.uint32)
