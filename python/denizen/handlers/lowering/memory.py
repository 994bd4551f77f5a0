# SPDX-License-Identifier: Apache-2.0
"""How numbers lie in memory, and how one kind is made another."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from llvmlite import ir

from denizen.handlers.lowering.llvm import F32, F64, I64, LEAST, MOST


def add(w: SimpleNamespace) -> None:
    int64, float64, boolean, word = w.int64, w.float64, w.boolean, w.word

    def value_type(dtype: np.dtype[Any]) -> Any:
        """What a scalar field is when it has been read."""
        return {"f": float64, "b": boolean}.get(
            dtype.kind, word if dtype.str[1:] == "u8" else int64
        )

    def stored(dtype: np.dtype[Any]) -> Any:
        if dtype.kind == "f":
            return F32 if dtype.itemsize == 4 else F64
        return ir.IntType(8 * dtype.itemsize)

    def load(builder: Any, place: Any, dtype: np.dtype[Any]) -> Any:
        there = stored(dtype)
        value = builder.load(builder.bitcast(place, there.as_pointer()))
        if dtype.kind == "f":
            return builder.fpext(value, F64) if there is F32 else value
        if dtype.kind == "b":
            return builder.icmp_unsigned("!=", value, there(0))
        if dtype.itemsize == 8:
            return value
        return (builder.sext if dtype.kind == "i" else builder.zext)(value, I64)

    def store(builder: Any, place: Any, dtype: np.dtype[Any], value: Any, given: Any) -> None:
        there = stored(dtype)
        if dtype.kind == "f":
            value = real(builder, value, given)
            value = builder.fptrunc(value, F32) if there is F32 else value
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
            return builder.uitofp(value, F64)
        return (builder.uitofp if given is word else builder.sitofp)(value, F64)

    def whole(builder: Any, value: Any, given: Any) -> Any:
        """As ops.to_int: 64 bits."""
        if given is boolean:
            return builder.zext(value, I64)
        if given is not float64:
            return value
        above = builder.fcmp_ordered(">=", value, F64(2.0**63))
        below = builder.fcmp_ordered("<", value, F64(-(2.0**63)))
        odd = builder.or_(builder.or_(above, below), builder.fcmp_unordered("uno", value, value))
        inside = builder.fptosi(builder.select(odd, F64(0.0), value), I64)
        inside = builder.select(above, I64(MOST), inside)
        return builder.select(below, I64(LEAST), inside)

    def holds(builder: Any, value: Any, given: Any) -> Any:
        if given is boolean:
            return value
        if given is float64:
            return builder.fcmp_unordered("!=", value, F64(0.0))
        return builder.icmp_signed("!=", value, I64(0))

    def floor(builder: Any, value: Any) -> Any:
        """Without a call: what is 2**52 or more is whole. The sign stays, also of zero."""
        bits = builder.and_(builder.bitcast(value, I64), I64(MOST))
        small = builder.fcmp_ordered("<", builder.bitcast(bits, F64), F64(2.0**52))
        cut = builder.sitofp(builder.fptosi(builder.select(small, value, F64(0.0)), I64), F64)
        over = builder.fcmp_ordered(">", cut, value)
        cut = builder.select(over, builder.fsub(cut, F64(1.0)), cut)
        sign = builder.and_(builder.bitcast(value, I64), I64(LEAST))
        cut = builder.bitcast(builder.or_(builder.bitcast(cut, I64), sign), F64)
        return builder.select(small, cut, value)

    vars(w).update(
        value_type=value_type,
        load=load,
        store=store,
        real=real,
        whole=whole,
        holds=holds,
        floor=floor,
    )
