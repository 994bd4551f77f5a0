# SPDX-License-Identifier: Apache-2.0
"""The PTX memory model, as far as litmus tests of the protocols need it: which outcomes of a few
threads it allows.

Every candidate execution is looked at: each way of each thread through its program for all values
that its loads may return, each store that each load may have read, each order of the stores and
full fences that have to be ordered. The axioms are those of the PTX ISA's chapter "Memory
Consistency Model" in the form of Lustig, Sahasrabuddhe and Giroux (ASPLOS 2019); accesses by
proxies are left out. A relation is a list of bit masks: bit b of row a says that a comes before b.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

from litmus import Litmus, LitmusError
from traces import Event, Trace, possible_values, traces

MOST_EVENTS = 26  # of an execution, initial stores among them

# ---- Relations


def compose(a: list[int], b: list[int]) -> list[int]:
    out = []
    for row in a:
        mask, left = 0, row
        while left:
            low = left & -left
            mask |= b[low.bit_length() - 1]
            left ^= low
        out.append(mask)
    return out


def union(*relations: list[int]) -> list[int]:
    out = [0] * len(relations[0])
    for relation in relations:
        out = [x | y for x, y in zip(out, relation, strict=True)]
    return out


def reflexive(a: list[int]) -> list[int]:
    return [row | 1 << i for i, row in enumerate(a)]


def closure(a: list[int]) -> list[int]:
    out = list(a)
    for k, through in enumerate(out):
        bit = 1 << k
        if through:
            for i, row in enumerate(out):
                if row & bit:
                    out[i] = row | through
    return out


def inverse(a: list[int]) -> list[int]:
    return [sum(1 << j for j, row in enumerate(a) if row >> i & 1) for i in range(len(a))]


def meet(a: list[int], b: list[int]) -> list[int]:
    return [x & y for x, y in zip(a, b, strict=True)]


def irreflexive(a: list[int]) -> bool:
    return not any(row >> i & 1 for i, row in enumerate(a))


def acyclic(a: list[int]) -> bool:
    return irreflexive(closure(a))


# ---- Executions


class Execution:
    """The threads' traces put together; what holds for all choices of who reads from whom."""

    def __init__(self, test: Litmus, chosen: tuple[Trace, ...]) -> None:
        self.test = test
        places = sorted({e.place for trace in chosen for e in trace.events if e.place})
        self.events = [
            Event("W", -1, place=p, value=test.initial.get(p, 0), order="init") for p in places
        ]
        bases = []
        for trace in chosen:
            bases.append(len(self.events))
            self.events += trace.events
        n = self.n = len(self.events)
        if n > MOST_EVENTS:
            raise LitmusError(f"{test.name}: {n} events of an execution; use at most {MOST_EVENTS}")
        self.po = [0] * n
        self.dep = [0] * n
        self.rmw = [0] * n
        for base, trace in zip(bases, chosen, strict=True):
            for i, event in enumerate(trace.events):
                for j in range(i + 1, len(trace.events)):
                    self.po[base + i] |= 1 << base + j
                for load in event.after:
                    self.dep[base + load] |= 1 << base + i
                if event.partner >= 0:
                    self.rmw[base + i] |= 1 << base + event.partner
        self.reads = [i for i, e in enumerate(self.events) if e.kind == "R"]
        self.strong = self.relation(self._morally_strong)
        self.barrier = self.relation(self._meets)
        same = self.relation(lambda a, b: a.place == b.place != "")
        self.po_loc = meet(self.po, same)
        self.same = same
        to_strong_write = self.only(self.po, lambda e: e.kind == "W" and e.order != "weak")
        from_strong_read = self.only(
            inverse(self.po), lambda e: e.kind == "R" and e.order != "weak"
        )
        self.release = [
            (row if self._is_fence(e, "release") else 0)
            | (row & same[i] | 1 << i if e.kind == "W" and e.order in ("release", "acq_rel") else 0)
            for i, (e, row) in enumerate(zip(self.events, to_strong_write, strict=True))
        ]
        acquired = [
            (row if self._is_fence(e, "acquire") else 0)
            | (row & same[i] | 1 << i if e.kind == "R" and e.order in ("acquire", "acq_rel") else 0)
            for i, (e, row) in enumerate(zip(self.events, from_strong_read, strict=True))
        ]
        self.acquire = inverse(acquired)
        self.dependent = self.only(self.dep, lambda e: e.kind == "W")

    @staticmethod
    def _is_fence(e: Event, order: str) -> bool:
        return e.kind == "F" and e.order in (order, "acq_rel", "sc")

    def relation(self, holds: Callable[[Event, Event], bool]) -> list[int]:
        return [
            sum(1 << j for j, b in enumerate(self.events) if i != j and holds(a, b))
            for i, a in enumerate(self.events)
        ]

    def only(self, a: list[int], holds: Callable[[Event], bool]) -> list[int]:
        mask = sum(1 << i for i, e in enumerate(self.events) if holds(e))
        return [row & mask for row in a]

    def _morally_strong(self, a: Event, b: Event) -> bool:
        if a.place and b.place and a.place != b.place:
            return False
        if a.thread < 0 or b.thread < 0:
            return True  # all know the initial stores
        if a.thread == b.thread:
            return True
        if "B" in (a.kind, b.kind):
            return False
        return self._includes(a, b) and self._includes(b, a)

    def _includes(self, a: Event, b: Event) -> bool:
        """Whether `a` is strong and its scope has the thread of `b`."""
        if a.order == "weak":
            return False
        mine, other = self.test.threads[a.thread], self.test.threads[b.thread]
        if a.scope == "cta":
            return (mine.cta, mine.gpu) == (other.cta, other.gpu)
        return a.scope == "sys" or mine.gpu == other.gpu

    def _meets(self, a: Event, b: Event) -> bool:
        if (a.kind, b.kind) != ("B", "B") or a.value != b.value:
            return False
        mine, other = self.test.threads[a.thread], self.test.threads[b.thread]
        return (mine.cta, mine.gpu) == (other.cta, other.gpu)

    def choices(self) -> Iterator[list[int]]:
        """Every relation reads-from."""
        stores = [
            [
                i
                for i, w in enumerate(self.events)
                if w.kind == "W"
                and w.place == self.events[r].place
                and w.value == self.events[r].value
            ]
            for r in self.reads
        ]
        for chosen in product(*stores):
            rf = [0] * self.n
            for store, load in zip(chosen, self.reads, strict=True):
                rf[store] |= 1 << load
            yield rf

    def observation(self, rf: list[int]) -> list[int]:
        out = meet(rf, self.strong)
        while True:
            more = union(out, compose(compose(out, self.rmw), out))
            if more == out:
                return out
            out = more

    def orders(self, pairs: list[tuple[int, int]]) -> Iterator[list[int]]:
        """Each way to put each pair into an order, as long as the whole is one."""
        for turned in product((False, True), repeat=len(pairs)):
            out = [0] * self.n
            for turn, (a, b) in zip(turned, pairs, strict=True):
                first, then = (b, a) if turn else (a, b)
                out[first] |= 1 << then
            if acyclic(out):
                yield out

    def pairs(self, holds: Callable[[Event], bool]) -> list[tuple[int, int]]:
        return [
            (i, j)
            for i, row in enumerate(self.strong)
            for j in range(i + 1, self.n)
            if row >> j & 1 and holds(self.events[i]) and holds(self.events[j])
        ]

    def consistent(self, machine: str) -> Iterator[list[int]]:
        """The coherence order of each choice that the axioms allow, and the machine."""
        full = self.pairs(lambda e: e.kind == "F" and e.order == "sc")
        stores = self.pairs(lambda e: e.kind == "W" and e.thread >= 0)
        for rf in self.choices():
            if not acyclic(union(rf, self.dep)):  # no thin air
                continue
            seen = self.observation(rf)
            told = compose(self.release, seen)
            sync = meet(self.strong, compose(told, self.acquire))
            if machine == "dependent stores":
                sync = union(sync, compose(meet(self.strong, told), self.dependent))
            for fences in self.orders(full):
                step = union(self.po, sync, fences, self.barrier)
                base = closure(step)
                cause = compose(reflexive(seen), base)
                sc = self.only(cause, lambda e: e.kind == "F" and e.order == "sc")
                if any(
                    row & ~fences[i] & ~(1 << i) & self.strong[i]
                    for i, row in enumerate(sc)
                    if self.events[i].kind == "F" and self.events[i].order == "sc"
                ):
                    continue  # fence.sc
                for co in self.coherence(stores, cause):
                    if self.holds(rf, co, cause) and not (
                        machine == "multi-copy atomic" and self.is_cyclic(rf, co)
                    ):
                        yield co

    def coherence(self, stores: list[tuple[int, int]], cause: list[int]) -> Iterator[list[int]]:
        """Every coherence order that has the stores that causality orders."""
        needed = [
            row & self.same[i] if self.events[i].kind == "W" else 0 for i, row in enumerate(cause)
        ]
        needed = self.only(needed, lambda e: e.kind == "W")
        for i, e in enumerate(self.events):
            if e.thread < 0:  # the initial store is the first
                needed[i] |= sum(
                    1 << j
                    for j, w in enumerate(self.events)
                    if w.kind == "W" and w.place == e.place and i != j
                )
        free = [(a, b) for a, b in stores if not (needed[a] >> b & 1 or needed[b] >> a & 1)]
        for order in self.orders(free):
            co = closure(union(needed, order))
            if irreflexive(co):
                yield co

    def holds(self, rf: list[int], co: list[int], cause: list[int]) -> bool:
        fr = compose(inverse(rf), co)
        between = compose(meet(fr, self.strong), meet(co, self.strong))
        if any(row for row in meet(between, self.rmw)):  # atomicity
            return False
        if not irreflexive(compose(union(rf, fr), cause)):  # causality
            return False
        one_place = union(self.po_loc, meet(self.strong, union(rf, co, fr)))
        return acyclic(one_place)  # sequential consistency of a place

    def is_cyclic(self, rf: list[int], co: list[int]) -> bool:
        """Whether no single order of all accesses explains what each thread has seen of others."""
        fr = compose(inverse(rf), co)
        return not acyclic(union(self.dep, rf, co, fr))


def _come_together(test: Litmus, chosen: tuple[Trace, ...]) -> bool:
    """Whether the threads of each block are as far at the barriers as they can be."""
    blocks: dict[tuple[int, int], list[Trace]] = {}
    for thread, trace in zip(test.threads, chosen, strict=True):
        if any(one.kind == "bar" for one in thread.program):
            blocks.setdefault((thread.gpu, thread.cta), []).append(trace)
    return all(
        len({t.barriers for t in block}) == 1 and not all(t.stuck for t in block)
        for block in blocks.values()
    )


def _wanted(test: Litmus, chosen: tuple[Trace, ...]) -> bool:
    """Whether the registers are those of the outcome."""
    for what, value in test.outcome:
        if ":" in what:
            thread, register = what.split(":")
            if chosen[int(thread)].registers.get(register, 0) != value:
                return False
    return True


def is_allowed(test: Litmus, machine: str = "") -> bool:
    """Whether the model allows the outcome, or on a machine that keeps more than PTX promises:

    ``dependent stores``: no store is made before the loads that it, or a branch in front of it,
    depends on. They acquire, for that store.
    ``multi-copy atomic``: the same, and what one other thread has seen is seen by all.
    """
    values = possible_values(test)
    ways = [[*traces(number, thread, values)] for number, thread in enumerate(test.threads)]
    finals = [(what, value) for what, value in test.outcome if ":" not in what]
    for chosen in product(*ways):
        if not _wanted(test, chosen) or not _come_together(test, chosen):
            continue
        execution = Execution(test, chosen)
        for co in execution.consistent(machine):
            last = [
                (e.place, e.value)
                for i, e in enumerate(execution.events)
                if e.kind == "W" and not co[i]
            ]
            if all(final in last for final in finals):
                return True
    return False
