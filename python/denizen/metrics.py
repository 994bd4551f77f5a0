# SPDX-License-Identifier: Apache-2.0
"""A runtime's telemetry over HTTP: for Prometheus, and as JSON for ``denizen top``.

:meth:`denizen.Runtime.serve_metrics` is the way in; :class:`Collector` goes into a registry of
your own. Each scrape reads the running program once and does not stop it.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from denizen import announce, serving
from denizen.errors import DenizenError, MissingPackageError
from denizen.nvml import Nvml, Sensors
from denizen.serving import Answer, Request
from denizen.telemetry import ROUTES, Durations, Telemetry

try:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import (
        CounterMetricFamily,
        GaugeMetricFamily,
        HistogramMetricFamily,
        Metric,
    )
    from prometheus_client.exposition import choose_encoder
    from prometheus_client.registry import Collector as _Collector
except ImportError as error:
    raise MissingPackageError("prometheus-client") from error

if TYPE_CHECKING:
    from denizen.runtime import Runtime


class Collector(_Collector):
    """Turns ``rt.telemetry()`` into metrics named ``denizen_*`` at every scrape."""

    def __init__(self, rt: Runtime) -> None:
        self._rt = rt
        self._device = str(rt.description["device"])
        first, nodes = rt.gpu or 0, int(rt.description["nodes"])
        indices = () if rt.gpu is None else range(first, first + nodes)
        self._nvml = [Nvml.open(index) for index in indices]

    def sensors(self) -> dict[int, Sensors]:
        """The state of each node's GPU; of none on the CPU, and without NVML."""
        return {node: gpu.sensors() for node, gpu in enumerate(self._nvml) if gpu is not None}

    def snapshot(self) -> dict[str, Any]:
        """What ``denizen top`` shows, made of what JSON knows."""
        return {
            "program": self._rt.program.name,
            "device": self._device,
            "telemetry": asdict(self._rt.telemetry()),
            "gpus": {str(node): asdict(sensors) for node, sensors in self.sensors().items()},
        }

    def collect(self) -> Iterator[Metric]:
        """One scrape: counts since the program's start, durations while it was observed."""
        yield _gauges(
            "program", "1, with the program's name.", {(self._rt.program.name, self._device): 1},
            "program", "device",
        )  # fmt: skip
        t = self._rt.telemetry()
        yield from _of_program(t)
        yield from _of_workers(t)
        yield from _of_actors(t)
        yield from _of_gpus(self.sensors())


_Values = Mapping[tuple[str, ...], float | None]


def _counters(name: str, text: str, values: _Values, *labels: str) -> Metric:
    family = CounterMetricFamily(f"denizen_{name}", text, labels=labels)
    for key, value in values.items():
        if value is not None:
            family.add_metric(key, value)
    return family


def _gauges(name: str, text: str, values: _Values, *labels: str) -> Metric:
    family = GaugeMetricFamily(f"denizen_{name}", text, labels=labels)
    for key, value in values.items():
        if value is not None:
            family.add_metric(key, value)
    return family


def _histogram(name: str, text: str, by_actor: Mapping[str, Durations]) -> Metric:
    family = HistogramMetricFamily(f"denizen_{name}", text, labels=("actor",))
    for actor, d in by_actor.items():
        # Where the runtime's buckets end, every second power of two from 16 ns to 17 s.
        edges = [(f"{seconds:.9g}", float(n)) for seconds, n in d.by_power()[2:34:2]]
        family.add_metric((actor,), [*edges, ("+Inf", float(d.count))], d.sum)
    return family


def _of_program(t: Telemetry) -> Iterator[Metric]:
    yield _counters("errors", "Errors of the program, dead letters included.", {(): t.errors})
    yield _counters("launches", "Times the program went onto its device.", {(): t.launches})
    yield _counters("actors_spawned", "Actors spawned by handlers.", {(): t.spawned})
    yield _counters("actors_not_spawned", "Those without a place.", {(): t.not_spawned})
    yield _gauges("timers", "Messages that are to be sent later.", {(): t.timers})
    yield _counters("timers_fired", "Messages that were sent later.", {(): t.timers_fired})
    yield _counters("timers_refused", "Those without room.", {(): t.timers_refused})
    yield _counters("tasks", "Tasks of handlers, run.", {(): t.tasks})
    yield _counters("tasks_refused", "Those without room.", {(): t.tasks_refused})
    yield _counters("tasks_failed", "Those that have failed.", {(): t.tasks_failed})
    yield _counters(
        "messages_sent", "Messages sent by actors, by the way they took.",
        {(route,): n for route, n in zip(ROUTES, t.sent, strict=True)}, "route",
    )  # fmt: skip


def _of_workers(t: Telemetry) -> Iterator[Metric]:
    workers = {(str(w.node), str(w.number)): w for w in t.workers}
    yield _counters(
        "messages_handled", "Messages handled.",
        {key: w.handled for key, w in workers.items()}, "node", "worker",
    )  # fmt: skip
    yield _counters(
        "dead_letters", "Messages without a live actor or a handler.",
        {key: w.dead_letters for key, w in workers.items()}, "node", "worker",
    )  # fmt: skip
    yield _counters(
        "worker_batches", "Rounds that handled messages, while observed.",
        {key: w.batches for key, w in workers.items()}, "node", "worker",
    )  # fmt: skip
    yield _counters(
        "worker_idle_rounds", "Rounds that found no message, while observed.",
        {key: w.idle_rounds for key, w in workers.items()}, "node", "worker",
    )  # fmt: skip
    yield _gauges(
        "worker_busy_seconds", "How long the handlers that run now have been running.",
        {key: w.busy for key, w in workers.items()}, "node", "worker",
    )  # fmt: skip
    yield _gauges(
        "queue_slots", "64-byte slots that wait: from the host, from workers, without room.",
        {
            (*key, queue): float(getattr(w, queue))
            for key, w in workers.items()
            for queue in ("host_ring", "inbox", "near", "outbox")
        },
        "node", "worker", "queue",
    )  # fmt: skip


def _of_actors(t: Telemetry) -> Iterator[Metric]:
    yield _gauges("actors", "Live actors.", {(a.name,): a.live for a in t.actor_types}, "actor")
    yield _counters(
        "handlers_run", "Handlers run, by the actor's type.",
        {(a.name,): a.handled for a in t.actor_types}, "actor",
    )  # fmt: skip
    yield _histogram(
        "handler_duration_seconds", "How long handlers took.",
        {a.name: a.durations for a in t.actor_types},
    )  # fmt: skip
    yield _histogram(
        "message_latency_seconds", "From a send to its handler on the same node, of samples.",
        {a.name: a.latencies for a in t.actor_types},
    )  # fmt: skip
    slowest: dict[tuple[str, ...], float] = {}
    for s in t.slowest:
        key = (s.type, s.message)
        slowest[key] = max(s.seconds, slowest.get(key, 0.0))
    yield _gauges(
        "slowest_handler_seconds", "The slowest handler since observing began.", slowest,
        "actor", "message",
    )  # fmt: skip


def _of_gpus(sensors: Mapping[int, Sensors]) -> Iterator[Metric]:
    gpus = {(str(node), s.name): s for node, s in sensors.items()}

    def each(name: str, text: str, value: Callable[[Sensors], float | None]) -> Metric:
        return _gauges(name, text, {key: value(s) for key, s in gpus.items()}, "node", "gpu")

    if not gpus:
        return
    yield each("gpu_power_watts", "Power drawn.", lambda s: s.power_w)
    yield each("gpu_power_limit_watts", "Power allowed.", lambda s: s.power_limit_w)
    yield each("gpu_temperature_celsius", "Temperature.", lambda s: s.temperature_c)
    clocks: dict[tuple[str, ...], float | None] = {}
    errors: dict[tuple[str, ...], float | None] = {}
    for key, s in gpus.items():
        for kind, mhz in (("sm", s.sm_clock_mhz), ("memory", s.memory_clock_mhz)):
            labels = (*key, kind)
            clocks[labels] = None if mhz is None else 1e6 * mhz
        for kind, count in (("corrected", s.ecc_corrected), ("uncorrected", s.ecc_uncorrected)):
            labels = (*key, kind)
            errors[labels] = count
    yield _gauges("gpu_clock_hertz", "Clocks.", clocks, "node", "gpu", "clock")
    yield _counters(
        "gpu_ecc_errors", "Memory errors since the driver was loaded.", errors,
        "node", "gpu", "kind",
    )  # fmt: skip


class Server:
    """Serves ``/metrics`` and ``/telemetry.json`` from threads of its own until closed.

    ``hosts``: names that a request may use for this machine, see :mod:`denizen.serving`.
    """

    def __init__(
        self,
        rt: Runtime,
        port: int,
        address: str,
        also: Sequence[_Collector] = (),
        hosts: Sequence[str] = (),
    ) -> None:
        self._collector = Collector(rt)
        self._registry = CollectorRegistry(auto_describe=False)
        for one in (self._collector, *also):
            self._registry.register(one)
        try:
            self._http = serving.Server(
                self._answer, port, address, hosts=hosts, name="denizen metrics"
            )
        except (OSError, OverflowError) as error:
            raise DenizenError(
                f"cannot serve metrics at {address} port {port}: {error}; port 0 takes any free one"
            ) from error
        self.url = self._http.url
        self._file: Path | None = None
        self._process = os.getpid()
        try:
            self._file = announce.announce(rt.program.name, self.url)
        except (OSError, DenizenError) as error:  # served all the same, by its URL
            warnings.warn(f"`denizen top` needs --url {self.url}: {error}", stacklevel=3)

    def close(self) -> None:
        """Stop serving; harmless when called again, and in a forked child."""
        if os.getpid() != self._process:
            return
        if self._file is not None:
            with suppress(OSError):
                self._file.unlink()
        self._http.close()

    def _answer(self, request: Request) -> Answer:
        if request.method != "GET" or request.path not in ("/", "/metrics", "/telemetry.json"):
            return Answer(404, b"/metrics or /telemetry.json\n")
        try:
            if request.path == "/telemetry.json":
                content = json.dumps(self._collector.snapshot()).encode()
                return Answer(200, content, "application/json")
            encode, kind = choose_encoder(request.headers.get("accept", ""))
            return Answer(200, encode(self._registry), kind)
        except DenizenError as error:  # closed, or dead
            return Answer(503, f"{error}\n".encode())
