# SPDX-License-Identifier: Apache-2.0
"""A discrete-event simulation of hosts that send each other messages, by what each step costs.

A host has a worker and, for each other host, a thread that sends and one that receives
(docs/scale.md). They share its machine's cores: who has something to do waits for one, takes what
has come by then, at most a batch, and keeps the core for as long as that takes. A host begins with
a window of messages, and then sends one for each that it handles. Nothing here is measured.
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from dataclasses import dataclass
from typing import NamedTuple

_BATCH = 256  # most messages that a thread takes together
WINDOW = 256  # messages of each host that are under way


@dataclass(frozen=True)
class Costs:
    """Microseconds of a core, unless they say otherwise.

    ``post``, ``handle``: a worker's, for each message. ``wake_out``, ``wake_in``: of a link's
    threads, for each batch; ``out``, ``in_``: for each message in it. ``wire``: microseconds that
    pass between the two.
    """

    post: float
    handle: float
    wake_out: float
    out: float
    wake_in: float
    in_: float
    wire: float


@dataclass(frozen=True)
class Found:
    """What a simulation came to: messages of each host in a microsecond, and what was busy.

    ``core``: microseconds of cores for each message, of all threads. ``shares``: of the time of all
    cores, by "worker", "wakes" and "links" (what their messages take). ``batch``: messages that a
    sending thread took together, on average.
    """

    rate: float
    core: float
    shares: dict[str, float]
    batch: float


class _Thread(NamedTuple):
    """The worker of ``host``, or what sends from there to ``other``, or receives from that."""

    kind: str
    host: int
    other: int


class _Simulation:
    def __init__(self, hosts: int, cores: int, costs: Costs, each: int, *, together: bool) -> None:
        self.hosts, self.costs = hosts, costs
        self.now = 0.0
        self.handled = 0
        self.shares: Counter[str] = Counter()  # nanoseconds of cores
        self.batches = self.batched = 0
        # (when, number of the event, thread, messages that arrive; None: it gives its core back)
        self._events: list[tuple[float, int, _Thread, int | None]] = []
        self._number = 0
        machines = 1 if together else hosts
        self._free = [cores] * machines
        self._ready: list[deque[_Thread]] = [deque() for _ in range(machines)]
        self._waiting: Counter[_Thread] = Counter()  # messages
        self._queued: set[_Thread] = set()  # these wait for a core, or have one
        self._has: dict[_Thread, Counter[int]] = {}  # what one with a core works at, by other host
        self._left = [each] * hosts
        self._to = list(range(hosts))
        self._due = [WINDOW] * hosts  # to be sent now
        for host in range(hosts):
            self._wake(_Thread("worker", host, host))

    def run(self) -> None:
        while self._events:  # ends: all messages are handled
            self.now, _, thread, count = heapq.heappop(self._events)
            if count is None:
                self._end(thread)
            else:
                self._give(thread, count)

    def _after(self, delay: float, thread: _Thread, count: int | None) -> None:
        self._number += 1
        heapq.heappush(self._events, (self.now + delay, self._number, thread, count))

    def _give(self, thread: _Thread, count: int) -> None:
        self._waiting[thread] += count
        self._wake(thread)

    def _wake(self, thread: _Thread) -> None:
        if thread not in self._queued:
            self._queued.add(thread)
            machine = thread.host % len(self._free)
            self._ready[machine].append(thread)
            self._start(machine)

    def _start(self, machine: int) -> None:
        while self._free[machine] and self._ready[machine]:  # ends: each turn takes one
            thread = self._ready[machine].popleft()
            self._free[machine] -= 1
            self._after(self._work(thread), thread, None)

    def _work(self, thread: _Thread) -> float:
        """Takes what has come by now; how long that is worked at."""
        costs = self.costs
        if thread.kind == "worker":
            handled = min(self._waiting[thread], _BATCH)
            self._waiting[thread] -= handled
            self._due[thread.host] += handled
            posted = self._post(thread.host)
            self._has[thread] = posted
            self.handled += handled
            took = handled * costs.handle + posted.total() * costs.post
            self._note("worker", took)
            return took
        count = min(self._waiting[thread], _BATCH)
        self._waiting[thread] -= count
        self._has[thread] = Counter({thread.other: count})
        sends = thread.kind == "out"
        wake, each = (costs.wake_out, costs.out) if sends else (costs.wake_in, costs.in_)
        self.batches += sends
        self.batched += sends * count
        self._note("wakes", wake)
        self._note("links", count * each)
        return wake + count * each

    def _post(self, host: int) -> Counter[int]:
        posted: Counter[int] = Counter()
        for _ in range(min(self._due[host], self._left[host])):
            to = (self._to[host] + 1) % self.hosts
            if to == host:
                to = (to + 1) % self.hosts
            self._to[host] = to
            posted[to] += 1
        self._due[host] = 0
        self._left[host] -= posted.total()
        return posted

    def _end(self, thread: _Thread) -> None:
        machine = thread.host % len(self._free)
        self._free[machine] += 1
        self._queued.discard(thread)
        for other, count in self._has.pop(thread).items():
            if thread.kind == "worker":
                self._give(_Thread("out", thread.host, other), count)
            elif thread.kind == "out":
                self._after(self.costs.wire, _Thread("in", other, thread.host), count)
            else:
                self._give(_Thread("worker", thread.host, thread.host), count)
        if self._waiting[thread]:
            self._wake(thread)
        self._start(machine)

    def _note(self, what: str, microseconds: float) -> None:
        self.shares[what] += round(1000 * microseconds)


def simulate(hosts: int, cores: int, costs: Costs, each: int, *, together: bool = False) -> Found:
    """Each of ``hosts``, 2 or more, sends ``each`` messages, in turn to all others.

    ``cores``: of each host's machine, or, if all are ``together`` on one, of that.
    """
    s = _Simulation(hosts, cores, costs, each, together=together)
    s.run()
    assert s.handled == hosts * each
    every = 1000 * s.now * cores * (1 if together else hosts)
    return Found(
        each / s.now,
        s.shares.total() / 1000 / (hosts * each),
        {name: busy / every for name, busy in s.shares.items()},
        s.batched / max(s.batches, 1),
    )
