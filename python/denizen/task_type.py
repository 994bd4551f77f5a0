# SPDX-License-Identifier: Apache-2.0
"""Task types: described for a program's text, or a class with fields and run().

    @tasks.task
    class Fib:
        n: np.uint32
        parent: tasks.COUNTER
        def run(self, ctx): ...

What a task declares in C++ is a class attribute here: grain = "warp", priority = "high".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from denizen.errors import ArgumentError, MessageError
from denizen.fields import caller_names, check_name, field_of, hints_of
from denizen.fixed import Fixed
from denizen.message import Field, Record, checked, fields_of
from denizen.shown import html_table
from denizen.source import keep_text

MAX_BYTES = 44  # of one task, as in include/denizen/task/detail/layout.hpp
METADATA = "denizen_task"

# As the enumerators of denizen::task::Grain and Priority.
GRAINS = ("thread", "warp", "block")
PRIORITIES = ("high", "normal", "low")

#: The type of a field that is a denizen::task::Promise: give it a Future.
PROMISE: np.dtype[Any] = np.dtype((np.uint32, (2,)))
#: The type of a field that keeps what ctx.when() gives; 0 is none.
COUNTER: np.dtype[Any] = np.dtype(np.uint32)


class TaskType(Fixed):
    """A task type: `dtype` for NumPy, and a call that makes one task.

    `run` is its function if it is one in Python, `initial` then a new task's fields.
    """

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
        self._one: np.dtype[np.void] = np.dtype((Record, self.dtype))
        self.initial: Any = np.zeros((), self.dtype)
        self.run: FunctionType | None = None
        self.constants: dict[str, Any] = {}
        self.grain, self.priority = "thread", "normal"
        self._made = True

    @classmethod
    def of_class(cls, given: type, names: Mapping[str, Any]) -> TaskType:
        """Raises ArgumentError for what is neither a field, a declaration, a constant nor run()."""
        hints = hints_of(given, names)
        fields: list[Any] = []
        for field, hint in hints.items():
            kind = np.uint64 if hint is PROMISE else hint  # one number: it is handed on as it is
            fields.append((field, *field_of(f"{given.__name__}.{field}", kind)))
        made = cls(given.__name__, fields)
        for name, value in vars(given).items():
            made._attribute(name, value, name in hints)
        if made.run is None:
            raise ArgumentError(f"task {made.name} has no method run(self, ctx)")
        if "sum" in hints and made.dtype["sum"].str[1:] not in ("i4", "u4", "i8", "u8"):
            raise ArgumentError(
                f"{made.name}.sum is {made.dtype['sum']}; what arrives is summed up in 4 or 8 "
                "bytes: sum: np.uint64, or give the field another name"
            )
        return made

    def _attribute(self, name: str, value: Any, field: bool) -> None:
        what = f"{self.name}.{name}"
        if field:
            self.initial[name] = checked(what, self.dtype[name], value)
        elif name == "run" and isinstance(value, FunctionType):
            if value.__code__.co_argcount not in (1, 2):
                raise ArgumentError(f"{what} takes the task, and its context: run(self, ctx)")
            self.run = value
            keep_text(value)
        elif name in ("grain", "priority"):
            known = GRAINS if name == "grain" else PRIORITIES
            if value not in known:
                words = ", ".join(f'"{k}"' for k in known)
                raise ArgumentError(f"{what} = {value!r}; use one of {words}")
            setattr(self, name, value)
        elif isinstance(value, bool | int | float | np.number):
            self.constants[name] = value
        elif not (name.startswith("__") and name.endswith("__")):
            raise ArgumentError(
                f"{what} = {value!r} is neither a number, a declaration nor run(); a field has a "
                f"type: {name}: np.uint32 = 0"
            )

    def __call__(self, *values: Any, **fields: Any) -> np.void:
        """One task: values in the fields' order, or by name; those not given are as declared, or
        zero. A field of type PROMISE takes a Future."""
        names = self.dtype.names or ()
        if len(values) > len(names):
            raise MessageError(f"task {self.name} has {len(names)} fields, not {len(values)}")
        given = dict(zip(names, values, strict=False))
        for name in fields:
            if name not in names:
                has = ", ".join(self.dtype.names or ()) or "none"
                raise MessageError(f'task {self.name} has no field "{name}"; it has {has}')
            if name in given:
                raise MessageError(f"field {name} of task {self.name} is given twice")
        task: Any = self.initial.copy()
        for name, value in {**given, **fields}.items():
            field = self.dtype[name]
            plain = getattr(value, "promise", value)
            if plain is not value and not field.shape:
                plain = plain[0] | plain[1] << 32
            task[name] = checked(f"field {name} of task {self.name}", field, plain)
        record: np.void = task.view(self._one)[()]
        return record

    def __repr__(self) -> str:
        return f"<task {self.name}: {fields_of(self.dtype)}; {self.dtype.itemsize} bytes>"

    def _repr_html_(self) -> str:
        rows = [("fields", fields_of(self.dtype)), ("grain", self.grain)]
        return html_table(f"task {self.name}, {self.dtype.itemsize} bytes", rows)

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


def task(name: str | type, fields: Sequence[Field] = ()) -> TaskType:
    """Describes a task type of a program's text, for the host to spawn; also a decorator of a class
    with fields and a method run(self, ctx), which is a task in Python.

    Args:
        name: of the struct; or the class.
        fields: its members in their order, as for numpy.dtype: (name, type) or (name, type, shape);
            PROMISE for a denizen::task::Promise, COUNTER for a denizen::task::Counter. At most 44
            bytes. The compiler checks sizes and (for the CPU) offsets against the struct.

    Raises ArgumentError, or MessageError for more than 44 bytes.
    """
    if isinstance(name, type):
        return TaskType.of_class(name, caller_names(1))
    return TaskType(name, fields)
