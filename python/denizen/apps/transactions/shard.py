# SPDX-License-Identifier: Apache-2.0
"""The engine of transactions on one host among several: a stage for its customers.

The stage has all rules but round trips, which cross customers. For these each host tells all others
which of its records are payments that were accepted, and looks through everybody's for what its
own customers close.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from denizen import _core
from denizen.apps.transactions.records import (
    ALERT,
    PROFILE,
    TRANSACTION,
    Records,
    Rules,
    in_order,
)
from denizen.apps.transactions.stage import Stage
from denizen.cluster.engines import Port

# What arrays are, by their tags: to an engine PUT to PAID, to the caller ALERTS and TOLD.
PUT, CHANGE, FEED, TELL, PAID, ALERTS, TOLD = range(7)

OWN = np.dtype([("sequence", "<u8"), ("record", TRANSACTION)])
PAYMENT = np.dtype(
    [(name, "<u8") for name in ("sequence", "customer", "dest", "amount_cents", "ts_ms")]
)
_CIRCULAR = 1 << 6  # bit of rule 6


def engine(port: Port, *, device: str, horizon: int, rules: str, **sizes: int | None) -> None:
    """Runs until the host closes. ``rules``: packed, in hexadecimal; ``sizes``: as of Stage."""
    packed = bytes.fromhex(rules)
    with Stage(device, horizon=1, rules=_alone(packed), keep_outcomes=True, **sizes) as stage:  # type: ignore[arg-type]
        shard = _Shard(port, stage, _core.TransactionCircularRule(packed, horizon))
        while (got := port.receive()) is not None:
            shard.take(got.sender, got.tag, got.number, got.data)


def _alone(rules: bytes) -> Rules:
    """The rules that need one customer only."""
    every = Rules.unpacked(rules)
    return replace(every, enabled=every.enabled & ~_CIRCULAR)


class _Shard:
    def __init__(self, port: Port, stage: Stage, rule: _core.TransactionCircularRule) -> None:
        self._port, self._stage, self._rule = port, stage, rule
        self._paid: dict[int, list[NDArray[Any]]] = {}
        # In the caller's order; a piece waits there for the others' payments.
        self._steps: deque[tuple[int | None, Callable[[], None]]] = deque()

    def take(self, sender: int, tag: int, number: int, data: NDArray[np.uint8]) -> None:
        if tag == PAID:
            self._paid.setdefault(number, []).append(data.view(PAYMENT))
        elif tag == FEED:
            self._feed(number, data.view(OWN))
        elif tag == PUT:
            self._stage.put(data.view(PROFILE))
            self._steps.append((None, lambda: self._rule.put(data)))
        elif tag == CHANGE:
            rules = data.tobytes()
            self._stage.change(_alone(rules))
            self._steps.append((None, lambda: self._rule.change(rules)))
        elif tag == TELL:
            self._steps.append((None, self._tell))
        while self._steps:  # ends: by a piece that waits, or each turn takes one
            piece, step = self._steps[0]
            if piece is not None and len(self._paid.get(piece, ())) < self._port.hosts:
                break
            self._steps.popleft()
            step()

    def _feed(self, number: int, own: NDArray[Any]) -> None:
        before = self._stage.done
        self._stage.feed(np.ascontiguousarray(own["record"]))
        alerts = self._stage.drain()
        alerts["sequence"] = own["sequence"][alerts["sequence"] - np.uint64(before)]
        records = own["record"]
        paid = (self._stage.take_outcomes() == 0) & (records["customer"] != records["dest"])
        closing = own[paid]
        payments = np.zeros(len(closing), PAYMENT)
        payments["sequence"] = closing["sequence"]
        for name in PAYMENT.names[1:]:  # type: ignore[index]
            payments[name] = closing["record"][name]
        for host in range(self._port.hosts):
            if host == self._port.number:
                self._paid.setdefault(number, []).append(payments)
            else:
                self._port.send(host, PAID, payments, number)
        self._steps.append((number, lambda: self._search(number, closing, alerts)))

    def _search(self, number: int, closing: NDArray[Any], alerts: Records) -> None:
        payments = np.concatenate(self._paid.pop(number))
        payments = payments[np.argsort(payments["sequence"])]
        found = self._rule.feed(payments.view(np.uint8), closing.view(np.uint8))
        self._port.answer(ALERTS, in_order([alerts, found.view(ALERT)]), number)

    def _tell(self) -> None:
        told = {
            **asdict(self._stage.counts()),
            "customers": self._stage.customers(),
            "memory": self._stage.memory,
            "shards": self._stage.shards,
        }
        self._port.answer(TOLD, np.frombuffer(json.dumps(told).encode(), np.uint8))
