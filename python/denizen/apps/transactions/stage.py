# SPDX-License-Identifier: Apache-2.0
"""The stage: records in, alerts out; and the reference that it is compared with."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

import denizen
from denizen import _core
from denizen.apps.transactions.records import (
    ALERT,
    OUTCOMES,
    PROFILE,
    TRANSACTION,
    Records,
    Rules,
    as_bytes,
)
from denizen.closing import Closing
from denizen.errors import ArgumentError
from denizen.message import MessageType
from denizen.shown import Shown
from denizen.snapshot import file_name

if TYPE_CHECKING:
    from denizen.message import Field

HORIZON = 1 << 20
PASSES = ("split", "judge", "search")


class _Wire(MessageType):
    """A message whose struct is in messages.hpp, or record.hpp."""

    def _struct(self) -> str:
        name = f"denizen::transactions::{self.name}"
        return (
            "#include <denizen/transactions/detail/shard.hpp>\n"
            f"using {name};\nstatic_assert(sizeof({name}) == {self.dtype.itemsize});\n"
        )


_GEOMETRY: list[Field] = [
    (name, "u4") for name in ("shards", "edges", "batch", "depth", "horizon", "staged")
]
_BOOK: Field = ("book", denizen.BUFFER)
_MESSAGES: tuple[MessageType, ...] = (
    _Wire("Open", [_BOOK, *_GEOMETRY, ("part", "u4"), ("step", "u4")]),
    _Wire("Grow", [_BOOK, ("map", "u8")]),
    _Wire("Change", [_BOOK, ("rules", "u8", (16,))]),
    _Wire(
        "Put",
        [_BOOK, ("from_", denizen.BUFFER), ("first", "u4"), ("count", "u4"), ("part", "u4"),
         ("whole", "u4")],
    ),
    _Wire(
        "Get",
        [_BOOK, ("to", denizen.BUFFER), ("first", "u4"), ("count", "u4"), ("part", "u4"),
         ("at", "u4")],
    ),
    _Wire(
        "Move",
        [("from_", denizen.BUFFER), ("to", denizen.BUFFER), ("from_at", "u8"), ("to_at", "u8"),
         ("bytes", "u8")],
    ),
    _Wire("Taken", [_BOOK, ("part", "u4")]),
    _Wire("Drill", [("pass_", "u4"), ("after", "u4")]),
    _Wire("Ready", [("value", "u4")]),
    _Wire(
        "Feed",
        [_BOOK, ("records", denizen.BUFFER), ("base", "u8"), ("first", "u4"), ("count", "u4"),
         ("batch", "u4")],
    ),
    _Wire("Step", [("book", "u8"), ("batch", "u4"), ("pass_part", "u4")]),
    _Wire("Full", [("batch", "u4"), ("part", "u4"), ("regions", "u4")]),
    _Wire("Finished", [("batch", "u4"), ("tally", "u4", (4,)), ("alerts", "u4")]),
    _Wire("Alert", [("words", "u8", (16,))]),
    denizen.DOWN,
)  # fmt: skip


def program() -> denizen.Program:
    """The actor Shard and its messages (denizen/transactions/detail/shard.hpp)."""
    return denizen.Program(
        "using denizen::transactions::Shard;",
        actors=["Shard"],
        messages=_MESSAGES,
        name="transactions",
    )


@dataclass(frozen=True)
class Counts:
    """What a stage has done so far."""

    records: int
    """That were fed."""
    outcomes: dict[str, int]
    """By OUTCOMES, of batches that are done."""
    alerts: int
    restarts: int
    """Of shards that had failed."""


class Stage(Shown, Closing):
    """A running monitor: records in, alerts out, in the order of the stream.

    The alerts depend on the records, the profiles and the rules alone: not on the device, the
    number of shards, how the stream was cut into calls, or on shards that failed.

    Args:
        device: as of denizen.Runtime; one node.
        workers: as of denizen.Runtime. A GPU's SM has room for seven; if not given, there is one on
            each of a quarter of the SMs.
        shards: actors that own the customers; None: one for each worker.
        batch: most records that are looked at together; smaller ones come back sooner. 0: 65,536 on
            a GPU, 8,192 on the CPU.
        depth: batches under way, 1 to 8.
        horizon: records of the stream back to which round trips are followed.
        memory: most bytes for what is known of customers, 664 of each and an index; 0: as much as
            the device has. It is taken as it is needed, 64 MiB first, then twice as much each time.
        rules: to begin with.
        keep_outcomes: of each record, for take_outcomes().
        trace: as of denizen.Runtime, so that ``runtime.trace(path)`` can be called.
        restore: a file that save() wrote: goes on there, with its rules. The horizon must be the
            same; device, shards, memory and batches may differ.

    Where there is no memory for one more customer, ExhaustedError. Nothing is lost: records before
    ``done`` are done, their alerts can be had by take(), the others wait; each call tries again.

    Not for several threads at once, but for counts(). Errors are subclasses of DenizenError.
    """

    def __init__(
        self,
        device: str = "auto",
        *,
        workers: int | None = None,
        shards: int | None = None,
        batch: int = 0,
        depth: int = 3,
        horizon: int = HORIZON,
        memory: int = 0,
        rules: Rules | None = None,
        restore: str | os.PathLike[str] | None = None,
        keep_outcomes: bool = False,
        trace: bool = False,
    ) -> None:
        for name, value, bits in (
            ("shards", shards or 0, 32), ("batch", batch, 32), ("depth", depth, 32),
            ("horizon", horizon, 32), ("memory", memory, 64),
        ):  # fmt: skip
            if not 0 <= value < 2**bits:
                raise ArgumentError(f"{name} = {value} is no size")
        self.runtime = denizen.Runtime(
            program(), device, workers=workers, prefer_l1=True, trace=trace
        )
        """The program it runs on, for its description, telemetry and metrics."""
        try:
            self._core: _core.TransactionStage | None = _core.TransactionStage(
                self.runtime._core,
                shards or 0,
                batch,
                depth,
                horizon,
                memory,
                (rules or Rules()).packed(),
                None if restore is None else file_name("restore", restore),
                keep_outcomes,
            )
        except BaseException:
            self.runtime.close()
            raise
        self._keeps = keep_outcomes
        self._counts = self._count()

    def _facts(self) -> list[tuple[str, str]]:
        if self._core is None:
            return [("is", "closed")]
        return [
            ("shards", f"{self.shards:,}"),
            ("done", f"{self.done:,}"),
        ]

    @property
    def _open(self) -> _core.TransactionStage:
        if self._core is None:
            raise denizen.ClosedError("the stage has been closed")
        return self._core

    @property
    def rules(self) -> Rules:
        """Those in force for what is fed now."""
        return Rules.unpacked(self._open.rules)

    @property
    def shards(self) -> int:
        """How many there are."""
        return self._open.shards

    @property
    def done(self) -> int:
        """Records before this place of the stream are done."""
        return self._open.done

    def put(self, profiles: Records) -> None:
        """Profiles (dtype PROFILE, no customer twice) for the records that are fed from now on."""
        self._open.put(as_bytes(profiles, PROFILE))

    def change(self, rules: Rules) -> None:
        """Rules for the records that are fed from now on: those before keep theirs."""
        self._open.change(rules.packed())

    def feed(self, records: Records) -> None:
        """The next records of the stream, dtype TRANSACTION. Waits while `depth` batches fly."""
        self._open.feed(as_bytes(records, TRANSACTION))
        self._counts = self._count()

    def take(self) -> Records:
        """The alerts that are ready, dtype ALERT: of the stream's first records, in its order."""
        alerts = self._open.take().view(ALERT)
        self._counts = self._count()
        return alerts

    def drain(self) -> Records:
        """The same once all that was fed is done."""
        alerts = self._open.drain().view(ALERT)
        self._counts = self._count()
        return alerts

    def take_outcomes(self) -> NDArray[np.uint8]:
        """What became of the records that are done since the last call, in the stream's order.

        Indices into OUTCOMES, uint8, shape (n,). ArgumentError unless they are kept.
        """
        if not self._keeps:
            raise ArgumentError("no outcomes are kept; make the stage with keep_outcomes=True")
        return self._open.take_outcomes()

    def run(self, records: Records, size: int = 1 << 16) -> Iterator[Records]:
        """Feeds an array in pieces and gives the alerts as they come; all of them by the end."""
        for at in range(0, len(records), size):
            self.feed(records[at : at + size])
            yield self.take()
        yield self.drain()

    def counts(self) -> Counts:
        """As of the last call of feed(), take() or drain(), from any thread."""
        return self._counts

    def customers(self) -> int:
        """How many are known: those with a profile, and those who have paid."""
        return self._open.customers()

    @property
    def memory(self) -> int:
        """Bytes that are reserved for them; it grows as they come."""
        return self._open.memory

    def drill(self, shard: int, within: str, after: int = 0) -> None:
        """Has a shard fail on purpose, once: a drill of recovery, which changes no alert.

        Args:
            within: one of PASSES: "split", "judge" or "search".
            after: so many of its records there.
        """
        if within not in PASSES:
            raise ArgumentError(f'"{within}" is no pass; passes are {", ".join(PASSES)}')
        self._open.drill(shard, PASSES.index(within), after)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes what it knows, between two records, to a file, which appears in one step.

        The file is one of those in docs/snapshots.md: checksummed, and refused by name when it has
        been altered. Alerts that are ready and not taken are not in it: take() them.
        """
        self._open.save(file_name("path", path))

    def close(self) -> None:
        """Waits for what is under way, and ends the program. Harmless when called again."""
        if self._core is not None:
            with suppress(denizen.DenizenError):
                self._core.drain()
            self._core = None
        self.runtime.close()

    def _count(self) -> Counts:
        records, alerts, restarts, outcomes = self._open.counts()
        return Counts(records, dict(zip(OUTCOMES, outcomes, strict=True)), alerts, restarts)


class Reference:
    """The rules on one thread, record by record: what the alerts of a Stage are compared with."""

    def __init__(self, rules: Rules | None = None, horizon: int = HORIZON) -> None:
        self._core = _core.TransactionReference((rules or Rules()).packed(), horizon)

    def put(self, profiles: Records) -> None:
        """As of Stage."""
        self._core.put(as_bytes(profiles, PROFILE))

    def change(self, rules: Rules) -> None:
        """As of Stage."""
        self._core.change(rules.packed())

    def feed(self, records: Records) -> Records:
        """The alerts of the next records of the stream."""
        return self._core.feed(as_bytes(records, TRANSACTION)).view(ALERT)

    def outcomes(self) -> dict[str, int]:
        """Records by OUTCOMES."""
        return dict(zip(OUTCOMES, self._core.counts(), strict=True))
