# SPDX-License-Identifier: Apache-2.0
"""Messages, and the context: calls of the functions it is made of."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from llvmlite import ir

from denizen.handlers import ops, teams
from denizen.handlers.calls import CALLS, TASK_CALLS, TASK_VALUES
from denizen.handlers.lowering.llvm import F64, I32, I64, POINTER
from denizen.handlers.lowering.types import scalar_fields
from denizen.message import sent_later

SHORT = 36  # bytes that can be read at any message, as first_payload


def add(w: SimpleNamespace) -> None:
    nb, types, errors = w.nb, w.nb.types, w.nb.errors
    int64, float64, boolean = w.int64, w.float64, w.boolean
    said, counted, store, field_of, at = w.said, w.counted, w.store, w.field_of, w.at
    operation, holds, as_number = w.operation, w.holds, w.as_number

    @nb.lower(w.NewMessage, types.VarArg(types.Any))
    def new_record(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        made = sig.return_type
        size = -(-max(made.dtype.itemsize, SHORT) // 8)
        words = ir.ArrayType(I64, size)
        memory = nb.cgutils.alloca_once(builder, words)
        pointer = builder.bitcast(memory, POINTER)
        if any(made.initial):
            begin = made.initial.ljust(8 * size, b"\0")
            values = [int.from_bytes(begin[k : k + 8], "little") for k in range(0, 8 * size, 8)]
            builder.store(ir.Constant(words, values), memory)
        elif size <= 8:
            builder.store(ir.Constant(words, None), memory)
        else:
            nb.cgutils.memset(builder, pointer, I64(8 * size), 0)
        names = scalar_fields(made.dtype)
        for name, value, given in zip(names, args, sig.args, strict=True):
            _, base, offset = field_of(made.dtype, name)
            store(builder, at(builder, pointer, I64(offset)), base, value, given)
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
            return call(builder, ctx, f"{name}_{number}", I32, *args)
        return call(builder, ctx, name, I32, *args[:-1], I32(number), args[-1])

    def is_message(ctx: Any, t: Any) -> None:
        if not isinstance(t, w.Ref) or not t.message:
            raise errors.TypingError(f"a message is needed here, not {said(t)}")
        if t.message not in ctx.messages:
            raise errors.TypingError(f"{t.message} is no message of this program")

    def is_context(t: Any) -> None:
        if not isinstance(t, w.Ctx):
            raise errors.TypingError(f"{said(t)} is no context")

    def typed_send(ctx: Any, address: Any, message: Any) -> Any:
        is_context(ctx)
        is_message(ctx, message)
        return boolean, (ctx, counted(address), message)

    def emit_send(context: Any, builder: Any, args: Any, sig: Any) -> Any:
        address = builder.trunc(args[1], I32)
        sent = call_for(builder, sig.args[0], "send", sig.args[2], args[0], address, args[2])
        return builder.icmp_unsigned("!=", sent, I32(0))

    def short(name: str, message: Any) -> None:
        if not sent_later(message.dtype):
            raise errors.TypingError(
                f"ctx.{name} takes a message of at most 36 bytes and without buffers, not "
                f"{message.message}"
            )

    def typed_each(ctx: Any, address: Any, message: Any, mine: Any) -> Any:
        is_context(ctx)
        is_message(ctx, message)
        short("send_each", message)
        return boolean, (ctx, counted(address), message, as_number(mine))

    def emit_each(context: Any, builder: Any, args: Any, sig: Any) -> Any:
        ctx, address, message, mine = args
        mine = builder.zext(holds(builder, mine, sig.args[3]), I32)
        to = builder.trunc(address, I32)
        sent = call_for(builder, sig.args[0], "send_each", sig.args[2], ctx, to, mine, message)
        return builder.icmp_unsigned("!=", sent, I32(0))

    operation(ops.CONTEXT["send_each"], typed_each, emit_each)

    def later(name: str, repeats: int) -> None:
        def typed(ctx: Any, ns: Any, address: Any, message: Any) -> Any:
            is_context(ctx)
            is_message(ctx, message)
            short(name, message)
            return int64, (ctx, counted(ns), counted(address), message)

        def emit(context: Any, builder: Any, args: Any, sig: Any) -> Any:
            address = builder.trunc(args[2], I32)
            timer = call_for(
                builder, sig.args[0], "send_later", sig.args[3],
                args[0], args[1], I32(repeats), address, args[3],
            )  # fmt: skip
            return builder.zext(timer, I64)

        operation(ops.CONTEXT[name], typed, emit)

    later("send_after", 0)
    later("send_every", 1)

    def typed_reply(ctx: Any, message: Any) -> Any:
        is_context(ctx)
        is_message(ctx, message)
        return types.none, (ctx, message)

    def emit_reply(context: Any, builder: Any, args: Any, sig: Any) -> None:
        ctx = sig.args[0]
        address = call(builder, ctx, "sender", I32, args[0])
        call_for(builder, ctx, "send", sig.args[1], args[0], address, args[1])

    def typed_publish(ctx: Any, *given: Any) -> Any:
        is_context(ctx)
        is_message(ctx, given[-1])
        return int64, (ctx, *[int64] * (len(given) - 1), given[-1])

    def long_topic(builder: Any, words: Any) -> Any:
        """A denizen::LongTopic of its key's words and its text."""
        memory = nb.cgutils.alloca_once(builder, ir.ArrayType(I64, 34))
        memory.align = 16
        pointer = builder.bitcast(memory, POINTER)
        for i, word in enumerate(words):
            value = builder.trunc(word, I32) if i < 4 else word
            place = at(builder, pointer, I64(4 * i if i < 4 else 8 * (i - 2)))
            builder.store(value, builder.bitcast(place, value.type.as_pointer()))
        return pointer

    def emit_publish(context: Any, builder: Any, args: Any, sig: Any) -> Any:
        ctx, *words, message = args
        if len(words) == 4:
            name, topic = "publish", [builder.trunc(w, I32) for w in words]
        else:
            name, topic = "publish_long", [long_topic(builder, words)]
        count = call_for(builder, sig.args[0], name, sig.args[-1], ctx, *topic, message)
        return builder.zext(count, I64)

    operation(ops.CONTEXT["send"], typed_send, emit_send)
    operation(ops.CONTEXT["reply"], typed_reply, emit_reply)
    operation(ops.CONTEXT["publish"], typed_publish, emit_publish)

    def order(name: str, width: Any, result: Any = types.none) -> None:
        """One that takes whole numbers of 32 or 64 bits."""

        def typed(ctx: Any, *given: Any) -> Any:
            is_context(ctx)
            return result, (ctx, *(counted(t) for t in given))

        def emit(context: Any, builder: Any, args: Any, sig: Any) -> Any:
            given = [builder.trunc(a, width) if width is I32 else a for a in args[1:]]
            returned = POINTER if result is types.none else I32  # void has no ABI of its own
            out = call(builder, sig.args[0], name, returned, args[0], *given)
            return None if result is types.none else builder.icmp_unsigned("!=", out, I32(0))

        operation(ops.CONTEXT[name], typed, emit)

    for name in ops.ORDERS:
        order(name, I32)
    order("cancel", I32, boolean)
    order("keep", I64, boolean)
    order("release", I64)

    def typed_spawn(ctx: Any, state: Any) -> Any:
        is_context(ctx)
        if not isinstance(state, w.Ref) or not state.spawned:
            raise errors.TypingError(
                f"the state of a new actor or a task is needed here, as Child(...), not "
                f"{said(state)}"
            )
        return boolean if state.spawned in ctx.tasks else int64, (ctx, state)

    def emit_spawn(context: Any, builder: Any, args: Any, sig: Any) -> Any:
        ctx, state = sig.args
        task = state.spawned in ctx.tasks
        function = "spawn_task" if task else "spawn"
        number = (ctx.tasks if task else ctx.spawned).index(state.spawned)
        if ctx.typed:
            made = call(builder, ctx, f"{function}_{number}", I32, *args)
        else:
            made = call(builder, ctx, function, I32, args[0], I32(number), args[1])
        if task:
            return builder.icmp_unsigned("!=", made, I32(0))
        return builder.zext(made, I64)

    operation(ops.CONTEXT["spawn"], typed_spawn, emit_spawn)

    def of_team(name: str) -> None:
        """The operation's function of the number's type; on a CPU's threads a team is one."""

        def typed(ctx: Any, value: Any) -> Any:
            is_context(ctx)
            number = as_number(value)
            number = int64 if number is boolean else number
            return number, (ctx, number)

        def emit(context: Any, builder: Any, args: Any, sig: Any) -> Any:
            ctx, number = sig.args
            if not ctx.typed:
                return args[1]
            code = {int64: "i8", float64: "f8"}.get(number, "u8")
            return call(builder, ctx, f"{name}_{code}", F64 if code == "f8" else I64, *args)

        operation(ops.CONTEXT[name], typed, emit)

    for name in teams.OPERATIONS:
        of_team(name)

    @nb.infer_getattr
    class CtxAttributes(nb.templates.AttributeTemplate):
        key = w.Ctx

        def generic_resolve(self, ctx: Any, attr: str) -> Any:
            values, calls = (TASK_VALUES, TASK_CALLS) if ctx.task else (ops.VALUES, CALLS)
            if attr in values:
                return int64
            known = ", ".join((*values, *calls))
            raise errors.TypingError(f"ctx has no {attr}; it has {known}")

    @nb.lower_getattr(w.Ctx)
    def get_value(context: Any, builder: Any, typ: Any, value: Any, attr: str) -> Any:
        if attr == "now_ns":
            return call(builder, typ, attr, I64, value)
        return builder.zext(call(builder, typ, attr, I32, value), I64)

    vars(w).update(call=call, is_context=is_context)
