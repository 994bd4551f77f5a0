# SPDX-License-Identifier: Apache-2.0
"""The table of limits: each headline beside what the machine itself allows, of the same record.

A limit is a row too: bare words that go the same way, a copy of as many bytes, a plain socket.
Where a record has no such row the table says so, and nothing is put in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from denizen.lab import stats, table
from denizen.lab.record import Record, Row, Scalar, lower_is_better
from denizen.lab.summary import short

_Value = tuple[float, stats.Interval | None]


def _median(row: Row, _headline: Row) -> _Value:
    return row.median, row.ci95


def _items(size: float) -> Callable[[Row, Row], _Value]:
    """M/s of items of so many bytes at the rate of a copy in GB/s."""

    def value(copy: Row, _headline: Row) -> _Value:
        per = 1e3 / size
        ends = None if copy.ci95 is None else (copy.ci95[0] * per, copy.ci95[1] * per)
        return copy.median * per, ends

    return value


def _two_shot(copy: Row, headline: Row) -> _Value:
    """Microseconds of an all-reduce whose bytes go at the rate of ``copy`` (GB/s): each rank sends
    2 (n - 1) / n of them."""
    ranks, size = int(headline.params["ranks"]), int(headline.params["bytes"])
    sent = size * 2 * (ranks - 1) / ranks * 1e-3
    ends = None if copy.ci95 is None else (sent / copy.ci95[1], sent / copy.ci95[0])
    return sent / copy.median, ends


@dataclass(frozen=True, slots=True)
class _Headline:
    """Rows of ``case`` with ``params``, and what limits them: ``case`` of ``limit``, whose
    parameters agree with the row's and with ``limit_params``; without one ``what`` would.

    ``plus``: a case, and its parameters, whose median the limit has on top.
    ``told``: where the record's environment has the limit, in GB/s, and the bytes of an item.
    """

    experiment: str
    case: str
    params: Mapping[str, Scalar]
    what: str
    limit: str = ""
    limit_params: Mapping[str, Scalar] = field(default_factory=dict)
    value: Callable[[Row, Row], _Value] = _median
    plus: tuple[str, Mapping[str, Scalar]] | None = None
    told: tuple[str, float] | None = None


_PCIE = "a copy over PCIe"
_MEMORY = "the bandwidth of the memory"
_BETWEEN_SMS = "raw words from SM to SM"
_BETWEEN_CORES = "raw words from core to core"


def _over_pcie(
    experiment: str,
    case: str,
    size: float,
    params: Mapping[str, Scalar] | None = None,
    direction: str = "to device",
) -> _Headline:
    """Items of so many bytes that go over PCIe one way."""
    way: dict[str, Scalar] = {"direction": direction}
    return _Headline(
        experiment, case, params or {}, _PCIE, "driver's copy", way, value=_items(size)
    )


_HEADLINES = (
    _Headline("dispatch", "ask", {}, "raw words, there and back", "raw mailbox"),
    _Headline("dispatch", "ask from Python", {}, "raw words, there and back", "raw mailbox"),
    _over_pcie("ring", "host to device", 64, {"bytes": 64}),
    _over_pcie("ring", "device to host", 64, {"bytes": 64}, "to host"),
    _Headline("ring", "cpu to cpu, denizen spsc", {}, _BETWEEN_CORES),
    _Headline("channels", "denizen channel", {}, _BETWEEN_CORES),
    _Headline("flow", "chain of saxpy", {}, _MEMORY),
    _over_pcie("flow", "filter and demodulate, stream", 8),
    _Headline("throughput", "tasks, resident", {"n": 1_000_000}, _MEMORY),
    _over_pcie("sustained", "echoes", 64),
    _Headline("beside", "random targets", {}, _BETWEEN_SMS),
    _Headline("routes", "one way", {"bytes": 64}, "raw words, one way", "raw words"),
    _Headline("routes", "random targets", {}, _BETWEEN_SMS),
    _Headline("actors", "spawn", {}, "an ask of the same run", "ask"),
    _Headline("actors", "HLC tick", {}, "a clock read", "clock read"),
    _Headline("actors", "snapshot", {}, "as many bytes written and synced", "write + fsync"),
    _Headline("actors", "restore", {}, "as many bytes read", "read"),
    _over_pcie("adsb", "resident receiver", 2),
    _Headline("adsb", "recorded signal", {}, _MEMORY),
    _Headline("bfs", "auto", {"graph": "Kronecker 20"}, _MEMORY),
    *(
        _Headline(
            "group", "inside a kernel", {"bytes": size}, "its bytes by a copy of the driver",
            "peer copy", value=_two_shot,
        )
        for size in (4 << 20, 64 << 20, 1 << 30)
    ),
    _Headline("procmine", "graph", {}, _MEMORY),
    _Headline("procmine", "graph, threads", {}, _MEMORY),
    _Headline("arena", "malloc", {"threads": 1 << 20}, "an atomic sum", "malloc, bump pointer"),
    _Headline("tasks", "thread tasks", {}, _MEMORY),
    _Headline("tasks", "chain, one hop", {}, _BETWEEN_SMS),
    _over_pcie("transactions", "streamed", 128),
    _Headline(
        "transactions", "resident in device memory", {}, "its 128 bytes read once, as a copy does",
        told=("copy_gbs", 128.0),
    ),
    _Headline("wave", "auto", {"cells": 512}, "a copy of as many cells", "copy"),
    _Headline(
        "wave", "CPU threads", {"cells": 256}, "an update of two arrays", "update of two arrays"
    ),
    _Headline("wave", "steering", {}, "two steps and 5 us for the way", "two steps and 5 us"),
    *(
        _Headline(
            "cluster", case, {"transport": "tcp"}, "a plain socket", limit, {"socket": "TCP"}
        )
        for case, limit in (
            ("one way, actor to actor", "one way, plain socket, half a trip"),
            ("64-byte slots, a pair of hosts", "64-byte slots, plain socket, 256 at a time"),
        )
    ),
    *(
        _Headline(
            "infer", "resident, bf16", {"model": model},
            "raw words, there and back, and its time on the device",
            "resident, bf16, on the device", plus=("raw mailbox", {"memory": "mapped"}),
        )
        for model in ("lstm_small, 3 x 256", "lstm_large, 3 x 960")
    ),
)  # fmt: skip
# Say how a row was measured, not what.
_HOW = frozenset({"bytes", "timed", "process"})


@dataclass(frozen=True, slots=True)
class Limited:
    """A headline of a record: ``limit`` and ``share`` of it are None where no row tells."""

    row: Row
    what: str
    limit: _Value | None
    share: _Value | None


def _row_of(case: str, params: Mapping[str, Scalar], row: Row, rows: Sequence[Row]) -> Row | None:
    def fitting(besides: frozenset[str]) -> list[Row]:
        """Those of the case with the parameters of ``row``, besides these."""
        return [
            other
            for other in rows
            if case == other.case
            and all(other.params.get(key) == value for key, value in params.items())
            and all(
                row.params[key] == other.params[key]
                for key in (row.params.keys() & other.params.keys()) - besides
            )
        ]

    # A word has no size, and a copy is as fast with another.
    found = fitting(frozenset()) or fitting(_HOW)
    return found[0] if len(found) == 1 else None


def _limit(headline: _Headline, row: Row, rows: Sequence[Row]) -> _Value | None:
    other = _row_of(headline.limit, headline.limit_params, row, rows)
    if other is None:
        return None
    limit, ci95 = headline.value(other, row)
    if headline.plus is None:
        return limit, ci95
    more = _row_of(*headline.plus, row, rows)
    if more is None:
        return None
    sum_ci95 = None
    if ci95 is not None and more.ci95 is not None:
        sum_ci95 = ci95[0] + more.ci95[0], ci95[1] + more.ci95[1]
    return limit + more.median, sum_ci95


def _told(headline: _Headline, record: Record) -> _Value | None:
    if headline.told is None:
        return None
    name, size = headline.told
    rate = record.environment.get(name)
    return (float(rate) * 1e3 / size, None) if isinstance(rate, (int, float)) else None


def limits(record: Record) -> list[Limited]:
    """The record's headlines, in the order of the list above."""
    found = []
    for headline in _HEADLINES:
        if headline.experiment != record.experiment:
            continue
        for row in record.rows:
            if row.case != headline.case or any(
                row.params.get(key) != value for key, value in headline.params.items()
            ):
                continue
            limit = _told(headline, record) or _limit(headline, row, record.rows)
            if limit is None:
                found.append(Limited(row, headline.what, None, None))
                continue
            over, under = (limit, (row.median, row.ci95))
            if not lower_is_better(row.unit):
                over, under = under, over
            share = over[0] / under[0], stats.ratio_ci(over[0], over[1], under[0], under[1])
            found.append(Limited(row, headline.what, limit, share))
    return found


def _what(one: Limited, record: Record) -> str:
    """Of CPU threads there is no way over PCIe, and no SM."""
    if record.driver is not None:
        return one.what
    return {_PCIE: _MEMORY, _BETWEEN_SMS: _BETWEEN_CORES}.get(one.what, one.what)


HEADER = ("headline", "on", "median", "limit", "is", "share reached")


def _share(value: _Value) -> str:
    def percent(part: float) -> str:
        return f"{table.number(100 * part)}"

    ends = "too few" if value[1] is None else " to ".join(percent(end) for end in value[1])
    return f"{percent(value[0])} % ({ends})"


def text(records: Sequence[Record]) -> str:
    """The table as Markdown, and how many headlines have no limit beside them."""
    told: list[tuple[str, ...]] = []
    bare: dict[tuple[str, str, str], list[Row]] = {}
    for record in records:
        on = short(record.device)
        for one in limits(record):
            name = f"{record.experiment}: {one.row.case}"
            what = _what(one, record)
            if one.limit is None or one.share is None:
                bare.setdefault((name, on, what), []).append(one.row)
                continue
            words = table.params(one.row)
            told.append(
                (
                    f"{name} ({words})" if words else name,
                    on,
                    f"{table.number(one.row.median)} {one.row.unit}",
                    what,
                    f"{table.number(one.limit[0])} {one.row.unit}",
                    _share(one.share),
                )
            )
    without = []
    for (name, on, what), rows in bare.items():
        low, high = (pick(row.median for row in rows) for pick in (min, max))
        span = table.number(low) + (f" to {table.number(high)}" if high > low else "")
        without.append((name, on, f"{span} {rows[0].unit}", what, "no such row", "not known"))
    about = (
        "What the machine allows, measured in the same run: the share is the limit over the median "
        "of what takes time, the median over the limit of a rate, with its 95 % interval. Above "
        "100 % the row beside is no limit: it was measured with less, or on a noisy machine. "
        f"{len(without)} headlines, below, have no such row in their record."
    )
    return f"{about}\n\n{table.grid(HEADER, [*told, *without], (2, 4, 5))}"
