# SPDX-License-Identifier: Apache-2.0
"""Collectives: calls of the context's function for the type of the arrays' elements."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from denizen.handlers import ops
from denizen.handlers.collectives import BY_ADDRESS, OPERATION, TYPES
from denizen.handlers.lowering.llvm import I32, I64, POINTER


def add(w: SimpleNamespace) -> None:
    nb, types, errors = w.nb, w.nb.types, w.nb.errors
    boolean, counted, said = types.boolean, w.counted, w.said
    call, is_context, operation = w.call, w.is_context, w.operation

    def rank_of(builder: Any, ctx: Any, given: Any, ref: Any) -> tuple[Any, Any]:
        """The buffer that a field refers to, and its bytes: the rank, if it is one. A program of
        tasks alone has no buffers; there it is an address."""
        if ctx.task:
            return builder.inttoptr(ref, POINTER), I64(BY_ADDRESS)
        size = nb.cgutils.alloca_once(builder, I64)
        return call(builder, ctx, "data", POINTER, given, ref, I32(8), size), builder.load(size)

    def typed(ctx: Any, rank: Any, *given: Any) -> Any:
        is_context(ctx)
        numbers, arrays = given[:3], given[3:]
        for array in arrays:
            if not isinstance(array, w.Span) or array.dtype.str[1:] not in TYPES:
                raise errors.TypingError(
                    f"arrays of {'' if ctx.task else 'ctx.data, '}ctx.allocate or ctx.array are "
                    "needed here, of np.float32, float64, int32, int64 or uint8, not "
                    f"{said(array)}"
                )
        if arrays[0] != arrays[1]:
            raise errors.TypingError(
                f"one type of elements is needed here, not {said(arrays[0])} and {said(arrays[1])}"
            )
        return boolean, (ctx, counted(rank), *(counted(n) for n in numbers), *arrays)

    def emit(context: Any, builder: Any, args: Any, sig: Any) -> Any:
        ctx, ref, *given = args
        numbers = [builder.trunc(n, I32) for n in given[:3]]
        spans = []
        for ty, value in zip(sig.args[5:], given[3:], strict=True):
            memory = nb.cgutils.create_struct_proxy(ty)(context, builder, value=value)
            spans += [memory.data, memory.count]
        name = f"{OPERATION}_{sig.args[5].dtype.str[1:]}"
        rank = rank_of(builder, sig.args[0], ctx, ref)
        done = call(builder, sig.args[0], name, I32, ctx, *rank, *numbers, *spans)
        return builder.icmp_unsigned("!=", done, I32(0))

    def typed_barrier(ctx: Any, rank: Any) -> Any:
        is_context(ctx)
        return boolean, (ctx, counted(rank))

    def emit_barrier(_context: Any, builder: Any, args: Any, sig: Any) -> Any:
        ctx, ref = args
        rank = rank_of(builder, sig.args[0], ctx, ref)
        done = call(builder, sig.args[0], "barrier", I32, ctx, *rank)
        return builder.icmp_unsigned("!=", done, I32(0))

    operation(ops.CONTEXT[OPERATION], typed, emit)
    operation(ops.CONTEXT["barrier"], typed_barrier, emit_barrier)
