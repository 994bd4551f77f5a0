# SPDX-License-Identifier: Apache-2.0
"""What a model is told of a payment: a row of float32, from the payment, its customer's profile and
the time of the customer's payment before it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from denizen.apps.transactions.records import ENHANCED, EXPOSED, Records, country_bit
from denizen.errors import ExhaustedError

FEATURES = ("amount", "of_limit", "gap", "first", "abroad", "blocked", "exposed", "enhanced")
"""The columns of a row, in the order in which a model takes them.

amount: log10(1 + dollars) / 3 - 1. of_limit: log10((cents + 1) / the customer's amount limit) / 2 +
1. gap: log10(1 + seconds since the customer's payment before it in the stream) / 4 - 1, and 0 for
the first. The others are 0 or 1: it is the customer's first; its country is known and not the
customer's home; and not allowed either; the customer is politically exposed; is under enhanced due
diligence.
"""

_COUNTRIES = 1000  # ISO 3166-1 numeric codes are below
_OTHERS = 63  # the bit of all countries without one of their own
_NEVER = -1

Floats = NDArray[np.float32]


class _Numbers:
    """0, 1, ... for customers, in the order in which they come."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known = np.zeros(0, np.uint64)  # sorted
        self._number = np.zeros(0, np.int64)

    def of(self, customers: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Of each; new ones get theirs. ExhaustedError, and nothing is new, where they are more
        than there is room for."""
        each, first, place = np.unique(customers, return_index=True, return_inverse=True)
        at = np.searchsorted(self._known, each)
        there = at < len(self._known)
        there[there] = self._known[at[there]] == each[there]
        new = np.flatnonzero(~there)
        if len(self._known) + len(new) > self._most:
            raise ExhaustedError(
                f"{len(self._known) + len(new):,} customers, and the model has a state for "
                f"{self._most:,}; make room for more with customers="
            )
        if len(new):
            numbers = np.empty(len(new), np.int64)
            numbers[np.argsort(first[new])] = np.arange(len(new)) + len(self._known)
            self._known = np.insert(self._known, at[new], each[new])
            self._number = np.insert(self._number, at[new], numbers)
        return self._number[np.searchsorted(self._known, each)][place]


class Features:
    """Rows of payments in the stream's order. ``customers``: most that there may be."""

    def __init__(self, customers: int) -> None:
        self._numbers = _Numbers(customers)
        self._last = np.full(customers, _NEVER, np.int64)  # ms
        self._limit = np.zeros(customers, np.uint64)
        self._allowed = np.zeros(customers, np.uint64)
        self._home = np.zeros(customers, np.uint16)
        self._flags = np.zeros(customers, np.uint16)

    def put(self, profiles: Records) -> None:
        """For the rows from now on."""
        number = self._numbers.of(profiles["customer"])
        self._limit[number] = profiles["amount_limit"]
        self._allowed[number] = profiles["allowed"]
        self._home[number] = profiles["home"]
        self._flags[number] = profiles["flags"]

    def rows(self, records: Records, limit: int) -> tuple[NDArray[np.uint32], Floats]:
        """(each payment's customer by number, (n, features)). ``limit``: of amounts, where the
        customer has none of its own."""
        number = self._numbers.of(records["customer"])
        gap, first = self._gaps(number, records["ts_ms"].astype(np.int64))
        cents = records["amount_cents"].astype(np.float64)
        limits = np.where(self._limit[number] > 0, self._limit[number], np.uint64(limit))
        country, home = records["country"], self._home[number]
        abroad = (home > 0) & (country > 0) & (country != home)
        allowed = self._allowed[number] >> _bits(country) & np.uint64(1)
        flags = self._flags[number]
        columns = (
            np.log10(1 + cents / 100) / 3 - 1,
            np.log10((cents + 1) / limits) / 2 + 1,
            np.where(first, 0, np.log10(1 + gap / 1000) / 4 - 1),
            first,
            abroad,
            abroad & (allowed == 0),
            flags & EXPOSED > 0,
            flags & ENHANCED > 0,
        )
        return number.astype(np.uint32), np.stack(columns, axis=1).astype(np.float32)

    def _gaps(
        self, number: NDArray[np.int64], ts: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Milliseconds since each one's payment before, 0 if that is later; and who has none."""
        order = np.argsort(number, kind="stable")
        mine, when = number[order], ts[order]
        begins = np.ones(len(order), bool)
        begins[1:] = mine[1:] != mine[:-1]
        before = np.empty(len(order), np.int64)
        before[1:] = when[:-1]
        before[begins] = self._last[mine[begins]]
        ends = np.roll(begins, -1)  # the last of each customer's
        self._last[mine[ends]] = when[ends]
        gap, first = np.empty_like(before), np.empty(len(order), bool)
        first[order] = before == _NEVER
        gap[order] = np.maximum(when - before, 0)
        return gap, first


def _bits(country: NDArray[np.uint16]) -> Any:
    codes, place = np.unique(country, return_inverse=True)
    bits = [country_bit(int(c)) if c < _COUNTRIES else _OTHERS for c in codes]
    return np.array(bits, np.uint64)[place]
