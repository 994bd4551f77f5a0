# SPDX-License-Identifier: Apache-2.0
"""The functions of math."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

from denizen.handlers import ops
from denizen.handlers.lowering.llvm import F64


def add(w: SimpleNamespace) -> None:
    int64, float64, boolean, as_number = w.int64, w.float64, w.boolean, w.as_number
    whole, floor, mathematical, emit_abs = w.whole, w.floor, w.mathematical, w.emit_abs
    operation = w.operation

    def rounded(name: str) -> Any:
        def emit(context: Any, builder: Any, args: Any, sig: Any) -> Any:
            (value,) = args
            if name == "floor":
                value = floor(builder, value)
            elif name == "ceil":
                value = builder.fsub(F64(-0.0), floor(builder, builder.fsub(F64(-0.0), value)))
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
