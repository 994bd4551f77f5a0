# SPDX-License-Identifier: Apache-2.0
"""What ``denizen run adsb`` does: decode a signal, or make one."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from denizen import terminal
from denizen.apps.adsb import load, show
from denizen.apps.adsb.map import Map
from denizen.radio import SAMPLE_RATE, Receiver


def run(
    source: str,
    *,
    lines: bool = False,
    page: Path | None = None,
    position: tuple[float, float] | None = None,
) -> int:
    """Decode the I/Q in file ``source``, or from stdin for "-"; the exit status.

    ``lines``: print each message as a line of JSON, nothing else. ``page``: write a map there.
    ``position``: latitude and longitude of the antenna. Raises DataError for what is no I/Q; what
    was decoded before it went wrong has been printed.
    """
    receiver = Receiver(position)
    drawn = Map(position)
    begin = time.perf_counter()
    busy = 0.0
    with show.live(not lines) as update:

        def take(messages: list[dict[str, object]]) -> None:
            for message in messages:
                if lines:
                    print(json.dumps(message))
                if page is not None:
                    drawn.add(message)
            if lines and messages:
                sys.stdout.flush()
            update(lambda: receiver.aircraft)

        cut: load.DataError | None = None
        try:
            for piece in load.pieces(source):
                started = time.perf_counter()
                messages = receiver.feed(piece)
                busy += time.perf_counter() - started
                take(messages)
        except load.DataError as error:  # what came before it is shown all the same
            if receiver.counts["samples"] == 0:
                raise
            cut = error
        started = time.perf_counter()
        rest = receiver.finish()
        busy += time.perf_counter() - started
        take(rest)
    if page is not None:
        drawn.write(page, receiver.aircraft)
        print(f"{page}: map of {drawn.placed} aircraft", file=sys.stderr)
    if cut is not None:
        raise cut
    if lines:
        return 0
    counts = receiver.counts
    show.table(receiver.aircraft)
    seconds = counts["samples"] / SAMPLE_RATE
    terminal.line(
        f"{counts['messages']:,} messages ({counts['repaired']:,} repaired) in {seconds:,.2f} s of "
        f"signal, decoded at {counts['samples'] / max(busy, 1e-9) * 1e-6:,.0f} Msps "
        f"({time.perf_counter() - begin:.2f} s in all)"
    )
    return 0


def generate(path: Path, *, seconds: float, aircraft: int, snr: tuple[float, float]) -> int:
    """Write a made signal of ``seconds`` with ``aircraft`` aircraft to ``path``; the exit status.

    ``snr``: least and greatest level of an aircraft's pulses over the noise, in dB.
    """
    from denizen.radio import modulate  # noqa: PLC0415  (not needed to decode)

    bursts = modulate.traffic(seconds, aircraft, snr)
    signal = modulate.modulate(bursts, round(seconds * SAMPLE_RATE))
    signal.tofile(path)
    print(f"{path}: {len(bursts):,} frames of {aircraft} aircraft in {seconds:g} s")
    return 0
