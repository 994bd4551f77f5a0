# SPDX-License-Identifier: Apache-2.0
"""Arithmetic, bits and comparisons: what they make of whole numbers and floats."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

from denizen.handlers import ops
from denizen.handlers.lowering.llvm import F64, I64, LEAST, MOST


def add(w: SimpleNamespace) -> None:
    nb, common, counted, floor, operation = w.nb, w.common, w.counted, w.floor, w.operation
    int64, float64, boolean, word, signature = w.int64, w.float64, w.boolean, w.word, w.signature
    as_number = w.as_number

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
        zero = builder.icmp_signed("==", b, I64(0))
        if sig.return_type is word:
            by = builder.select(zero, I64(1), b)
            quotient, rest = builder.udiv(a, by), builder.urem(a, by)
            return builder.select(zero, I64(0), quotient), builder.select(zero, I64(0), rest)
        minus = builder.icmp_signed("==", b, I64(-1))
        by = builder.select(builder.or_(zero, minus), I64(1), b)
        quotient, rest = builder.sdiv(a, by), builder.srem(a, by)
        opposite = builder.icmp_signed("<", builder.xor(rest, by), I64(0))
        down = builder.and_(opposite, builder.icmp_signed("!=", rest, I64(0)))
        quotient = builder.sub(quotient, builder.zext(down, I64))
        rest = builder.select(down, builder.add(rest, by), rest)
        quotient = builder.select(minus, builder.sub(I64(0), a), quotient)
        return builder.select(zero, I64(0), quotient), rest

    def emit_floordiv(context: Any, builder: Any, args: Any, sig: Any) -> Any:
        if sig.return_type is float64:
            return floor(builder, builder.fdiv(*args))
        return divided(context, builder, args, sig)[0]

    def emit_mod(context: Any, builder: Any, args: Any, sig: Any) -> Any:
        if sig.return_type is not float64:
            return divided(context, builder, args, sig)[1]
        rest = mathematical(context, builder, math.fmod, args)
        zero = F64(0.0)
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
            by = builder.and_(args[1], I64(63))
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
            sign = builder.xor(builder.bitcast(args[0], I64), I64(LEAST))
            return builder.bitcast(sign, F64)
        return builder.sub(I64(0), args[0])

    operation(ops.neg, same, emit_neg)
    operation(
        ops.invert,
        lambda a: same(counted(a)),
        lambda context, builder, args, sig: builder.xor(args[0], I64(-1)),
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
            return builder.or_(builder.icmp_signed("<", a, I64(0)), below)
        return builder.and_(builder.icmp_signed(">=", b, I64(0)), below)

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
            out = builder.and_(out, builder.icmp_signed(">=", args[0], I64(0)))
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
            return builder.bitcast(builder.and_(builder.bitcast(a, I64), I64(MOST)), F64)
        if sig.return_type is word:
            return a
        negative = builder.icmp_signed("<", a, I64(0))
        return builder.select(negative, builder.sub(I64(0), a), a)

    operation(ops.abs_, same, emit_abs)

    vars(w).update(
        mathematical=mathematical,
        emit_abs=emit_abs,
    )
