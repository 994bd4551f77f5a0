# SPDX-License-Identifier: Apache-2.0
"""What a program's tasks in Python are, rewritten: before it is known where they run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from denizen.errors import CompileError
from denizen.handlers import blocks, collectives
from denizen.handlers.rewrite import Rewriter, Rewritten
from denizen.task_type import TaskType


@dataclass
class TaskPlan:
    """The tasks in their order, and their functions by name."""

    tasks: list[TaskType]
    functions: dict[str, Rewritten] = field(default_factory=dict)

    @property
    def calls(self) -> set[str]:
        """What they call of ctx."""
        return {c for r in self.functions.values() for c in r.calls}

    @property
    def elements(self) -> set[str]:
        """The types of the arrays that they have."""
        return {code for r in self.functions.values() for code in r.elements}

    def collective_grains(self) -> set[str]:
        """Of the tasks that call collectives."""
        kinds = {*collectives.KINDS}
        return {t.grain for t in self.tasks if kinds & self.functions[t.name].calls.keys()}

    @property
    def code(self) -> str:
        """What they do: equal ones are the same code."""
        return "\n".join(f"{name}:\n{r.text}" for name, r in self.functions.items())


def plan_tasks(tasks: Sequence[TaskType], *, interpreted: bool = False) -> TaskPlan:
    """Rewrites these tasks and those that they make. CompileError has the user's file and line."""
    out = TaskPlan(list(tasks))
    rewriter = Rewriter(interpreted, "task")
    for task in out.tasks:  # those that it makes come behind it
        assert task.run is not None
        new = rewriter.task(task.run, task.constants)
        out.functions[task.name] = new
        if task.grain == "block":
            blocks.check(task.name, new)
        for child in new.spawns.values():
            where = f"{new.path}:{new.line}"
            assert isinstance(child, TaskType)  # the rewriter has seen to that
            if child.run is None:
                raise CompileError(
                    f"{where}: {child.name} is a task of a C++ text; decorate a class"
                )
            there = next((t for t in out.tasks if t.name == child.name), None)
            if there is None:
                out.tasks.append(child)
            elif there is not child:
                raise CompileError(f"{where}: makes another task {child.name} than the program has")
    return out
