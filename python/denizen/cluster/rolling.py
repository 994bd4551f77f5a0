# SPDX-License-Identifier: Apache-2.0
"""A changed program, host by host, while the others go on.

For each host in turn, host 0 last:

1. A snapshot of the whole cluster is taken, and before the workers go on all links to that host are
   paused: what is sent there waits in the senders' lanes, and then holds them back.
2. Another process restores the host's file with the new program. The old one stands still
   meanwhile; if the new one does not come up, the old one goes on as if nothing had been.
3. The others close their links to the old process, which is ended, and link to the new one.

So each message is in the file, or waits in a lane, or is sent by the new process.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress

from denizen.actor import ActorType
from denizen.cluster.snapshots import PathLike, Snapshots
from denizen.device import capability, parse_device
from denizen.errors import ArgumentError, DenizenError
from denizen.message import fields_of
from denizen.program import Program
from denizen.starting import program_of
from denizen.values import seconds as _seconds


class Rolling(Snapshots):
    """The part of Cluster that is about a changed program."""

    program: Program
    _placed: bool

    def rolling_restart(
        self,
        program: Program | ActorType | Sequence[ActorType],
        path: PathLike,
        *,
        timeout: float = 300.0,
    ) -> None:
        """Has all hosts go on with another program, one after the other; the others run meanwhile.

        Args:
            program: its actors and messages have the names, order and layout of the old one's, and
                the same messages have handlers: what may change is what the handlers do.
            path: a folder, for a snapshot of the whole cluster before each host's restart, as
                save() writes it.
            timeout: seconds for all of it.

        No message is lost, doubled or overtaken. What is sent to a host while it restarts waits,
        some seconds; asks need a timeout for that. For host 0, which is in this process, other
        threads' calls wait, and it waits for those that have begun.

        ArgumentError or SnapshotError, and nothing has changed, if the programs do not agree. If
        another error comes from a later host, the ones before it have the new program, and the
        others the old one; call it again.
        """
        program = program_of(program)
        if self._placed:
            raise ArgumentError(
                "hosts that Ray has placed are not restarted in turn: a host's place is taken as "
                "long as its old process lives; use save(), and Cluster(program, restore=)"
            )
        same_layout(self.program, program)
        for device in dict.fromkeys(self._devices):
            where = parse_device(device)
            if where.on_gpu:
                program.compile_gpu(capability(where))
            else:
                program.compile_cpu()
        end = time.monotonic() + _seconds(timeout)
        with self._saving:
            for host in [*range(1, len(self._devices)), 0]:
                self._roll(host, program, path, end)
                self._hosts.use(program)
            self.program = program

    def _roll(self, host: int, program: Program, path: PathLike, end: float) -> None:
        others = [h for h in range(len(self._devices)) if h != host]

        def pause(*, on: bool) -> None:
            for other in others:
                self._hosts.call(other, "pause", 10.0, host=host, timeout=10.0, on=on)

        with self._hosts.away(host, end):
            try:
                self._save(path, end, held=lambda: pause(on=True), stays=host)
                assert self._saved is not None  # by _save()
                file = self._saved.file(host)
                counts = self._hosts.replace(host, file, program, end)
            except BaseException:
                if host not in self._hosts.lost:
                    with suppress(DenizenError):
                        self._let_go()
                        pause(on=False)
                raise
            for other, of in counts.items():  # links count from 0 again
                then = self._links_then[other][host]
                self._links_then[other][host] = {k: then[k] - of[k] for k in of}
                self._links_then[host][other] = dict.fromkeys(of, 0)


def same_layout(old: Program, new: Program) -> None:
    """ArgumentError names the first actor or message in which the two do not agree."""

    def same(kind: str, was: Sequence[str], now: Sequence[str]) -> None:
        if list(was) != list(now):
            raise ArgumentError(
                f"the running program's {kind} are {', '.join(was)}; those of {new.name} are "
                f"{', '.join(now)}: hosts that restart in turn have the same, in the same order"
            )

    same("actors", old.actors, new.actors)
    same("messages", list(old.messages), list(new.messages))
    for message in old.messages.values():
        other = new.messages[message.name]
        if message.dtype != other.dtype:
            raise ArgumentError(
                f"message {message.name} has {fields_of(message.dtype)}; in {new.name} it has "
                f"{fields_of(other.dtype)}: hosts that restart in turn have the same"
            )
