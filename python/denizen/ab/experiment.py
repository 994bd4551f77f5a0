# SPDX-License-Identifier: Apache-2.0
"""What an experiment's file says: arms, cells of a sweep, the design. Written by users.

Everything that a verdict depends on (number of blocks and processes, margin) is in the file and so
is stated before anything is measured; the command line has no option for it.
"""

from __future__ import annotations

import runpy
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from numpy.typing import ArrayLike

from denizen.errors import DenizenError
from denizen.lab.record import Scalar

Params = Mapping[str, Scalar]


class ExperimentError(DenizenError):
    """An experiment's file, or what one of its arms did, makes no sense."""


@dataclass(frozen=True, slots=True)
class Span:
    """Something that ran from ``begin`` to ``end`` (seconds on any one clock), for timelines."""

    track: str
    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class Sample:
    """What one slot gave.

    ``seconds`` per operation, by the arm's own clock. ``ran`` counts operations by marker, told by
    the innermost code: on a GPU a counter that the kernel itself adds to.
    """

    seconds: float
    ran: Mapping[str, int]
    spans: Sequence[Span] = ()


def calls(function: Callable[[], str]) -> Callable[[int], Sample]:
    """Time ``function`` from outside. It does one operation and returns its marker.

    The marker must come from the innermost code that differs between arms: one returned by a
    dispatcher proves nothing about what was dispatched.
    """

    def sample(operations: int) -> Sample:
        markers = [""] * operations
        begin = time.perf_counter()
        for i in range(operations):
            markers[i] = function()
        end = time.perf_counter()
        return Sample((end - begin) / operations, Counter(markers))

    return sample


@dataclass(frozen=True, slots=True)
class Kernel:
    """Proof by machine code: ``binary`` (an executable, library or cubin) has a function whose name
    contains ``symbol``, and in it each of ``instructions`` (``LDGSTS``, ``UBLKCP``, ...)."""

    binary: Path
    symbol: str
    instructions: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Arm:
    """One way of doing the work.

    ``sample(n)`` does it n times and tells the time of one. ``poison()`` spoils the output, so that
    nobody's old result passes for this arm's, and ``result()`` reads it (any shape and dtype); both
    are outside the timed region. ``bytes`` is what one operation should move, and ``moved()``, if
    given, a counter of bytes that only grows, read around each slot. ``counted``: its bytes have to
    be, so that without a counter the cell is void.
    """

    name: str
    marker: str
    sample: Callable[[int], Sample]
    poison: Callable[[], None]
    result: Callable[[], ArrayLike]
    bytes: float | None = None
    moved: Callable[[], float] | None = None
    counted: bool = False
    kernel: Kernel | None = None


@dataclass(frozen=True, slots=True)
class Cell:
    """The arms for one set of parameters, and the right answer.

    ``reference`` (float64, the result's shape) is rounded to the result's dtype and must be met
    exactly: choose inputs whose sums are exact. ``limit`` is what the transport was measured to
    reach at best, in bytes a second.
    """

    arms: Sequence[Arm]
    reference: ArrayLike
    limit: float | None = None


@dataclass(frozen=True, slots=True)
class Experiment:
    """Two or more arms compared over a sweep.

    ``cell(params)`` makes the arms anew for each entry of ``sweep``. ``base`` is the arm that the
    others are compared with, ``control`` one that is known to be slower and must be found so, else
    the cell is void. ``blocks`` are per process, of ``processes`` fresh ones. ``margin`` (0.02: a
    ratio within 1/1.02 and 1.02) is what counts as equivalent; without it nothing does. A process
    may take ``deadline`` seconds.
    """

    name: str
    cell: Callable[[Params], Cell]
    base: str
    control: str
    sweep: Sequence[Params] = field(default_factory=lambda: [{}])
    blocks: int = 20
    processes: int = 5
    margin: float | None = None
    deadline: float = 600.0

    def __post_init__(self) -> None:
        if self.base == self.control:
            raise ExperimentError(f'"{self.base}" cannot be both base and control')
        if not self.sweep:
            raise ExperimentError(f'experiment "{self.name}" has an empty sweep')
        # Fewer give no p below 0.05 / 20, which a sweep of 20 cells needs.
        if self.blocks < 5 or self.processes < 1 or self.blocks * self.processes < 20:
            raise ExperimentError(
                f"{self.blocks} blocks in {self.processes} processes are too few: "
                "take 5 blocks at least and 20 in all"
            )
        if self.margin is not None and not 0 < self.margin < 1:
            raise ExperimentError(f"margin {self.margin} is not between 0 and 1")

    def make(self, params: Params) -> Cell:
        """The cell for ``params``; ExperimentError if its arms do not make an experiment."""
        made = self.cell(params)
        names = [arm.name for arm in made.arms]
        for what, values in (("name", names), ("marker", [arm.marker for arm in made.arms])):
            twice = [value for value, n in Counter(values).items() if n > 1]
            if twice:
                raise ExperimentError(f'two arms of {params} have the {what} "{twice[0]}"')
        for needed in (self.base, self.control):
            if needed not in names:
                raise ExperimentError(f'{params} has no arm "{needed}", only {", ".join(names)}')
        if len(names) < 3:
            raise ExperimentError(f"{params}: a base, a control and an arm to compare are needed")
        return made


def load(path: Path) -> Experiment:
    """The experiment in Python file ``path``, which must define exactly one."""
    if not path.is_file():
        raise ExperimentError(f"{path}: no such file; expected Python that defines one Experiment")
    names = runpy.run_path(str(path), run_name="denizen_ab")
    found = {id(value): value for value in names.values() if isinstance(value, Experiment)}
    if len(found) != 1:
        raise ExperimentError(f"{path} defines {len(found)} experiments, not one")
    return next(iter(found.values()))
