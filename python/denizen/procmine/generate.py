# SPDX-License-Identifier: Apache-2.0
"""Made logs: cases that walk through a made process, with a seed."""

from __future__ import annotations

import numpy as np

from denizen import _core
from denizen.errors import ArgumentError
from denizen.procmine.log import Log

_BEGIN = 1_704_067_200_000_000  # 2024-01-01


def generate(events: int, *, activities: int = 24, seed: int = 1) -> Log:
    """About ``events`` events, in order of time, of a process of ``activities`` activities.

    Most cases go from the first activity to the last, with choices, a loop back now and then, and
    steps left out; steps take from seconds to days. The same on every machine for a seed.

    Raises ArgumentError for fewer than 4 activities or events, or too many of them.
    """
    if not 4 <= activities <= 1 << 20:
        raise ArgumentError(f"activities = {activities}; it must be 4 to 2**20")
    if not 4 <= events < 2**32:
        raise ArgumentError(f"events = {events}; it must be 4 to 2**32 - 1")
    case, activity, time, cases = _core.procmine_generate(events, activities, seed % 2**64)
    return Log(
        f"generated, seed {seed}",
        [f"c{i}" for i in range(cases)],
        [f"step {chr(65 + i) if activities <= 26 else i}" for i in range(activities)],
        case,
        activity,
        time + np.int64(_BEGIN),
    )
