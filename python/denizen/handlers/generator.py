# SPDX-License-Identifier: Apache-2.0
"""ctx.random(): a handler calls this function, and it is compiled like one of the user's."""

from __future__ import annotations

from typing import Any

import numpy as np


def next_random(actor: Any) -> Any:
    """A number from 0 to below 1, by SplitMix64 (Steele, Lea, Flood 2014)."""
    actor.random += 0x9E3779B97F4A7C15
    z = np.uint64(actor.random)
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB
    z ^= z >> 31
    return float(z >> 11) * 1.1102230246251565e-16
