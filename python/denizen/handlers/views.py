# SPDX-License-Identifier: Apache-2.0
"""States and messages as handlers see them when Python runs them.

A field is read as a number of 64 bits and stored with its own width, as in compiled handlers. Where
these would read zero and write nothing, outside of an array, there is an IndexError here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from denizen.actor import ActorType
from denizen.fields import is_scalar, seen
from denizen.handlers import ops
from denizen.message import MessageType
from denizen.task_type import TaskType


def narrow(dtype: np.dtype[Any], value: Any) -> Any:
    """What a field of this type keeps of a number."""
    if dtype.kind == "f":
        with np.errstate(all="ignore"):
            return dtype.type(ops.to_float(value))
    if dtype.kind == "b":
        return ops.true(value)
    convert: Callable[[Any], int] = getattr(ops, f"to_{dtype.str[1:]}")
    return convert(value)


def _read(part: np.ndarray[Any, Any]) -> Any:
    """A field or an element: a number, or what has parts of its own."""
    if part.ndim > 0:
        return Cells(part)
    if part.dtype.kind == "c":
        part = part.view(seen(part.dtype))
    if part.dtype.names is not None:
        return Record(part)
    value = part.item()
    return ops.U64(value) if part.dtype.str[1:] == "u8" else value


def _write(part: np.ndarray[Any, Any], value: Any) -> None:
    if part.ndim > 0:
        raise TypeError("an array is assigned element by element")
    part = part.view(seen(part.dtype))
    if part.dtype.names is not None:
        if not isinstance(value, Record) or value._array.dtype != part.dtype:
            raise TypeError(f"a record of this type is needed, not {value!r}")
        part[()] = value._array[()]
    else:
        if isinstance(value, float) and part.dtype.kind in "iu":
            raise TypeError("a whole number is stored here, not a float: int(...)")
        part[()] = narrow(part.dtype, value)


class Record:
    """A state, a message, or a record within."""

    __slots__ = ("_array", "_kind")

    def __init__(self, array: np.ndarray[Any, Any], kind: str = "record") -> None:
        object.__setattr__(self, "_array", array)
        object.__setattr__(self, "_kind", kind)

    def __getattr__(self, name: str) -> Any:
        if name.startswith(ops.PLACE):
            return Place(self, name.removeprefix(ops.PLACE))
        if name.startswith("__") or name not in (self._array.dtype.names or ()):
            raise self._none(name)
        return _read(self._array[name])

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in (self._array.dtype.names or ()):
            raise self._none(name)
        _write(self._array[name], value)

    def _none(self, name: str) -> AttributeError:
        known = ", ".join(self._array.dtype.names or ()) or "no fields"
        return AttributeError(f"{self._kind} has no field {name}; it has {known}")

    def __repr__(self) -> str:
        fields = [f"{n}={_read(self._array[n])!r}" for n in self._array.dtype.names or ()]
        return f"{self._kind}({', '.join(fields)})"


class Place:
    """A field that is about to be assigned."""

    __slots__ = ("_name", "_record")

    def __init__(self, record: Record, name: str) -> None:
        self._record = record
        self._name = name

    def store(self, value: Any) -> None:
        setattr(self._record, self._name, value)


class Message(Record):
    """A message: a record that can be sent."""

    __slots__ = ("type",)

    def __init__(self, array: np.ndarray[Any, Any], type: MessageType) -> None:
        super().__init__(array, type.name)
        object.__setattr__(self, "type", type)


class State(Record):
    """A task, or the state of an actor, that is about to be spawned."""

    __slots__ = ("type",)

    def __init__(self, array: np.ndarray[Any, Any], type: ActorType | TaskType) -> None:
        super().__init__(array, type.name)
        object.__setattr__(self, "type", type)


class Cells:
    """An array field, or a buffer's memory."""

    __slots__ = ("_array",)

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self._array = array

    @property
    def address(self) -> int:
        """Where it lies; 0 if it is empty."""
        return ops.U64(self._array.ctypes.data if self._array.size else 0)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"an array has no {name}; it has a[i], and len(a)")

    def __len__(self) -> int:
        return len(self._array)

    def __getitem__(self, place: int) -> Any:
        return _read(self._array[place, ...])

    def __setitem__(self, place: int, value: Any) -> None:
        _write(self._array[place, ...], value)

    def __repr__(self) -> str:
        return repr(self._array.tolist())


class Samples:
    """A stream, seen from one of its samples: that is number 0, `before` of it are there too."""

    __slots__ = ("_array", "_at", "_before")

    def __init__(self, array: NDArray[Any], at: int, before: int) -> None:
        self._array = array
        self._at = at
        self._before = before

    def moved(self, count: int) -> Samples:
        return Samples(self._array, self._at + count, self._before)

    def _place(self, place: int) -> int:
        if not -self._before <= place <= 0:
            raise IndexError(f"sample {place} of {-self._before} to 0")
        return self._at + place

    def __getitem__(self, place: int) -> Any:
        return _read(self._array[self._place(place), ...])

    def __setitem__(self, place: int, value: Any) -> None:
        _write(self._array[self._place(place), ...], value)


def new(type: MessageType | ActorType | TaskType) -> Callable[..., Record]:
    """What makes messages, states or tasks of a type, of its scalar fields."""
    names = [n for n in type.dtype.names or () if is_scalar(type.dtype[n])]

    def make(*values: Any) -> Record:
        array: NDArray[Any]
        if isinstance(type, MessageType):
            array = np.zeros((), type.dtype)
        else:
            array = np.array(type.initial)
        for name, value in zip(names, values, strict=True):
            _write(array[name], value)
        return Message(array, type) if isinstance(type, MessageType) else State(array, type)

    return make
