# SPDX-License-Identifier: Apache-2.0
"""A recording of the air at 1090 MHz, decoded; and made traffic, whose places are known."""

from __future__ import annotations

import lzma
from collections import Counter
from html import escape
from typing import Any

import numpy as np

from denizen.tour import draw
from denizen.tour.step import Found, Picture, Place, data

_SECONDS, _AIRCRAFT = 6.0, 14
_PIECE = 1 << 20  # bytes
_WIDTH = 720


def _decoded(
    signal: bytes | np.ndarray[Any, Any], device: str | None
) -> tuple[list[Any], list[Any]]:
    from denizen.radio import Receiver  # noqa: PLC0415

    receiver = Receiver(device=device)
    messages: list[Any] = []
    view = memoryview(signal)  # type: ignore[arg-type]
    for at in range(0, len(view), _PIECE):
        messages += receiver.feed(view[at : at + _PIECE])
    return messages + receiver.finish(), receiver.aircraft


def run(place: Place) -> Found:
    from denizen import machine  # noqa: PLC0415
    from denizen.apps.adsb import show  # noqa: PLC0415
    from denizen.radio import SAMPLE_RATE, modulate  # noqa: PLC0415

    on_gpu = machine.gpu_index(place.device) is not None
    device = place.device if on_gpu else None
    place.tell("compiling the scan" if on_gpu else "decoding a recording")
    recorded = lzma.decompress(data("modes1.bin.xz").read_bytes())
    messages, heard = _decoded(recorded, device)
    theirs = Counter(data("modes1.frames.txt").read_text("ascii").split())
    ours = Counter(message["frame"] for message in messages)
    missed = theirs - ours
    wrong = None
    if missed:
        wrong = f"frame {next(iter(missed))}, which dump1090 finds in the recording, was not found"
    place.tell("making traffic")
    bursts = modulate.traffic(_SECONDS, _AIRCRAFT, (14, 30), seed=3)
    signal = modulate.modulate(bursts, round(_SECONDS * SAMPLE_RATE), seed=3)
    place.tell("decoding it")
    flown, aircraft = _decoded(signal, device)
    sent = Counter(burst.frame for burst in bursts)
    invented = Counter(message["frame"] for message in flown) - sent
    if wrong is None and invented:
        wrong = f"frame {next(iter(invented))} was found in the made signal, and nobody sent it"
    tracks: dict[str, list[tuple[float, float]]] = {}
    for message in flown:
        if "latitude" in message:
            tracks.setdefault(message["icao"], []).append(
                (message["latitude"], message["longitude"])
            )
    if wrong is None and len(tracks) != _AIRCRAFT:
        wrong = f"{len(tracks)} aircraft have a place on the map; {_AIRCRAFT} sent theirs"
    known = [one for one in heard if "altitude" in one or "callsign" in one]
    rows = [(row[0], row[1], row[3], row[4], row[9]) for row in show.rows(known or heard)[:6]]
    return Found(
        did=f"A real recording of {len(recorded) / 2 / SAMPLE_RATE:.2f} s with "
        f"{len(messages)} messages, "
        f"and {_SECONDS:.0f} s of made traffic over Europe with {len(flown):,} of {len(bursts):,} "
        "bursts, some on top of others.",
        checked=f"All {theirs.total()} frames that dump1090 finds in the recording are found, "
        "no frame of "
        "the made signal is invented, and each of its aircraft has a place.",
        wrong=wrong,
        device=machine.cpu_name() if not on_gpu else place.device,
        pictures=[
            Picture(
                _map(tracks, {one["icao"]: one for one in aircraft}),
                "The made traffic: where each aircraft was first and last, its callsign and "
                "height.",
            )
        ],
        table=(
            "aircraft in the recording",
            ("icao", "callsign", "altitude ft", "speed kt", "messages"),
            rows,
        ),
    )


def _map(tracks: dict[str, list[tuple[float, float]]], known: dict[str, dict[str, Any]]) -> str:
    from denizen.apps.adsb import coast  # noqa: PLC0415

    every = np.array([place for track in tracks.values() for place in track]).reshape(-1, 2)
    low, high = (every.min(axis=0), every.max(axis=0)) if len(every) else (np.zeros(2), np.ones(2))
    middle = (low + high) / 2
    squeeze = float(np.cos(np.radians(middle[0])))  # a degree to the east is shorter
    across = max(9.0, float((high - low)[1]) * 1.6, float((high - low)[0]) * 2.6 / squeeze)
    scale = _WIDTH / across
    height = 0.62 * _WIDTH

    def at(latitude: float, longitude: float) -> tuple[float, float]:
        x = _WIDTH / 2 + (longitude - middle[1]) * scale
        return x, height / 2 - (latitude - middle[0]) * scale / squeeze

    def inside(x: float, y: float) -> bool:
        return -500 < x < _WIDTH + 500 and -500 < y < height + 500

    body = []
    for kind in ("border", "coast"):
        lines = []
        for line in coast.lines(kind):
            points = [at(latitude, longitude) for longitude, latitude in line]
            if any(inside(x, y) for x, y in points):
                lines.append("M" + "L".join(f"{x:.0f} {y:.0f}" for x, y in points))
        body.append(f'<path class="{kind}" d="{"".join(lines)}"/>')
    labels = draw.Labels(_WIDTH)
    for track in tracks.values():
        x, y = at(*track[-1])
        labels.take(x - 6, x + 6, y + 4)
    for name, longitude, latitude in coast.cities():
        x, y = at(latitude, longitude)
        if inside(x, y):
            labels.take(x - 2, x + 6 + 7 * len(name), y + 4)
            body.append(
                f'<rect class="city" x="{x - 2:.0f}" y="{y - 2:.0f}" width="4" height="4"/>'
                f'<text x="{x + 6:.0f}" y="{y + 4:.0f}">{escape(name)}</text>'
            )
    for icao, track in tracks.items():
        (x0, y0), (x, y) = at(*track[0]), at(*track[-1])
        one = known.get(icao, {})
        height_ft = one.get("altitude")
        colour = draw.css(draw.viridis(0.2 + 0.7 * min(1.0, (height_ft or 0) / 40000)))
        told = escape(str(one.get("callsign", icao)).strip())
        if height_ft is not None:
            told += f" {height_ft // 100:d}"
        body.append(
            f'<line x1="{x0:.1f}" y1="{y0:.1f}" x2="{x:.1f}" y2="{y:.1f}" stroke="{colour}" '
            f'stroke-width="3"/><circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{colour}"/>'
            f'<text class="name" {labels.place(x, y, told)}>{told}</text>'
        )
    return draw.svg(_WIDTH, height, "".join(body), "map of aircraft")
