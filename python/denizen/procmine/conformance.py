# SPDX-License-Identifier: Apache-2.0
"""How well a log and a reference graph agree: replay on directly-follows, escaping edges."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from denizen.errors import ArgumentError
from denizen.files import write_text
from denizen.procmine.mine import NO_VARIANT, Mined

_START, _END = "", ""  # before the first and after the last activity of a case


@dataclass(frozen=True, slots=True)
class Reference:
    """What may happen: an activity after another, at the beginning, at the end of a case."""

    edges: frozenset[tuple[str, str]]
    starts: frozenset[str]
    ends: frozenset[str]

    @classmethod
    def of(
        cls,
        edges: Iterable[tuple[str, str]],
        starts: Iterable[str],
        ends: Iterable[str],
    ) -> Reference:
        """Of activities by name: what may follow what, and where cases begin and end."""
        return cls(frozenset(edges), frozenset(starts), frozenset(ends))

    @classmethod
    def of_mined(cls, mined: Mined, least: int = 1) -> Reference:
        """What happened at least ``least`` times in a log."""
        return cls.of(
            (pair for pair, count in mined.counts.items() if count >= least),
            (name for name, count in mined.start_activities.items() if count >= least),
            (name for name, count in mined.end_activities.items() if count >= least),
        )

    def write(self, path: str | os.PathLike[str]) -> None:
        """As JSON: {"edges": [[from, to], ...], "starts": [...], "ends": [...]}."""
        value = {
            "edges": sorted(map(list, self.edges)),
            "starts": sorted(self.starts),
            "ends": sorted(self.ends),
        }
        write_text(path, json.dumps(value, indent=1) + "\n")

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Reference:
        """What write() wrote, or what ``denizen run procmine --json`` printed."""
        try:
            value = json.loads(Path(path).read_text(encoding="utf-8"))
            edges = [
                (edge["from"], edge["to"]) if isinstance(edge, dict) else (edge[0], edge[1])
                for edge in value["edges"]
            ]
            return cls.of(edges, value["starts"], value["ends"])
        except (ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
            raise ArgumentError(
                f'{path}: no reference graph: an object of "edges", "starts" and "ends" is expected'
            ) from error


@dataclass(frozen=True, slots=True)
class Conformance:
    """What check() found.

    Attributes:
        fitness: share of the log's steps that the reference allows; a case of n events has n + 1,
            those into its first and out of its last activity among them.
        fitting_cases: share of the cases of which every step is allowed.
        precision: 1 - escaping edges / allowed edges (Muñoz-Gama and Carmona 2010), see check().
        case_fitness: float64, shape (cases,): share of allowed steps of each; NaN without events.
        deviations: steps that are not allowed and how often they were gone, most frequent first;
            "" stands for the beginning and the end of a case.
    """

    fitness: float
    fitting_cases: float
    precision: float
    case_fitness: NDArray[np.float64]
    deviations: list[tuple[str, str, int]]


def check(mined: Mined, reference: Reference, *, end_is_a_step: bool = True) -> Conformance:
    """Hold a log against a reference graph. Needs variants.

    Precision goes along the prefixes of the log's cases up to their first deviation. At each, what
    the reference allows after its last activity is counted, and of that what no case with this
    prefix goes on with (the escaping edges), both times the cases that come through. 1: everything
    that is allowed is seen to happen; 0 where nothing fits. ``end_is_a_step``: to end is one of the
    things that a reference allows; without it precision is that of ETConformance as pm4py has it.
    """
    names = mined.log.activities
    after: dict[str, set[str]] = defaultdict(set)
    for a, b in reference.edges:
        after[a].add(b)
    deviations: dict[tuple[str, str], int] = defaultdict(int)
    of_variant = np.empty(len(mined.variant_count) + 1)
    of_variant[-1] = np.nan
    steps = allowed_steps = fitting = 0
    # Prefixes as nodes of a tree: by the one before and the activity; 0 is the empty one.
    nodes: dict[tuple[int, int], int] = {}
    last_of = [-1]
    came: dict[int, int] = defaultdict(int)
    seen: dict[int, set[str | None]] = defaultdict(set)
    for v, count in enumerate(mined.variant_count.tolist()):
        numbers = mined.path(v).tolist()
        path = [names[a] for a in numbers]
        wrong = []
        deviates_at = len(path) + 1
        for i in range(len(path) + 1):
            if i == 0:
                right, step = path[0] in reference.starts, (_START, path[0])
            elif i == len(path):
                right, step = path[-1] in reference.ends, (path[-1], _END)
            else:
                step = (path[i - 1], path[i])
                right = step in reference.edges
            if not right:
                wrong.append(step)
                deviates_at = min(deviates_at, i)
        for step in wrong:
            deviations[step] += count
        steps += count * (len(path) + 1)
        allowed_steps += count * (len(path) + 1 - len(wrong))
        fitting += count * (not wrong)
        of_variant[v] = 1 - len(wrong) / (len(path) + 1)
        prefix = 0
        for i in range(min(deviates_at, len(path)) + 1):
            if i != 0:
                step_to = (prefix, numbers[i - 1])
                prefix = nodes.setdefault(step_to, len(last_of))
                if prefix == len(last_of):
                    last_of.append(numbers[i - 1])
            if i < len(path) or end_is_a_step:
                came[prefix] += count
                if i < deviates_at:
                    seen[prefix].add(path[i] if i < len(path) else None)
    allowed = escaping = 0
    for prefix, count in came.items():
        may: set[str | None] = set()
        if prefix != 0:
            last = names[last_of[prefix]]
            may |= after[last]
            if end_is_a_step and last in reference.ends:
                may.add(None)
        else:
            may |= reference.starts
        allowed += count * len(may)
        escaping += count * len(may - seen[prefix])
    total = int(mined.variant_count.sum())
    which = np.where(mined.case_variants == NO_VARIANT, len(of_variant) - 1, mined.case_variants)
    return Conformance(
        allowed_steps / steps if steps else 1.0,
        fitting / total if total else 1.0,
        1 - escaping / allowed if allowed else 0.0,
        of_variant[which],
        sorted(((a, b, n) for (a, b), n in deviations.items()), key=lambda d: (-d[2], d[:2])),
    )
