# SPDX-License-Identifier: Apache-2.0
"""``denizen ab``: experiments that compare two or more ways of doing the same work.

An experiment is a Python file with one :class:`Experiment`; ``denizen ab run FILE.py`` measures it
and ``denizen ab report`` draws it. What a verdict rests on is in :mod:`denizen.ab.analysis`, what
makes a cell void in :mod:`denizen.ab.gates`.
"""

from denizen.ab.experiment import (
    Arm,
    Cell,
    Experiment,
    ExperimentError,
    Kernel,
    Sample,
    Span,
    calls,
)
from denizen.ab.program import Program

__all__ = [
    "Arm",
    "Cell",
    "Experiment",
    "ExperimentError",
    "Kernel",
    "Program",
    "Sample",
    "Span",
    "calls",
]
