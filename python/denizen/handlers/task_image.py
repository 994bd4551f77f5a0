# SPDX-License-Identifier: Apache-2.0
"""Tasks as machine code: C functions for CPU threads, LTO-IR for a GPU."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from denizen import _core
from denizen.handlers.compiled import declare, for_cpu, for_gpu
from denizen.handlers.rewrite import Rewritten
from denizen.handlers.task_plan import TaskPlan
from denizen.handlers.text import task_symbol as symbol
from denizen.task_type import PRIORITIES, TaskType

_PREFIX = "denizen_tasks"  # of the context's functions on the CPU


@dataclass(frozen=True)
class _Unit:
    """A task; the program's tasks, whose numbers it knows."""

    rewritten: Rewritten
    task: TaskType
    tasks: list[TaskType]

    def key(self, prefix: str) -> str:
        parts = [self.rewritten.text, self.task.name, prefix]
        for t in self.tasks:
            parts.append(f"{t.name} {t.dtype.descr} {t.dtype.itemsize} {t.initial.tobytes().hex()}")
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    def signature(self, types: Any, prefix: str, typed: bool) -> Any:
        ctx = types.Ctx(prefix, [], [t.name for t in self.tasks], typed, task=True)
        return types.void(types.Ref("task", self.task.dtype), ctx)


def cpu_image(plan: TaskPlan) -> _core.TaskImage:
    """A program for CPU threads, without a C++ compiler.

    Raises MissingPackageError without Numba, CompileError with the user's file and line.
    """
    declare(_PREFIX, _core.task_calls())
    tasks = []
    for t in plan.tasks:
        fields: Any = t.dtype.fields or {}
        sum_field, offset = fields["sum"][:2] if "sum" in fields else (None, 0)
        size = sum_field.itemsize if sum_field is not None else 0
        function = for_cpu(_Unit(plan.functions[t.name], t, plan.tasks), _PREFIX)
        priority = PRIORITIES.index(t.priority)
        tasks.append((t.name, t.dtype.itemsize, priority, offset, size, function))
    return _core.tasks_image(tasks)


def gpu_parts(plan: TaskPlan, architecture: int) -> list[tuple[str, bytes]]:
    """The LTO-IR of all tasks, by the symbols of task_text.py that it defines."""
    return [
        (symbol(t), for_gpu(_Unit(plan.functions[t.name], t, plan.tasks), symbol(t), architecture))
        for t in plan.tasks
    ]
