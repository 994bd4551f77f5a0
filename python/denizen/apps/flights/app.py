# SPDX-License-Identifier: Apache-2.0
"""``denizen run flights``: replay the flights, ask every actor, compare, report."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

import denizen
from denizen.apps.flights import reference
from denizen.apps.flights.load import Flights

CHUNK = 4096  # flights handed to the runtime at once
_ASK_TIMEOUT = 5.0
_DRAIN_TIMEOUT = 60.0

_I4, _U4 = "i4", "u4"
_AIRCRAFT_REPORT = (
    ("flights", _U4), ("cancelled", _U4), ("landed", _U4), ("minutes", _I4), ("dep_delay", _I4),
    ("arr_delay", _I4), ("miles", _I4), ("misordered", _U4),
)  # fmt: skip
_AIRPORT_REPORT = (
    ("departures", _U4), ("cancelled", _U4), ("dep_delay", _I4), ("arrivals", _U4),
    ("landed", _U4), ("arr_delay", _I4), ("minutes", _I4),
)  # fmt: skip
_FLIGHT = (
    ("origin", _U4), ("dest", _U4), ("minute", _U4), ("dep_delay", _I4), ("arr_delay", _I4),
    ("air_time", _I4), ("distance", _I4),
)  # fmt: skip


def program() -> denizen.Program:
    """The actors Aircraft and Airport and their messages."""
    return denizen.Program(
        files("denizen.apps.flights").joinpath("flights.hpp").read_text(encoding="utf-8"),
        actors=["Aircraft", "Airport"],
        messages=[
            denizen.message("Flight", _FLIGHT),
            denizen.message("Departure", [("delay", _I4), ("minutes", _I4)]),
            denizen.message("Arrival", [("delay", _I4), ("minutes", _I4)]),
            denizen.message("Query", [("unused", _U4)]),
            denizen.message("AircraftReport", _AIRCRAFT_REPORT),
            denizen.message("AirportReport", _AIRPORT_REPORT),
        ],
    )


@dataclass(frozen=True, slots=True)
class Result:
    """What a replay did. ``asks`` are the round trips of ``ask`` during the stream, in seconds."""

    flights: int
    verified: int
    figures: int
    first_difference: str | None
    seconds: float
    asks: NDArray[np.float64]
    device: str

    @property
    def ok(self) -> bool:
        return self.first_difference is None and self.verified == self.flights


class _Asker:
    """Asks random aircraft, one after the other, on its own thread until :meth:`finish`."""

    def __init__(self, rt: denizen.Runtime, planes: NDArray[np.uint32], query: np.ndarray) -> None:
        self._rt, self._planes, self._query = rt, planes, query
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._seconds: list[float] = []
        self._thread = threading.Thread(target=self._run, name="asker", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        choose = random.Random(2013)
        try:
            while not self._stop.is_set():  # ends at finish(), or when an ask fails
                address = self._planes[choose.randrange(len(self._planes))]
                begin = time.perf_counter()
                self._rt.ask(address, self._query, timeout=_ASK_TIMEOUT)
                self._seconds.append(time.perf_counter() - begin)
        except BaseException as error:
            self._error = error

    def finish(self) -> NDArray[np.float64]:
        """Stop, and give the round trips in seconds; raises what the thread raised."""
        self._stop.set()
        self._thread.join()
        if self._error is not None:
            raise self._error
        return np.array(self._seconds)


def replay(flights: Flights, device: str, advance: Callable[[int], None]) -> Result:
    """Send all flights through actors on ``device`` and compare every figure with the reference.

    ``advance(k)`` is called after each k flights have been handed over. The time runs from the
    first flight sent to the last message handled, those between actors included.
    """
    code = program()
    with denizen.Runtime(code, device=device) as rt:
        planes = rt.spawn("Aircraft", len(flights.tails))
        ports = rt.spawn("Airport", len(flights.airports))
        events = np.zeros(len(flights), dtype=code.dtype("Flight"))
        events["origin"] = ports[flights.origin]
        events["dest"] = ports[flights.dest]
        events["minute"] = flights.minute
        for field in ("dep_delay", "arr_delay", "air_time", "distance"):
            events[field] = getattr(flights, field)
        targets = planes[flights.aircraft]
        query = np.zeros((), dtype=code.dtype("Query"))

        rt.ask(planes[0], query, timeout=_ASK_TIMEOUT)  # the program has started
        asker = _Asker(rt, planes, query)
        begin = time.perf_counter()
        for at in range(0, len(events), CHUNK):
            rt.send_many(targets[at : at + CHUNK], events[at : at + CHUNK])
            advance(len(events[at : at + CHUNK]))
        asks = asker.finish()
        rt.drain(_DRAIN_TIMEOUT)
        seconds = time.perf_counter() - begin

        of_planes = rt.ask_many(planes, np.repeat(query, len(planes)), timeout=_DRAIN_TIMEOUT)
        of_ports = rt.ask_many(ports, np.repeat(query, len(ports)), timeout=_DRAIN_TIMEOUT)
        name = rt.device
    expected = reference.compute(flights)
    aircraft = reference.compare("aircraft", flights.tails, _figures(of_planes), expected.aircraft)
    airports = reference.compare("airport", flights.airports, _figures(of_ports), expected.airports)
    sound = (
        aircraft.equal[flights.aircraft]
        & airports.equal[flights.origin]
        & airports.equal[flights.dest]
    )
    return Result(
        flights=len(flights),
        verified=int(sound.sum()),
        figures=aircraft.figures + airports.figures,
        first_difference=aircraft.first or airports.first,
        seconds=seconds,
        asks=asks,
        device=name,
    )


def _figures(reports: NDArray[np.void]) -> reference.Figures:
    return reference.with_means({name: reports[name] for name in reports.dtype.names or ()})
