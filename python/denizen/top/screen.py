# SPDX-License-Identifier: Apache-2.0
"""What ``denizen top`` shows: two readings of a program, one screen of text.

Everything is one line high, so that the screen can be filled exactly: first the program, its GPUs
and its routes, then actor types, then the slowest handlers, and the workers take the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from denizen.errors import ArgumentError, MissingPackageError
from denizen.nvml import Sensors
from denizen.telemetry import ROUTES, ActorType, Telemetry, Worker
from denizen.top.checked import checked

try:
    from rich.console import Group, RenderableType
    from rich.table import Table
    from rich.text import Text
except ImportError as error:
    raise MissingPackageError("rich") from error

_WIDE = 110  # columns from which there is room for more figures
_MOST_TYPES = 8
_MOST_SLOW = 3


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One reading of a served program."""

    program: str
    device: str
    telemetry: Telemetry
    gpus: Mapping[int, Sensors]  # by node

    @classmethod
    def from_json(cls, given: Any) -> Snapshot:
        """What a server said. Raises ArgumentError for what is no snapshot."""
        found: Snapshot = checked(cls, given, "it")
        routes = [found.telemetry.sent, *(w.sent for w in found.telemetry.workers)]
        if any(len(sent) != len(ROUTES) for sent in routes):
            raise ArgumentError(f"its messages went by other ways than {', '.join(ROUTES)}")
        return found


def _three(value: float) -> str:
    """Three digits, always: ``1.20``, ``12.0``, ``120``."""
    return f"{value:#.3g}".rstrip(".")


def number(value: float) -> str:
    """In at most six characters: ``987``, ``12.3k``, ``4.57M``."""
    for size, name in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size * 0.9995:
            return f"{_three(value / size)}{name}" if value < 999.5e12 else f"{value:.0e}"
    return f"{value:.0f}"


def time(seconds: float) -> str:
    """``-`` for none, else ``45 ns``, ``1.20 µs``, ``300 ms``, ``12.3 s``."""
    if seconds <= 0:
        return "-"
    for size, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= size * 0.9995:
            return f"{_three(seconds / size) if seconds < 999.5 else f'{seconds:.0f}'} {name}"
    return f"{seconds * 1e9:.0f} ns"


def _where(actor: int, name: str) -> str:
    # include/denizen/actor/address.hpp
    node, worker, local = actor >> 29, actor >> 18 & (2**11 - 1), actor & (2**18 - 1)
    on = f" on node {node}" if node else ""
    return f"{name or 'actor'} #{local} of worker {worker}{on}"


def _shape(t: Telemetry) -> tuple[int, int]:
    return len(t.workers), len(t.actor_types)


class _Rates:
    """Figures per second between two readings of the same program; 0 before there are two."""

    def __init__(self, now: Telemetry, before: Telemetry | None) -> None:
        if before is not None and _shape(now) != _shape(before):  # another program by now
            before = None
        self.seconds = now.time - before.time if before is not None else 0.0
        self._now, self._before = now, before

    def of(self, figure: Callable[[Telemetry], float]) -> float:
        if self._before is None or self.seconds <= 0:
            return 0.0
        return max(0.0, figure(self._now) - figure(self._before)) / self.seconds


def _line(*parts: tuple[str, str] | str) -> Text:
    text = Text(no_wrap=True, overflow="ellipsis")
    for part in parts:
        text.append(part) if isinstance(part, str) else text.append(*part)
    return text


def _pairs(title: str, pairs: Sequence[tuple[str, str]]) -> Text:
    text = _line((f"{title:<7}", "bold"))
    for name, value in pairs:
        text.append(f"{name} ", "dim")
        text.append(f"{value}  ")
    return text


def _head(now: Snapshot, rates: _Rates) -> list[Text]:
    t = now.telemetry
    mode = "green" if t.mode == "running" else "yellow"
    lines = [
        _line(
            ("denizen top  ", "bold"), (now.program, "bold cyan"), " on ", now.device,
            f", {len(t.workers):,} workers, ", (t.mode, mode),
        ),
        _pairs(
            "total",
            [
                ("messages/s", number(rates.of(lambda x: x.handled))),
                ("handled", number(t.handled)),
                ("dead letters", number(t.dead_letters)),
                ("errors", number(t.errors)),
                ("launches", number(t.launches)),
            ],
        ),
    ]  # fmt: skip
    routes = [
        (name, number(rates.of(lambda x, i=i: x.sent[i])))  # type: ignore[misc]
        for i, name in enumerate(ROUTES)
    ]
    lines.append(_pairs("sent/s", routes))
    for node, sensors in now.gpus.items():
        lines.append(_gpu("GPU" if len(now.gpus) == 1 else f"GPU {node}", sensors))
    return lines


def _gpu(name: str, s: Sensors) -> Text:
    def shown(value: float | None, unit: str) -> str:
        return "?" if value is None else f"{value:,.0f} {unit}"

    limit = "" if s.power_limit_w is None else f" of {s.power_limit_w:,.0f} W"
    ecc = f"{s.ecc_corrected}/{s.ecc_uncorrected}" if s.ecc_corrected is not None else "none"
    text = _pairs(
        name,
        [
            ("power", shown(s.power_w, "W") + limit),
            ("heat", shown(s.temperature_c, "°C")),
            ("SM", shown(s.sm_clock_mhz, "MHz")),
            ("mem", shown(s.memory_clock_mhz, "MHz")),
        ],
    )
    text.append("ECC ", "dim")
    text.append(ecc, "bold red" if s.ecc_uncorrected else "")
    return text


def _table(columns: Sequence[tuple[str, bool]]) -> Table:
    """Columns by name, and whether they are words (else numbers)."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", pad_edge=False)
    for name, words in columns:
        table.add_column(
            name,
            justify="left" if words else "right",
            no_wrap=True,
            overflow="ellipsis",
            min_width=None if words else len(name),
            ratio=None,
        )
    return table


def _types(now: Telemetry, rates: _Rates, wide: bool, most: int) -> list[RenderableType]:
    names = ["live", "run/s", "run", "p50", "p99", "p99.9", "max", "lag p50"]
    if wide:
        names[4:4] = ["p90"]
        names += ["lag p99", "measured"]
    shown = sorted(now.actor_types, key=lambda a: -a.handled)[:most]
    left = len(now.actor_types) - len(shown)
    table = _table([("actor type" + (f" (+{left})" if left else ""), True)]
                   + [(name, False) for name in names])  # fmt: skip
    places = {a.name: i for i, a in enumerate(now.actor_types)}
    for a in shown:
        d, place = a.durations, places[a.name]
        cells = [
            number(a.live),
            number(rates.of(lambda x, i=place: x.actor_types[i].handled)),  # type: ignore[misc]
            number(a.handled),
            *(time(x) for x in ([d.p50, d.p90, d.p99, d.p999, d.max] if wide else
                                [d.p50, d.p99, d.p999, d.max])),
            time(a.latencies.p50),
            *([time(a.latencies.p99), number(d.count)] if wide else []),
        ]  # fmt: skip
        table.add_row(Text(a.name), *cells)
    return [table]


def _slowest(now: Telemetry, most: int) -> list[RenderableType]:
    if not now.slowest or most < 1:
        return []
    lines: list[RenderableType] = [_line(("slowest handlers", "bold"))]
    for s in now.slowest[:most]:
        lines.append(_line(f"{time(s.seconds):>8}  {s.message} to {_where(s.actor, s.type)}"))
    return lines


def _load(now: Worker, before: Worker | None) -> str:
    """How many of the rounds since the last reading had work."""
    if before is None:
        return "-"
    busy, idle = now.batches - before.batches, now.idle_rounds - before.idle_rounds
    if busy + idle <= 0:
        return "-"
    return f"{100 * busy / (busy + idle):.0f} %"


def _queued(w: Worker) -> int:
    return w.host_ring + w.inbox + w.near + w.outbox


def _workers(
    now: Telemetry, before: Telemetry | None, rates: _Rates, wide: bool, most: int
) -> list[RenderableType]:
    def rate(i: int) -> float:
        return rates.of(lambda x: x.workers[i].handled)

    places = list(range(len(now.workers)))
    nodes = any(w.node for w in now.workers)
    more = 0
    if len(places) > most:
        # What needs attention first: handlers that do not return, then queues, then traffic.
        def rank(i: int) -> tuple[float, ...]:
            w = now.workers[i]
            return (-(w.busy if w.busy > 0.1 else 0), -_queued(w), -rate(i), i)

        places = sorted(places, key=rank)[: max(1, most - 1)]
        more = len(now.workers) - len(places)
    columns = [("worker", False), ("mode", True), ("handled/s", False), ("load", False)]
    if wide:
        columns += [("handled", False), ("actors", False), ("dead", False)]
    columns += [(queue, False) for queue in ("host_ring", "inbox", "near", "outbox")]
    columns.append(("running", True))
    table = _table(columns)
    for i in places:
        w = now.workers[i]
        old = before.workers[i] if before is not None and i < len(before.workers) else None
        running = f"{w.busy_message} {time(w.busy)}" if w.busy > 0 else ""
        name = f"{w.node}:{w.number}" if nodes else str(w.number)
        cells = [name, w.mode, number(rate(i)), _load(w, old)]
        if wide:
            cells += [number(w.handled), number(w.actors), number(w.dead_letters)]
            if w.busy > 0:
                running += f", {_where(w.busy_actor, _only(now.actor_types))}"
        cells += [number(w.host_ring), number(w.inbox), number(w.near), number(w.outbox)]
        cells.append(running)
        table.add_row(*map(Text, cells), style="bold red" if w.busy > 1 else "")
    if more == 0 or most == 1:
        return [table]
    return [table, _line((f"and {more:,} more, less busy", "dim"))]


def _only(types: Sequence[ActorType]) -> str:
    return types[0].name if len(types) == 1 else ""


def _share(height: int, now: Telemetry) -> tuple[int, int, int]:
    """How many actor types, slow handlers and workers to show in so many lines.

    Workers get six lines before anything else is shown in full: first types that nobody uses go,
    then slow handlers, then types.
    """
    types, slow = min(len(now.actor_types), _MOST_TYPES), min(len(now.slowest), _MOST_SLOW)
    used = max(1, sum(a.handled > 0 for a in now.actor_types))

    def left() -> int:  # headings, and a blank line before each part
        return height - (2 + types) - (2 + slow if slow else 0) - 2

    wanted = min(6, len(now.workers))
    while left() < wanted and (types > used or slow > 0 or types > 1):  # ends: all are 0 or 1
        if types > used or (slow == 0 and types > 1):
            types -= 1
        else:
            slow -= 1
    return types, slow, max(1, left())


def render(
    now: Snapshot, before: Snapshot | None, width: int, height: int | None
) -> RenderableType:
    """One screen of ``width`` columns and ``height`` lines; None: as many lines as it takes."""
    t, old = now.telemetry, None if before is None else before.telemetry
    rates = _Rates(t, old)
    wide = width >= _WIDE
    head = _head(now, rates)
    if height is None:
        types, slow, workers = len(t.actor_types), _MOST_SLOW, len(t.workers)
    else:
        types, slow, workers = _share(height - len(head), t)
    parts: list[RenderableType] = [*head, "", *_types(t, rates, wide, types)]
    if slow and t.slowest:
        parts += ["", *_slowest(t, slow)]
    parts += ["", *_workers(t, old, rates, wide, workers)]
    return Group(*parts)
