# SPDX-License-Identifier: Apache-2.0
"""What a submission tells the GPU to do, as decode.py finds it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

Detail = int | str | bool | list[int]


@dataclass(frozen=True, slots=True)
class Operation:
    """One thing the GPU is told to do.

    ``kind``: launch, inline copy, copy, fill, release, acquire, reduction, invalidate, barrier,
    wait, interrupt, macro, bind, queue (a launch's description scheduled that runs nothing, or told
    that one it waits for is done). ``engine``: compute, copy, host. ``bytes``: moved by a copy or a
    fill. ``detail``: by kind; addresses are virtual ones.
    """

    kind: str
    engine: str
    bytes: int = 0
    detail: dict[str, Detail] = field(default_factory=dict)


@dataclass(slots=True)
class Decoded:
    """One submission. ``unknown``: methods that no table has, as class and offset, with a count.

    ``recorded`` is false where entries' contents are missing.
    """

    operations: list[Operation] = field(default_factory=list)
    methods: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    recorded: bool = True

    @property
    def engines(self) -> set[str]:
        return {operation.engine for operation in self.operations}
