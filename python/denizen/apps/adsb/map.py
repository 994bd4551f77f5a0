# SPDX-License-Identifier: Apache-2.0
"""A map of aircraft and their tracks as one HTML page that needs nothing from a network."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from denizen import style
from denizen.apps.adsb import coast
from denizen.files import write_text


class Map:
    """Collects the positions of a run. ``position``: the antenna, drawn with rings of distance."""

    def __init__(self, position: tuple[float, float] | None = None) -> None:
        self._position = position
        self._tracks: dict[str, list[tuple[float, float, float, int | None]]] = {}

    @property
    def placed(self) -> int:
        """How many aircraft have a position."""
        return len(self._tracks)

    def add(self, message: dict[str, Any]) -> None:
        """Keep the position of a message, if it has one."""
        if "latitude" in message:
            self._tracks.setdefault(message["icao"], []).append(
                (
                    round(message["time"], 2),
                    round(message["latitude"], 5),
                    round(message["longitude"], 5),
                    message.get("altitude"),
                )
            )

    def write(self, path: Path, aircraft: Sequence[dict[str, Any]]) -> None:
        """Write the page with every one of ``aircraft`` that has a position to ``path``."""
        data = {
            "world": coast.world(),
            "receiver": self._position,
            "aircraft": [
                {**one, "trail": self._tracks[one["icao"]]}
                for one in aircraft
                if one["icao"] in self._tracks
            ],
        }
        page = files("denizen.apps.adsb").joinpath("map.html").read_text(encoding="utf-8")
        # Callsigns come off the air: none may end the script element.
        text = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")
        write_text(path, style.fill(page, {"style": style.sheet(), "data": text}))
