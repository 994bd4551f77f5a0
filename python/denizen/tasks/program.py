# SPDX-License-Identifier: Apache-2.0
"""Programs of tasks: CUDA C++ text, compiled for CPU or GPU as those of actors are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from denizen import _core
from denizen.errors import ArgumentError, MessageError
from denizen.message import Field, check_name, checked, fields_of
from denizen.program import cubin_of, library_of

MAX_BYTES = 44  # of one task, as in include/denizen/task/detail/layout.hpp
MAX_TYPES = 64
METADATA = "denizen_task"

#: The type of a field that is a denizen::task::Promise: give it a Future.
PROMISE: np.dtype[Any] = np.dtype((np.uint32, (2,)))


class TaskType:
    """A task type that the host spawns: `dtype` for NumPy, and a call that makes one task."""

    def __init__(self, name: str, fields: Sequence[Field]) -> None:
        check_name("task", name)
        self.name = name
        for field in fields:
            check_name(f"field of task {name}", field[0])
        try:
            plain = np.dtype(list(fields), align=True)
        except (TypeError, ValueError) as error:
            raise ArgumentError(
                f"task {name}: {error}; fields are (name, type) or (name, type, shape)"
            ) from error
        if plain.hasobject:
            raise ArgumentError(f"task {name} has fields of Python objects; use numbers")
        if plain.itemsize > MAX_BYTES:
            raise MessageError(
                f"task {name} has {plain.itemsize} bytes, the limit is {MAX_BYTES}; give it the "
                "address of an array instead"
            )
        names = list(plain.names or ())
        spec: Any = {
            "names": names,
            "formats": [plain[n] for n in names],
            "offsets": [plain.fields[n][1] for n in names] if plain.fields else [],
            "itemsize": plain.itemsize,
        }
        self.dtype: np.dtype[np.void] = np.dtype(spec, align=True, metadata={METADATA: name})

    def __call__(self, **fields: Any) -> np.void:
        """One task; fields not named are zero. A field of type PROMISE takes a Future."""
        value: Any = np.zeros((), self.dtype)
        for name, given in fields.items():
            if name not in (self.dtype.names or ()):
                has = ", ".join(self.dtype.names or ()) or "none"
                raise MessageError(f'task {self.name} has no field "{name}"; it has {has}')
            field = self.dtype[name]
            plain = getattr(given, "promise", given)
            value[name] = checked(f"field {name} of task {self.name}", field, plain)
        record: np.void = value[()]
        return record

    def __repr__(self) -> str:
        return f"<task {self.name}: {fields_of(self.dtype)}; {self.dtype.itemsize} bytes>"

    def zeros(self, count: int) -> np.ndarray[Any, np.dtype[np.void]]:
        """`count` tasks, all fields zero."""
        return np.zeros(count, self.dtype)

    def checks(self) -> str:
        """C++ that holds the text's struct against this type; NVRTC has no offsetof."""
        fields: Any = self.dtype.fields or {}
        size = f"sizeof({self.name}) == {self.dtype.itemsize}"
        if not fields:
            size = f"__is_empty({self.name})"
        wrong = f'"task {self.name} has other fields in Python than in C++"'
        offsets = [
            f"static_assert(__builtin_offsetof({self.name}, {n}) == {fields[n][1]}, {wrong});"
            for n in self.dtype.names or ()
        ]
        lines = [f"static_assert({size}, {wrong});", "#if !defined(__CUDACC_RTC__)", *offsets]
        return "\n".join([*lines, "#endif", ""])


def task(name: str, fields: Sequence[Field] = ()) -> TaskType:
    """Describes a task type of a program's text, for the host to spawn.

    Args:
        name: of the struct.
        fields: its members in their order, as for numpy.dtype: (name, type) or (name, type, shape);
            PROMISE for a denizen::task::Promise. At most 44 bytes. The compiler checks sizes and
            (for the CPU) offsets against the struct.

    Raises ArgumentError, or MessageError for more than 44 bytes.
    """
    return TaskType(name, fields)


class Program:
    """Task types, compiled when first needed and cached on disk by content.

    Args:
        source: C++20 text that defines a struct for each task: its arguments, and `void run(auto&
            ctx) const`; see docs/tasks.md. The same text runs on the GPU and on the CPU.
        tasks: what can be run: types made by task() if the host spawns them, else names.
        name: stands for the text in compilers' messages.
        flags: further compiler options, for both compilers (`-D...`, `-I...`).

    Raises ArgumentError.
    """

    def __init__(
        self,
        source: str,
        *,
        tasks: Sequence[TaskType | str],
        name: str = "tasks",
        flags: Sequence[str] = (),
    ) -> None:
        for what, given in (("tasks", tasks), ("flags", flags)):
            if isinstance(given, str):
                raise ArgumentError(f'{what} = "{given}"; give a list')
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
        self.flags = tuple(flags)

    def text(self) -> str:
        """The whole translation unit."""
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
        library = library_of(self.text(), self.name, self.flags)
        return _core.load_tasks(library, list(self.names))

    def compile_gpu(self, architecture: int) -> _core.TaskImage:
        """Compiles for a GPU with NVRTC; `architecture`: ten times the compute capability.

        Raises CompileError with NVRTC's messages, or if NVRTC is not to be found.
        """
        cubin = cubin_of(self.text(), self.name, architecture, self.flags)
        return _core.load_tasks_cubin(cubin, list(self.names))
