# SPDX-License-Identifier: Apache-2.0
"""Message types: one definition for NumPy and for C++."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from denizen.buffer import Buffer
from denizen.errors import ArgumentError, MessageError
from denizen.fields import caller_names, check_name, field_of, hints_of, laid_out, seen
from denizen.fixed import Fixed
from denizen.shown import html_table
from denizen.values import whole

MAX_BYTES = 65_536  # of one message, as in include/denizen/wire/slot.hpp
MAX_SHORT_BYTES = 36  # of one that travels in one slot, as denizen::first_payload
PRIORITIES = ("data", "urgent")  # as denizen::Priority
METADATA = "denizen_message"

BUFFER: np.dtype[np.uint64] = np.dtype(np.uint64, metadata={"denizen_buffer": True})
"""The type of a field that refers to a buffer: ``u8`` for NumPy, ``denizen::BufferRef`` for C++."""

ADDRESS: np.dtype[np.uint32] = np.dtype(np.uint32, metadata={"denizen_address": True})
"""The type of a field that holds an actor's address: ``u4`` for NumPy, ``denizen::Address`` for
C++."""

_C_TYPES = {
    "u1": "uint8_t",
    "u2": "uint16_t",
    "u4": "uint32_t",
    "u8": "uint64_t",
    "i1": "int8_t",
    "i2": "int16_t",
    "i4": "int32_t",
    "i8": "int64_t",
    "f4": "float",
    "f8": "double",
    "b1": "bool",
}

# Of whole numbers, by the number of their type.
_LIMITS = {
    np.dtype(code).num: (int(np.iinfo(code).min), int(np.iinfo(code).max)) for code in "bBhHiIlLqQ"
}

_DOUBLE = np.dtype(np.float64).num
_MOST_FLOAT = float.fromhex("0x1.ffffffp127")  # rounds to an infinity, as all above

Field = tuple[str, DTypeLike] | tuple[str, DTypeLike, int | tuple[int, ...]]


def fields_of(dtype: np.dtype[Any]) -> str:
    """The fields of a message, in words: ``n u4, words u4[100]``."""
    fields = []
    for name in dtype.names or ():
        base, shape = dtype[name].subdtype or (dtype[name], ())
        fields.append(f"{name} {base.str[1:]}{''.join(f'[{n}]' for n in shape)}")
    return ", ".join(fields) or "no fields"


def c_type_of(dtype: np.dtype[Any]) -> str | None:
    """What C++ calls a field's type, a struct without a name for a record; None if it has none."""
    if dtype.str[0] == ">":
        return None
    dtype = seen(dtype)
    if dtype.names is None:
        return _C_TYPES.get(dtype.str[1:])
    members = []
    for name in dtype.names:
        base, shape = dtype[name].subdtype or (dtype[name], ())
        c_type = c_type_of(base)
        if c_type is None:
            return None
        members.append(f"{c_type} {name}{''.join(f'[{n}]' for n in shape)};")
    return f"struct {{ {' '.join(members)} }}"


def sent_later(dtype: np.dtype[Any]) -> bool:
    """Whether such messages can be sent later: of one slot, and without buffers."""

    def refers(field: np.dtype[Any]) -> bool:
        return _is(field.base, "denizen_buffer") or any(
            refers(field.base[name]) for name in field.base.names or ()
        )

    return dtype.itemsize <= MAX_SHORT_BYTES and not refers(dtype)


def checked(what: str, dtype: np.dtype[Any], value: Any) -> Any:
    """A value for a field, or MessageError if the field would hold another one.

    A number that is given for an array fills it.

    Args:
        what: the field's name and its message's.
        dtype: of the field.
    """
    base, shape = dtype.base, dtype.shape
    if base.names is not None:
        return _checked_records(what, base, shape, value)
    limits = _LIMITS.get(base.num)
    if limits is not None and type(value) is int:
        least, most = limits
        if not least <= value <= most:
            raise MessageError(f"{what} is {base.str[1:]}: {least} to {most}, not {value}")
        return value
    if type(value) is float and (
        base.num == _DOUBLE or (base.kind == "f" and not _MOST_FLOAT <= abs(value) < math.inf)
    ):
        return value
    try:
        given = np.asarray(value)
    except (TypeError, ValueError):  # lists of several lengths
        given = np.asarray(None)
    if given.dtype.kind == "O" and base.kind == "f":  # whole numbers of more than 64 bits
        given = _as_floats(given)
    if given.dtype.kind not in ("biufc" if base.kind == "c" else "biuf"):
        raise MessageError(f"{what} is {base.str[1:]}; {value!r} is none")
    if given.shape not in ((), shape):
        wanted = f"an array of shape {shape}" if shape else "one number"
        raise MessageError(
            f"{what} is {base.str[1:]}: {wanted}, not an array of shape {given.shape}"
        )
    if limits is not None and given.size > 0:
        least, most = limits
        if given.dtype.kind == "f" and not np.array_equal(np.trunc(given), given):
            raise MessageError(f"{what} is {base.str[1:]}: a whole number, not {value!r}")
        if given.min() < least or given.max() > most:
            raise MessageError(f"{what} is {base.str[1:]}: {least} to {most}, not {value!r}")
    if base.kind == "b" and not np.isin(given, (0, 1)).all():
        raise MessageError(f"{what} is {base.str[1:]}: True or False, not {value!r}")
    if base.kind in "fc":
        with np.errstate(over="ignore", invalid="ignore"):
            lost = np.isinf(given.astype(base)) & ~np.isinf(given)
        if lost.any():
            most_float = float(np.finfo(base).max)
            raise MessageError(
                f"{what} is {base.str[1:]}: up to {most_float:.6g}, or an infinity, not {value!r}"
            )
    return value


def _as_floats(given: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    try:
        return given.astype(np.longdouble)
    except (TypeError, ValueError, OverflowError):
        return given


def _checked_records(
    what: str, base: np.dtype[Any], shape: tuple[int, ...], value: Any
) -> np.ndarray[Any, Any]:
    """Records for a field that holds them: tuples, or records whose fields have the same names."""
    whole: np.ndarray[Any, Any] = np.zeros(shape, base)
    if isinstance(value, np.void | np.ndarray) and value.dtype == base and value.shape == shape:
        whole[()] = value
        return whole
    if shape:
        if not isinstance(value, list | tuple | np.ndarray) or len(value) != shape[0]:
            raise MessageError(f"{what} is an array of {shape[0]} records ({fields_of(base)})")
        for i, one in enumerate(value):
            whole[i] = _checked_records(_part(what, f"[{i}]"), base, shape[1:], one)
        return whole
    names = base.names or ()
    parts: Any = value
    if isinstance(value, np.void | np.ndarray) and not value.shape and value.dtype.names == names:
        parts = tuple(value[name] for name in names)
    if not isinstance(parts, tuple | list) or len(parts) != len(names):
        raise MessageError(
            f"{what} is a record of {fields_of(base)}; give a tuple of {len(names)}, not {value!r}"
        )
    for name, part in zip(names, parts, strict=True):
        whole[name] = checked(_part(what, f".{name}"), base[name], part)
    return whole


def _part(what: str, part: str) -> str:
    """What a part of a field is called: "field at.x of Move"."""
    field, of, whose = what.partition(" of ")
    return f"{field}{part}{of}{whose}"


class Record(np.void):  # type: ignore[misc]  # final in the stubs alone
    """One message or task: a record of NumPy's, whose repr has the type's name and the fields."""

    def __repr__(self) -> str:
        told: Mapping[str, Any] = self.dtype.metadata or {}
        fields = zip(self.dtype.names or (), self.item(), strict=True)
        shown = (f"{f}={v.tolist() if isinstance(v, np.ndarray) else v!r}" for f, v in fields)
        (name,) = told.values()
        return f"{name}({', '.join(shown)})"


class MessageType(Fixed):
    """A message type: `dtype` for NumPy, `struct` for C++, and a call that makes one message.

    The dtype is structured and aligned as a C compiler aligns the struct. It carries the type's
    name in its metadata, so that arrays made with it know what they are. `priority` is "data" or
    "urgent".
    """

    def __init__(self, name: str, fields: Sequence[Field], priority: str = "data") -> None:
        check_name("message", name)
        if priority not in PRIORITIES:
            raise ArgumentError(f'message {name} has priority "{priority}"; use "data" or "urgent"')
        self.name = name
        self.priority = priority
        if not isinstance(fields, Iterable):
            raise ArgumentError(
                f"message {name}: {fields!r:.60} are no fields; give a list of them"
            )
        for field in fields:
            if not isinstance(field, tuple | list) or not 2 <= len(field) <= 3:
                raise ArgumentError(
                    f"message {name}: {field!r} is no field; give (name, type) or (name, type, "
                    "shape)"
                )
            check_name(f"field of message {name}", field[0])
            if field[0] == "priority" and priority != "data":
                raise ArgumentError(
                    f"message {name} is {priority} and has a field priority, which is how C++ "
                    "tells it; give the field another name"
                )
        self._buffers = {field[0] for field in fields if _is(field[1], "denizen_buffer")}
        self._addresses = {field[0] for field in fields if _is(field[1], "denizen_address")}
        try:
            plain = np.dtype(list(fields), align=True)
        except (TypeError, ValueError) as error:
            raise ArgumentError(
                f"message {name}: {error}; fields are (name, type) or (name, type, shape)"
            ) from error
        names = plain.names or ()
        for field_name in names:
            if 0 in plain[field_name].shape:
                raise ArgumentError(
                    f"field {field_name} of message {name} has shape {plain[field_name].shape}; "
                    "C++ has no empty arrays, use 1 or more"
                )
        if any(plain[n].base.names is not None for n in names):
            found = [(n, laid_out(f"{name}.{n}", plain[n])) for n in names]
            plain = np.dtype(found, align=True)
        spec: Any = {
            "names": list(names),
            "formats": [plain[n] for n in names],
            "offsets": [plain.fields[n][1] for n in names] if plain.fields else [],
            "itemsize": max(plain.itemsize, 1),  # an empty C++ struct has one byte
        }
        self.dtype: np.dtype[np.void] = np.dtype(spec, align=True, metadata={METADATA: name})
        if self.dtype.itemsize > MAX_BYTES:
            raise MessageError(
                f"message {name} has {self.dtype.itemsize} bytes, the limit is {MAX_BYTES}; "
                "send a reference to a buffer instead"
            )
        self._one: np.dtype[np.void] = np.dtype((Record, self.dtype))
        self.struct = self._struct()
        self._made = type(self) is MessageType  # others have more to set

    def __call__(self, *values: Any, **fields: Any) -> np.void:
        """One message: values in the fields' order, or by name; those not given are zero."""
        message: Any = np.zeros((), self._one)
        if values:
            fields = self._by_name(values, fields)
        for name, value in fields.items():
            if name not in (self.dtype.names or ()):
                has = ", ".join(self.dtype.names or ()) or "none"
                raise MessageError(f'message {self.name} has no field "{name}"; it has {has}')
            given = _refs(value) if name in self._buffers else value
            message[name] = checked(f"field {name} of {self.name}", self.dtype[name], given)
        record: np.void = message[()]
        return record

    def _by_name(self, values: tuple[Any, ...], fields: dict[str, Any]) -> dict[str, Any]:
        names = (self.dtype.names or ())[: len(values)]
        if len(values) > len(names):
            raise MessageError(
                f"message {self.name} has {len(names)} fields, not {len(values)}: "
                f"{fields_of(self.dtype)}"
            )
        for name in names:
            if name in fields:
                raise MessageError(f"field {name} of {self.name} is given twice")
        return {**dict(zip(names, values, strict=True)), **fields}

    def __repr__(self) -> str:
        return f"<message {self.name}: {fields_of(self.dtype)}; {self.dtype.itemsize} bytes>"

    def _repr_html_(self) -> str:
        fields: Any = self.dtype.fields or {}
        rows = [
            (name, fields_of(self.dtype[[name]]).partition(" ")[2], f"byte {fields[name][1]}")
            for name in self.dtype.names or ()
        ]
        return html_table(f"message {self.name}, {self.dtype.itemsize} bytes", rows)

    def zeros(self, count: int) -> np.ndarray[Any, np.dtype[np.void]]:
        """`count` messages, all fields zero."""
        return np.zeros(whole("count", count), self.dtype)

    def read(self, data: bytes) -> np.void:
        """The message that these bytes are."""
        try:
            record: np.void = np.frombuffer(data, self._one)[0]
        except (TypeError, ValueError, IndexError):
            size = len(data) if isinstance(data, bytes | bytearray | memoryview) else None
            got = type(data).__name__ if size is None else f"{size} bytes"
            raise MessageError(
                f"{got} are no {self.name}; give the {self.dtype.itemsize} bytes of one"
            ) from None
        return record

    def buffer_offsets(self) -> list[int]:
        """Where in a message its references to buffers lie, in bytes."""
        offsets: list[int] = []
        fields: Any = self.dtype.fields
        for name in self.dtype.names or ():
            if name in self._buffers:
                field, begin = fields[name][:2]
                offsets += range(begin, begin + field.itemsize, BUFFER.itemsize)
        return offsets

    def _struct(self) -> str:
        lines = [f"struct {self.name} {{"]
        checks = [
            f"static_assert(sizeof({self.name}) == {self.dtype.itemsize});",
            "#if !defined(__CUDACC_RTC__)  // which has no offsetof",
        ]
        offsets: Any = self.dtype.fields or {}
        for name in self.dtype.names or ():
            field = self.dtype[name]
            base, shape = field.subdtype if field.subdtype is not None else (field, ())
            c_type = c_type_of(base)
            if name in self._buffers:
                c_type = "denizen::BufferRef"
            if name in self._addresses:
                c_type = "denizen::Address"
            if c_type is None:
                raise ArgumentError(
                    f"field {name} of message {self.name} has dtype {base}; use integers, floats, "
                    f"complex numbers or bool in native byte order ({', '.join(_C_TYPES)}, c8, c16)"
                )
            lines.append(f"    {c_type} {name}{''.join(f'[{n}]' for n in shape)};")
            offset = offsets[name][1]
            checks.append(f"static_assert(__builtin_offsetof({self.name}, {name}) == {offset});")
        if self.priority != "data":
            priority = f"denizen::Priority::{self.priority}"
            lines.append(f"    static constexpr auto priority = {priority};")
        if self._buffers:
            named = [name for name in self.dtype.names or () if name in self._buffers]
            lines.append(f"    DENIZEN_BUFFERS({', '.join(named)})")
        return "\n".join([*lines, "};", *checks, "#endif"]) + "\n"


def _is(field: object, what: str) -> bool:
    return isinstance(field, np.dtype) and what in (field.metadata or ())


def _refs(value: Any) -> Any:
    """The references of buffers, where buffers are given; they must be open."""
    if isinstance(value, Buffer):
        return value.ref
    return [_refs(v) for v in value] if isinstance(value, list | tuple) else value


def message(
    name: str | type, fields: Sequence[Field] = (), *, priority: str = "data"
) -> MessageType:
    """Defines a message type; also a decorator of a class with fields.

        @denizen.message
        class Tick:
            n: np.uint32

    Args:
        name: its name in C++ and Python; or the class. Its annotations are the fields, and a class
            attribute `priority = "urgent"` is one.
        fields: as for numpy.dtype: (name, type) or (name, type, shape); integers, floats, bool,
            denizen.BUFFER for what refers to a buffer, denizen.ADDRESS for an actor's address.
            Up to 36 bytes travel in one 64-byte slot, up to 65,536 in several.
        priority: "urgent" messages have rings of their own and overtake "data"; among themselves
            those of one sender to one actor keep their order.

    Raises:
        ArgumentError: a name, a field or the priority is not one of these.
        MessageError: the message is longer than 65,536 bytes.
    """
    if isinstance(name, type):
        hints = hints_of(name, caller_names(1))
        fields = [(f, *field_of(f"{name.__name__}.{f}", hint)) for f, hint in hints.items()]
        return MessageType(name.__name__, fields, getattr(name, "priority", priority))
    return MessageType(name, fields, priority)
