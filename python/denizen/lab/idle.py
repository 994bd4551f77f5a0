# SPDX-License-Identifier: Apache-2.0
"""Whether others are at work on the machine: a record says so, and may be refused for it."""

from __future__ import annotations

import time
from pathlib import Path

from denizen.lab.record import LabError

_STAT = Path("/proc/stat")
MOST = 0.15  # cores' worth of others' work that a quiet machine may have


def _ticks() -> tuple[int, int] | None:
    """Ticks of all cores since boot, those that were at work (or taken by the host), and all."""
    try:
        words = _STAT.read_text(encoding="ascii").splitlines()[0].split()
        counts = [int(word) for word in words[1:9]]  # the rest is in the first two again
    except (OSError, ValueError, IndexError):
        return None
    idle = sum(counts[3:5])
    return sum(counts) - idle, sum(counts)


def busy(seconds: float = 0.3) -> float | None:
    """How many cores' worth of work the machine does in the next ``seconds``, its host's share of
    a virtual one included; None where the system does not tell."""
    before = _ticks()
    time.sleep(seconds)
    after = _ticks()
    cores = sum(line.startswith("cpu") for line in _lines()) - 1
    if before is None or after is None or after[1] == before[1] or cores < 1:
        return None
    return cores * (after[0] - before[0]) / (after[1] - before[1])


def _lines() -> list[str]:
    try:
        return _STAT.read_text(encoding="ascii").splitlines()
    except OSError:
        return []


def need(seconds: float = 5.0) -> None:
    """LabError unless the machine is quiet for so long."""
    at_work = busy(seconds)
    if at_work is not None and at_work > MOST:
        raise LabError(
            f"others are at work here: {at_work:.2f} cores' worth over {seconds:g} s, of which a "
            f"quiet machine may have {MOST}; end them, or leave --idle out"
        )
