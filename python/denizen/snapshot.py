# SPDX-License-Identifier: Apache-2.0
"""Snapshots of programs and actors, and actors that move: a part of Runtime.

rt.save("state.dzs")                                   # while it runs
rt = denizen.Runtime(program, restore="state.dzs")     # in this process or another
rt.migrate(actor, worker=3)                            # it keeps its address
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from typing import TYPE_CHECKING

from denizen.errors import ArgumentError
from denizen.values import address as _address
from denizen.values import seconds as _seconds
from denizen.values import text as _text
from denizen.values import whole as _whole

if TYPE_CHECKING:
    from denizen import _core

log = logging.getLogger(__name__)

Path = str | os.PathLike[str]


def file_name(what: str, path: Path) -> str:
    """A path as the core takes it. Raises ArgumentError."""
    try:
        name = os.fsdecode(path)
    except TypeError:
        raise ArgumentError(f"{what} = {path!r}; give the path of a file") from None
    if not name:
        raise ArgumentError(f'{what} = ""; give the path of a file')
    # The core's names are UTF-8, also where this locale's are not.
    with suppress(UnicodeError):
        name = os.fsencode(name).decode()
    return _text(what, name)


class Snapshots:
    """The part of Runtime that is about snapshots and migration."""

    _core: _core.Runtime

    def save(self, path: Path, *, timeout: float = 10.0) -> None:
        """Writes the whole program to a file: actors, and every message that is under way.

        It is of one moment: no message is lost or doubled in it. The program then goes on. The
        file appears in one step, so a process that dies here leaves the last one.
        `Runtime(program, restore=path)` of the same program and sizes goes on from there; those who
        waited for an answer when it was saved get none.
        """
        name = file_name("path", path)
        self._core.save(name, _seconds(timeout))
        log.info("saved to %s", name)

    def save_actor(self, address: int, path: Path, *, timeout: float = 10.0) -> None:
        """Writes the state of one actor, as it is between two of its messages."""
        self._core.save_actor(_address(address), file_name("path", path), _seconds(timeout))

    def load_actor(self, address: int, path: Path, *, timeout: float = 10.0) -> None:
        """Gives an actor the state that save_actor wrote of one of the same type.

        SnapshotError if it was of another type, or the file has been altered.
        """
        self._core.load_actor(_address(address), file_name("path", path), _seconds(timeout))

    def migrate(
        self,
        address: int,
        *,
        worker: int | None = None,
        node: int | None = None,
        timeout: float = 10.0,
    ) -> None:
        """Takes a running actor to another worker, or to the same worker of another node.

        Messages that wait for it go with it. It keeps its address: nobody who sends to it, or hears
        from it, need know. What is sent to it goes by way of the worker where it was born.

        Args:
            worker: number of the worker on its node; by default that of the actor's address.
            node: by default that of the actor's address.
        """
        home = _address(address)
        if worker is None and node is None:
            raise ArgumentError("migrate to where? give worker, node or both")
        self._core.migrate(
            home,
            home >> 18 & 0x7FF if worker is None else _whole("worker", worker),
            home >> 29 if node is None else _whole("node", node),
            _seconds(timeout),
        )
