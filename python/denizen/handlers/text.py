# SPDX-License-Identifier: Apache-2.0
"""The C++ text around handlers in Python: structs that stand for their actors.

A struct has the state's bytes, and for each message a handler that calls a function, which Numba
has compiled and nvJitLink links and expands in place. What such a function calls of its context are
the functions of ending(), one for each message type.
"""

from __future__ import annotations

from collections.abc import Sequence

from denizen.actor import ActorType
from denizen.handlers.plan import Plan
from denizen.message import MessageType

PREFIX = "denizen"  # of the context's functions, as the symbols of Ctx in numba_ops.py


def symbol(actor: int, message: int | None) -> str:
    """The name of a handler, or of an invariant."""
    return f"denizen_handler_{actor}_{'invariant' if message is None else message}"


def structs(plan: Plan, messages: Sequence[MessageType]) -> str:
    """The actors, behind the messages."""
    out = []
    for a, actor in enumerate(plan.actors):
        numbers = {m: i for i, m in enumerate(x.name for x in messages) if m in actor.handlers}
        for m in numbers.values():
            out.append(f'extern "C" __device__ void* {symbol(a, m)}(void*, const void*, void*);')
        if actor.invariant is not None:
            out.append(f'extern "C" __device__ uint32_t {symbol(a, None)}(const void*);')
        out.append(f"struct {actor.name} {{")
        out += [f"    {line}" for line in _declarations(plan, actor)]
        out.append(f"    {_state(actor)}")
        for name, m in numbers.items():
            out.append(
                f"    void on(const {name}& m, auto& ctx) {{ {symbol(a, m)}(this, &m, &ctx); }}"
            )
        if actor.invariant is not None:
            out.append(f"    bool invariant() const {{ return {symbol(a, None)}(this) != 0; }}")
        out.append("};")
        out.append(f"static_assert(sizeof({actor.name}) == {actor.dtype.itemsize});")
    return "\n".join(out) + "\n"


def _declarations(plan: Plan, actor: ActorType) -> list[str]:
    out = []
    if actor.grain != "thread":
        out.append(f"static constexpr auto grain = denizen::Grain::{actor.grain};")
    if actor.overflow != "wait":
        out.append(f"static constexpr auto overflow = denizen::Overflow::{actor.overflow};")
    if actor.restart_from != "initial":
        out.append(
            f"static constexpr auto restart_from = denizen::RestartFrom::{actor.restart_from};"
        )
    if actor.deadline_ns:
        out.append(f"static constexpr uint64_t deadline_ns = {actor.deadline_ns}u;")
    if plan.can_fail(actor):
        out.append("static constexpr bool can_fail = true;")
    return out


def _state(actor: ActorType) -> str:
    """A new actor's bytes."""
    data = actor.initial.tobytes()
    align = max(actor.dtype.alignment, 1)
    size = min(align, 8)  # of which a state's length is a multiple
    words = [int.from_bytes(data[i : i + size], "little") for i in range(0, len(data), size)]
    initial = "{" + ", ".join(f"{w:#x}u" for w in words) + "}" if any(data) else "{}"
    return f"alignas({align}) uint{8 * size}_t state[{len(words)}] = {initial};"


def ending(plan: Plan, messages: Sequence[MessageType], program: str) -> str:
    """What handlers call of their context, behind the program's definition."""
    used = {c for a in plan.actors for c in plan.calls(a)}
    sent = {m for r in plan.handlers.values() for m in r.makes}
    sent |= {m for a in plan.actors for m in a.handlers}  # a handler may pass on what it got
    out = [f"using denizen_context = denizen::Context<{program}>;"]

    def function(result: str, name: str, parameters: str, body: str) -> None:
        given = f", {parameters}" if parameters else ""
        out.append(
            f'extern "C" __device__ {result} {PREFIX}_{name}(void* context{given})\n'
            f"{{\n    [[maybe_unused]] auto& c = *static_cast<denizen_context*>(context);\n"
            f"    {body}\n}}"
        )

    for i, message in enumerate(messages):
        if message.name not in sent:
            continue
        given = f"*static_cast<const {message.name}*>(m)"
        if used & {"send", "reply"}:
            function(
                "uint32_t",
                f"send_{i}",
                "uint32_t to, const void* m",
                f"return c.send(denizen::Address{{to}}, {given});",
            )
        if "publish" in used:
            function(
                "uint32_t",
                f"publish_{i}",
                "uint32_t a, uint32_t b, uint32_t d, uint32_t e, const void* m",
                "denizen::Topic topic;\n    topic.key = denizen::TopicKey{{a, b, d, e}};\n"
                f"    return c.publish(topic, {given});",
            )
    for name in sorted(used & {"subscribe", "unsubscribe"}):
        function(
            "void*",
            name,
            "uint32_t a, uint32_t b, uint32_t d, uint32_t e",
            "denizen::TopicPattern pattern;\n"
            "    pattern.key = denizen::TopicKey{{a, b, d, e}};\n"
            f"    c.{name}(pattern);\n    return nullptr;",
        )
    orders = {"stop", "pause", "resume", "restart", "drain", "watch", "unwatch"}
    for name in sorted(used & orders):
        function("void*", name, "uint32_t actor", f"c.{name}({{actor}});\n    return nullptr;")
    if "fail" in used:
        function("void*", "fail", "uint32_t code", "c.fail(code);\n    return nullptr;")
    for name in sorted(used & {"checkpoint", "sync"}):
        function("void*", name, "", f"c.{name}();\n    return nullptr;")
    if "data" in used:
        for width in (8, 16, 32, 64):
            out.append(_DATA.replace("WIDTH", str(width)))
        function(
            "void*",
            "data",
            "uint64_t ref, uint32_t align, uint64_t* bytes",
            "switch (align) {\n"
            "    case 1: return denizen_data_8(c, ref, bytes);\n"
            "    case 2: return denizen_data_16(c, ref, bytes);\n"
            "    case 4: return denizen_data_32(c, ref, bytes);\n"
            "    default: return denizen_data_64(c, ref, bytes);\n    }",
        )
    if "keep" in used:
        function("uint32_t", "keep", "uint64_t ref", "return c.keep({ref});")
    if "release" in used:
        function("void*", "release", "uint64_t ref", "c.release({ref});\n    return nullptr;")
    for name in ("self", "sender"):
        function("uint32_t", name, "", f"return c.{name}().value;")
    for name in ("worker", "workers", "node", "lane", "lanes"):
        function("uint32_t", name, "", f"return c.{name}();")
    function("uint64_t", "now_ns", "", "return c.now_ns();")
    return "\n".join(out) + "\n"


_DATA = """__device__ inline void* denizen_data_WIDTH(denizen_context& c, uint64_t ref,
                                                     uint64_t* bytes)
{
    const auto found = c.template data<uintWIDTH_t>({ref});
    *bytes = found.size() * sizeof(uintWIDTH_t);
    return found.data;
}"""
