# SPDX-License-Identifier: Apache-2.0
"""What the axes of a model's input mean: no file and no module says it, its layers ask for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from denizen.errors import ArgumentError
from denizen.infer.steps import LayoutError, Steps, Value

# In this order. Without C: one token a step.
LAYOUTS = ("BTC", "TBC", "BCT", "BC", "TC", "CT", "C", "BT", "TB", "T", "B", "")


def first_with_a_step(
    steps: Steps, layouts: Iterable[str], read: Callable[[str], Value]
) -> tuple[str, Value]:
    """The first layout with which ``read`` gets through, and its answer.

    If there is none, the error is of that with which it got furthest.
    """
    known = len(steps.nodes)
    errors: list[tuple[int, bool, ArgumentError]] = []
    for axes in layouts:
        try:
            return axes, read(axes)
        except ArgumentError as error:
            errors.append((len(steps.nodes), not isinstance(error, LayoutError), error))
            steps.keep(known)
    furthest = max(errors, key=lambda one: one[:2])[2]
    raise ArgumentError(str(furthest)) from furthest
