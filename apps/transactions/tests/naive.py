# SPDX-License-Identifier: Apache-2.0
"""The rules of docs/transactions.md in Python, as slow and as plain as can be.

Everything is recomputed from the list of all accepted transactions for each new one.
"""

from dataclasses import dataclass

from denizen.apps import transactions as tx

HISTORY = 32
FANOUT = 16
BASE = {
    "velocity": 20, "amount": 15, "structuring": 25, "geography": 15, "exposed": 30,
    "circular": 25, "dormant": 15,
}  # fmt: skip


@dataclass
class Accepted:
    sequence: int
    id: int
    customer: int
    dest: int
    amount: int
    ts: int


class Naive:
    def __init__(self, rules, profiles, horizon):
        self.rules, self.horizon = rules, horizon
        self.profiles = {int(p["customer"]): p for p in profiles}
        self.all = []
        self.next = 0
        self.outcomes = dict.fromkeys(tx.OUTCOMES, 0)

    def own(self, customer, limit):
        profile = self.profiles.get(customer)
        return (int(profile[limit]) if profile is not None else 0) or getattr(self.rules, limit)

    def remembered(self, customer):
        mine = [t for t in self.all if t.customer == customer]
        return sorted(mine, key=lambda t: (t.ts, t.sequence))[-HISTORY:]

    def feed(self, t):
        """(rule, severity, score, value, limit, path) of each alert of a record."""
        sequence, self.next = self.next, self.next + 1
        one = Accepted(sequence, *(int(t[f]) for f in ("id", "customer", "dest")),
                       int(t["amount_cents"]), int(t["ts_ms"]))  # fmt: skip
        outcome = self.outcome(one)
        self.outcomes[outcome] += 1
        if outcome != "accepted":
            return []
        before = [m for m in self.remembered(one.customer) if m.ts <= one.ts]
        self.all.append(one)
        return [a for a in self.alerts(one, int(t["country"]), before) if self.enabled(a[0])]

    def outcome(self, t):
        if max(t.amount, t.ts) >= 2**56 or 2**64 - 1 in (t.customer, t.dest):
            return "invalid"
        known = self.remembered(t.customer)
        if any(k.id == t.id for k in known):
            return "duplicate"
        late = known and t.ts < known[-1].ts - self.rules.lateness_ms
        forgotten = len(known) == HISTORY and t.ts <= known[0].ts
        return "late" if late or forgotten else "accepted"

    def enabled(self, rule):
        return self.rules.enabled >> (1 + tx.RULE_NAMES.index(rule)) & 1

    def alerts(self, t, country, before):
        r, profile = self.rules, self.profiles.get(t.customer)
        flags = int(profile["flags"]) if profile is not None else 0
        more = (15 if flags & tx.EXPOSED else 0) + (10 if flags & tx.ENHANCED else 0)
        limit = self.own(t.customer, "amount_limit")

        def alert(rule, severity, value, against, path=()):
            level = tx.SEVERITIES.index(severity)
            return rule, severity, min(100, BASE[rule] + 10 * level + more), value, against, path

        often = self.own(t.customer, "velocity_limit")
        velocity = sum(
            m.ts > t.ts - r.velocity_window_ms
            for m in self.remembered(t.customer)
            if (m.ts, m.sequence) <= (t.ts, t.sequence)
        )
        if velocity > often:
            level = "critical" if velocity >= 3 * often else "medium"
            level = "high" if 3 * often > velocity >= 2 * often else level
            yield alert("velocity", level, velocity, often)
        if t.amount > limit:
            level = "critical" if t.amount >= 5 * limit else "medium"
            level = "high" if 5 * limit > t.amount >= 2 * limit else level
            yield alert("amount", level, t.amount, limit)
        just_below = r.structuring_percent * limit <= 100 * t.amount <= 100 * limit
        if just_below and velocity >= r.structuring_velocity:
            yield alert("structuring", "high", velocity, r.structuring_velocity)
        if profile is not None and profile["home"] and country not in (0, int(profile["home"])):
            place = tx.country_bit(country)
            if not int(profile["allowed"]) >> place & 1:
                level = "high" if r.high_risk >> place & 1 else "medium"
                yield alert("geography", level, country, 0)
        exposed_limit = self.own(t.customer, "exposed_limit")
        if flags & tx.EXPOSED and t.amount > exposed_limit:
            yield alert("exposed", "high", t.amount, exposed_limit)
        if path := self.round_trip(t):
            level = "critical" if t.amount > limit else "high"
            yield alert("circular", level, len(path) + 1, r.circular_hops, tuple(path))
        asleep = self.own(t.customer, "dormant_ms")
        if before and t.amount >= r.dormant_amount and (gap := t.ts - before[-1].ts) >= asleep:
            yield alert("dormant", "high" if gap >= 2 * asleep else "medium", gap, asleep)

    def round_trip(self, t):
        if t.customer == t.dest or t.amount < self.rules.circular_amount:
            return None
        for hops in range(2, self.rules.circular_hops + 1):
            for path in self.paths(t, [t.dest], [], hops - 1):
                return path
        return None

    def paths(self, t, accounts, path, left):
        """Ways of `left` more transactions back to the payer, those of later transactions first."""
        r = self.rules
        sent = [
            m
            for m in self.all
            if m.customer == accounts[-1] and m.dest != m.customer and m.sequence < t.sequence
        ]
        since = path[-1].ts if path else t.ts - r.circular_window_ms + 1
        for m in reversed(sent[-FANOUT:]):
            alike = 100 * abs(m.amount - t.amount) <= r.circular_percent * t.amount
            if t.sequence - m.sequence > self.horizon or not since <= m.ts <= t.ts or not alike:
                continue
            if left == 1:
                if m.dest == t.customer:
                    yield [p.sequence for p in (*path, m)]
            elif m.dest not in (t.customer, *accounts):
                yield from self.paths(t, [*accounts, m.dest], [*path, m], left - 1)
