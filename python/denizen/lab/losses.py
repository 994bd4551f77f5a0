# SPDX-License-Identifier: Apache-2.0
"""Hosts that are killed, stopped and cut off under load, and an account of every message.

Each host has a source of numbers for each other one, and a sink. A trial is one cluster and some
failures, all drawn from its seed. At its end each number that a source on a host that lives has
sent is one of three: the sink has it; it is a dead letter that names the lost host; or the lost
host had taken it over (acknowledged). The sink counts what comes out of turn, so that nothing is
lost in between or comes twice; ``AccountError`` says what does not add up.
"""

from __future__ import annotations

import os
import signal
import struct
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

import denizen
from denizen.cluster import Cluster
from denizen.errors import DenizenError, HostLostError

_TEXT = """
struct Sink {
    uint32_t next[9] = {};
    uint32_t wrong = 0;
    void on(const Number& m, auto&) {
        if (m.value != next[m.pair]) { ++wrong; }
        next[m.pair] = m.value + 1;
    }
    void on(const Look&, auto& ctx) {
        Seen s{};
        for (uint32_t i = 0; i < 9; ++i) { s.next[i] = next[i]; }
        s.wrong = wrong;
        ctx.reply(s);
    }
};
struct Source {
    uint32_t sent = 0, refused = 0;
    void on(const Go& m, auto& ctx) {
        for (uint32_t i = 0; i < m.piece && sent < m.until; ++i) {
            if (ctx.send(m.to, Number{m.pair, sent})) { ++sent; } else { ++refused; break; }
        }
        if (sent >= m.until) { return; }
        if (m.pause_ns != 0) {
            ctx.send_after(m.pause_ns, ctx.self(), m);
        } else {
            ctx.send(ctx.self(), m);
        }
    }
    void on(const Look&, auto& ctx) { ctx.reply(Told{sent, refused}); }
};
"""

KINDS = ("kill", "stop", "cut", "mend")
MOST_HOSTS = 3
_ROUND = 3000  # numbers of each pair between two failures
_PATIENCE = 60.0


def program() -> denizen.Program:
    """Sources and sinks."""
    return denizen.Program(
        _TEXT,
        actors=["Sink", "Source"],
        messages=[
            denizen.message("Number", [("pair", np.uint32), ("value", np.uint32)]),
            denizen.message("Look"),
            denizen.message("Seen", [("next", np.uint32, 9), ("wrong", np.uint32)]),
            denizen.message("Told", [("sent", np.uint32), ("refused", np.uint32)]),
            denizen.message(
                "Go",
                [
                    ("to", denizen.ADDRESS),
                    ("pair", np.uint32),
                    ("until", np.uint32),
                    ("piece", np.uint32),
                    ("pause_ns", np.uint64),
                ],
            ),
        ],
        name="losses of the lab",
    )


class AccountError(DenizenError):
    """A message of a trial that nobody can account for."""


@dataclass
class Account:
    """What became of all numbers of some trials."""

    sent: int = 0  # by sources on hosts that live
    delivered: int = 0  # of these, handled by a sink that can be asked
    dead: int = 0  # dead letters that name a lost host
    gone: int = 0  # acknowledged by a host that was lost
    both: int = 0  # handled, and dead letters too: the acknowledgement was under way
    of_lost: int = 0  # delivered, from hosts that were lost later
    events: dict[str, int] = field(default_factory=dict)
    known_ms: dict[str, list[float]] = field(default_factory=dict)

    def __add__(self, other: Account) -> Account:
        total = Account(
            self.sent + other.sent,
            self.delivered + other.delivered,
            self.dead + other.dead,
            self.gone + other.gone,
            self.both + other.both,
            self.of_lost + other.of_lost,
        )
        for one in (self, other):
            for kind, count in one.events.items():
                total.events[kind] = total.events.get(kind, 0) + count
            for kind, times in one.known_ms.items():
                total.known_ms.setdefault(kind, []).extend(times)
        return total

    def __str__(self) -> str:
        """What became of all, and how soon each failure was known."""
        events = ", ".join(f"{count} x {kind}" for kind, count in self.events.items())
        known = ", ".join(
            f"{kind} {np.median(times):,.1f} (most {max(times):,.1f})"
            for kind, times in self.known_ms.items()
        )
        return (
            f"{events}: {self.sent:,} messages sent by hosts that lived; {self.delivered:,} "
            f"handled, {self.dead:,} dead letters ({self.both:,} of these were handled too), "
            f"{self.gone:,} taken over by a host that was lost; known after, in ms: {known}"
        )

    @property
    def complete(self) -> bool:
        """Whether each number is accounted for once."""
        return self.sent == self.delivered + self.dead - self.both + self.gone


def plan(kills: int, stops: int, cuts: int, seed: int) -> list[tuple[int, str, list[str]]]:
    """Trials with so many failures of each kind: hosts, transport, failures; drawn from `seed`.

    Half of the cuts are mended before the deadline. A cluster of three hosts goes through two
    failures that cost it a host, or one cut; mended ones come before.
    """
    rng = np.random.default_rng(seed)
    mends = cuts // 2
    ends = ["kill"] * kills + ["stop"] * stops
    rng.shuffle(ends)
    trials: list[tuple[int, str, list[str]]] = []
    for _ in range(cuts - mends):
        hosts = int(rng.integers(2, 4))
        # With three, host 0 sees both sides, and a host that was cut off is killed after that.
        after = [ends.pop()] if hosts == 3 and ends else []
        trials.append((hosts, "tcp", ["cut", *after]))
    while ends:  # ends: each turn takes one
        hosts = int(rng.integers(2, 4))
        transport = ("rings", "tcp")[int(rng.integers(2))]
        trials.append((hosts, transport, [ends.pop() for _ in range(min(hosts - 1, len(ends)))]))
    on_tcp = [events for _, transport, events in trials if transport == "tcp"]
    if mends and not on_tcp:
        trials.append((2, "tcp", []))
        on_tcp.append(trials[-1][2])
    for i in range(mends):
        on_tcp[i % len(on_tcp)].insert(0, "mend")
    return trials


def run(
    hosts: int,
    transport: str,
    events: Sequence[str],
    seed: int,
    *,
    device: str = "cpu:1",
    deadline: float = 2.0,
) -> Account:
    """One trial: a cluster goes through these failures; AccountError if a message is missing."""
    with Cluster(
        program(),
        hosts,
        device=device,
        transport=transport,
        deadline=deadline,
        max_actors=64,
        dead_letter_slots=1 << 16,
    ) as cluster:
        trial = _Trial(cluster, hosts, deadline, np.random.default_rng(seed))
        try:
            for event in events:
                trial.go_through(event)
            return trial.account()
        except AccountError as error:
            raise AccountError(
                f"{error} (seed {seed}: {hosts} hosts, {transport}, {', '.join(events)})"
            ) from None
        finally:
            trial.wake()


class _Trial:
    def __init__(
        self, cluster: Cluster, hosts: int, deadline: float, rng: np.random.Generator
    ) -> None:
        self.cluster, self.hosts, self.deadline, self.rng = cluster, hosts, deadline, rng
        self.sinks = [int(cluster.spawn("Sink", host=h)[0]) for h in range(hosts)]
        self.pairs = {
            (a, b): int(cluster.spawn("Source", host=a)[0])
            for a in range(hosts)
            for b in range(hosts)
            if a != b
        }
        self.until = 0
        self.stopped: set[int] = set()
        self.out: set[int] = set()  # hosts that a failure has taken
        self.letters: dict[int, list[dict[str, Any]]] = {}
        self.result = Account()

    # ---- failures

    def go_through(self, event: str) -> None:
        self.load()
        time.sleep(float(self.rng.uniform(0, 0.02)))
        living = [h for h in range(1, self.hosts) if h not in self.out]
        begin = time.perf_counter()
        if event in ("kill", "stop"):
            victim = int(self.rng.choice(living))
            pid = self.cluster.hosts[victim].pid
            os.kill(pid, signal.SIGKILL if event == "kill" else signal.SIGSTOP)
            if event == "stop":
                self.stopped.add(victim)
            self.out.add(victim)
            self.wait(lambda: victim in self.cluster.lost, f"host {victim} is not lost")
        elif event == "cut":
            one, other = ([1], [2]) if self.hosts == 3 else ([0], [1])
            self.cluster.partition(one, other)
            self.wait(
                lambda: all(
                    self.link(a, b)["state"] == "lost" for a, b in ((*one, *other), (*other, *one))
                ),
                f"hosts {one[0]} and {other[0]} have not given each other up",
            )
            if self.hosts == 2:
                self.out.add(1)
        else:
            one, other = ([1], [2]) if self.hosts == 3 and self.rng.random() < 0.5 else ([0], [1])
            self.cluster.partition(one, other)
            time.sleep(float(self.rng.uniform(0, self.deadline / 3)))
            self.cluster.partition([*one, *other], [])
        known = (time.perf_counter() - begin) * 1e3
        if event in ("kill", "stop"):  # before it goes on, all know
            others = [h for h in range(self.hosts) if h not in self.cluster.lost]
            self.wait(
                lambda: all(self.link(h, victim)["state"] == "lost" for h in others),
                f"host {victim} is not lost to all",
            )
        self.finish()
        self.wake()
        self.result.events[event] = self.result.events.get(event, 0) + 1
        if event != "mend":
            self.result.known_ms.setdefault(event, []).append(known)

    def wake(self) -> None:
        """Those that were stopped go on, and are told."""
        for host in self.stopped:
            os.kill(self.cluster.hosts[host].pid, signal.SIGCONT)
        self.stopped.clear()

    # ---- load

    def load(self) -> None:
        self.until += _ROUND
        piece = int(self.rng.choice([1, 16, 256]))
        pause = int(self.rng.choice([0, 20_000])) if piece > 1 else 0
        for (a, b), source in self.pairs.items():
            with suppress(HostLostError):
                self.cluster.send(
                    source,
                    "Go",
                    to=self.sinks[b],
                    pair=3 * a + b,
                    until=self.until,
                    piece=piece,
                    pause_ns=pause,
                )

    def finish(self) -> None:
        """All sources that can be asked have sent what they were to send, and it has arrived."""
        for (a, b), source in self.pairs.items():
            self.wait(
                partial(self.is_done, source),
                f"the source of host {a} for host {b} has not sent {self.until}",
            )
        self.cluster.drain(timeout=_PATIENCE)

    def is_done(self, source: int) -> bool:
        return self.look(source, "sent") in (None, self.until)

    def look(self, actor: int, name: str) -> Any:
        """Of an actor's answer; None if its host is lost."""
        try:
            return self.cluster.ask(actor, "Look", timeout=_PATIENCE)[name]
        except HostLostError:
            return None

    def link(self, host: int, other: int) -> dict[str, Any]:
        """As that host itself counts it, also where it is lost to host 0."""
        if host == 0:
            return dict(self.cluster.stats()[0]["links"][other])
        stats = self.cluster._hosts.call_anyway(host, "stats", 10.0)
        return dict(stats["links"][str(other)])

    def wait(self, done: Callable[[], bool], problem: str) -> None:
        end = time.monotonic() + _PATIENCE
        while not done():  # ends by the failure that is waited for, or the deadline
            if time.monotonic() > end:
                raise AccountError(f"{problem} after {_PATIENCE:.0f} s")
            time.sleep(0.0005)

    # ---- the account

    def account(self) -> Account:
        self.finish()
        stats = self.cluster.stats()
        for host, letters in self.cluster.dead_letters().items():
            self.letters[host] = [d for d in letters if d["type"] == "Number"]
            buried = sum(stats[host]["dead_letters_by_reason"].values())
            if len(letters) != buried:
                raise AccountError(f"host {host} has {len(letters)} dead letters of {buried}")
        seen = {h: self.cluster.ask(self.sinks[h], "Look", timeout=_PATIENCE) for h in stats}
        for host, of_sink in seen.items():
            if of_sink["wrong"] != 0:
                raise AccountError(f"host {host}: {of_sink['wrong']} numbers came out of turn")
            for other, link in stats[host]["links"].items():
                if link["taken"] != link["acknowledged"] + link["lost"]:
                    raise AccountError(f"the link of host {host} to host {other}: {link}")
        for (a, b), source in self.pairs.items():
            arrived = int(seen[b]["next"][3 * a + b]) if b in seen else None
            if a in seen:
                sent = int(self.look(source, "sent"))
                self.pair(a, b, sent, arrived, str(stats[a]["links"][b]["state"]))
            elif arrived is not None:
                self.result.of_lost += arrived
        if not self.result.complete:
            raise AccountError(f"it does not add up: {self.result}")
        return self.result

    def pair(self, a: int, b: int, sent: int, arrived: int | None, state: str) -> None:
        """Numbers of a host that lives, for another one."""
        said = [d for d in self.letters[a] if _pair_of(d) == 3 * a + b]
        values = [_value_of(d) for d in said]
        taken = sent - len(values)  # by the other host
        what = f"host {a} to host {b} ({state}), {sent} sent, {len(values)} dead letters"
        if state != "lost" and (values or arrived != sent):
            raise AccountError(f"{what}, {arrived} arrived")
        if values != list(range(taken, sent)):
            raise AccountError(f"{what}: not those after the {taken} that were taken over")
        if any(d["reason"] != "lost" or f"host {b} was lost" not in d["text"] for d in said):
            raise AccountError(f"{what}: one does not say that host {b} was lost")
        if arrived is not None and arrived < taken:
            raise AccountError(f"{what}: {taken} acknowledged, {arrived} arrived")
        self.result.sent += sent
        self.result.dead += len(values)
        if arrived is None:
            self.result.gone += taken
        else:
            self.result.delivered += arrived
            self.result.both += arrived - taken


def _pair_of(letter: dict[str, Any]) -> int:
    return int(struct.unpack_from("<I", letter["payload"])[0])


def _value_of(letter: dict[str, Any]) -> int:
    return int(struct.unpack_from("<I", letter["payload"], 4)[0])
