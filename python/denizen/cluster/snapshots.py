# SPDX-License-Identifier: Apache-2.0
"""Snapshots of a whole cluster, and hosts that are started again from them.

A snapshot is a folder: ``cluster.json``, which is written last, and the file of each host, as
Runtime.save() writes one. All files are of one moment: the workers of all hosts are taken off, and
what is on its way between the hosts arrives, before the first is written.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from denizen.cluster.host import all_arrived
from denizen.cluster.processes import Processes
from denizen.errors import ArgumentError, DeadlineError, DenizenError, SnapshotError
from denizen.files import whole
from denizen.program import Program
from denizen.values import seconds as _seconds

log = logging.getLogger(__name__)

_FORMAT = 1
_INDEX = "cluster.json"
_NAME = re.compile(r"\d+-host-\d+\.dzs", re.ASCII)  # of a host's file
_TRY = 0.5  # seconds that the hosts are held at first while what is between them arrives
_LONGEST = 8.0

PathLike = str | os.PathLike[str]


@dataclass(frozen=True)
class Restart:
    """A host that was started again from a snapshot, and what its actors do not know.

    By other host: how many messages from there had been acknowledged since the snapshot
    (``received``), and how many to there had been delivered since (``sent``). Of the first its
    actors have seen none but those that are sent again, to durable actors (``replayed``); and the
    second they may send again.
    """

    host: int
    received: dict[int, int]
    sent: dict[int, int]
    replayed: dict[int, int]


def _plain_file(path: Path) -> Path:
    """The same path. OSError for what would be waited for, such as a FIFO."""
    if not path.is_file():
        raise FileNotFoundError(f"{path.name} is not a file")
    return path


def _checked(index: Any) -> dict[str, Any]:
    """What ``cluster.json`` says, if it is what save() writes. ValueError."""
    if not isinstance(index, dict) or type(index.get("format")) is not int:
        raise ValueError("it has no format")
    if index["format"] != _FORMAT:
        raise ValueError(f"it has format {index['format']}; this version reads {_FORMAT}")
    number, devices, files = (index.get(name) for name in ("number", "devices", "files"))
    if type(number) is not int or not 0 < number < 1 << 63:
        raise ValueError("it has no number")
    if not isinstance(devices, list) or not all(isinstance(one, str) for one in devices):
        raise ValueError("it has no devices")
    if not isinstance(files, list) or len(files) != len(devices):
        raise ValueError(f"it has not a file for each of its {len(devices)} hosts")
    for file in files:
        name = file.get("name") if isinstance(file, dict) else None
        if not isinstance(name, str) or not isinstance(file.get("sha256"), str):
            raise ValueError("a file has no name or no checksum")
        if not _NAME.fullmatch(name):
            raise ValueError(f"a file is called {name!r}, as no host's is")
    return index


class Saved:
    """A snapshot that was written, or is to be restored."""

    def __init__(self, folder: Path, index: Mapping[str, Any]) -> None:
        self.folder = folder
        self.devices: list[str] = list(index["devices"])
        self._index = index

    @classmethod
    def read(cls, path: PathLike) -> Saved:
        """SnapshotError if it is none, or not whole."""
        if not isinstance(path, str | os.PathLike):
            raise ArgumentError(f"restore = {path!r}; give the folder that save() was given")
        folder = Path(path)
        try:
            index = _checked(json.loads(_plain_file(folder / _INDEX).read_text("utf-8")))
            saved = cls(folder, index)
            for host, file in enumerate(index["files"]):
                if _digest(_plain_file(folder / file["name"])) != file["sha256"]:
                    raise SnapshotError(
                        f'snapshot "{folder}": the file of host {host}, {file["name"]}, is not the '
                        "one that was saved"
                    )
        except OSError as error:
            raise SnapshotError(f'no snapshot of a cluster in "{folder}": {error}') from None
        except (ValueError, RecursionError) as error:
            raise SnapshotError(f'snapshot "{folder}": {_INDEX} is damaged: {error}') from None
        return saved

    def file(self, host: int) -> str:
        return str((self.folder / self._index["files"][host]["name"]).resolve())

    def number(self) -> int:
        return int(self._index["number"])


class Snapshots:
    """The part of Cluster that is about snapshots."""

    _hosts: Processes
    _devices: list[str]
    _saved: Saved | None
    _links_then: dict[int, dict[int, dict[str, int]]]  # by host and other, when it was saved
    _saving: threading.RLock

    restarts: list[Restart]

    def save(self, path: PathLike, *, timeout: float = 30.0) -> None:
        """Writes the whole cluster to a folder: all actors, and every message that is under way.

        It is of one moment for all hosts: a message is in it with the sender's state that has sent
        it, or not at all. Meanwhile the hosts stand still, and sends from this process wait. A save
        that fails leaves the last one. DeadlineError if what is between the hosts did not arrive;
        HostLostError if one of them is lost.
        """
        with self._saving:
            self._save(path, time.monotonic() + _seconds(timeout))

    def _save(
        self,
        path: PathLike,
        end: float,
        held: Callable[[], None] = lambda: None,
        stays: int | None = None,
    ) -> None:
        """``held`` is called while all stand still; host ``stays`` does so at the end, too."""
        self._all_live()
        folder = Path(path)
        folder.mkdir(parents=True, exist_ok=True)
        before = None
        with suppress(SnapshotError):
            before = Saved.read(folder)
        number = 1 if before is None else before.number() + 1
        names = [f"{number}-host-{h}.dzs" for h in range(len(self._devices))]
        try:
            self._stand_still(end)
            held()
            for host, name in enumerate(names):
                left = max(end - time.monotonic(), 0.1)
                given = {"path": str((folder / name).resolve()), "timeout": left}
                self._hosts.call(host, "save", left, **given)
                self._hosts.call(host, "mark_logs", 5.0)
            links = {h: self._hosts.call(h, "link_counts", 5.0) for h in range(len(names))}
        except BaseException:
            self._go_on()
            raise
        self._go_on(stays)
        index = {
            "format": _FORMAT,
            "number": number,
            "devices": self._devices,
            "files": [{"name": n, "sha256": _digest(folder / n)} for n in names],
        }
        with whole(folder / _INDEX) as part:
            Path(part).write_text(json.dumps(index, indent=1))
        self._saved = Saved(folder, index)
        self._links_then = {h: {int(b): c for b, c in of.items()} for h, of in links.items()}
        self._hosts.call_living("cut_logs", 5.0)
        for old in folder.glob("*-host-*.dzs"):
            if old.name not in names:
                old.unlink(missing_ok=True)

    def restart_lost(self, *, timeout: float = 60.0) -> list[Restart]:
        """Starts each host that is lost again, from the last snapshot; returns which.

        What is left of its process is killed. Its actors have their addresses and are as they were
        in the snapshot, with the messages that were under way to them then. ``send`` and ``ask``
        reach them again, from all hosts; who watched one of them gets a ``Down`` with life
        "running", and watches it on. All of it is in :attr:`restarts` too.
        """
        with self._saving:
            lost = sorted(self._hosts.lost)
            if not lost:
                return []
            if self._saved is None:
                raise ArgumentError("there is no snapshot of this cluster yet; save() makes one")
            files = {h: self._saved.file(h) for h in lost}
            before = self._hosts.restart(files, timeout)
            made = [self._account(host, before) for host in lost]
            self.restarts.extend(made)
        return made

    def _start_again(self) -> None:
        """The process of a host has ended."""
        if self._saved is None:
            return
        try:
            self.restart_lost()
        except (DenizenError, OSError) as error:
            log.warning("no host was started again: %s", error)

    def _account(self, host: int, before: dict[int, dict[int, dict[str, int]]]) -> Restart:
        """From the counts of the links that the others had to it."""
        received, sent, replayed = {}, {}, {}
        for other, counts in before.items():
            now = counts[host]
            then = self._links_then.get(other, {}).pop(host, {"acknowledged": 0, "delivered": 0})
            received[other] = now["acknowledged"] - then["acknowledged"]
            sent[other] = now["delivered"] - then["delivered"]
            replayed[other] = now["replayed"]
        self._links_then.pop(host, None)
        return Restart(host, received, sent, replayed)

    def _all_live(self) -> None:
        for host in self._hosts.lost:
            self._hosts.call(host, "describe", 1.0)  # HostLostError says why

    def _stand_still(self, end: float) -> None:
        """All workers off, and nothing between the hosts.

        A ring that is full may need a worker that is off: then all go on for a while.
        """
        patience = _TRY
        for host in range(len(self._devices)):
            self._hosts.call(host, "open_logs", 5.0, on=True)
        while True:  # ends when they stand still, or by the deadline
            with suppress(DeadlineError):
                for host in range(len(self._devices)):
                    self._hosts.call(host, "hold", patience, timeout=patience)
                if self._arrived(time.monotonic() + patience):
                    return
            self._let_go()
            if time.monotonic() > end:
                raise DeadlineError(
                    "the cluster was not saved: messages between its hosts are still under way"
                )
            self._all_live()
            time.sleep(patience / 4)
            patience = min(2 * patience, _LONGEST)

    def _arrived(self, end: float) -> bool:
        before: Any = None
        while time.monotonic() < end:
            now = {h: self._hosts.call(h, "flow", 5.0) for h in range(len(self._devices))}
            arrived = all_arrived(now, {})  # all of them live
            if arrived and now == before:
                return True
            before = now if arrived else None
            time.sleep(0.001)
        return False

    def _go_on(self, stays: int | None = None) -> None:
        self._let_go(stays)
        for host in self._hosts.living():
            with suppress(DenizenError):
                self._hosts.call(host, "open_logs", 5.0, on=False)

    def _let_go(self, stays: int | None = None) -> None:
        for host in self._hosts.living():
            with suppress(DenizenError):
                if host != stays:
                    self._hosts.call(host, "let_go", 10.0)


def durable_of(types: Sequence[str], program: Program) -> list[str]:
    """ArgumentError if one of these is no actor type of the program."""
    if isinstance(types, str):
        raise ArgumentError(f'durable = "{types}"; give a list of actor types')
    for one in types:
        if one not in program.actors:
            raise ArgumentError(
                f'durable: "{one}" is no actor type of {program.name}, which has '
                f"{', '.join(program.actors)}"
            )
    return list(types)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
