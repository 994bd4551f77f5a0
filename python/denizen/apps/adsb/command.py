# SPDX-License-Identifier: Apache-2.0
"""What ``denizen run adsb`` does: decode a signal, or make one."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from denizen import iq, terminal
from denizen.apps.adsb import load, show
from denizen.apps.adsb.map import Map
from denizen.iq.raw import PIECE
from denizen.radio import SAMPLE_RATE, Receiver


def run(
    name: str,
    *,
    form: str | None = None,
    rate: int | None = None,
    lines: bool = False,
    page: Path | None = None,
    position: tuple[float, float] | None = None,
    device: str | None = None,
) -> int:
    """Decode the I/Q that ``name`` stands for (iq.open); the exit status.

    Ctrl-C ends a source that has no end. ``form``, ``rate``: of a source that does not say them.
    ``lines``: print each message as a line of JSON, nothing else. ``page``: write a map there.
    ``position``: latitude and longitude of the antenna. ``device``: see Receiver. Raises DataError
    for what is no I/Q; what was decoded before it went wrong has been printed.
    """
    receiver = Receiver(position, device)
    drawn = Map(position)
    begin = time.perf_counter()
    busy = 0.0
    with load.opened(name, form, rate) as source, show.live(not lines) as update:

        def take(messages: list[dict[str, object]]) -> None:
            for message in messages:
                if lines:
                    print(json.dumps(message))
                if page is not None:
                    drawn.add(message)
            if lines and messages:
                sys.stdout.flush()
            update(lambda: receiver.aircraft)

        cut: iq.DataError | None = None
        try:
            for piece in load.signal(source):
                started = time.perf_counter()
                messages = receiver.feed(piece)
                busy += time.perf_counter() - started
                take(messages)
        except KeyboardInterrupt:
            if not source.live:
                raise
        except iq.DataError as error:  # what came before it is shown all the same
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
    if source.losses:
        terminal.error(f"{source.name}: {source.losses}")
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


def generate(
    name: str, *, seconds: float, aircraft: int, snr: tuple[float, float], form: str = "u8"
) -> int:
    """Write a made signal of ``seconds`` with ``aircraft`` aircraft to ``name`` (iq.create); the
    exit status.

    ``snr``: least and greatest level of an aircraft's pulses over the noise, in dB.
    """
    from denizen.radio import modulate  # noqa: PLC0415  (not needed to decode)

    with (
        terminal.working(f"making {seconds:g} s of signal"),
        iq.create(name, form=form, rate=round(SAMPLE_RATE)) as sink,
    ):
        bursts = modulate.traffic(seconds, aircraft, snr)
        signal = modulate.modulate(bursts, round(seconds * SAMPLE_RATE))
        for at in range(0, len(signal), PIECE):
            piece = signal[at : at + PIECE].tobytes()
            if sink.form.key == "u8":
                sink.write_bytes(piece)
            else:
                sink.write(iq.FORMATS["u8"].samples(piece))
    print(
        f"{sink.name}: {len(bursts):,} frames of {aircraft} aircraft in {seconds:g} s",
        file=sys.stderr if name == "-" else sys.stdout,
    )
    return 0
