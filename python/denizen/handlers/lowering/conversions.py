# SPDX-License-Identifier: Apache-2.0
"""Conversions to the types of fields."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from llvmlite import ir

from denizen.handlers import ops
from denizen.handlers.lowering.llvm import F32, F64, I64, MOST


def add(w: SimpleNamespace) -> None:
    int64, float64, boolean, word, as_number = w.int64, w.float64, w.boolean, w.word, w.as_number
    counted, real, whole, holds, operation = w.counted, w.real, w.whole, w.holds, w.operation

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
            builder.fptrunc(real(builder, args[0], sig.args[0]), F32), F64
        ),
    )

    def low_bits(code: str) -> tuple[Any, Any]:
        size, signed = int(code[1]), code[0] == "i"

        def emit(context: Any, builder: Any, args: Any, sig: Any) -> Any:
            value = whole(builder, args[0], sig.args[0])
            if size == 8:
                return value
            value = builder.trunc(value, ir.IntType(8 * size))
            return (builder.sext if signed else builder.zext)(value, I64)

        return to(word if code == "u8" else int64), emit

    for code in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"):
        operation(getattr(ops, f"to_{code}"), *low_bits(code))
    operation(
        ops.index,
        lambda a: (int64, (counted(a),)),
        lambda context, builder, args, sig: args[0],
    )

    def ends(down: bool) -> Any:
        """Numba counts a range's turns as end - begin, which may wrap."""

        def emit(context: Any, builder: Any, args: Any, sig: Any) -> Any:
            begin, end = args
            less, more = (end, begin) if down else (begin, end)
            wraps = builder.icmp_signed("<", builder.sub(more, less), I64(0))
            last = builder.add(begin, I64(-MOST if down else MOST))
            empty = builder.icmp_signed(">=", less, more)
            return builder.select(empty, begin, builder.select(wraps, last, end))

        return emit

    for function, down in ((ops.upto, False), (ops.downto, True)):
        operation(function, lambda a, b: (int64, (counted(a), counted(b))), ends(down))
