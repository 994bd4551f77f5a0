# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PLC0415  (one of two packages)
"""The operations of ops.py as Numba compiles them, for the CPU and for the GPU.

Numba infers the types; what each operation makes of its operands is said here, in LLVM's terms. The
values of a handler have these types:

    int64, Word     whole numbers, signed and unsigned. Word is not Numba's uint64, whose arithmetic
                    with an int64 is a float64.
    float64, bool
    Ref             a state, a message or a record: a pointer, and its dtype
    Cells           an array field: a pointer, and its dtype and shape
    Span            the memory of a buffer: a pointer and a count
    Ctx             the context: a pointer that is handed to the functions it is made of

numba.core and numba.cuda are two packages with the same classes: world() makes all of this once for
each. Where a Python type is an operand, as in Total(...), it is a NewMessage.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
from llvmlite import ir

from denizen.handlers import ops
from denizen.message import MessageType, sent_later

_I1, _I8, _I32, _I64 = (ir.IntType(n) for n in (1, 8, 32, 64))
_F32, _F64 = ir.FloatType(), ir.DoubleType()
_POINTER = _I8.as_pointer()
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1
SHORT = 36  # bytes that can be read at any message, as first_payload


def scalar_fields(dtype: np.dtype[Any]) -> list[str]:
    """The fields that are neither arrays nor records."""
    return [n for n in dtype.names or () if not dtype[n].subdtype and not dtype[n].names]


def _digest(dtype: np.dtype[Any]) -> str:
    return hashlib.sha256(repr((dtype.descr, dtype.itemsize)).encode()).hexdigest()[:16]


def _packages(cuda: bool) -> SimpleNamespace:
    if cuda:
        from numba.cuda import cgutils, extending, types
        from numba.cuda.core import errors
        from numba.cuda.cudadecl import registry as decl
        from numba.cuda.cudaimpl import registry as impl
        from numba.cuda.datamodel import models
        from numba.cuda.typing import templates

        return SimpleNamespace(
            cuda=True,
            types=types,
            cgutils=cgutils,
            errors=errors,
            models=models,
            templates=templates,
            register_model=extending.register_model,
            typeof=extending.typeof_impl,
            infer_global=decl.register_global,
            infer_getattr=decl.register_attr,
            lower=impl.lower,
            lower_cast=impl.lower_cast,
            lower_constant=impl.lower_constant,
            lower_getattr=impl.lower_getattr_generic,
        )
    from numba.core import cgutils, errors, imputils, types
    from numba.core.typing import templates
    from numba.extending import models, register_model, typeof_impl

    return SimpleNamespace(
        cuda=False,
        types=types,
        cgutils=cgutils,
        errors=errors,
        models=models,
        templates=templates,
        register_model=register_model,
        typeof=typeof_impl,
        infer_global=templates.infer_global,
        infer_getattr=templates.infer_getattr,
        lower=imputils.lower_builtin,
        lower_cast=imputils.lower_cast,
        lower_constant=imputils.lower_constant,
        lower_getattr=imputils.lower_getattr_generic,
    )


_worlds: dict[bool, SimpleNamespace] = {}


def world(cuda: bool) -> SimpleNamespace:
    """The types Ref, Ctx, void and uint32; the operations by their names, and NewMessage: what
    stands for them in a function that Numba compiles."""
    if cuda not in _worlds:
        _worlds[cuda] = _make(_packages(cuda))
    return _worlds[cuda]


def _make(nb: SimpleNamespace) -> SimpleNamespace:
    types, errors = nb.types, nb.errors
    stubs: dict[Callable[..., Any], Callable[..., Any]] = {}
    int64, float64, boolean = types.int64, types.float64, types.boolean

    class NewMessage:
        """A message type as handlers call it; its arguments are its scalar fields."""

        def __init__(self, message: MessageType) -> None:
            self.message = message

    # ---- types

    # A local that is an int64 on one way and a Word on another is refused: whether its arithmetic
    # is unsigned would depend on the way that was taken.
    class WordType(types.Type):
        def __init__(self) -> None:
            super().__init__(name="uint64 of a handler")

    class Ref(types.Type):
        def __init__(self, label: str, dtype: np.dtype[Any], message: str = "") -> None:
            self.dtype, self.message = dtype, message
            super().__init__(name=f"{label} ({message or 'no message'}, {_digest(dtype)})")

    class Cells(types.Type):
        def __init__(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
            self.dtype, self.shape = dtype, shape
            super().__init__(name=f"array {shape} of {dtype.str} {_digest(dtype)}")

    class Place(types.Type):
        """Where a field lies: for store()."""

        def __init__(self, dtype: np.dtype[Any], element: Any) -> None:
            self.dtype, self.element = dtype, element
            super().__init__(name=f"place of {element} {_digest(dtype)}")

    class Span(types.Type):
        def __init__(self, dtype: np.dtype[Any]) -> None:
            self.dtype, self.shape = dtype, None
            super().__init__(name=f"buffer of {dtype.str}")

    class Ctx(types.Type):
        """`prefix`: of the functions it is made of. `typed`: there is one for each message type,
        and not one for all that takes the type's number."""

        def __init__(self, prefix: str, messages: list[str], typed: bool) -> None:
            self.prefix, self.messages, self.typed = prefix, messages, typed
            super().__init__(name=f"ctx {prefix} {typed} {' '.join(messages)}")

    word = WordType()

    class New(types.Callable, types.Opaque):
        def __init__(self, message: MessageType) -> None:
            self.message = message
            super().__init__(name=f"message type {message.name} {_digest(message.dtype)}")

        def get_impl_key(self, sig: Any) -> Any:
            return NewMessage

        def get_call_signatures(self) -> Any:
            return (), True

        def get_call_type(self, context: Any, args: Any, kws: Any) -> Any:
            made = Ref(self.message.name, self.message.dtype, self.message.name)
            return signature(made, *(as_number(a) for a in args))

    class Pointer(nb.models.PrimitiveModel):
        def __init__(self, dmm: Any, fe_type: Any) -> None:
            super().__init__(dmm, fe_type, _POINTER)

    class Whole(nb.models.PrimitiveModel):
        def __init__(self, dmm: Any, fe_type: Any) -> None:
            super().__init__(dmm, fe_type, _I64)

    class Memory(nb.models.StructModel):
        def __init__(self, dmm: Any, fe_type: Any) -> None:
            super().__init__(dmm, fe_type, [("data", types.voidptr), ("count", int64)])

    for kind, model in (
        (WordType, Whole),
        (Ref, Pointer),
        (Cells, Pointer),
        (Place, Pointer),
        (Ctx, Pointer),
        (Span, Memory),
        (New, nb.models.OpaqueModel),
    ):
        nb.register_model(kind)(model)
    nb.typeof.register(NewMessage)(lambda value, c: New(value.message))
    nb.lower_constant(New)(lambda context, builder, ty, value: context.get_dummy_value())

    def signature(result: Any, *arguments: Any) -> Any:
        return nb.templates.signature(result, *arguments)

    # ---- kinds of numbers: i, u, f, b

    def kind_of(t: Any) -> str | None:
        if t is word:
            return "u"
        if isinstance(t, types.Boolean):
            return "b"
        if isinstance(t, types.Integer):
            return "i" if t.signed or t.bitwidth < 64 else "u"
        return "f" if isinstance(t, types.Float) else None

    def as_number(t: Any) -> Any:
        kind = kind_of(t)
        if kind is None:
            raise errors.TypingError(f"a number is needed here, not {said(t)}")
        return {"i": int64, "u": word, "f": float64, "b": boolean}[kind]

    def said(t: Any) -> str:
        if isinstance(t, Ref):
            return f"the {'message ' + t.message if t.message else 'record or state'}"
        if isinstance(t, Cells):
            return "an array"
        return {"none": "None"}.get(str(t), str(t))

    def common(*given: Any) -> Any:
        """What arithmetic of these is made in."""
        kinds = [kind_of(as_number(t)) for t in given]
        return float64 if "f" in kinds else word if "u" in kinds else int64

    def counted(t: Any) -> Any:
        """A whole number as it is, a bool as one."""
        found = as_number(t)
        if found is float64:
            raise errors.TypingError("a whole number is needed here, not a float: int(...)")
        return int64 if found is boolean else found

    @nb.lower_cast(types.Integer, WordType)
    def whole_to_word(context: Any, builder: Any, given: Any, to: Any, value: Any) -> Any:
        return context.cast(builder, value, given, int64 if given.signed else types.uint64)

    @nb.lower_cast(types.Boolean, WordType)
    def bool_to_word(context: Any, builder: Any, given: Any, to: Any, value: Any) -> Any:
        return builder.zext(context.cast(builder, value, given, boolean), _I64)

    @nb.lower_cast(WordType, types.Float)
    def word_to_float(context: Any, builder: Any, given: Any, to: Any, value: Any) -> Any:
        return builder.uitofp(value, _F64)

    # ---- how numbers lie in memory

    def value_type(dtype: np.dtype[Any]) -> Any:
        """What a scalar field is when it has been read."""
        return {"f": float64, "b": boolean}.get(
            dtype.kind, word if dtype.str[1:] == "u8" else int64
        )

    def stored(dtype: np.dtype[Any]) -> Any:
        if dtype.kind == "f":
            return _F32 if dtype.itemsize == 4 else _F64
        return ir.IntType(8 * dtype.itemsize)

    def load(builder: Any, place: Any, dtype: np.dtype[Any]) -> Any:
        there = stored(dtype)
        value = builder.load(builder.bitcast(place, there.as_pointer()))
        if dtype.kind == "f":
            return builder.fpext(value, _F64) if there is _F32 else value
        if dtype.kind == "b":
            return builder.icmp_unsigned("!=", value, there(0))
        if dtype.itemsize == 8:
            return value
        return (builder.sext if dtype.kind == "i" else builder.zext)(value, _I64)

    def store(builder: Any, place: Any, dtype: np.dtype[Any], value: Any, given: Any) -> None:
        there = stored(dtype)
        if dtype.kind == "f":
            value = real(builder, value, given)
            value = builder.fptrunc(value, _F32) if there is _F32 else value
        elif dtype.kind == "b":
            value = builder.zext(holds(builder, value, given), there)
        else:
            value = whole(builder, value, given)
            value = builder.trunc(value, there) if dtype.itemsize < 8 else value
        builder.store(value, builder.bitcast(place, there.as_pointer()))

    # ---- conversions of values: `given` is what value is, one of as_number()'s

    def real(builder: Any, value: Any, given: Any) -> Any:
        if given is float64:
            return value
        if given is boolean:
            return builder.uitofp(value, _F64)
        return (builder.uitofp if given is word else builder.sitofp)(value, _F64)

    def whole(builder: Any, value: Any, given: Any) -> Any:
        """As ops.to_int: 64 bits."""
        if given is boolean:
            return builder.zext(value, _I64)
        if given is not float64:
            return value
        above = builder.fcmp_ordered(">=", value, _F64(2.0**63))
        below = builder.fcmp_ordered("<", value, _F64(-(2.0**63)))
        odd = builder.or_(builder.or_(above, below), builder.fcmp_unordered("uno", value, value))
        inside = builder.fptosi(builder.select(odd, _F64(0.0), value), _I64)
        inside = builder.select(above, _I64(_MOST), inside)
        return builder.select(below, _I64(_LEAST), inside)

    def holds(builder: Any, value: Any, given: Any) -> Any:
        if given is boolean:
            return value
        if given is float64:
            return builder.fcmp_unordered("!=", value, _F64(0.0))
        return builder.icmp_signed("!=", value, _I64(0))

    def floor(builder: Any, value: Any) -> Any:
        """Without a call: what is 2**52 or more is whole."""
        bits = builder.and_(builder.bitcast(value, _I64), _I64(_MOST))
        small = builder.fcmp_ordered("<", builder.bitcast(bits, _F64), _F64(2.0**52))
        cut = builder.sitofp(builder.fptosi(builder.select(small, value, _F64(0.0)), _I64), _F64)
        over = builder.fcmp_ordered(">", cut, value)
        cut = builder.select(over, builder.fsub(cut, _F64(1.0)), cut)
        return builder.select(small, cut, value)

    # ---- operations

    def operation(
        function: Callable[..., Any], typed: Callable[..., Any], emit: Callable[..., Any]
    ) -> None:
        """Makes one known to Numba.

        Args:
            typed: of the operands' types, (the result's, what they are made first).
            emit: of the builder, the operands' values and these types.
        """

        def generic(self: Any, args: Any, kws: Any) -> Any:
            result, given = typed(*args)
            return signature(result, *given)

        # A function of this world's own: numba.cuda looks at what numba.core knows, too.
        def stub(*args: Any) -> None: ...

        stubs[function] = stub
        name = f"Typed_{function.__name__}"
        template = (nb.templates.AbstractTemplate,)
        made = type(name, template, {"key": stub, "generic": generic})
        nb.infer_global(stub, types.Function(made))

        @nb.lower(stub, types.VarArg(types.Any))
        def lowered(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            out = emit(context, builder, args, sig)
            return context.get_dummy_value() if out is None else out

    def arithmetic(of_whole: str, of_real: str) -> tuple[Any, Any]:
        def typed(a: Any, b: Any) -> Any:
            both = common(a, b)
            return both, (both, both)

        def emit(context: Any, builder: Any, args: Any, sig: Any) -> Any:
            name = of_real if sig.return_type is float64 else of_whole
            return getattr(builder, name)(*args)

        return typed, emit

    operation(ops.add, *arithmetic("add", "fadd"))
    operation(ops.sub, *arithmetic("sub", "fsub"))
    operation(ops.mul, *arithmetic("mul", "fmul"))
    operation(
        ops.truediv,
        lambda a, b: (float64, (common(a, float64), common(b, float64))),
        lambda context, builder, args, sig: builder.fdiv(*args),
    )

    def divided(context: Any, builder: Any, args: Any, sig: Any) -> tuple[Any, Any]:
        """Quotient and rest, both rounded down; of a divisor 0 both 0."""
        a, b = args
        zero = builder.icmp_signed("==", b, _I64(0))
        if sig.return_type is word:
            by = builder.select(zero, _I64(1), b)
            quotient, rest = builder.udiv(a, by), builder.urem(a, by)
            return builder.select(zero, _I64(0), quotient), builder.select(zero, _I64(0), rest)
        minus = builder.icmp_signed("==", b, _I64(-1))
        by = builder.select(builder.or_(zero, minus), _I64(1), b)
        quotient, rest = builder.sdiv(a, by), builder.srem(a, by)
        opposite = builder.icmp_signed("<", builder.xor(rest, by), _I64(0))
        down = builder.and_(opposite, builder.icmp_signed("!=", rest, _I64(0)))
        quotient = builder.sub(quotient, builder.zext(down, _I64))
        rest = builder.select(down, builder.add(rest, by), rest)
        quotient = builder.select(minus, builder.sub(_I64(0), a), quotient)
        return builder.select(zero, _I64(0), quotient), rest

    def emit_floordiv(context: Any, builder: Any, args: Any, sig: Any) -> Any:
        if sig.return_type is float64:
            return floor(builder, builder.fdiv(*args))
        return divided(context, builder, args, sig)[0]

    def emit_mod(context: Any, builder: Any, args: Any, sig: Any) -> Any:
        if sig.return_type is not float64:
            return divided(context, builder, args, sig)[1]
        rest = mathematical(context, builder, math.fmod, args)
        zero = _F64(0.0)
        opposite = builder.xor(
            builder.fcmp_ordered("<", rest, zero), builder.fcmp_ordered("<", args[1], zero)
        )
        adjust = builder.and_(opposite, builder.fcmp_ordered("!=", rest, zero))
        return builder.select(adjust, builder.fadd(rest, args[1]), rest)

    def mathematical(context: Any, builder: Any, function: Any, args: Any, sig: Any = None) -> Any:
        if function is math.fmod and not nb.cuda:  # which numba.core does not have
            return builder.frem(*args)
        sig = sig or signature(float64, *[float64] * len(args))
        return context.get_function(function, sig)(builder, args)

    operation(ops.floordiv, arithmetic("", "")[0], emit_floordiv)
    operation(ops.mod, arithmetic("", "")[0], emit_mod)

    def bits(name: str) -> tuple[Any, Any]:
        def typed(a: Any, b: Any) -> Any:
            both = common(counted(a), counted(b))
            return both, (both, both)

        return typed, lambda context, builder, args, sig: getattr(builder, name)(*args)

    operation(ops.and_, *bits("and_"))
    operation(ops.or_, *bits("or_"))
    operation(ops.xor, *bits("xor"))

    def shifted(a: Any, b: Any) -> Any:
        left = counted(a)
        return left, (left, counted(b))

    def emit_shift(left: bool) -> Any:
        def emit(context: Any, builder: Any, args: Any, sig: Any) -> Any:
            by = builder.and_(args[1], _I64(63))
            if left:
                return builder.shl(args[0], by)
            return (builder.lshr if sig.return_type is word else builder.ashr)(args[0], by)

        return emit

    operation(ops.lshift, shifted, emit_shift(True))
    operation(ops.rshift, shifted, emit_shift(False))

    def same(a: Any) -> Any:
        found = as_number(a)
        found = int64 if found is boolean else found
        return found, (found,)

    def emit_neg(context: Any, builder: Any, args: Any, sig: Any) -> Any:
        if sig.return_type is float64:
            sign = builder.xor(builder.bitcast(args[0], _I64), _I64(_LEAST))
            return builder.bitcast(sign, _F64)
        return builder.sub(_I64(0), args[0])

    operation(ops.neg, same, emit_neg)
    operation(
        ops.invert,
        lambda a: same(counted(a)),
        lambda context, builder, args, sig: builder.xor(args[0], _I64(-1)),
    )

    # Whole numbers are compared as what they are, of whichever sign.
    def pair(result: Any) -> Any:
        def typed(a: Any, b: Any) -> Any:
            both = common(a, b)
            given = (both, both) if both is float64 else (counted(a), counted(b))
            return (both if result is None else result), given

        return typed

    def less(builder: Any, a: Any, b: Any, ta: Any, tb: Any) -> Any:
        if ta is tb:
            compare = builder.icmp_unsigned if ta is word else builder.icmp_signed
            return compare("<", a, b)
        below = builder.icmp_unsigned("<", a, b)
        if tb is word:
            return builder.or_(builder.icmp_signed("<", a, _I64(0)), below)
        return builder.and_(builder.icmp_signed(">=", b, _I64(0)), below)

    def emit_less(swap: bool, negate: bool, of_real: str) -> Any:
        def emit(context: Any, builder: Any, args: Any, sig: Any) -> Any:
            if sig.args[0] is float64:
                return builder.fcmp_ordered(of_real, *args)
            values, given = (args[::-1], sig.args[::-1]) if swap else (args, sig.args)
            out = less(builder, *values, *given)
            return builder.not_(out) if negate else out

        return emit

    operation(ops.lt, pair(boolean), emit_less(False, False, "<"))
    operation(ops.gt, pair(boolean), emit_less(True, False, ">"))
    operation(ops.le, pair(boolean), emit_less(True, True, "<="))
    operation(ops.ge, pair(boolean), emit_less(False, True, ">="))

    def equal(builder: Any, args: Any, given: Any) -> Any:
        if given[0] is float64:
            return builder.fcmp_ordered("==", *args)
        out = builder.icmp_signed("==", *args)
        if given[0] is not given[1]:  # then one that is negative is none of the other's
            out = builder.and_(out, builder.icmp_signed(">=", args[0], _I64(0)))
        return out

    operation(
        ops.eq, pair(boolean), lambda context, builder, args, sig: equal(builder, args, sig.args)
    )
    operation(
        ops.ne,
        pair(boolean),
        lambda context, builder, args, sig: builder.not_(equal(builder, args, sig.args)),
    )

    def emit_least(least: bool) -> Any:
        def emit(context: Any, builder: Any, args: Any, sig: Any) -> Any:
            a, b = args
            if sig.return_type is float64:
                second = builder.fcmp_ordered("<" if least else ">", b, a)
            else:
                order = (b, a, sig.args[1], sig.args[0]) if least else (a, b, *sig.args)
                second = less(builder, *order)
            return builder.select(second, b, a)

        return emit

    operation(ops.min_, pair(None), emit_least(True))
    operation(ops.max_, pair(None), emit_least(False))

    def emit_abs(context: Any, builder: Any, args: Any, sig: Any) -> Any:
        (a,) = args
        if sig.return_type is float64:
            return builder.bitcast(builder.and_(builder.bitcast(a, _I64), _I64(_MOST)), _F64)
        if sig.return_type is word:
            return a
        negative = builder.icmp_signed("<", a, _I64(0))
        return builder.select(negative, builder.sub(_I64(0), a), a)

    operation(ops.abs_, same, emit_abs)

    # ---- conversions

    def to(result: Any) -> Any:
        return lambda a: (result, (as_number(a),))

    operation(
        ops.true,
        to(boolean),
        lambda context, builder, args, sig: holds(builder, args[0], sig.args[0]),
    )
    operation(
        ops.to_float,
        to(float64),
        lambda context, builder, args, sig: real(builder, args[0], sig.args[0]),
    )
    operation(
        ops.to_int,
        lambda a: (word if as_number(a) is word else int64, (as_number(a),)),
        lambda context, builder, args, sig: whole(builder, args[0], sig.args[0]),
    )
    operation(
        ops.to_f4,
        to(float64),
        lambda context, builder, args, sig: builder.fpext(
            builder.fptrunc(real(builder, args[0], sig.args[0]), _F32), _F64
        ),
    )

    def low_bits(code: str) -> tuple[Any, Any]:
        size, signed = int(code[1]), code[0] == "i"

        def emit(context: Any, builder: Any, args: Any, sig: Any) -> Any:
            value = whole(builder, args[0], sig.args[0])
            if size == 8:
                return value
            value = builder.trunc(value, ir.IntType(8 * size))
            return (builder.sext if signed else builder.zext)(value, _I64)

        return to(word if code == "u8" else int64), emit

    for code in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"):
        operation(getattr(ops, f"to_{code}"), *low_bits(code))
    operation(
        ops.index,
        lambda a: (int64, (counted(a),)),
        lambda context, builder, args, sig: args[0],
    )

    # ---- mathematics

    def rounded(name: str) -> Any:
        def emit(context: Any, builder: Any, args: Any, sig: Any) -> Any:
            (value,) = args
            if name == "floor":
                value = floor(builder, value)
            elif name == "ceil":
                value = builder.fsub(_F64(-0.0), floor(builder, builder.fsub(_F64(-0.0), value)))
            return whole(builder, value, float64)

        return emit

    def of_math(name: str) -> Any:
        function = getattr(math, name)

        def emit(context: Any, builder: Any, args: Any, sig: Any) -> Any:
            return mathematical(context, builder, function, args, sig)

        return emit

    for name, function in ops.MATH.items():
        count = 2 if name in ops.TWO else 1
        result = int64 if name in ("floor", "ceil", "trunc") else float64
        result = boolean if name in ops.ASKS else result

        def typed(*given: Any, count: int = count, result: Any = result) -> Any:
            for t in given:
                as_number(t)
            return result, (float64,) * count

        emit = rounded(name) if result is int64 else of_math(name)
        operation(function, typed, emit_abs if name == "fabs" else emit)

    # ---- fields

    def element_type(dtype: np.dtype[Any], shape: tuple[int, ...] = ()) -> Any:
        if shape:
            return Cells(dtype, shape)
        return Ref("record", dtype) if dtype.names else value_type(dtype)

    def field_of(dtype: np.dtype[Any], name: str) -> tuple[Any, np.dtype[Any], int]:
        """Its type, the dtype of its elements, and where it lies."""
        fields: Any = dtype.fields
        field, offset = fields[name][:2]
        base, shape = field.subdtype or (field, ())
        return element_type(base, shape), base, offset

    def at(builder: Any, pointer: Any, offset: Any) -> Any:
        return builder.gep(pointer, [offset])

    @nb.infer_getattr
    class RefAttributes(nb.templates.AttributeTemplate):
        key = Ref

        def generic_resolve(self, ref: Any, attr: str) -> Any:
            name = attr.removeprefix(ops.PLACE)
            if name in (ref.dtype.names or ()):
                ty, base, _ = field_of(ref.dtype, name)
                return ty if name == attr else Place(base, ty)
            known = ", ".join(ref.dtype.names or ()) or "no fields"
            raise errors.TypingError(f"{said(ref)} has no field {name}; it has {known}")

    @nb.lower_getattr(Ref)
    def get_field(context: Any, builder: Any, typ: Any, value: Any, attr: str) -> Any:
        name = attr.removeprefix(ops.PLACE)
        ty, base, offset = field_of(typ.dtype, name)
        place = at(builder, value, _I64(offset))
        if name != attr or isinstance(ty, Ref | Cells):
            return place
        return load(builder, place, base)

    def typed_store(place: Any, value: Any) -> Any:
        fits(place.element, value)
        return types.none, (place, value if isinstance(value, Ref) else as_number(value))

    def emit_store(context: Any, builder: Any, args: Any, sig: Any) -> None:
        place, given = sig.args
        assign(builder, (args[0], place.element), place.dtype, args[1], given)

    def fits(ty: Any, given: Any) -> None:
        if isinstance(ty, Cells):
            raise errors.TypingError("an array is assigned element by element")
        if isinstance(ty, Ref):
            if not isinstance(given, Ref) or given.dtype != ty.dtype:
                raise errors.TypingError(f"a record of this type is needed, not {said(given)}")
        else:
            as_number(given)

    def assign(builder: Any, where: Any, base: Any, value: Any, given: Any) -> None:
        place, ty = where
        if isinstance(ty, Ref):
            nb.cgutils.raw_memcpy(builder, place, value, _I64(ty.dtype.itemsize), 1)
        else:
            store(builder, place, base, value, given)

    def placed(
        context: Any, builder: Any, cells: Any, value: Any, place: Any
    ) -> tuple[Any, Any, Any]:
        """Where an element is, whether there is one, and what it is. Negative: from the end."""
        if isinstance(cells, Span):
            memory = nb.cgutils.create_struct_proxy(cells)(context, builder, value=value)
            data, count, rest = memory.data, memory.count, ()
        else:
            data, count, rest = value, _I64(cells.shape[0]), cells.shape[1:]
        ty = element_type(cells.dtype, rest)
        negative = builder.icmp_signed("<", place, _I64(0))
        place = builder.select(negative, builder.add(place, count), place)
        inside = builder.icmp_unsigned("<", place, count)
        stride = cells.dtype.itemsize * math.prod(rest)
        offset = builder.mul(builder.select(inside, place, _I64(0)), _I64(stride))
        return at(builder, data, offset), inside, ty

    def typed_get(cells: Any, place: Any) -> Any:
        array(cells)
        rest = cells.shape[1:] if cells.shape else ()
        return element_type(cells.dtype, rest), (cells, counted(place))

    def array(t: Any) -> None:
        if not isinstance(t, Cells | Span):
            raise errors.TypingError(f"{said(t)} has no elements")

    def emit_get(context: Any, builder: Any, args: Any, sig: Any) -> Any:
        cells = sig.args[0]
        place, inside, ty = placed(context, builder, cells, *args)
        if isinstance(ty, Ref | Cells):
            return place
        # Of an empty span nothing may be read.
        out = nb.cgutils.alloca_once_value(builder, context.get_constant_null(ty))
        with builder.if_then(inside, likely=True):
            builder.store(load(builder, place, cells.dtype), out)
        return builder.load(out)

    def typed_put(cells: Any, place: Any, value: Any) -> Any:
        element = typed_get(cells, place)[0]
        fits(element, value)
        given = value if isinstance(value, Ref) else as_number(value)
        return types.none, (cells, counted(place), given)

    def emit_put(context: Any, builder: Any, args: Any, sig: Any) -> None:
        cells, _, given = sig.args
        place, inside, ty = placed(context, builder, cells, *args[:2])
        with builder.if_then(inside, likely=True):
            assign(builder, (place, ty), cells.dtype, args[2], given)

    def typed_length(cells: Any) -> Any:
        array(cells)
        return int64, (cells,)

    def emit_length(context: Any, builder: Any, args: Any, sig: Any) -> Any:
        cells = sig.args[0]
        if isinstance(cells, Cells):
            return _I64(cells.shape[0])
        return nb.cgutils.create_struct_proxy(cells)(context, builder, value=args[0]).count

    operation(ops.get, typed_get, emit_get)
    operation(ops.put, typed_put, emit_put)
    operation(ops.store, typed_store, emit_store)
    operation(ops.length, typed_length, emit_length)

    # ---- messages

    @nb.lower(NewMessage, types.VarArg(types.Any))
    def new_message(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        dtype = sig.return_type.dtype
        size = -(-max(dtype.itemsize, SHORT) // 8)
        words = ir.ArrayType(_I64, size)
        memory = nb.cgutils.alloca_once(builder, words)
        pointer = builder.bitcast(memory, _POINTER)
        if size <= 8:
            builder.store(ir.Constant(words, None), memory)
        else:
            nb.cgutils.memset(builder, pointer, _I64(8 * size), 0)
        for name, value, given in zip(scalar_fields(dtype), args, sig.args, strict=True):
            _, base, offset = field_of(dtype, name)
            store(builder, at(builder, pointer, _I64(offset)), base, value, given)
        return pointer

    # ---- the context

    def call(builder: Any, ctx: Any, name: str, result: Any, *args: Any) -> Any:
        fnty = ir.FunctionType(result, [a.type for a in args])
        symbol = f"{ctx.prefix}_{name}"
        return builder.call(nb.cgutils.get_or_insert_function(builder.module, fnty, symbol), args)

    def call_for(builder: Any, ctx: Any, name: str, message: Any, *args: Any) -> Any:
        """One that takes a message, behind what comes before it."""
        number = ctx.messages.index(message.message)
        if ctx.typed:
            return call(builder, ctx, f"{name}_{number}", _I32, *args)
        return call(builder, ctx, name, _I32, *args[:-1], _I32(number), args[-1])

    def is_message(ctx: Any, t: Any) -> None:
        if not isinstance(t, Ref) or not t.message:
            raise errors.TypingError(f"a message is needed here, not {said(t)}")
        if t.message not in ctx.messages:
            raise errors.TypingError(f"{t.message} is no message of this program")

    def is_context(t: Any) -> None:
        if not isinstance(t, Ctx):
            raise errors.TypingError(f"{said(t)} is no context")

    def typed_send(ctx: Any, address: Any, message: Any) -> Any:
        is_context(ctx)
        is_message(ctx, message)
        return boolean, (ctx, counted(address), message)

    def emit_send(context: Any, builder: Any, args: Any, sig: Any) -> Any:
        address = builder.trunc(args[1], _I32)
        sent = call_for(builder, sig.args[0], "send", sig.args[2], args[0], address, args[2])
        return builder.icmp_unsigned("!=", sent, _I32(0))

    def later(name: str, repeats: int) -> None:
        def typed(ctx: Any, ns: Any, address: Any, message: Any) -> Any:
            is_context(ctx)
            is_message(ctx, message)
            if not sent_later(message.dtype):
                raise errors.TypingError(
                    f"ctx.{name} takes a message of at most 36 bytes and without buffers, not "
                    f"{message.message}"
                )
            return int64, (ctx, counted(ns), counted(address), message)

        def emit(context: Any, builder: Any, args: Any, sig: Any) -> Any:
            address = builder.trunc(args[2], _I32)
            timer = call_for(
                builder, sig.args[0], "send_later", sig.args[3],
                args[0], args[1], _I32(repeats), address, args[3],
            )  # fmt: skip
            return builder.zext(timer, _I64)

        operation(ops.CONTEXT[name], typed, emit)

    later("send_after", 0)
    later("send_every", 1)

    def typed_reply(ctx: Any, message: Any) -> Any:
        is_context(ctx)
        is_message(ctx, message)
        return types.none, (ctx, message)

    def emit_reply(context: Any, builder: Any, args: Any, sig: Any) -> None:
        ctx = sig.args[0]
        address = call(builder, ctx, "sender", _I32, args[0])
        call_for(builder, ctx, "send", sig.args[1], args[0], address, args[1])

    def typed_publish(ctx: Any, *given: Any) -> Any:
        is_context(ctx)
        is_message(ctx, given[-1])
        return int64, (ctx, *[int64] * 4, given[-1])

    def emit_publish(context: Any, builder: Any, args: Any, sig: Any) -> Any:
        topic = [builder.trunc(w, _I32) for w in args[1:5]]
        count = call_for(builder, sig.args[0], "publish", sig.args[5], args[0], *topic, args[5])
        return builder.zext(count, _I64)

    operation(ops.CONTEXT["send"], typed_send, emit_send)
    operation(ops.CONTEXT["reply"], typed_reply, emit_reply)
    operation(ops.CONTEXT["publish"], typed_publish, emit_publish)

    def order(name: str, width: Any, result: Any = types.none) -> None:
        """One that takes whole numbers of 32 or 64 bits."""

        def typed(ctx: Any, *given: Any) -> Any:
            is_context(ctx)
            return result, (ctx, *(counted(t) for t in given))

        def emit(context: Any, builder: Any, args: Any, sig: Any) -> Any:
            given = [builder.trunc(a, width) if width is _I32 else a for a in args[1:]]
            returned = _POINTER if result is types.none else _I32  # void has no ABI of its own
            out = call(builder, sig.args[0], name, returned, args[0], *given)
            return None if result is types.none else builder.icmp_unsigned("!=", out, _I32(0))

        operation(ops.CONTEXT[name], typed, emit)

    for name in ops.ORDERS:
        order(name, _I32)
    order("cancel", _I32, boolean)
    order("keep", _I64, boolean)
    order("release", _I64)

    def data(code: str) -> None:
        dtype = np.dtype(code)

        def typed(ctx: Any, ref: Any) -> Any:
            is_context(ctx)
            return Span(dtype), (ctx, counted(ref))

        def emit(context: Any, builder: Any, args: Any, sig: Any) -> Any:
            size = nb.cgutils.alloca_once(builder, _I64)
            align = _I32(dtype.itemsize)
            found = call(builder, sig.args[0], "data", _POINTER, args[0], args[1], align, size)
            memory = nb.cgutils.create_struct_proxy(sig.return_type)(context, builder)
            memory.data = found
            memory.count = builder.udiv(builder.load(size), _I64(dtype.itemsize))
            return memory._getvalue()

        operation(ops.DATA[code], typed, emit)

    for code in ops.CODES:
        data(code)

    @nb.infer_getattr
    class CtxAttributes(nb.templates.AttributeTemplate):
        key = Ctx

        def generic_resolve(self, ctx: Any, attr: str) -> Any:
            if attr in ops.VALUES:
                return int64
            known = ", ".join((*ops.VALUES, *ops.CONTEXT))
            raise errors.TypingError(f"ctx has no {attr}; it has {known}")

    @nb.lower_getattr(Ctx)
    def get_value(context: Any, builder: Any, typ: Any, value: Any, attr: str) -> Any:
        if attr == "now_ns":
            return call(builder, typ, attr, _I64, value)
        return builder.zext(call(builder, typ, attr, _I32, value), _I64)

    return SimpleNamespace(
        Ref=Ref,
        Ctx=Ctx,
        NewMessage=NewMessage,
        names={name: stubs[function] for name, function in ops.names().items()},
        void=types.void,
        uint32=types.uint32,
    )
