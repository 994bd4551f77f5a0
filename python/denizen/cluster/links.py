# SPDX-License-Identifier: Apache-2.0
"""A host's links to the others: it listens, dials those with lower numbers, and looks after them.

What carries the messages is chosen for each two hosts, if it is not given ("auto"): see _choose().
On one machine a link is rings in memory that both processes map ("rings"); the Unix socket over
which that memory was handed stays open for its end. Otherwise it is a TCP connection ("tcp"), on
loopback unless told otherwise; one that breaks is dialled again, and goes on where it broke, until
the deadline. "ucx" is the same with the bytes going by UCX: the connection is for the proofs, the
addresses of UCX and the end of a process.
"""

from __future__ import annotations

import array
import fcntl
import json
import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from denizen import _core, threads
from denizen.cluster import handshake, ucx
from denizen.cluster.folder import Folder
from denizen.cluster.handshake import Met, RefusedError
from denizen.errors import DeadlineError, DenizenError, DeviceError

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Place:
    """Where a host listens."""

    machine: str = ""
    path: str = ""  # of a Unix socket
    address: str = ""
    port: int = 0


@dataclass(frozen=True)
class Chosen:
    """What carries the messages of a link."""

    transport: str
    why: str
    ucx: dict[str, Any]  # what Link.stream() and resume() take of it


_PAUSE = 0.01  # seconds between two looks at the links
_MOST_MEETING = 16  # connections at a time that have proved nothing yet, beside the hosts'
_AGAIN = 0.05  # and between two attempts at one that has broken
_SOON = 1.0  # a link by UCX that breaks within so many seconds was none


class Links:
    """``core``: the runtime's. ``number``: which host this is. ``folder``: for Unix sockets."""

    def __init__(
        self,
        core: _core.Runtime,
        number: int,
        hosts: int,
        token: bytes,
        *,
        transport: str,
        why: str = "",
        machine: str = "",
        folder: Path,
        address: str = "127.0.0.1",
        deadline: float = 2.0,
        spin: float = 20e-6,
    ) -> None:
        self._core, self._number, self._hosts, self._token = core, number, hosts, token
        self.transport, self._deadline, self._spin = transport, deadline, spin
        self._why, self._machine, self._address = why, machine or this_machine(), address
        self._taken: dict[int, tuple[str, str]] = {}
        self._joined: dict[int, float] = {}
        self._not_by_ucx: dict[int, str] = {}
        self._epoch = secrets.randbits(64)
        self._lock = threading.Condition()
        self._links: dict[int, _core.Link] = {number: _core.Link.loop(core)}
        self._epochs: dict[int, int] = {}
        self._detached: dict[int, int] = {}  # epochs of processes that others have taken over
        self._places: dict[int, Place] = {}
        self._tried: dict[int, float] = {}
        self._closed = False
        self.refused = 0  # connections that were none of ours
        self._meeting = threading.BoundedSemaphore(hosts + _MOST_MEETING)
        self.partitioned: set[int] = set()  # hosts that this one may not reach: for tests
        self._path = ""
        self._listeners: list[socket.socket] = []
        self._folder = Folder("host") if transport == "auto" else None
        listens = Place(machine=self._machine)
        if transport in ("auto", "rings"):
            folder = self._folder.path if self._folder is not None else folder
            # Beside that of the process that was this host before.
            self._path = str(folder / f"host-{number}-{self._epoch:016x}")
            listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            listener.bind(self._path)
            listener.listen(hosts)
            self._listeners.append(listener)
            listens = replace(listens, path=self._path)
        if transport != "rings":
            listener = handshake.listen(address, hosts)
            self._listeners.append(listener)
            listens = replace(listens, address=address, port=listener.getsockname()[1])
        self.place = json.dumps(asdict(listens))
        self._accepting = [
            threads.start(self._accept, "denizen accept", (listener,))
            for listener in self._listeners
        ]
        self._watching: threading.Thread | None = None

    def connect(self, places: Mapping[int, str], timeout: float) -> None:
        """Links to all others, whose places these are. DeadlineError if one does not come."""
        self._places = {h: Place(**json.loads(place)) for h, place in places.items()}
        end = time.monotonic() + timeout
        for host in range(self._number):
            if host not in self._links:
                self._dial(host, max(end - time.monotonic(), 0.1))
        with self._lock:
            if not self._lock.wait_for(
                lambda: len(self._links) == self._hosts, max(end - time.monotonic(), 0)
            ):
                missing = sorted(set(range(self._hosts)) - set(self._links))
                raise DeadlineError(
                    f"host {self._number} has no link to host {', '.join(map(str, missing))} after "
                    f"{timeout:.3g} s"
                )
        if self._watching is None:
            self._watching = threads.start(self._watch, "denizen links")

    def taken(self) -> dict[int, tuple[str, str]]:
        """By other host: what carries the messages of the link, and why that."""
        with self._lock:
            return dict(self._taken)

    def counts(self) -> dict[int, dict[str, Any]]:
        """By host: the link's counts, its state, and why it is lost."""
        with self._lock:
            links = dict(self._links)
        return {
            host: {**link.counts(), "state": link.state, "why": link.why, "idle": link.idle()}
            for host, link in sorted(links.items())
        }

    def quiet(self, host: int) -> bool:
        """Whether nothing is on its way to that host. This one's own number: to itself."""
        with self._lock:
            link = self._links[host]
        return link.idle()

    def lost(self) -> dict[int, str]:
        """The hosts that are lost, and why."""
        with self._lock:
            links = dict(self._links)
        return {h: link.why for h, link in links.items() if link.state == "lost"}

    def lose(self, host: int, why: str) -> None:
        """Somebody knows that the host is gone."""
        with self._lock:
            link = self._links.get(host)
        if link is not None:
            link.lose(why)

    def leave(self, host: int, why: str, timeout: float) -> dict[str, int]:
        """Closes the link to a lost host, so that there may be another: see connect().

        Returns what it has counted: all is acknowledged, or lost.
        """
        end = time.monotonic() + timeout
        with self._lock:
            link = self._links[host]
        link.lose(why)
        while not link.settled:  # ends by the link's threads
            if time.monotonic() > end:
                raise DeadlineError(
                    f"host {self._number} has not buried what was under way to host {host} after "
                    f"{timeout:.3g} s"
                )
            time.sleep(0.001)
        counts = link.counts()
        link.close()
        replayed = _core.renew(self._core, host)
        with self._lock:
            del self._links[host], self._epochs[host]
        kept = ("taken", "acknowledged", "delivered", "lost")
        return {"replayed": replayed, **{k: int(counts[k]) for k in kept}}

    def pause(self, host: int, timeout: float, *, on: bool) -> None:
        """Nothing is taken for that host any more, until it is again; what was has arrived."""
        end = time.monotonic() + timeout
        with self._lock:
            link = self._links[host]
        link.pause(on)
        while on and not link.paused:  # ends by the link's threads
            if time.monotonic() > end:
                raise DeadlineError(
                    f"what host {self._number} has sent to host {host} has not arrived after "
                    f"{timeout:.3g} s"
                )
            time.sleep(0.001)

    def detach(self, host: int) -> dict[str, int]:
        """Closes a link that is paused: its host goes on in another process. See connect()."""
        with self._lock:
            link = self._links.pop(host)
            self._detached[host] = self._epochs.pop(host)
        counts = link.counts()
        link.close()
        _core.recount(self._core, host)
        return {k: int(counts[k]) for k in ("acknowledged", "delivered")}

    def abandon(self, host: int, why: str) -> None:
        """Nobody will link to it: what is under way to it, and will be, is buried."""
        with self._lock:
            if host not in self._links:
                ours, theirs = socket.socketpair()
                theirs.close()
                self._links[host] = _core.Link.stream(
                    self._core, host, ours.detach(), 0, self._deadline, self._spin
                )
                self._epochs[host] = 0
            link = self._links[host]
        link.lose(why)

    def partition(self, hosts: set[int]) -> None:
        """From now on these are out of reach, as if a cable had been cut. Streams only."""
        with self._lock:  # no meeting that is under way joins a link that is cut: see _join()
            self.partitioned = hosts
            links = [self._links[h] for h in hosts if h in self._links]
        for link in links:
            link.halt()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            links = list(self._links.values())
        for listener in self._listeners:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        for accepting in self._accepting:
            accepting.join()
        if self._watching is not None:
            self._watching.join()
        for link in links:
            link.close()
        with self._lock:
            self._links.clear()
        if self._path:
            with suppress(OSError):
                os.unlink(self._path)
        if self._folder is not None:
            self._folder.close()

    # ---- both sides

    def dial_place(self, place: str, timeout: float) -> socket.socket:
        """A connection to where a host says that it listens."""
        return self._open(Place(**json.loads(place)), timeout)[0]

    def _open(self, place: Place, timeout: float) -> tuple[socket.socket, str]:
        """A connection to a host, and why it is no Unix socket if it might have been one."""
        why = "the hosts are on two machines"
        if place.path and (place.machine == self._machine or not place.port):
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            sock.settimeout(timeout)
            try:
                sock.connect(place.path)
            except OSError as error:
                sock.close()
                if not place.port:
                    raise
                why = f"its Unix socket is out of reach ({error.strerror})"
            except BaseException:
                sock.close()
                raise
            else:
                return sock, ""
        sock = socket.create_connection((place.address, place.port), timeout)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock, why

    def _dial(self, host: int, timeout: float) -> None:
        link = self._links.get(host)
        arrived = link.halt() if link is not None else 0
        sock, why = self._open(self._places[host], timeout)
        try:
            met = handshake.dial(sock, self._token, self._number, host, self._epoch, arrived)
            self._join(sock, met, self._choose(sock, met.host, why), first=False)
        finally:
            sock.close()

    def _choose(self, sock: socket.socket, host: int, why: str) -> Chosen:
        """With a side that has proved who it is: what is to carry the messages.

        ``why``: of the side that has connected, why not by memory that both map.
        """
        if sock.family == socket.AF_UNIX:
            return Chosen("rings", self._why or "both are on one machine", {})
        if self.transport == "tcp":
            return Chosen("tcp", self._why, {})
        if self.transport == "ucx":
            end = ucx.end(self._address)
            given = {"ucx": end, "address": handshake.swap(sock, end.address)}
            return Chosen("ucx", self._why, given)
        # Each says why, and what its end of UCX is, or why it has none; and then whether it
        # reaches the other's. UCX is taken if both have no objection.
        why = handshake.swap(sock, why.encode()).decode() or why
        own, found = self._try_ucx(host)
        theirs = handshake.swap(sock, own.address if own is not None else b"")
        if own is not None and theirs:
            try:
                own.reach(theirs)
            except DeviceError as error:
                found = f"host {self._number}: {error}"
        objections = [found, handshake.swap(sock, found.encode()).decode()]
        if self._number > host:
            objections.reverse()
        if own is None or not theirs or any(objections):
            told = "; ".join(dict.fromkeys(o for o in objections if o))
            return Chosen("tcp", f"{why}; no UCX: {told}", {})
        given = {"ucx": own, "address": theirs}
        return Chosen("ucx", f"{why}, and reach each other by UCX", given)

    def _try_ucx(self, host: int) -> tuple[_core.UcxEnd | None, str]:
        """This side's end of UCX, or why there is none."""
        if why := self._not_by_ucx.get(host):
            return None, why
        try:
            return ucx.end(self._address), ""
        except DenizenError as error:
            return None, f"host {self._number}: {error}"

    def _join(self, sock: socket.socket, met: Met, by: Chosen, *, first: bool) -> None:
        """A link over this socket, or the one that there is goes on over it."""
        sock.settimeout(None)
        with self._lock:
            if self._closed:
                return
            link = self._links.get(met.host)
            if link is None and self._detached.get(met.host) == met.epoch:
                raise RefusedError(f"host {met.host} goes on in another process")
            if link is not None:
                if met.host in self.partitioned:
                    raise RefusedError(f"host {met.host} is out of reach")
                if self._epochs[met.host] != met.epoch:
                    raise RefusedError(f"host {met.host} is another process than before")
                link.resume(os.dup(sock.fileno()), met.nonce, met.arrived, **by.ucx)
                log.info("host %d: the link to host %d goes on", self._number, met.host)
                self._take(met.host, by)
                return
            if by.transport != "rings":
                link = _core.Link.stream(
                    self._core,
                    met.host,
                    os.dup(sock.fileno()),
                    met.nonce,
                    self._deadline,
                    self._spin,
                    **by.ucx,
                )
            else:
                memory = _make_memory(sock) if first else _take_memory(sock)
                link = _core.Link.rings(
                    self._core,
                    met.host,
                    memory,
                    os.dup(sock.fileno()),
                    first,
                    self._deadline,
                    self._spin,
                )
            self._links[met.host] = link
            self._epochs[met.host] = met.epoch
            self._take(met.host, by)
            self._lock.notify_all()

    def _goes_by(self, host: int) -> str:
        return self._taken.get(host, ("", ""))[0]  # of one that was abandoned: nothing

    def _take(self, host: int, by: Chosen) -> None:
        self._taken[host] = (by.transport, by.why)
        self._joined[host] = time.monotonic()

    # ---- who is called

    def _accept(self, listener: socket.socket) -> None:
        while not self._closed:  # ends by close()
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            if self._meeting.acquire(blocking=False):
                threads.start(self._meet, "denizen meets", (sock,))
            else:
                self.refused += 1
                sock.close()

    def _meet(self, sock: socket.socket) -> None:
        try:
            if sock.family != socket.AF_UNIX:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            met = handshake.accept(sock, self._token, self._number, self._epoch, self._arrived)
            if met is not None:
                self._join(sock, met, self._choose(sock, met.host, ""), first=True)
        except (OSError, DenizenError) as error:
            self.refused += 1
            log.warning("host %d refused a connection: %s", self._number, error)
        finally:
            sock.close()
            self._meeting.release()

    def _arrived(self, host: int, epoch: int) -> int:
        if not 0 <= host < self._hosts or host in self.partitioned:
            raise RefusedError(f"there is no host {host} for this one")
        with self._lock:
            link = self._links.get(host)
        if link is None:
            return 0
        if link.state == "lost":
            raise RefusedError(f"host {host} was given up: {link.why}")
        if self._goes_by(host) == "rings" or self._epochs[host] != epoch:
            raise RefusedError(f"host {host} is linked already")
        return link.halt()

    # ---- looking after them

    def _watch(self) -> None:
        while not self._closed:  # ends by close()
            with self._lock:
                broken = [h for h, link in self._links.items() if link.state == "broken"]
            for host in broken:
                now = time.monotonic()
                soon = now - self._joined.get(host, 0) < _SOON
                if self._goes_by(host) == "ucx" and soon and self.transport == "auto":
                    self._not_by_ucx[host] = f"host {self._number}: a link by it broke at once"
                if host in self.partitioned or now - self._tried.get(host, 0) < _AGAIN:
                    continue
                self._tried[host] = now
                self._mend(host)
            time.sleep(_PAUSE)

    def _mend(self, host: int) -> None:
        try:
            if host < self._number:
                self._dial(host, 0.5)
            else:  # it dials; if nobody listens there any more, it is gone
                self._open(self._places[host], 0.5)[0].close()
        except ConnectionRefusedError:
            self.lose(host, "its process has ended: nobody listens where it did")
        except (OSError, DenizenError) as error:
            log.info("host %d: no link to host %d yet: %s", self._number, host, error)


def this_machine() -> str:
    """Equal in two processes that reach each other by loopback, and may map the same memory."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot} {os.readlink('/proc/self/ns/net')}"


def _make_memory(sock: socket.socket) -> int:
    """Memory that nobody can make smaller; the other side gets it too."""
    memory = os.memfd_create("denizen rings", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(memory, _core.link_memory)
    seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
    fcntl.fcntl(memory, fcntl.F_ADD_SEALS, seals)
    socket.send_fds(sock, [b"m"], [memory])
    return memory


def _take_memory(sock: socket.socket) -> int:
    sock.settimeout(handshake.PATIENCE)
    said, found, _, _ = socket.recv_fds(sock, 1, 1)
    sock.settimeout(None)
    if said != b"m" or len(found) != 1:
        for fd in array.array("i", found):
            os.close(fd)
        raise RefusedError("the other side has sent no memory")
    return found[0]
