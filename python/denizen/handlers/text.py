# SPDX-License-Identifier: Apache-2.0
"""The C++ text around handlers in Python: structs that stand for their actors.

A struct has the state's bytes, and for each message a handler that calls a function of Numba's: on
a GPU nvJitLink links it and expands it in place, on the CPU it is a pointer that is set when the
library has been loaded. What such a function calls of its context are context_functions().
"""

from __future__ import annotations

from collections.abc import Sequence

from denizen.actor import ActorType
from denizen.handlers import collectives, teams
from denizen.handlers.plan import Plan
from denizen.message import MessageType, c_type_of, sent_later
from denizen.task_type import TaskType

PREFIX = "denizen"  # of the context's functions, as the symbols of Ctx in lowering/

EXPORT = """#if defined(__CUDACC_RTC__)
#define DENIZEN_EXPORT extern "C" __device__
#define DENIZEN_HANDLER(result, name, ...) DENIZEN_EXPORT result name(__VA_ARGS__);
#else
#define DENIZEN_EXPORT extern "C" __attribute__((visibility("default")))
#define DENIZEN_HANDLER(result, name, ...) DENIZEN_EXPORT result (*name)(__VA_ARGS__) = nullptr;
#endif
"""


def symbol(actor: int, message: int | None) -> str:
    """The name of a handler, or of an invariant."""
    return f"denizen_handler_{actor}_{'invariant' if message is None else message}"


def task_symbol(task: TaskType) -> str:
    """The name of a task's function."""
    return f"denizen_task_{task.name}"


def structs(plan: Plan, messages: Sequence[MessageType]) -> str:
    """The actors and the tasks, behind the messages."""
    out = [EXPORT]
    for a, actor in enumerate(plan.actors):
        numbers = {m: i for i, m in enumerate(x.name for x in messages) if m in actor.handlers}
        for m in numbers.values():
            given = "void*, const void*, void*"
            out.append(f"DENIZEN_HANDLER(void*, {symbol(a, m)}, {given})")
        if actor.invariant is not None:
            out.append(f"DENIZEN_HANDLER(uint32_t, {symbol(a, None)}, const void*)")
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
    out += [_task_struct(plan, t) for t in plan.tasks]
    return "\n".join(out) + "\n"


def _task_struct(plan: Plan, task: TaskType) -> str:
    lines = [f"DENIZEN_HANDLER(void*, {task_symbol(task)}, const void*, void*)"]
    lines.append(f"struct {task.name} {{")
    if task.grain != "thread":
        lines.append(f"    static constexpr auto grain = denizen::Grain::{task.grain};")
    if plan.task_fails(task):
        lines.append("    static constexpr bool can_fail = true;")
    if plan.task_allocates(task):
        lines.append("    static constexpr bool allocates = true;")
    lines += fields_text(task)
    lines.append(f"    void run(auto& ctx) const {{ {task_symbol(task)}(this, ctx.untyped()); }}")
    return "\n".join([*lines, "};", task.checks()])


def fields_text(task: TaskType) -> list[str]:
    """The members of a task's struct."""
    lines = []
    for name in task.dtype.names or ():
        base, shape = task.dtype[name].subdtype or (task.dtype[name], ())
        lines.append(f"    {c_type_of(base)} {name}{''.join(f'[{n}]' for n in shape)};")
    return lines


def _declarations(plan: Plan, actor: ActorType) -> list[str]:
    out = []
    if actor.grain != "thread":
        out.append(f"static constexpr auto grain = denizen::Grain::{actor.grain};")
    if actor.block_threads:
        out.append(f"static constexpr uint32_t block_threads = {actor.block_threads};")
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
    if plan.spawned(actor):
        out.append("static constexpr bool spawned = true;")
    if plan.allocates(actor):
        out.append("static constexpr bool allocates = true;")
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
    functions = "\n".join(context_functions(plan, messages).values())
    return (
        "#include <denizen/base/team.hpp>\n"
        f"{collectives.INCLUDE if plan.collective_grains() else ''}"
        f"using denizen_context = denizen::Context<{program}>;\n{functions}\n"
        "#if !defined(__CUDACC_RTC__) // other handlers are another library: pointers are its own\n"
        f'DENIZEN_EXPORT const char denizen_handlers[] = "{plan.digest}";\n#endif\n'
    )


def _collectives(plan: Plan, used: set[str]) -> dict[str, tuple[str, str, str]]:
    elements = {code for r in plan.all_rewritten() for code in r.elements}
    return collectives.functions(used, elements, plan.collective_grains())


def context_functions(plan: Plan, messages: Sequence[MessageType]) -> dict[str, str]:
    """By the name behind the prefix: those that these handlers may call."""
    used = {c for r in plan.all_rewritten() for c in r.calls}
    sent = {m for r in plan.all_rewritten() for m in r.makes}
    sent |= {m for a in plan.actors for m in a.handlers}  # a handler may pass on what it got
    out: dict[str, str] = {}

    def function(result: str, name: str, parameters: str, body: str) -> None:
        given = f", {parameters}" if parameters else ""
        out[name] = (
            f"DENIZEN_EXPORT {result} {PREFIX}_{name}(void* context{given})\n"
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
        if "send_each" in used and sent_later(message.dtype):
            function(
                "uint32_t",
                f"send_each_{i}",
                "uint32_t to, uint32_t mine, const void* m",
                f"return c.send_each(denizen::Address{{to}}, {given}, mine != 0);",
            )
        if used & {"send_after", "send_every"} and sent_later(message.dtype):
            function(
                "uint32_t",
                f"send_later_{i}",
                "uint64_t ns, uint32_t repeats, uint32_t to, const void* m",
                f"const {message.name}& message = {given};\n"
                "    const denizen::Address a{to};\n"
                "    return (repeats != 0 ? c.send_every(ns, a, message)\n"
                "                         : c.send_after(ns, a, message)).value;",
            )
        if "publish" in used:
            function(
                "uint32_t",
                f"publish_{i}",
                "uint32_t a, uint32_t b, uint32_t d, uint32_t e, const void* m",
                "denizen::Topic topic;\n    topic.key = denizen::TopicKey{{a, b, d, e}};\n"
                f"    return c.publish(topic, {given});",
            )
            function(
                "uint32_t",
                f"publish_long_{i}",
                "const void* topic, const void* m",
                f"return c.publish(*static_cast<const denizen::LongTopic*>(topic), {given});",
            )
    for a, actor in enumerate(plan.actors):
        if plan.spawned(actor):
            state = f"*static_cast<const {actor.name}*>(state)"
            function(
                "uint32_t",
                f"spawn_{a}",
                "const void* state",
                f"return c.template spawn<{actor.name}>({state}).value;",
            )
    for n, task in enumerate(plan.tasks):
        given = f"*static_cast<const {task.name}*>(task)"
        body = f"return c.spawn({given}) ? 1 : 0;"
        function("uint32_t", f"spawn_task_{n}", "const void* task", body)
    if "allocate" in used:
        function("void*", "allocate", "uint64_t bytes", "return c.arena().allocate(bytes);")
    if "free" in used:
        function(
            "void*", "free", "void* block", "c.arena().deallocate(block);\n    return nullptr;"
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
    for name in sorted(used & {"checkpoint", "sync", "fence"}):
        function("void*", name, "", f"c.{name}();\n    return nullptr;")
    for name, (result, parameters, body) in teams.functions(used).items():
        function(result, name, parameters, body)
    for name, (result, parameters, body) in _collectives(plan, used).items():
        function(result, name, parameters, body)
    if used & {"data", *collectives.KINDS}:
        function(
            "void*",
            "data",
            "uint64_t ref, uint32_t align, uint64_t* bytes",
            "const auto found = [&]<class T>() -> void* {\n"
            "        const auto span = c.template data<T>({ref});\n"
            "        *bytes = span.size() * sizeof(T);\n"
            "        return span.data;\n    };\n"
            "    switch (align) {\n"
            "    case 1: return found.template operator()<uint8_t>();\n"
            "    case 2: return found.template operator()<uint16_t>();\n"
            "    case 4: return found.template operator()<uint32_t>();\n"
            "    default: return found.template operator()<uint64_t>();\n    }",
        )
    if "cancel" in used:
        function("uint32_t", "cancel", "uint32_t timer", "return c.cancel(denizen::Timer{timer});")
    if "keep" in used:
        function("uint32_t", "keep", "uint64_t ref", "return c.keep({ref});")
    if "release" in used:
        function("void*", "release", "uint64_t ref", "c.release({ref});\n    return nullptr;")
    for name in ("self", "sender"):
        function("uint32_t", name, "", f"return c.{name}().value;")
    for name in ("worker", "workers", "node", "lane", "lanes"):
        function("uint32_t", name, "", f"return c.{name}();")
    function("uint64_t", "now_ns", "", "return c.now_ns();")
    return out
