# SPDX-License-Identifier: Apache-2.0
"""Programs of tasks: in Python or CUDA C++ text, compiled as those of actors are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial

from denizen import _core
from denizen.compilers import cubin_of, library_of, link
from denizen.errors import ArgumentError
from denizen.fields import check_name
from denizen.handlers.task_plan import TaskPlan, plan_tasks
from denizen.handlers.task_text import text_of
from denizen.shown import Shown
from denizen.task_type import TaskType

MAX_TYPES = 64


class Program(Shown):
    """Task types, compiled when first needed and cached on disk by content.

    Args:
        source: C++20 text that defines a struct for each task: its arguments, and `void run(auto&
            ctx) const`; see docs/tasks.md. The same text runs on the GPU and on the CPU. None for
            tasks in Python.
        tasks: what can be run. Of a text: types made by task() if the host spawns them, else names.
            In Python: classes that @task has made types; those that they make need no name.
        name: stands for the text in compilers' messages.
        flags: further compiler options, for both compilers (`-D...`, `-I...`).

    Raises ArgumentError.
    """

    def __init__(
        self,
        source: str = "",
        *,
        tasks: Sequence[TaskType | str],
        name: str = "tasks",
        flags: Sequence[str] = (),
    ) -> None:
        for what, given in (("tasks", tasks), ("flags", flags)):
            if isinstance(given, str):
                raise ArgumentError(f'{what} = "{given}"; give a list')
        written = [t for t in tasks if isinstance(t, TaskType) and t.run is not None]
        if written and (source or len(written) < len(tasks)):
            raise ArgumentError(
                f"{name} has tasks in Python and in C++ text; write all in one of the two"
            )
        if not written and not source:
            raise ArgumentError(f"{name} has no text; give it, or classes decorated with @task")
        if written:
            tasks = plan_tasks(written, interpreted=True).tasks
        names = [t.name if isinstance(t, TaskType) else t for t in tasks]
        for each in names:
            check_name("task", each)
        if not 1 <= len(names) <= MAX_TYPES:
            raise ArgumentError(f"{name} has {len(names)} tasks; use 1 to {MAX_TYPES}")
        doubled = {n for n in names if names.count(n) > 1}
        if doubled:
            raise ArgumentError(f"{name} names {', '.join(sorted(doubled))} twice")
        self.source = source
        self.name = name
        self.names = tuple(names)
        self.types = {t.name: t for t in tasks if isinstance(t, TaskType)}
        self.in_python = list(self.types.values()) if written else []
        self.flags = tuple(flags)

    def _facts(self) -> list[tuple[str, str]]:
        return [
            ("called", self.name),
            ("tasks", ", ".join(self.names)),
        ]

    def plan(self, *, interpreted: bool = False) -> TaskPlan:
        """Its tasks in Python, rewritten. CompileError has the user's file and line."""
        return plan_tasks(self.in_python, interpreted=interpreted)

    def text(self) -> str:
        """The whole translation unit."""
        if self.in_python:
            return text_of(self.plan())
        name = re.sub(r"\s", " ", self.name).replace("\\", "\\\\").replace('"', '\\"')
        return (
            "#include <denizen/base/vocabulary.hpp>\n"
            "#include <denizen/task/kernel.hpp>\n"
            f'#line 1 "{name}"\n'
            f"{self.source}\n"
            f'#line 1 "end of {name}"\n'
            f"{''.join(t.checks() for t in self.types.values())}"
            f"using denizen_tasks_program = denizen::task::Program<{', '.join(self.names)}>;\n"
            "DENIZEN_TASKS(denizen_tasks_program)\n"
        )

    def compile_cpu(self) -> _core.TaskImage:
        """Compiles for CPU threads. Raises CompileError with the compiler's messages."""
        if self.in_python:
            from denizen.handlers.task_image import cpu_image  # noqa: PLC0415  (Numba is optional)

            return cpu_image(self.plan())
        library = library_of(self.text(), self.name, self.flags)
        return _core.load_tasks(library, list(self.names))

    def compile_gpu(self, architecture: int) -> _core.TaskImage:
        """Compiles for a GPU with NVRTC; `architecture`: ten times the compute capability.

        Raises CompileError with NVRTC's messages, or if NVRTC is not to be found.
        """
        if self.in_python:
            from denizen.handlers.task_image import gpu_parts  # noqa: PLC0415  (Numba is optional)

            plan = self.plan()
            parts = partial(gpu_parts, plan, architecture)
            cubin = link(self.text(), self.name, architecture, self.flags, plan.code, parts)
            return _core.load_tasks_cubin(cubin, list(self.names))
        cubin = cubin_of(self.text(), self.name, architecture, self.flags)
        return _core.load_tasks_cubin(cubin, list(self.names))
