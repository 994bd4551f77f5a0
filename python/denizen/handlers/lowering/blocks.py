# SPDX-License-Identifier: Apache-2.0
"""Arrays beyond the state: in buffers that messages refer to, and in blocks of the arena."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from denizen.handlers import ops
from denizen.handlers.lowering.llvm import I32, I64, POINTER

_MANY = 1 << 48  # elements: more than there is room for, and no overflow of their bytes


def add(w: SimpleNamespace) -> None:
    nb, types, errors = w.nb, w.nb.types, w.nb.errors
    word, counted, said, operation = w.word, w.counted, w.said, w.operation
    call, is_context = w.call, w.is_context

    def span(context: Any, builder: Any, ty: Any, data: Any, count: Any) -> Any:
        memory = nb.cgutils.create_struct_proxy(ty)(context, builder)
        memory.data = data
        nothing = builder.icmp_unsigned("==", builder.ptrtoint(data, I64), I64(0))
        memory.count = builder.select(nothing, I64(0), count)
        return memory._getvalue()

    def at_most(builder: Any, count: Any) -> Any:
        """A negative number is a large one."""
        inside = builder.icmp_unsigned("<", count, I64(_MANY))
        return builder.select(inside, count, I64(_MANY))

    def data(code: str) -> None:
        dtype = np.dtype(code)

        def typed(ctx: Any, ref: Any) -> Any:
            is_context(ctx)
            return w.Span(dtype), (ctx, counted(ref))

        def emit(context: Any, builder: Any, args: Any, sig: Any) -> Any:
            size = nb.cgutils.alloca_once(builder, I64)
            align = I32(dtype.itemsize)
            found = call(builder, sig.args[0], "data", POINTER, args[0], args[1], align, size)
            count = builder.udiv(builder.load(size), I64(dtype.itemsize))
            return span(context, builder, sig.return_type, found, count)

        operation(ops.MEMORY["data"][code], typed, emit)

    def allocate(code: str) -> None:
        dtype = np.dtype(code)

        def typed(ctx: Any, count: Any) -> Any:
            is_context(ctx)
            return w.Span(dtype), (ctx, counted(count))

        def emit(context: Any, builder: Any, args: Any, sig: Any) -> Any:
            count = at_most(builder, args[1])
            size = builder.mul(count, I64(dtype.itemsize))
            found = call(builder, sig.args[0], "allocate", POINTER, args[0], size)
            return span(context, builder, sig.return_type, found, count)

        operation(ops.MEMORY["allocate"][code], typed, emit)

    def array(code: str) -> None:
        dtype = np.dtype(code)

        def typed(ctx: Any, address: Any, count: Any) -> Any:
            is_context(ctx)
            return w.Span(dtype), (ctx, counted(address), counted(count))

        def emit(context: Any, builder: Any, args: Any, sig: Any) -> Any:
            found = builder.inttoptr(args[1], POINTER)
            count = builder.select(builder.icmp_signed("<", args[2], I64(0)), I64(0), args[2])
            return span(context, builder, sig.return_type, found, count)

        operation(ops.MEMORY["array"][code], typed, emit)

    for code in ops.CODES:
        data(code)
        allocate(code)
        array(code)

    def address_of(context: Any, builder: Any, value: Any, given: Any) -> Any:
        if isinstance(given, w.Span):
            memory = nb.cgutils.create_struct_proxy(given)(context, builder, value=value)
            return builder.ptrtoint(memory.data, I64)
        return value

    def typed_address(ctx: Any, block: Any) -> Any:
        is_context(ctx)
        if not isinstance(block, w.Span):
            raise errors.TypingError(f"an array of ctx.allocate is needed here, not {said(block)}")
        return word, (ctx, block)

    def emit_address(context: Any, builder: Any, args: Any, sig: Any) -> Any:
        return address_of(context, builder, args[1], sig.args[1])

    def typed_free(ctx: Any, block: Any) -> Any:
        is_context(ctx)
        return types.none, (ctx, block if isinstance(block, w.Span) else counted(block))

    def emit_free(context: Any, builder: Any, args: Any, sig: Any) -> None:
        address = address_of(context, builder, args[1], sig.args[1])
        call(builder, sig.args[0], "free", POINTER, args[0], builder.inttoptr(address, POINTER))

    operation(ops.CONTEXT["address"], typed_address, emit_address)
    operation(ops.CONTEXT["free"], typed_free, emit_free)
