# SPDX-License-Identifier: Apache-2.0
"""What ``denizen top --all`` shows: a line for each program that is served, as each host of a
cluster is one."""

from __future__ import annotations

from collections.abc import Mapping

from denizen.errors import MissingPackageError
from denizen.terminal import plain
from denizen.top.screen import Snapshot, _line, _Rates, _table, number, time

try:
    from rich.console import Group, RenderableType
except ImportError as error:
    raise MissingPackageError("rich") from error


def render_all(
    now: Mapping[str, Snapshot | str], before: Mapping[str, Snapshot | str], width: int
) -> RenderableType:
    """By URL: what was read there, or why nothing was. Rates are those since ``before``."""
    table = _table(
        [
            *(("program", True), ("device", True), ("workers", False), ("mode", True)),
            *(("messages/s", False), ("sent/s", False), ("handled", False)),
            *(("dead letters", False), ("errors", False), ("slowest p99", False), ("URL", True)),
        ]
    )
    total = 0.0
    handled = 0
    for url, one in now.items():
        if isinstance(one, str):
            table.add_row("-", "-", "-", "ended", *["-"] * 6, plain(url))
            continue
        t, old = one.telemetry, before.get(url)
        rates = _Rates(t, None if old is None or isinstance(old, str) else old.telemetry)
        rate = rates.of(lambda x: x.handled)
        total, handled = total + rate, handled + t.handled
        slowest = max((kind.durations.p99 for kind in t.actor_types), default=0.0)
        table.add_row(
            *(one.program, one.device, f"{len(t.workers):,}", t.mode, number(rate)),
            *(number(rates.of(lambda x: sum(x.sent))), number(t.handled), number(t.dead_letters)),
            *(number(t.errors), time(slowest), plain(url)),
        )
    live = sum(not isinstance(one, str) for one in now.values())
    head = _line(
        ("denizen top  ", "bold"), f"{live} of {len(now)} programs, ",
        f"messages/s {number(total)}, handled {number(handled)}",
    )  # fmt: skip
    return Group(head, "", table)
