# SPDX-License-Identifier: Apache-2.0
"""A discrete-event simulation of hosts that send each other messages, by what each step costs.

A host has one worker and a link to each other host (docs/scale.md). The worker goes round: it
handles a few messages of those that have come, each of which has it send one, in turn to all other
hosts, and then looks at some of its links. Of a link that it looks at it takes what has come there,
unless a thread of the link receives, and sends what waits for that link, each at most a batch. A
worker that has found nothing looks on. One that others wait for gives its core to them, and sleeps
until something comes.

Where a thread of the link receives, it is woken for what has come, takes at most a batch, gives it
to the worker, and goes on if more has come. Threads of links whose worker looks nap, and each nap
takes a core for a moment: that is not simulated nap by nap. The cores that all naps of a machine
take together are taken from what it has.

A host begins with a window of messages. Nothing here is measured: Costs are given.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict, deque
from dataclasses import dataclass

WINDOW = 256  # messages of each host that are under way
# Of the runtime (tests/lab/test_hosts_model.py compares them with its sources).
BATCH = 256  # most messages of a link that are taken together
LINKS_PER_LOOK = 8  # that a worker looks at in one round
ROUNDS_PER_LOOK = 4  # rounds in which a worker handles a message each, between two looks
NAP = 1000.0  # microseconds that a link's thread sleeps while a worker looks
SHORT_NAP = 50.0  # and its receiving one, if none has looked meanwhile
REST = 5000.0  # and if it receives, and nothing comes
PATIENCE = 256  # rounds in which a worker finds nothing, before it offers its core

WHAT = ("messages", "batches", "looks", "wakes", "naps")  # that cores are spent for

# A host has its own worker and links, and stands for others like it: of more hosts than these so
# many are simulated, and several links of one lead to the same other one.
MOST_SIMULATED = 24
_SLICE = 3000.0  # microseconds after which a worker that others wait for has to give its core


@dataclass(frozen=True)
class Costs:
    """Microseconds of a core, unless they say otherwise.

    ``send``, ``receive``: a worker's for each message, with its handler's part. ``send_batch``,
    ``receive_batch``: for each batch of a link. ``look``: for each link that it looks at. ``idle``:
    for each round that finds nothing to handle. ``wake``, ``carry``: of a thread that receives, for
    each batch and each message. ``nap``: of a thread, for each nap, and ``late``: microseconds that
    a nap lasts longer than it is told to. ``wire``: microseconds that pass between sending and
    receiving. ``threads_receive``: always, and not only for a worker that sleeps.
    """

    send: float
    send_batch: float
    receive: float
    receive_batch: float
    look: float
    idle: float
    wire: float
    wake: float
    carry: float
    nap: float
    late: float
    threads_receive: bool


@dataclass(frozen=True)
class Found:
    """What a simulation came to.

    ``rate``: messages of each host in a microsecond. ``core``: microseconds of cores for each
    message, of all threads, with those in which a worker only looks; ``by`` what they were for, of
    :data:`WHAT`. ``batch``: messages that a worker sent together, on average. ``tour``:
    microseconds between two looks at the same link. ``naps``: cores of a machine that naps want.
    """

    rate: float
    core: float
    batch: float
    tour: float
    naps: float
    by: dict[str, float]


def naps(hosts: int, costs: Costs, tour: float) -> tuple[float, int]:
    """Cores that the naps of a host's threads want, and how many threads nap.

    ``tour``: microseconds between two looks of the worker at a link. Where workers receive, a
    receiving thread that finds that none has looked since its last nap takes short ones until one
    has.
    """
    links = hosts - 1
    each = NAP + costs.late + costs.nap
    if costs.threads_receive:
        return links * costs.nap * (1 / each + 1 / (REST + costs.nap)), 2 * links
    short = SHORT_NAP + costs.late + costs.nap
    often = 1 / each if tour <= each else (1 + (tour - each) / short) / tour
    return links * costs.nap * (1 / each + often), 2 * links


def left_by_naps(cores: int, wanted: float, threads: int) -> float:
    """Cores that are left for a worker, and for what else there is, by ``threads`` that nap.

    They want ``wanted`` cores in all. Who can run has the same part of the cores as others that
    can: so a worker gets its part also where naps want them all. They come later then.
    """
    left = cores - wanted
    if left >= 1:
        return left
    low, high = max(left, 0.0), 1.0
    for _ in range(60):  # halves what is between the two
        share = (low + high) / 2
        # Of the threads those wait for a core that have not napped for as long as they would.
        waiting = threads * max(1 - (cores - share) / wanted, 0.0)
        low, high = (share, high) if cores / (waiting + 1) > share else (low, share)
    return low


class _Host:
    __slots__ = (
        "at", "came", "due", "inbox", "left", "offered", "since", "state",
        "to", "waits",
    )  # fmt: skip

    def __init__(self, links: int, window: int, each: int, at: int) -> None:
        self.inbox = 0  # messages to be handled
        self.due = window  # to be sent without one being handled: the first ones
        self.left = each
        self.to = 0  # the link that the next message goes to
        self.at = at  # the link that is looked at next
        self.waits: dict[int, int] = {}  # by link, what is to be sent
        self.came: dict[int, int] = {}  # and what is to be received
        self.state = "asleep"  # or "ready" (waits for a core), "works", "looks"
        self.since = 0.0  # it has a core, or looks for what has not come
        self.offered = -1.0  # its core, if others wait for one, in this look that began then


class _Simulation:
    def __init__(
        self, hosts: int, cores: float, costs: Costs, each: int, window: int, *, together: bool
    ) -> None:
        self.costs, self.links = costs, hosts - 1
        self.now = 0.0
        self.handled = 0
        self.spent: defaultdict[str, float] = defaultdict(float)  # microseconds of cores
        self.tours = 0.0  # looks at links, in tours
        self.batches = self.batched = 0
        simulated = min(hosts, MOST_SIMULATED)
        self.hosts = [
            _Host(self.links, window, each, h * self.links // simulated) for h in range(simulated)
        ]
        machines = 1 if together else simulated
        slots = max(1, math.ceil(cores - 1e-9))
        self._speed = cores / slots  # of each core
        self._free = [slots] * machines
        self._ready: list[deque[int]] = [deque() for _ in range(machines)]  # workers
        self._woken: list[deque[tuple[int, int]]] = [deque() for _ in range(machines)]
        self._queued: set[tuple[int, int]] = set()  # threads that wait for a core or have one
        self._awake: set[tuple[int, int]] = set()  # of these, that have found more
        self._lookers: list[list[int]] = [[] for _ in range(machines)]
        self._events: list[tuple[float, int, str, int, int, int]] = []
        self._number = 0
        self.begun = self.ended = 0.0  # of what is counted
        self.counted = 0  # messages
        self._from = simulated * each // 4
        for host in range(simulated):
            self._rouse(host)

    def tour(self) -> float:
        return len(self.hosts) * (self.ended - self.begun) / max(self.tours, 1e-9)

    def found(self, cores: int, wanted: float, left: float) -> Found:
        simulated, machines = len(self.hosts), len(self._free)
        microseconds = self.ended - self.begun
        self.spent["naps"] = (cores - left) * machines * microseconds
        return Found(
            rate=self.counted / simulated / microseconds,
            core=sum(self.spent.values()) / self.counted,
            batch=self.batched / max(self.batches, 1),
            tour=self.tour(),
            naps=wanted,
            by={what: self.spent[what] / self.counted for what in WHAT},
        )

    # Who is at the other end of a link, and by which of its links it knows this host. Several links
    # lead to the same one, if not all hosts are simulated.
    def _other(self, host: int, link: int) -> tuple[int, int]:
        n = len(self.hosts)
        return (host + 1 + link % (n - 1)) % n, self.links - 1 - link

    def run(self) -> None:
        while self._events:  # ends: all messages are handled
            self.now, _, what, host, link, count = heapq.heappop(self._events)
            if what == "arrive":
                self._arrive(host, link, count)
            elif what == "step":
                self._step_ends(host)
            elif what == "look":
                self._found(host)
            elif what == "offer":
                self._offer(host)
            else:
                self._thread_ends(host, link, count)

    def _after(self, delay: float, what: str, host: int, link: int = 0, count: int = 0) -> None:
        self._number += 1
        heapq.heappush(self._events, (self.now + delay, self._number, what, host, link, count))

    def _machine(self, host: int) -> int:
        return host % len(self._free)

    def _spend(self, what: str, microseconds: float) -> float:
        if self.begun and not self.ended:
            self.spent[what] += microseconds
        return microseconds

    # ---- cores: threads of links first, then workers by turns

    def _start(self, machine: int) -> None:
        woken, ready = self._woken[machine], self._ready[machine]
        while True:  # ends: each turn takes one that waits
            if not self._free[machine]:
                if not (woken and self._lookers[machine]):
                    break
                # Who has slept goes before one that only looks.
                host = self._lookers[machine][0]
                self._stop_looking(host, "ready")
                ready.append(host)
            if woken:
                self._free[machine] -= 1
                self._thread(*woken.popleft())
            elif ready:
                self._free[machine] -= 1
                host = ready.popleft()
                self.hosts[host].since = self.now
                self._step(host)
            else:
                return
        if ready:  # a worker that looks in vain lets another one have its core, after a while
            for host in self._lookers[machine]:
                h = self.hosts[host]
                if h.offered != h.since:
                    h.offered = h.since
                    self._after(max(h.since + self._patience() - self.now, 0.0), "offer", host)

    def _patience(self) -> float:
        return PATIENCE * self._round() / self._speed

    def _rouse(self, host: int) -> None:
        h = self.hosts[host]
        if h.state == "asleep":
            h.state = "ready"
            machine = self._machine(host)
            self._ready[machine].append(host)
            self._start(machine)

    # ---- a worker

    def _round(self) -> float:
        """Of a worker that finds nothing."""
        return self.costs.idle + min(LINKS_PER_LOOK, self.links) * self.costs.look

    def _step(self, host: int) -> None:
        """It handles some messages and looks at some links, or begins to look in vain."""
        h, costs = self.hosts[host], self.costs
        if not (h.inbox or h.due or h.waits or (h.came and not costs.threads_receive)):
            h.state = "looks"
            h.since = self.now
            self._lookers[self._machine(host)].append(host)
            self._start(self._machine(host))
            return
        h.state = "works"
        n = min(h.inbox, ROUNDS_PER_LOOK)
        h.inbox -= n
        took = self._spend("messages", n * costs.receive) if n else self._spend("looks", costs.idle)
        self._handle(h, n)
        for i in range(min(LINKS_PER_LOOK, self.links)):
            link = (h.at + i) % self.links
            took += self._spend("looks", costs.look)
            if not costs.threads_receive and link in h.came:
                k = self._take(h.came, link)
                took += self._spend("batches", costs.receive_batch)
                h.inbox += k
            if link in h.waits:
                k = self._take(h.waits, link)
                took += self._spend("batches", costs.send_batch)
                took += self._spend("messages", k * costs.send)
                self._count_batch(k)
                other, back = self._other(host, link)
                self._after(took / self._speed + costs.wire, "arrive", other, back, k)
        looked = min(LINKS_PER_LOOK, self.links)
        h.at = (h.at + looked) % self.links
        self._count_tour(looked)
        self._after(took / self._speed, "step", host)

    def _handle(self, h: _Host, n: int) -> None:
        sends = min(n + h.due, h.left)
        h.due = 0
        h.left -= sends
        for _ in range(sends):
            h.waits[h.to] = h.waits.get(h.to, 0) + 1
            h.to = (h.to + 1) % self.links
        self.handled += n
        # The last ones are not counted: not all hosts have something to do by then.
        if not self.begun and self.handled >= self._from:
            self.begun, self.counted = self.now, -self.handled
        elif self.begun and not self.ended and self.handled >= 3 * self._from:
            self.ended = self.now
            self.counted += self.handled

    @staticmethod
    def _take(of: dict[int, int], link: int) -> int:
        k = min(of[link], BATCH)
        of[link] -= k
        if not of[link]:
            del of[link]
        return k

    def _count_tour(self, looked: float) -> None:
        if self.begun and not self.ended:
            self.tours += looked / self.links

    def _count_batch(self, messages: int) -> None:
        if self.begun and not self.ended:
            self.batches += 1
            self.batched += messages

    def _step_ends(self, host: int) -> None:
        h, machine = self.hosts[host], self._machine(host)
        others = self._woken[machine] or (
            self._ready[machine] and self.now - h.since > _SLICE / self._speed
        )
        if others:
            h.state = "ready"
            self._ready[machine].append(host)
            self._free[machine] += 1
            self._start(machine)
        else:
            self._step(host)

    def _stop_looking(self, host: int, state: str) -> None:
        """Counts what it has looked in vain, and where in its links it has come."""
        h, machine = self.hosts[host], self._machine(host)
        h.state = state
        self._lookers[machine].remove(host)
        passed = (self.now - h.since) * self._speed
        rounds = int(passed / self._round() + 1e-6)
        self._spend("looks", passed)
        looked = rounds * min(LINKS_PER_LOOK, self.links)
        h.at = (h.at + looked) % self.links
        self._count_tour(looked)
        if state != "works":
            self._free[machine] += 1

    def _arrive(self, host: int, link: int, count: int) -> None:
        h = self.hosts[host]
        h.came[link] = h.came.get(link, 0) + count
        if self.costs.threads_receive or h.state == "asleep":
            self._wake(host, link)
        elif h.state == "looks":
            self._after(self._until_seen(h, link), "look", host)

    def _until_seen(self, h: _Host, link: int) -> float:
        """Microseconds until one that looks in vain comes to this link."""
        per = min(LINKS_PER_LOOK, self.links)
        one = self._round() / self._speed
        passed = math.ceil((self.now - h.since) / one - 1e-9)
        at = (h.at + passed * per) % self.links
        rounds = passed + (link - at) % self.links // per
        return max(h.since + rounds * one - self.now, 0.0)

    def _found(self, host: int) -> None:
        if self.hosts[host].state == "looks" and self.hosts[host].came:
            self._stop_looking(host, "works")
            self._step(host)

    def _offer(self, host: int) -> None:
        h, machine = self.hosts[host], self._machine(host)
        late = self.now - h.since >= self._patience() - 1e-6
        if h.state == "looks" and self._ready[machine] and late:
            self._stop_looking(host, "asleep")
            self._start(machine)

    # ---- a thread of a link, that receives

    def _wake(self, host: int, link: int) -> None:
        if (host, link) not in self._queued:
            self._queued.add((host, link))
            machine = self._machine(host)
            self._woken[machine].append((host, link))
            self._start(machine)

    def _thread(self, host: int, link: int) -> None:
        costs, came = self.costs, self.hosts[host].came
        k = self._take(came, link) if link in came else 0  # the worker may have been faster
        awake = (host, link) in self._awake
        took = 0.0 if awake else self._spend("wakes", costs.wake)
        took += self._spend("messages", k * costs.carry)
        self._after(took / self._speed, "thread", host, link, k)

    def _thread_ends(self, host: int, link: int, count: int) -> None:
        h, machine = self.hosts[host], self._machine(host)
        self._free[machine] += 1
        if link in h.came:  # it goes on
            self._awake.add((host, link))
            self._woken[machine].append((host, link))
        else:
            self._awake.discard((host, link))
            self._queued.discard((host, link))
        h.inbox += count
        if h.state == "looks" and count:
            self._stop_looking(host, "works")
            self._step(host)
        elif count:
            self._rouse(host)
        self._start(machine)


def simulate(
    hosts: int,
    cores: int,
    costs: Costs,
    each: int,
    *,
    window: int = WINDOW,
    together: bool = False,
) -> Found:
    """Each of ``hosts``, 2 or more, sends ``each`` messages, in turn to all others.

    ``cores``: of each host's machine, or, if all are ``together`` on one, of that. What the
    middle half of the messages took is counted. Naps are taken from the cores; where a worker comes
    to a link less often than its threads nap, these nap shorter, and it is simulated once more.
    """
    on_one = hosts if together else 1
    tour = 0.0
    for _ in range(4):  # the longer a tour, the more naps, and so the longer it is
        wanted, threads = (on_one * x for x in naps(hosts, costs, tour))
        left = left_by_naps(cores, wanted, int(threads))
        s = _Simulation(hosts, left, costs, each, window, together=together)
        s.run()
        before, tour = tour, s.tour()
        if naps(hosts, costs, tour)[0] < 1.05 * naps(hosts, costs, before)[0]:
            break
    return s.found(cores, wanted, left)
