# SPDX-License-Identifier: Apache-2.0
"""Fields declared in a class: what @denizen.message, @denizen.actor and @denizen.record read.

class Counter:
    sum: np.uint64 = 0          a NumPy scalar type, or int, float, bool (64, 64 and 8 bits)
    gain: np.complex64 = 1      handlers see it as a record of its parts, real and imag
    seen: (np.uint32, 16)       a fixed array, of any shape
    place: Point                a record, or a message
    peer: denizen.ADDRESS       an actor's address
    LIMIT = 5                   no field: a constant
"""

from __future__ import annotations

import inspect
import keyword
import re
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from denizen.errors import ArgumentError

PYTHON = {int: np.int64, float: np.float64, bool: np.bool_}


# Keywords of C++20 that are not Python's too.
_C_KEYWORDS = frozenset(
    re.findall(
        r"\w+",
        "alignas alignof and_eq asm auto bitand bitor bool case catch char char8_t char16_t "
        "char32_t co_await co_return co_yield compl concept const const_cast consteval "
        "constexpr constinit decltype default delete do double dynamic_cast enum explicit "
        "export extern false float friend goto inline int long mutable namespace new noexcept "
        "not_eq nullptr operator or_eq private protected public register reinterpret_cast "
        "requires short signed sizeof static static_assert static_cast struct switch template "
        "this thread_local throw true typedef typeid typename union unsigned using virtual void "
        "volatile wchar_t xor xor_eq ",
    )
)


def check_name(kind: str, name: object) -> None:
    """Raises ArgumentError unless `name` is an identifier in C++ and Python alike."""
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
        raise ArgumentError(f'{kind} "{name}" is not an identifier; use letters, digits and _')
    if keyword.iskeyword(name) or name in _C_KEYWORDS:
        raise ArgumentError(f'{kind} "{name}" is a keyword of C++ or Python; use another name')


def caller_names(depth: int) -> dict[str, Any]:
    """The local names where a decorator is applied, for hints that are text."""
    return dict(sys._getframe(depth + 1).f_locals)


def hints_of(thing: Any, names: Mapping[str, Any]) -> dict[str, Any]:
    """Annotations, those evaluated that `from __future__ import annotations` made text."""
    if isinstance(thing, type) and thing.__bases__ != (object,):
        raise ArgumentError(
            f"{thing.__name__} inherits from {thing.__bases__[0].__name__}, which is not read; "
            "write its fields and handlers in one class"
        )
    found = inspect.get_annotations(thing)
    module = sys.modules.get(thing.__module__)
    scope = dict(vars(module)) if module else {}
    scope.update(names)
    scope.update(getattr(thing, "__globals__", {}))
    out = {}
    for name, hint in found.items():
        out[name] = hint
        if isinstance(hint, str):
            try:
                out[name] = eval(hint, scope, dict(names))
            except Exception:
                out[name] = hint  # "u4", or what the caller complains about
    return out


def field_of(what: str, hint: Any) -> tuple[Any, ...]:
    """(type,) or (type, shape) of a field's hint, for numpy.dtype. Raises ArgumentError."""
    given, shape = hint if isinstance(hint, tuple) and len(hint) == 2 else (hint, None)
    if isinstance(given, np.ndarray):
        raise ArgumentError(
            f"{what}: an array is no type; use (type, shape), and the array as what it begins "
            f"with: {what.rpartition('.')[2]}: (np.{given.dtype}, {given.shape}) = ..."
        )
    sides = () if shape is None else shape if isinstance(shape, tuple) else (shape,)
    if any(not isinstance(n, int | np.integer) or n < 1 for n in sides):
        raise ArgumentError(f"{what}: {hint!r} has no shape; use whole numbers from 1")
    given = PYTHON.get(given, given) if isinstance(given, type) else given
    given = getattr(given, "dtype", given) if not isinstance(given, type) else given
    try:
        dtype = given if isinstance(given, np.dtype) else np.dtype(given)
    except TypeError:
        dtype = np.dtype(object)
    dtype = laid_out(what, dtype, hint)
    return (dtype,) if shape is None else (dtype, shape)


def laid_out(what: str, dtype: np.dtype[Any], hint: Any = None) -> np.dtype[Any]:
    """A field's type as C lays it out: records that are not are made anew, member by member.

    Raises ArgumentError for what C does not have.

    Args:
        hint: what the user has written for it.
    """
    base, shape = dtype.base, dtype.shape
    if base.names is None:
        if base.str[0] == ">" or base.str[1:] not in _WORDS:
            raise ArgumentError(
                f"{what}: {dtype if hint is None else hint!r} is no field; use a NumPy integer, "
                "float32, float64, complex64, complex128 or bool in native byte order, (type, "
                "shape) for an array, or a record"
            )
        return dtype
    if not base.names:
        raise ArgumentError(f"{what} is a record without fields; leave it out")
    fields: Any = base.fields
    members, end = [], 0
    for name in base.names:
        check_name(f"{what}: field", name)
        member, begin = fields[name][:2]
        if 0 in member.shape:
            raise ArgumentError(f"{what}.{name} has no elements; use a shape of 1 or more")
        if begin < end:
            raise ArgumentError(f"{what}: {name} does not lie behind the fields before it: {base}")
        end = begin + member.itemsize
        members.append((name, laid_out(f"{what}.{name}", member)))
    made = np.dtype(members, align=True)
    if made == base and made.alignment == base.alignment:
        return dtype
    return np.dtype((made, shape)) if shape else made


_WORDS = {"u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f4", "f8", "c8", "c16", "b1"}

_PARTS = {
    f"c{2 * part.itemsize}": np.dtype([("real", part), ("imag", part)])
    for part in (np.dtype(np.float32), np.dtype(np.float64))
}


def seen(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """A field's type, without its shape, as handlers see it: a complex number has parts."""
    return _PARTS.get(dtype.str[1:], dtype) if dtype.kind == "c" else dtype


def is_scalar(dtype: np.dtype[Any]) -> bool:
    """Whether handlers see such a field as one number."""
    return dtype.subdtype is None and seen(dtype).names is None


def check_class(cls: object, decorator: str) -> None:
    """Raises ArgumentError if what is decorated is no class."""
    if not isinstance(cls, type):
        raise ArgumentError(f"{cls!r:.60} is no class; @denizen.{decorator} decorates one")


def record(cls: type) -> np.dtype[np.void]:
    """A decorator: the class's fields as a NumPy dtype, for fields of messages and actors.

    It is aligned as a C compiler aligns a struct.
    """
    check_class(cls, "record")
    hints = hints_of(cls, caller_names(1))
    if not hints:
        raise ArgumentError(f"record {cls.__name__} has no fields; annotate some: x: np.float64")
    return np.dtype(
        [(name, *field_of(f"{cls.__name__}.{name}", hint)) for name, hint in hints.items()],
        align=True,
    )
