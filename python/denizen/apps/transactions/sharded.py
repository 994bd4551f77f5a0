# SPDX-License-Identifier: Apache-2.0
"""A stage whose customers are spread over several hosts: the same calls, the same alerts."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np

from denizen import _core
from denizen.apps.hosts import device_of_host
from denizen.apps.transactions import shard
from denizen.apps.transactions.records import (
    ALERT,
    PROFILE,
    TRANSACTION,
    Records,
    Rules,
    as_bytes,
    in_order,
)
from denizen.apps.transactions.stage import HORIZON, Counts
from denizen.closing import Closing
from denizen.cluster.engines import Arrived, Engines, host_of
from denizen.errors import ArgumentError, DeadlineError
from denizen.shown import Shown

_PIECE = 1 << 16  # most records that all hosts look at together
_DEPTH = 3  # pieces under way
_PATIENCE = 60.0  # seconds for one of them


class ShardedStage(Shown, Closing):
    """A Stage over several hosts. Each has the customers that hash to it, and a stage for them.

    Alerts are byte for byte those of one Stage that is fed the same. A host that is lost takes its
    customers with it: every call from then on is HostLostError, and no alert comes that had not
    been complete. An error on a host ends all of it too; ExhaustedError where one has no memory.

    Args:
        hosts: processes of this machine, as of denizen.Cluster; the first is this one.
        device: of each host's stage; "auto": the GPU, else one CPU thread.
        transport, deadline: as of denizen.Cluster.
        workers, shards, batch, memory: as of Stage, for each host.
        horizon, rules: as of Stage.

    Not for several threads at once.
    """

    def __init__(
        self,
        hosts: int,
        device: str = "auto",
        *,
        transport: str = "rings",
        deadline: float = 10.0,
        workers: int | None = None,
        shards: int | None = None,
        batch: int = 0,
        memory: int = 0,
        horizon: int = HORIZON,
        rules: Rules | None = None,
    ) -> None:
        self._rules = rules or Rules()
        self._check(self._rules)
        if not 1 <= horizon <= HORIZON:
            raise ArgumentError(f"horizon = {horizon}; use 1 to {HORIZON:,}")
        given = {
            "device": device_of_host(device), "horizon": horizon, "workers": workers,
            "shards": shards, "batch": batch, "memory": memory,
            "rules": self._rules.packed().hex(),
        }  # fmt: skip
        self._engines = Engines(
            f"{shard.__name__}:engine", hosts, given, transport=transport, deadline=deadline
        )
        self._fed = self._pieces = self._next = 0
        self.done = 0
        """Records before this place of the stream are done."""
        self._ends: dict[int, int] = {}
        self._parts: dict[int, list[Records]] = {}
        self._ready: list[Records] = []
        self._told: list[dict[str, Any]] = []

    def _facts(self) -> list[tuple[str, str]]:
        return [("hosts", str(self.hosts))]

    @property
    def hosts(self) -> int:
        """How many there are."""
        return self._engines.hosts

    @property
    def rules(self) -> Rules:
        """Those in force for what is fed now."""
        return self._rules

    def put(self, profiles: Records) -> None:
        """As of Stage."""
        as_bytes(profiles, PROFILE)
        owners = host_of(profiles["customer"], self.hosts)
        for host in range(self.hosts):
            self._engines.send(host, shard.PUT, profiles[owners == host])

    def change(self, rules: Rules) -> None:
        """As of Stage."""
        self._check(rules)
        for host in range(self.hosts):
            self._engines.send(host, shard.CHANGE, np.frombuffer(rules.packed(), np.uint8))
        self._rules = rules

    def feed(self, records: Records) -> None:
        """As of Stage. Waits while three pieces of 65,536 records are under way."""
        as_bytes(records, TRANSACTION)
        for at in range(0, len(records), _PIECE):
            piece = records[at : at + _PIECE]
            own = np.empty(len(piece), shard.OWN)
            own["sequence"] = np.arange(self._fed, self._fed + len(piece), dtype=np.uint64)
            own["record"] = piece
            owners = host_of(piece["customer"], self.hosts)
            for host in range(self.hosts):
                self._engines.send(host, shard.FEED, own[owners == host], self._pieces)
            self._fed += len(piece)
            self._ends[self._pieces] = self._fed
            self._pieces += 1
            while self._pieces - self._next > _DEPTH:  # ends, or has run out of time
                self._take(self._engines.receive(timeout=_PATIENCE))

    def take(self) -> Records:
        """As of Stage."""
        with suppress(DeadlineError):
            while True:  # ends when nothing is there
                self._take(self._engines.receive(timeout=0.0))
        return self._alerts()

    def drain(self) -> Records:
        """As of Stage."""
        while self._next < self._pieces:  # ends, or has run out of time
            self._take(self._engines.receive(timeout=_PATIENCE))
        return self._alerts()

    def run(self, records: Records, size: int = _PIECE) -> Iterator[Records]:
        """As of Stage."""
        for at in range(0, len(records), size):
            self.feed(records[at : at + size])
            yield self.take()
        yield self.drain()

    def counts(self) -> Counts:
        """Of all hosts, of what was fed before the call."""
        told = self._tell()
        outcomes: Counter[str] = Counter()
        for one in told:
            outcomes.update(one["outcomes"])
        alerts = self._alerts_of_all + sum(len(part) for part in self._ready)
        return Counts(self._fed, dict(outcomes), alerts, sum(t["restarts"] for t in told))

    def customers(self) -> int:
        """How many are known to all hosts together."""
        return sum(one["customers"] for one in self._tell())

    @property
    def memory(self) -> int:
        """Bytes that all hosts together have reserved for them."""
        return sum(one["memory"] for one in self._tell())

    @property
    def shards(self) -> int:
        """Of all hosts together."""
        return sum(one["shards"] for one in self._tell())

    def close(self) -> None:
        """Ends all hosts; what is under way is given up."""
        self._engines.close()

    _alerts_of_all = 0  # that have been taken

    @staticmethod
    def _check(rules: Rules) -> None:
        _core.TransactionReference(rules.packed(), 1)  # refuses what a stage refuses

    def _tell(self) -> list[dict[str, Any]]:
        self._told = []
        for host in range(self.hosts):
            self._engines.send(host, shard.TELL, np.zeros(0, np.uint8))
        while len(self._told) < self.hosts:  # ends, or has run out of time
            self._take(self._engines.receive(timeout=_PATIENCE))
        return self._told

    def _take(self, got: Arrived) -> None:
        if got.tag == shard.TOLD:
            self._told.append(json.loads(got.data.tobytes()))
            return
        self._parts.setdefault(got.number, []).append(got.data.view(ALERT))
        while len(self._parts.get(self._next, ())) == self.hosts:  # ends by a piece that misses one
            self._ready.append(in_order(self._parts.pop(self._next)))
            self.done = self._ends.pop(self._next)
            self._next += 1

    def _alerts(self) -> Records:
        alerts = np.concatenate([np.zeros(0, ALERT), *self._ready])
        self._ready = []
        self._alerts_of_all += len(alerts)
        return alerts
