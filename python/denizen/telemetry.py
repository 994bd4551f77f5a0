# SPDX-License-Identifier: Apache-2.0
"""What a running program tells of itself: the answer of :meth:`denizen.Runtime.telemetry`.

Plain data, for `denizen.metrics`, `denizen top` and whoever asks. Times are seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

ROUTES = ("worker", "sm", "cluster", "gpu", "peer", "host")
"""The ways a message can take, nearest first."""

DURATION_ERROR = 0.125
"""Quantiles of durations are off by at most this part of themselves."""


@dataclass(frozen=True, slots=True)
class Worker:
    """One worker: a warp on a GPU, a thread on the CPU.

    ``host_ring`` (from the host), ``inbox`` (from workers of its node), ``near`` (from those of its
    cluster and itself, while observed) and ``outbox`` (what found no room) are queues in 64-byte
    slots; the first two may be given as at most a quarter of the ring too long. ``batches`` and
    ``idle_rounds``, the rounds with and without a message, count while observed.
    """

    node: int
    number: int  # on its node
    mode: str
    actors: int
    handled: int
    batches: int
    idle_rounds: int
    dead_letters: int
    host_ring: int
    inbox: int
    near: int
    outbox: int
    sent: tuple[int, ...]  # by ROUTES
    busy: float  # how long the handlers that run now have been running; 0: none
    busy_actor: int
    busy_message: str


@dataclass(frozen=True, slots=True)
class Durations:
    """How long handlers took, or messages to them, since the program was first observed.

    ``buckets``: HDR-style counts; the first four are 0 to 3 ns, then four for each power of two.
    """

    count: int
    sum: float
    p50: float
    p90: float
    p99: float
    p999: float
    max: float
    buckets: tuple[int, ...]

    def by_power(self) -> list[tuple[float, int]]:
        """How many were shorter than 4 ns, 8 ns, 16 ns, ... 2**40 ns: (seconds, how many)."""
        found, below = [], 0
        for i in range(0, len(self.buckets), 4):
            below += sum(self.buckets[i : i + 4])
            found.append((2 ** (2 + i // 4) * 1e-9, below))
        return found


@dataclass(frozen=True, slots=True)
class ActorType:
    """All actors of one type; ``handled`` counts handlers run, a broadcast once for each actor.

    ``latencies`` are from a send to its handler, of samples: of what actors sent to actors of
    their node while observed, one message of each worker now and then.
    """

    name: str
    live: int
    handled: int
    durations: Durations
    latencies: Durations


@dataclass(frozen=True, slots=True)
class SlowHandler:
    """The slowest handler of a worker since observing began; ``type`` is the actor's."""

    actor: int
    type: str
    message: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Telemetry:
    """A whole program. Counts only grow; of different words they may be microseconds apart.

    ``time`` is the host's monotonic clock, ``device_time`` the device's (of another origin; on a
    GPU 0 until observed). ``slowest`` has one entry for each worker that has one, slowest first.
    """

    time: float
    device_time: float
    observed: bool
    mode: str
    handled: int
    dead_letters: int
    errors: int
    launches: int
    sent: tuple[int, ...]  # by ROUTES
    workers: tuple[Worker, ...]
    actor_types: tuple[ActorType, ...]
    slowest: tuple[SlowHandler, ...]
    # Actors that handlers have spawned, and could not for want of a place (``spawn_room``); what
    # they send later: to fire, fired, and refused for want of room (``timer_slots``).
    spawned: int = 0
    not_spawned: int = 0
    timers: int = 0
    timers_fired: int = 0
    timers_refused: int = 0
    # Tasks that handlers spawn: run, refused for want of room (``task_slots``), and failed.
    tasks: int = 0
    tasks_refused: int = 0
    tasks_failed: int = 0

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Telemetry:
        """From the extension module's answer, or from what JSON made of ``asdict``."""
        return cls(
            **{
                **given,
                "sent": tuple(given["sent"]),
                "workers": tuple(
                    Worker(**{**w, "sent": tuple(w["sent"])}) for w in given["workers"]
                ),
                "actor_types": tuple(_actor_type(a) for a in given["actor_types"]),
                "slowest": tuple(SlowHandler(**s) for s in given["slowest"]),
            }
        )


def _actor_type(given: Mapping[str, Any]) -> ActorType:
    def durations(name: str) -> Durations:
        return Durations(**{**given[name], "buckets": tuple(given[name]["buckets"])})

    times = {name: durations(name) for name in ("durations", "latencies")}
    return ActorType(**{**given, **times})
