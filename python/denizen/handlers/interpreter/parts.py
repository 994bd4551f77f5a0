# SPDX-License-Identifier: Apache-2.0
"""What the interpreter moves: actors, supervisors, letters."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray


@dataclass
class Actor:
    address: int
    kind: int
    state: NDArray[Any]
    life: str = "running"
    incarnation: int = 1
    failure: int = 0
    supervisor: Supervisor | None = None
    waiting: deque[Letter] = field(default_factory=deque)
    watchers: list[int] = field(default_factory=list)
    kept: NDArray[Any] | None = None  # its checkpoint


@dataclass
class Supervisor:
    address: int
    children: list[int]
    strategy: str
    most: int
    window: float
    life: str = "running"
    incarnation: int = 1
    failure: int = 0
    supervisor: Supervisor | None = None
    restarts: list[float] = field(default_factory=list)
    waiting: deque[Letter] = field(default_factory=deque)
    watchers: list[int] = field(default_factory=list)


@dataclass
class Letter:
    to: int
    sender: int
    type: int
    data: bytes
    order: Callable[[], None] | None = None  # in place of a message
