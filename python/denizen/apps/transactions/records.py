# SPDX-License-Identifier: Apache-2.0
"""Transactions, profiles, alerts and rules as NumPy knows them: 128 bytes each.

The structs are those of apps/transactions/include/denizen/transactions/record.hpp.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from denizen import _core
from denizen.errors import ArgumentError

Records = NDArray[np.void]

RULE_NAMES = (
    "velocity", "amount", "structuring", "geography", "exposed", "circular", "dormant",
)  # fmt: skip
"""Rule 1 to rule 7."""
MODEL_RULE = 8
ALERT_NAMES = (*RULE_NAMES, "model")
"""What alerts are of: rule 1 to rule 7, and a model's score."""
SEVERITIES = ("low", "medium", "high", "critical")
OUTCOMES = ("accepted", "late", "duplicate", "invalid")
"""What becomes of a record."""
KINDS = ("wire", "ach", "check", "card", "cash", "internal")
"""Values of a transaction's field type."""
CASES = (
    "ordinary", "smurfing", "burst", "large", "blocked", "exposed", "round trip", "sleeping",
    "out of order", "late", "duplicate",
)  # fmt: skip
"""What a generated record is, in its field flags."""
SUSPICIOUS = CASES[1:8]
"""Those that are to be found; the others are how payments are delivered."""
EXPOSED = 1
"""Flag of a profile: a politically exposed person."""
ENHANCED = 2
"""Flag of a profile: under enhanced due diligence."""

TRANSACTION = np.dtype(
    [
        ("id", "<u8"),
        ("customer", "<u8"),
        ("dest", "<u8"),
        ("amount_cents", "<u8"),
        ("country", "<u2"),
        ("type", "u1"),
        ("currency", "u1"),
        ("flags", "<u4"),
        ("ts_ms", "<u8"),
        ("device_hash", "<u4"),
        ("address_hash", "<u4"),
        ("reference", "<u8"),
        ("reserved", "u1", (64,)),
    ]
)
PROFILE = np.dtype(
    [
        ("customer", "<u8"),
        ("allowed", "<u8"),
        ("amount_limit", "<u8"),
        ("exposed_limit", "<u8"),
        ("dormant_ms", "<u8"),
        ("velocity_limit", "<u4"),
        ("home", "<u2"),
        ("flags", "<u2"),
        ("reserved", "u1", (80,)),
    ]
)
ALERT = np.dtype(
    [
        ("sequence", "<u8"),
        ("id", "<u8"),
        ("customer", "<u8"),
        ("dest", "<u8"),
        ("amount_cents", "<u8"),
        ("ts_ms", "<u8"),
        ("value", "<u8"),
        ("limit", "<u8"),
        ("path", "<u8", (3,)),
        ("rules_version", "<u4"),
        ("country", "<u2"),
        ("rule", "u1"),
        ("severity", "u1"),
        ("score", "u1"),
        ("hops", "u1"),
        ("reserved", "u1", (30,)),
    ]
)
_RULES = np.dtype(
    [
        ("amount_limit", "<u8"),
        ("exposed_limit", "<u8"),
        ("dormant_amount", "<u8"),
        ("dormant_ms", "<u8"),
        ("velocity_window_ms", "<u8"),
        ("circular_window_ms", "<u8"),
        ("circular_amount", "<u8"),
        ("lateness_ms", "<u8"),
        ("high_risk", "<u8"),
        ("velocity_limit", "<u4"),
        ("structuring_percent", "<u4"),
        ("structuring_velocity", "<u4"),
        ("circular_hops", "<u4"),
        ("circular_percent", "<u4"),
        ("enabled", "<u4"),
        ("version", "<u4"),
        ("reserved", "u1", (28,)),
    ]
)
assert TRANSACTION.itemsize == PROFILE.itemsize == ALERT.itemsize == _RULES.itemsize == 128


def country_bit(code: int) -> int:
    """The bit of a country (ISO 3166-1 numeric) in masks; 63 for all that have none of their own.

    Raises ArgumentError for what is no such code.
    """
    if not isinstance(code, (int, np.integer)) or not 0 <= code < 1000:
        raise ArgumentError(f"{code!r} is no country: ISO 3166-1 numeric codes are below 1000")
    return _core.transaction_country_bit(code)


@dataclass(frozen=True)
class Rules:
    """What is looked for; docs/transactions.md. Amounts are cents, times milliseconds.

    A rule's limit may be overridden for a customer by its profile. ``high_risk`` is a mask of
    :func:`country_bit`, ``enabled`` one of rules: bit 1 is rule 1.
    """

    amount_limit: int = 1_000_000
    exposed_limit: int = 500_000
    dormant_amount: int = 100_000
    dormant_ms: int = 180 * 86_400_000
    velocity_window_ms: int = 3_600_000
    circular_window_ms: int = 86_400_000
    circular_amount: int = 10_000
    lateness_ms: int = 60_000
    high_risk: int = 7
    velocity_limit: int = 10
    structuring_percent: int = 90
    structuring_velocity: int = 3
    circular_hops: int = 4
    circular_percent: int = 20
    enabled: int = 0xFE
    version: int = 1

    def __post_init__(self) -> None:
        for field in fields(self):
            value, most = getattr(self, field.name), np.iinfo(_RULES[field.name]).max
            if type(value) is not int or not 0 <= value <= most:
                raise ArgumentError(f"{field.name} = {value!r}; use a whole number up to {most}")

    def packed(self) -> bytes:
        """As the device has them."""
        record = np.zeros((), _RULES)
        for name, value in asdict(self).items():
            record[name] = value
        return record.tobytes()

    @classmethod
    def unpacked(cls, data: bytes) -> Rules:
        """The opposite of :meth:`packed`."""
        record = np.frombuffer(data, _RULES)[0]
        return cls(**{field.name: int(record[field.name]) for field in fields(cls)})

    @classmethod
    def from_dict(cls, given: Mapping[str, Any], base: Rules | None = None) -> Rules:
        """Rules as people write them: ``base`` (else the default), but for what is given.

        ``enabled`` may be a list of names of rules, ``high_risk`` one of countries' codes.
        """
        known = asdict(base or cls())
        for name, value in given.items():
            if name not in known:
                raise ArgumentError(f'rules have no "{name}"; they have {", ".join(known)}')
            known[name] = value
        if isinstance(known["enabled"], list):
            known["enabled"] = sum({1 << (1 + _rule(name)) for name in known["enabled"]})
        if isinstance(known["high_risk"], list):
            known["high_risk"] = sum({1 << country_bit(code) for code in known["high_risk"]})
        return cls(**known)


def _rule(name: object) -> int:
    if name not in RULE_NAMES:
        raise ArgumentError(f'"{name}" is no rule; rules are {", ".join(RULE_NAMES)}')
    return RULE_NAMES.index(str(name))


def generate(
    count: int, *, seed: int = 1, customers: int = 0, share: float = 0.05, days: int = 365
) -> tuple[Records, Records]:
    """A stream of ``count`` made transactions that holds each of CASES, and its profiles.

    Args:
        count: 1000 or more.
        seed: the same makes the same stream.
        customers: 1, 2, ...; 0: one for every hundred records. 100 or more.
        share: of records that belong to a case.
        days: from the first to the last, 300 or more.

    Returns arrays of dtype TRANSACTION, shape (count,), in the order of arrival, and PROFILE, shape
    (customers,).
    """
    for name, value, most in (
        ("count", count, 2**31), ("seed", seed, 2**64 - 1), ("customers", customers, 2**30),
        ("days", days, 36_500),
    ):  # fmt: skip
        if not 0 <= value <= most:
            raise ArgumentError(f"{name} = {value}; use a whole number up to {most}")
    records, profiles = _core.transactions_make(count, customers, seed, share, days)
    return records.view(TRANSACTION), profiles.view(PROFILE)


def in_order(alerts: list[Records]) -> Records:
    """By place in the stream, those of one record by rule."""
    every = np.concatenate(alerts)
    return every[np.lexsort((every["rule"], every["sequence"]))]


def as_bytes(array: Records, dtype: np.dtype[Any]) -> NDArray[np.uint8]:
    """The records of an array as bytes; ArgumentError if it is of another dtype."""
    if not isinstance(array, np.ndarray) or array.dtype != dtype:
        found = getattr(array, "dtype", type(array).__name__)
        raise ArgumentError(f"records are of {found}; use arrays of dtype {dtype.names}")
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
