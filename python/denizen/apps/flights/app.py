# SPDX-License-Identifier: Apache-2.0
"""``denizen run flights``: replay the flights, ask every actor, compare, report."""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

import denizen
from denizen import machine, terminal, threads
from denizen.apps.flights import reference
from denizen.apps.flights.load import Flights
from denizen.apps.hosts import device_of_host
from denizen.apps.traced import traced
from denizen.errors import ArgumentError

CHUNK = 4096  # flights handed to the runtime at once
_ASK_TIMEOUT = 5.0
_DRAIN_TIMEOUT = 60.0
_DEADLINE = 10.0  # seconds of silence after which a host is lost

FLIGHT = denizen.message(
    "Flight",
    [
        ("origin", "u4"),  # the airports' addresses
        ("dest", "u4"),
        ("minute", "u4"),
        ("dep_delay", "i4"),
        ("arr_delay", "i4"),
        ("air_time", "i4"),
        ("distance", "i4"),
    ],
)
DEPARTURE = denizen.message("Departure", [("delay", "i4"), ("minutes", "i4")])
ARRIVAL = denizen.message("Arrival", [("delay", "i4"), ("minutes", "i4")])
QUERY = denizen.message("Query")
AIRCRAFT_REPORT = denizen.message(
    "AircraftReport",
    [
        ("flights", "u4"),
        ("cancelled", "u4"),
        ("landed", "u4"),
        ("minutes", "i4"),
        ("dep_delay", "i4"),
        ("arr_delay", "i4"),
        ("miles", "i4"),
        ("misordered", "u4"),
    ],
)
AIRPORT_REPORT = denizen.message(
    "AirportReport",
    [
        ("departures", "u4"),
        ("cancelled", "u4"),
        ("dep_delay", "i4"),
        ("arrivals", "u4"),
        ("landed", "u4"),
        ("arr_delay", "i4"),
        ("minutes", "i4"),
    ],
)


def program() -> denizen.Program:
    """The actors Aircraft and Airport (flights.hpp) and their messages."""
    return denizen.Program(
        files("denizen.apps.flights").joinpath("flights.hpp").read_text(encoding="utf-8"),
        actors=["Aircraft", "Airport"],
        messages=[FLIGHT, DEPARTURE, ARRIVAL, QUERY, AIRCRAFT_REPORT, AIRPORT_REPORT],
        name="flights.hpp",
    )


@dataclass(frozen=True, slots=True)
class Result:
    """What a replay did. ``asks`` are the round trips of ``ask`` during the stream, in seconds,
    ``airports`` what each airport's actor answered, in the order of ``Flights.airports``.
    """

    flights: int
    verified: int
    figures: int
    first_difference: str | None
    seconds: float
    asks: NDArray[np.float64]
    airports: NDArray[np.void]
    device: str

    @property
    def ok(self) -> bool:
        return self.first_difference is None and self.verified == self.flights


class _Asker:
    """Asks random aircraft, one after the other, on its own thread between enter and exit.

    Leaving raises what went wrong in the thread, unless something else already went wrong.
    """

    def __init__(self, rt: denizen.Runtime | denizen.Cluster, planes: NDArray[np.uint32]) -> None:
        self._rt, self._planes = rt, planes
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self.seconds: list[float] = []

    def __enter__(self) -> _Asker:
        self._thread = threads.start(self._run, "asker")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()  # ends: every ask has a deadline
        if self._error is not None and error is None:
            raise self._error

    def _run(self) -> None:
        choose = random.Random(2013)
        query = QUERY()
        try:
            while not self._stop.is_set():  # ends at exit, or when an ask fails
                address = int(self._planes[choose.randrange(len(self._planes))])
                begin = time.perf_counter()
                self._rt.ask(address, query, timeout=_ASK_TIMEOUT)
                self.seconds.append(time.perf_counter() - begin)
        except BaseException as error:
            self._error = error


def replay(
    flights: Flights,
    device: str,
    advance: Callable[[int], None],
    metrics: int | None = None,
    trace: Path | None = None,
    *,
    hosts: int | None = None,
    transport: str = "rings",
) -> Result:
    """Send all flights through actors on ``device`` and compare every figure with the reference.

    ``advance(k)`` is called after each k flights have been handed over. The time runs from the
    first flight sent to the last message handled, those between actors included. ``metrics``: a
    port to serve metrics at meanwhile; their URL goes to stderr. ``trace``: a file to trace the
    stream to (it is the slower for it); how much that holds goes to stderr. ``hosts``: spreads
    aircraft and airports over a cluster of so many, each with ``device``; a host that is lost
    meanwhile is HostLostError.
    """
    with _started(device, hosts, transport, trace=trace is not None) as rt:
        if metrics is not None:
            if not isinstance(rt, denizen.Runtime):
                raise ArgumentError("a port for metrics is of one host: leave out --metrics")
            print(f"metrics at {rt.serve_metrics(metrics)}", file=sys.stderr)
        planes = rt.spawn("Aircraft", len(flights.tails))
        ports = rt.spawn("Airport", len(flights.airports))
        events = FLIGHT.zeros(len(flights))
        events["origin"] = ports[flights.origin]
        events["dest"] = ports[flights.dest]
        events["minute"] = flights.minute
        for field in ("dep_delay", "arr_delay", "air_time", "distance"):
            events[field] = getattr(flights, field)
        targets = planes[flights.aircraft]

        rt.ask(planes[0], QUERY(), timeout=_ASK_TIMEOUT)  # the program has started
        with traced(rt, trace):
            begin = time.perf_counter()
            with _Asker(rt, planes) as asker:
                for at in range(0, len(events), CHUNK):
                    rt.send_many(targets[at : at + CHUNK], events[at : at + CHUNK])
                    advance(len(events[at : at + CHUNK]))
            rt.drain(timeout=_DRAIN_TIMEOUT)
            seconds = time.perf_counter() - begin

        of_planes = rt.ask_many(planes, "Query", AIRCRAFT_REPORT, timeout=_DRAIN_TIMEOUT)
        of_ports = rt.ask_many(ports, "Query", AIRPORT_REPORT, timeout=_DRAIN_TIMEOUT)
        where = _where(rt)
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
        asks=np.array(asker.seconds),
        airports=of_ports,
        device=where,
    )


def _started(
    device: str, hosts: int | None, transport: str, *, trace: bool
) -> denizen.Runtime | denizen.Cluster:
    if hosts is None:
        return denizen.Runtime(program(), device=device, trace=trace)
    return denizen.Cluster(
        program(),
        hosts,
        device=device_of_host(device),
        transport=transport,
        deadline=_DEADLINE,
        trace=trace,
    )


def _where(rt: denizen.Runtime | denizen.Cluster) -> str:
    if isinstance(rt, denizen.Cluster):
        devices = ", ".join(dict.fromkeys(host.device for host in rt.hosts))
        return f"{terminal.counted(len(rt.hosts), 'host')} of {devices}"
    found = rt.description
    name = str(found["device"]) if found["on_gpu"] else machine.cpu_name()
    return f"{name}; {terminal.counted(found['workers'], 'warp' if found['on_gpu'] else 'thread')}"


def _figures(reports: NDArray[np.void]) -> reference.Figures:
    return reference.with_means({name: reports[name] for name in reports.dtype.names or ()})
