# SPDX-License-Identifier: Apache-2.0
"""What a task's context has: spawning, counters, promises, groups."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from denizen.handlers import ops
from denizen.handlers.lowering.llvm import I32, I64, POINTER


def add(w: SimpleNamespace) -> None:
    types, errors, int64, float64 = w.nb.types, w.nb.errors, w.int64, w.float64
    boolean, counted, as_number, said = w.boolean, w.counted, w.as_number, w.said
    call, is_context, operation, whole = w.call, w.is_context, w.operation, w.whole

    def is_task(t: Any) -> None:
        if not isinstance(t, w.Ref) or not t.spawned:
            raise errors.TypingError(f"a task is needed here, as Work(...), not {said(t)}")

    def spawning(name: str, function: str, result: Any, *before: Any) -> None:
        """One that takes a task, behind whole numbers of these widths."""

        def typed(ctx: Any, *given: Any) -> Any:
            is_context(ctx)
            is_task(given[-1])
            return result, (ctx, *(counted(t) for t in given[:-1]), given[-1])

        def emit(context: Any, builder: Any, args: Any, sig: Any) -> Any:
            ctx, task = sig.args[0], sig.args[-1]
            number = ctx.spawned.index(task.spawned)
            given = [builder.trunc(a, width) for a, width in zip(args[1:-1], before, strict=True)]
            if ctx.typed:
                out = call(builder, ctx, f"{function}_{number}", I32, args[0], *given, args[-1])
            else:
                given = [*given, I32(number), args[-1]]
                out = call(builder, ctx, function, I32, args[0], *given)
            if result is boolean:
                return builder.icmp_unsigned("!=", out, I32(0))
            return builder.zext(out, I64)

        operation(ops.CONTEXT[name], typed, emit)

    spawning("spawn_task", "spawn", boolean)
    spawning("spawn_on", "spawn_on", boolean, I32)
    spawning("when", "when", int64, I32)

    def typed_arrive(ctx: Any, counter: Any, value: Any) -> Any:
        is_context(ctx)
        return types.none, (ctx, counted(counter), counted(value))

    def emit_arrive(context: Any, builder: Any, args: Any, sig: Any) -> None:
        counter = builder.trunc(args[1], I32)
        call(builder, sig.args[0], "arrive", POINTER, args[0], counter, args[2])

    def typed_set(ctx: Any, promise: Any, value: Any) -> Any:
        is_context(ctx)
        return types.none, (ctx, counted(promise), as_number(value))

    def emit_set(context: Any, builder: Any, args: Any, sig: Any) -> None:
        value = args[2]
        if sig.args[2] is float64:
            value = builder.bitcast(value, I64)
        else:
            value = whole(builder, value, sig.args[2])
        call(builder, sig.args[0], "set", POINTER, args[0], args[1], value)

    def alone(ctx: Any) -> Any:
        is_context(ctx)
        return boolean, (ctx,)

    def emit_cancelled(context: Any, builder: Any, args: Any, sig: Any) -> Any:
        out = call(builder, sig.args[0], "cancelled", I32, args[0])
        return builder.icmp_unsigned("!=", out, I32(0))

    def emit_cancel(context: Any, builder: Any, args: Any, sig: Any) -> None:
        call(builder, sig.args[0], "cancel", POINTER, args[0])

    operation(ops.CONTEXT["arrive"], typed_arrive, emit_arrive)
    operation(ops.CONTEXT["set"], typed_set, emit_set)
    operation(ops.CONTEXT["cancelled"], alone, emit_cancelled)
    operation(ops.CONTEXT["cancel_group"], lambda ctx: (types.none, alone(ctx)[1]), emit_cancel)
