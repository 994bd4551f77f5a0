# SPDX-License-Identifier: Apache-2.0
"""Payments scored by a resident model: measured by a program of the application itself, since the
lab knows no application."""

from __future__ import annotations

import sys

from denizen.lab import programs
from denizen.lab.record import Measured

_PROGRAM = "denizen.apps.transactions.benchmark"
_DEADLINE = 300.0  # seconds; it takes one


def scored(device: str, *, quick: bool) -> list[Measured]:
    """Million payments per second by the rules alone, and with a model's score of each."""
    more = ["--quick"] if quick else []
    command = [sys.executable, "-m", _PROGRAM, "--device", device, *more]
    return programs.run(command, _DEADLINE)[1]
