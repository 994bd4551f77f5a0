# SPDX-License-Identifier: Apache-2.0
"""What the operations of a handler mean, as the interpreter runs them.

A number is a whole one of 64 bits, signed (Python's int) or unsigned (U64), a float of 64 bits, or
a bool. Whole numbers wrap. Of a signed and an unsigned one, arithmetic makes an unsigned one, and
comparisons compare what they are. Fields are narrower: reading one widens it, storing keeps the
low bits, or rounds to float32. lowering/ compiles the same meaning; tests compare the two.

Nothing raises: a whole number divided by zero is 0, a float is an infinity or NaN as in IEEE 754,
and a float that is no whole number of 64 bits becomes the nearest one, NaN 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

_MASK = (1 << 64) - 1
_SIGN = 1 << 63


class U64(int):
    """An unsigned whole number of 64 bits."""

    __slots__ = ()

    def __repr__(self) -> str:
        return int.__repr__(self)


Number = int | float | bool


def whole(value: int, unsigned: bool) -> int:
    """The low 64 bits."""
    if unsigned:
        return U64(value & _MASK)
    value &= _MASK
    return value - (_SIGN << 1) if value & _SIGN else value


def _plain(value: Any) -> Any:
    """A number as handlers know it, of one that came from NumPy."""
    if isinstance(value, np.generic):
        return U64(value) if value.dtype == np.uint64 else value.item()
    return value


def _pair(a: Any, b: Any) -> tuple[Any, Any, bool, bool]:
    """Both, whether one is a float, and whether one is unsigned."""
    a, b = _plain(a), _plain(b)
    for given in (a, b):
        if not isinstance(given, int | float):
            raise TypeError(f"{given!r} is no number")
    return a, b, isinstance(a, float) or isinstance(b, float), type(a) is U64 or type(b) is U64


def add(a: Any, b: Any) -> Number:
    a, b, real, unsigned = _pair(a, b)
    return float(a) + float(b) if real else whole(a + b, unsigned)


def sub(a: Any, b: Any) -> Number:
    a, b, real, unsigned = _pair(a, b)
    return float(a) - float(b) if real else whole(a - b, unsigned)


def mul(a: Any, b: Any) -> Number:
    a, b, real, unsigned = _pair(a, b)
    return float(a) * float(b) if real else whole(a * b, unsigned)


def truediv(a: Any, b: Any) -> float:
    a, b, _, _ = _pair(a, b)
    with np.errstate(all="ignore"):
        return float(np.float64(a) / np.float64(b))


def floordiv(a: Any, b: Any) -> Number:
    """Rounds down; of floats, what floor makes of a / b."""
    a, b, real, unsigned = _pair(a, b)
    if real:
        with np.errstate(all="ignore"):
            return float(np.floor(np.float64(a) / np.float64(b)))
    a, b = whole(a, unsigned), whole(b, unsigned)
    return whole(int(a) // int(b), unsigned) if b else whole(0, unsigned)


def mod(a: Any, b: Any) -> Number:
    """Has the sign of the divisor."""
    a, b, real, unsigned = _pair(a, b)
    if real:
        with np.errstate(all="ignore"):
            rest = float(np.fmod(np.float64(a), np.float64(b)))
        return rest + float(b) if rest != 0 and (rest < 0) != (b < 0) else rest
    a, b = whole(a, unsigned), whole(b, unsigned)
    return whole(int(a) % int(b), unsigned) if b else whole(0, unsigned)


def _whole_pair(a: Any, b: Any) -> tuple[int, int, bool]:
    a, b, real, unsigned = _pair(a, b)
    if real:
        raise TypeError("bits of a float; make it a whole number with int() first")
    return int(a), int(b), unsigned


def and_(a: Any, b: Any) -> int:
    a, b, unsigned = _whole_pair(a, b)
    return whole(a & b, unsigned)


def or_(a: Any, b: Any) -> int:
    a, b, unsigned = _whole_pair(a, b)
    return whole(a | b, unsigned)


def xor(a: Any, b: Any) -> int:
    a, b, unsigned = _whole_pair(a, b)
    return whole(a ^ b, unsigned)


def lshift(a: Any, b: Any) -> int:
    """The count is taken modulo 64. The result is what the left one is."""
    _whole_pair(a, b)
    return whole(int(a) << (int(b) & 63), type(_plain(a)) is U64)


def rshift(a: Any, b: Any) -> int:
    _whole_pair(a, b)
    return whole(int(a) >> (int(b) & 63), type(_plain(a)) is U64)


def neg(a: Any) -> Number:
    a = _plain(a)
    return -float(a) if isinstance(a, float) else whole(-int(a), type(a) is U64)


def invert(a: Any) -> int:
    _whole_pair(a, 0)
    return whole(~int(a), type(_plain(a)) is U64)


def _compared(a: Any, b: Any) -> tuple[Any, Any]:
    a, b, real, _ = _pair(a, b)
    return (float(a), float(b)) if real else (int(a), int(b))


def lt(a: Any, b: Any) -> bool:
    a, b = _compared(a, b)
    return bool(a < b)


def le(a: Any, b: Any) -> bool:
    a, b = _compared(a, b)
    return bool(a <= b)


def gt(a: Any, b: Any) -> bool:
    return lt(b, a)


def ge(a: Any, b: Any) -> bool:
    return le(b, a)


def eq(a: Any, b: Any) -> bool:
    a, b = _compared(a, b)
    return bool(a == b)


def ne(a: Any, b: Any) -> bool:
    return not eq(a, b)


def true(a: Any) -> bool:
    """Whether a condition holds."""
    a = _plain(a)
    if not isinstance(a, int | float):
        raise TypeError(f"{a!r} is no condition")
    return bool(a)


# ---- conversions


def to_int(a: Any) -> int:
    """Towards zero; what is outside becomes the nearest, NaN 0. An unsigned one stays unsigned."""
    a = _plain(a)
    if not isinstance(a, float):
        return whole(int(a), type(a) is U64)
    if math.isnan(a):
        return 0
    return max(-_SIGN, min(_SIGN - 1, int(a) if math.isfinite(a) else (_SIGN if a > 0 else -_SIGN)))


def to_float(a: Any) -> float:
    return float(_plain(a))


def _low_bits(bits: int, signed: bool) -> Callable[[Any], int]:
    def convert(a: Any) -> int:
        value = int(to_int(a)) & ((1 << bits) - 1)
        if bits == 64:
            return whole(value, not signed)
        return value - (1 << bits) if signed and value >> (bits - 1) else value

    return convert


to_i1, to_i2, to_i4, to_i8 = (_low_bits(n, True) for n in (8, 16, 32, 64))
to_u1, to_u2, to_u4, to_u8 = (_low_bits(n, False) for n in (8, 16, 32, 64))


def to_f4(a: Any) -> float:
    with np.errstate(all="ignore"):
        return float(np.float32(to_float(a)))


def abs_(a: Any) -> Number:
    a = _plain(a)
    return abs(float(a)) if isinstance(a, float) else whole(abs(int(a)), type(a) is U64)


def min_(a: Any, b: Any) -> Number:
    a, b, real, unsigned = _pair(a, b)
    if real:
        return float(b if float(b) < float(a) else a)
    return whole(min(int(a), int(b)), unsigned)


def max_(a: Any, b: Any) -> Number:
    a, b, real, unsigned = _pair(a, b)
    if real:
        return float(b if float(b) > float(a) else a)
    return whole(max(int(a), int(b)), unsigned)


# ---- mathematics: of floats, as C has them

ONE = [
    "sqrt",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "exp",
    "expm1",
    "log",
    "log1p",
    "log2",
    "log10",
    "fabs",
    "floor",
    "ceil",
    "trunc",
]
TWO = ("pow", "atan2", "hypot", "fmod", "copysign")
ASKS = ("isnan", "isinf", "isfinite")
_IN_NUMPY = {"atan2": "arctan2"} | {f"a{n}": f"arc{n}" for n in ("sin", "cos", "tan")}


def _power(a: Any, b: Any) -> Any:
    """As in C: NumPy takes the square root for an exponent 0.5, which differs at -0.0 and -inf."""
    return np.abs(a) if b == 0.5 and a in (0.0, -math.inf) else np.power(a, b)


def _mathematical(name: str) -> Callable[..., Any]:
    function = _power if name == "pow" else getattr(np, _IN_NUMPY.get(name, name))

    def call(*numbers: Any) -> Any:
        with np.errstate(all="ignore"):
            found = function(*(np.float64(to_float(n)) for n in numbers)).item()
        # Python's own math rounds to whole numbers, and so does a handler.
        return to_int(found) if name in ("floor", "ceil", "trunc") else found

    call.__name__ = call.__qualname__ = f"m_{name}"
    return call


MATH = {name: _mathematical(name) for name in (*ONE, *TWO, *ASKS)}


# ---- fields


def index(a: Any) -> int:
    """A place in an array, or a bound of range()."""
    a = _plain(a)
    if not isinstance(a, int):
        raise TypeError(f"{a!r} is no index")
    return whole(int(a), False)


def upto(begin: int, end: int) -> int:
    """Where range(begin, end) ends; compiled, it has no more turns than are counted in 63 bits."""
    return end


def downto(begin: int, end: int) -> int:
    """As upto(), of a step that is negative."""
    return end


def length(cells: Any) -> int:
    return len(cells)


PLACE = "dz_at_"  # record.dz_at_x: where field x lies, for store()


def store(place: Any, value: Any) -> None:
    place.store(value)


def get(cells: Any, place: Any) -> Any:
    return cells[index(place)]


def put(cells: Any, place: Any, value: Any) -> None:
    cells[index(place)] = value


def moved(cells: Any, count: Any) -> Any:
    """Samples of a stream, seen from one that is so many behind."""
    return cells.moved(index(count))


# ---- what ctx has: the context's own methods


def _of_context(name: str) -> Callable[..., Any]:
    def call(ctx: Any, *given: Any) -> Any:
        return getattr(ctx, name)(*given)

    call.__name__ = call.__qualname__ = f"ctx_{name}"
    return call


# Those that take whole numbers, or nothing, and answer nothing.
ORDERS = (
    "subscribe",
    "unsubscribe",
    "stop",
    "pause",
    "resume",
    "restart",
    "drain",
    "watch",
    "unwatch",
    "fail",
    "checkpoint",
    "sync",
    "fence",
)

CONTEXT = {
    name: _of_context(name)
    for name in [
        "send",
        "send_each",
        "reply",
        "publish",
        "spawn",
        *ORDERS,
        "address",
        "free",
        "keep",
        "release",
        "send_after",
        "send_every",
        "cancel",
        "spawn_task",
        "spawn_on",
        "when",
        "arrive",
        "set",
        "cancelled",
        "cancel_group",
        "reduce_add",
        "reduce_least",
        "reduce_greatest",
        "scan_add",
        "scan_least",
        "scan_greatest",
        "collective",
        "barrier",
    ]
}

CODES = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8", "b1")


# Those whose last argument is a type: there is one of each type.
TYPED = ("data", "allocate", "array")


def _of_type(name: str, code: str) -> Callable[..., Any]:
    def call(ctx: Any, *given: Any) -> Any:
        return getattr(ctx, name)(*given, np.dtype(code))

    call.__name__ = call.__qualname__ = f"ctx_{name}_{code}"
    return call


MEMORY = {name: {code: _of_type(name, code) for code in CODES} for name in TYPED}
VALUES = ("self", "sender", "worker", "workers", "node", "lane", "lanes", "now_ns")


def names() -> dict[str, Callable[..., Any]]:
    """All operations, by the names that rewrite.py gives them, without its prefix."""
    plain = [
        "add",
        "sub",
        "mul",
        "truediv",
        "floordiv",
        "mod",
        "and_",
        "or_",
        "xor",
        "lshift",
        "rshift",
        "neg",
        "invert",
        "lt",
        "le",
        "gt",
        "ge",
        "eq",
        "ne",
        "true",
        "to_int",
        "to_float",
        "to_i1",
        "to_i2",
        "to_i4",
        "to_i8",
        "to_u1",
        "to_u2",
        "to_u4",
        "to_u8",
        "to_f4",
        "abs_",
        "min_",
        "max_",
        "index",
        "upto",
        "downto",
        "length",
        "get",
        "put",
        "store",
        "moved",
    ]
    return {
        **{name: globals()[name] for name in plain},
        **{f"m_{name}": f for name, f in MATH.items()},
        **{f"ctx_{name}": f for name, f in CONTEXT.items()},
        **{f"ctx_{name}_{code}": f for name, all in MEMORY.items() for code, f in all.items()},
    }
