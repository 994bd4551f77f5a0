# SPDX-License-Identifier: Apache-2.0
"""The table of aircraft: once at the end, or live on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from denizen import terminal

HEADER = (
    "icao", "callsign", "squawk", "altitude ft", "speed kt", "track", "climb ft/min", "latitude",
    "longitude", "messages", "seen s",
)  # fmt: skip
_RIGHT = (3, 4, 5, 6, 7, 8, 9, 10)
_PERIOD = 0.25  # seconds between two pictures

Aircraft = dict[str, Any]


def rows(aircraft: Sequence[Aircraft]) -> list[tuple[str, ...]]:
    """The cells of each aircraft under :data:`HEADER`."""

    def cell(one: Aircraft, name: str, form: str) -> str:
        return format(one[name], form) if name in one else "-"

    return [
        (
            one["icao"],
            one.get("callsign", "-"),
            one.get("squawk", "-"),
            "ground" if one.get("on_ground") else cell(one, "altitude", ",d"),
            cell(one, "groundspeed", ".0f"),
            cell(one, "track", ".0f"),
            cell(one, "vertical_rate", "+,d"),
            cell(one, "latitude", ".4f"),
            cell(one, "longitude", ".4f"),
            f"{one['messages']:,}",
            f"{one['last_seen']:.1f}",
        )
        for one in aircraft
    ]


def table(aircraft: Sequence[Aircraft]) -> None:
    terminal.table(f"{len(aircraft)} aircraft", HEADER, rows(aircraft), right=_RIGHT)


@contextmanager
def live(enabled: bool) -> Iterator[Callable[[Callable[[], Sequence[Aircraft]]], None]]:
    """Gives ``update(aircraft)``, which shows what ``aircraft()`` returns if a quarter of a second
    has passed since the last picture.

    Does nothing unless ``enabled`` and stdout is a terminal that Rich can draw on.
    """
    if not (enabled and terminal.HAVE_RICH and sys.stdout.isatty()):
        yield lambda _aircraft: None
        return
    from rich.live import Live  # noqa: PLC0415  (needs Rich)
    from rich.table import Table  # noqa: PLC0415

    def picture(aircraft: Sequence[Aircraft]) -> Table:
        shown = Table(title=f"{len(aircraft)} aircraft", title_justify="left")
        for i, name in enumerate(HEADER):
            shown.add_column(name, justify="right" if i in _RIGHT else "left", no_wrap=True)
        for row in rows(sorted(aircraft, key=lambda one: -one["last_seen"])[:40]):
            shown.add_row(*row)
        return shown

    with Live(auto_refresh=False, transient=True) as screen:
        last = 0.0

        def update(aircraft: Callable[[], Sequence[Aircraft]]) -> None:
            nonlocal last
            if time.monotonic() - last >= _PERIOD:
                last = time.monotonic()
                screen.update(picture(aircraft()), refresh=True)

        yield update
