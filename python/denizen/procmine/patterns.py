# SPDX-License-Identifier: Apache-2.0
"""Rework, loops, bottlenecks and long-running cases, each with its evidence.

Definitions and thresholds are in docs/procmine.md. Everything is found in the variants and the
graph, so the time it takes goes with those, not with the events.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from denizen.errors import ArgumentError
from denizen.procmine.mine import NO_VARIANT, Mined


@dataclass(frozen=True, slots=True)
class Thresholds:
    """From what on something is a pattern; shares are within 0 to 1.

    Attributes:
        rework: share of the cases with an activity that do it again.
        loop: share of all cases in which a block of activities is repeated at once.
        loop_length: the longest block, in activities.
        bottleneck: share of the time of all steps that one edge takes.
        slow: and how many times the median step its median is, at least.
        long_running: how many interquartile ranges above the third quartile of the cases'
            durations the fence stands (Tukey 1977 calls 1.5 outside, 3 far out).
        evidence: how many cases are named.
    """

    rework: float = 0.05
    loop: float = 0.02
    loop_length: int = 5
    bottleneck: float = 0.1
    slow: float = 1.0
    long_running: float = 1.5
    evidence: int = 10

    def __post_init__(self) -> None:
        for name in ("rework", "loop", "bottleneck"):
            if not 0 <= getattr(self, name) <= 1:
                raise ArgumentError(f"{name} = {getattr(self, name)}; it is a share, 0 to 1")
        for name in ("loop_length", "slow", "long_running", "evidence"):
            if getattr(self, name) < (1 if name == "loop_length" else 0):
                raise ArgumentError(f"{name} = {getattr(self, name)} is too small")


@dataclass(frozen=True, slots=True)
class Pattern:
    """One finding.

    Attributes:
        kind: "rework", "loop", "bottleneck" or "long-running".
        activities: what it is about: an activity, the block of a loop, both ends of an edge.
        confidence: 0 to 1; what it says depends on the kind (docs/procmine.md).
        cases: how many cases show it.
        evidence: names of some of them, those that show it most first.
        figures: numbers behind it, by name; durations in microseconds.
    """

    kind: str
    activities: tuple[str, ...]
    confidence: float
    cases: int
    evidence: list[str] = field(default_factory=list)
    figures: dict[str, float] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def wilson(found: int, of: int) -> float:
    """The lower end of the 95 % confidence interval of the share ``found / of`` (Wilson 1927)."""
    if of == 0:
        return 0.0
    z, share = 1.959964, found / of
    middle = share + z * z / (2 * of)
    spread = z * math.sqrt(share * (1 - share) / of + z * z / (4 * of * of))
    return max(0.0, (middle - spread) / (1 + z * z / of))


def find(mined: Mined, thresholds: Thresholds | None = None) -> list[Pattern]:
    """All patterns of a log, by kind, those of most confidence first. Needs variants."""
    limits = thresholds or Thresholds()
    return [
        *_rework(mined, limits),
        *_loops(mined, limits),
        *_bottlenecks(mined, limits),
        *_long_running(mined, limits),
    ]


def _cases_of(mined: Mined, variants: dict[int, int], most: int) -> list[str]:
    """Up to ``most`` cases of the variants, those with the highest value first."""
    if not variants or most == 0:
        return []
    value = np.zeros(len(mined.variant_count) + 1, np.int64)
    value[list(variants)] = list(variants.values())
    of_case = value[
        np.where(mined.case_variants == NO_VARIANT, len(value) - 1, mined.case_variants)
    ]
    cases = np.flatnonzero(of_case)
    cases = cases[np.argsort(-of_case[cases], kind="stable")][:most]
    return [mined.log.cases[c] for c in cases]


def _sorted(patterns: list[Pattern]) -> list[Pattern]:
    return sorted(patterns, key=lambda p: (-p.confidence, -p.cases, p.activities))


def _rework(mined: Mined, limits: Thresholds) -> list[Pattern]:
    having: dict[int, int] = defaultdict(int)
    again: dict[int, dict[int, int]] = defaultdict(dict)  # activity: variant: repetitions
    for v, count in enumerate(mined.variant_count.tolist()):
        activities, times = np.unique(mined.path(v), return_counts=True)
        for a, n in zip(activities.tolist(), times.tolist(), strict=True):
            having[a] += count
            if n > 1:
                again[a][v] = n - 1
    out = []
    for a, variants in again.items():
        cases = sum(int(mined.variant_count[v]) for v in variants)
        if cases < limits.rework * having[a]:
            continue
        repetitions = sum(int(mined.variant_count[v]) * n for v, n in variants.items())
        out.append(
            Pattern(
                "rework",
                (mined.log.activities[a],),
                wilson(cases, having[a]),
                cases,
                _cases_of(mined, variants, limits.evidence),
                {
                    "share": cases / having[a],
                    "repetitions": repetitions,
                    "most": max(variants.values()),
                },
            )
        )
    return _sorted(out)


def repeats(path: list[int], longest: int) -> dict[tuple[int, ...], int]:
    """Blocks of up to ``longest`` elements that directly follow themselves, and how often.

    ``a b a b a b`` has the block ``a b`` twice again; it is told once, by that one of its rotations
    that sorts first, and not as a repetition of a longer block.
    """
    found: dict[tuple[int, ...], int] = defaultdict(int)
    for length in range(1, min(longest, len(path) // 2) + 1):
        at = 0
        while at + 2 * length <= len(path):
            block = path[at : at + length]
            times = 1
            while path[at + times * length : at + (times + 1) * length] == block:
                times += 1
            if times == 1 or _is_power(block):
                at += 1
                continue
            rotations = [tuple(block[k:] + block[:k]) for k in range(length)]
            found[min(rotations)] += times - 1
            at += (times - 1) * length + 1
    return dict(found)


def _is_power(block: list[int]) -> bool:
    n = len(block)
    return any(n % k == 0 and block == block[:k] * (n // k) for k in range(1, n))


def _loops(mined: Mined, limits: Thresholds) -> list[Pattern]:
    blocks: dict[tuple[int, ...], dict[int, int]] = defaultdict(dict)
    for v in range(len(mined.variant_count)):
        for block, times in repeats(mined.path(v).tolist(), limits.loop_length).items():
            blocks[block][v] = times
    total = int(mined.variant_count.sum())
    out = []
    for block, variants in blocks.items():
        cases = sum(int(mined.variant_count[v]) for v in variants)
        if cases < limits.loop * total:
            continue
        repetitions = sum(int(mined.variant_count[v]) * n for v, n in variants.items())
        out.append(
            Pattern(
                "loop",
                tuple(mined.log.activities[a] for a in block),
                wilson(cases, total),
                cases,
                _cases_of(mined, variants, limits.evidence),
                {
                    "share": cases / total,
                    "repetitions": repetitions,
                    "most": max(variants.values()),
                },
            )
        )
    return _sorted(out)


def _bottlenecks(mined: Mined, limits: Thresholds) -> list[Pattern]:
    count = mined.edge_count.astype(np.float64)
    spent = mined.edge_mean * count
    total = float(spent.sum())
    if total == 0:
        return []
    # The median of the edges' medians, each as often as it was gone: near that of all steps.
    order = np.argsort(mined.edge_median, kind="stable")
    middle = np.searchsorted(np.cumsum(count[order]), count.sum() / 2)
    usual = float(mined.edge_median[order[min(int(middle), len(order) - 1)]])
    out = []
    for i in np.flatnonzero(spent >= limits.bottleneck * total):
        if mined.edge_median[i] < limits.slow * usual:
            continue
        ends = (int(mined.edge_from[i]), int(mined.edge_to[i]))
        through: dict[int, int] = {}
        for v in range(len(mined.variant_count)):
            path = mined.path(v)
            times = int(((path[:-1] == ends[0]) & (path[1:] == ends[1])).sum())
            if times:
                through[v] = times
        out.append(
            Pattern(
                "bottleneck",
                tuple(mined.log.activities[a] for a in ends),
                float(spent[i]) / total,
                sum(int(mined.variant_count[v]) for v in through),
                _cases_of(mined, through, limits.evidence),
                {
                    "share": float(spent[i]) / total,
                    "steps": int(mined.edge_count[i]),
                    "median": float(mined.edge_median[i]),
                    "p95": float(mined.edge_p95[i]),
                    "usual median": usual,
                },
            )
        )
    return _sorted(out)


def _long_running(mined: Mined, limits: Thresholds) -> list[Pattern]:
    there = np.flatnonzero(mined.case_events)
    durations = (mined.case_ends - mined.case_begins)[there]
    if len(durations) < 4:
        return []
    first, third = np.percentile(durations, [25, 75])
    fence = float(third + limits.long_running * (third - first))
    beyond = np.flatnonzero(durations > fence)
    if not beyond.size:
        return []
    beyond = beyond[np.argsort(-durations[beyond], kind="stable")]
    return [
        Pattern(
            "long-running",
            (),
            float(np.mean(1 - fence / durations[beyond])),
            len(beyond),
            [mined.log.cases[c] for c in there[beyond[: limits.evidence]]],
            {
                "share": len(beyond) / len(durations),
                "fence": fence,
                "median": float(np.median(durations)),
                "longest": float(durations[beyond[0]]),
            },
        )
    ]
