# SPDX-License-Identifier: Apache-2.0
"""The C++ text around tasks in Python, for a GPU: as text.py for actors."""

from __future__ import annotations

from denizen.handlers import collectives, teams
from denizen.handlers.task_plan import TaskPlan
from denizen.handlers.text import EXPORT, PREFIX, fields_text
from denizen.handlers.text import task_symbol as symbol
from denizen.task_type import TaskType


def text_of(plan: TaskPlan) -> str:
    """The whole translation unit."""
    names = ", ".join(t.name for t in plan.tasks)
    return "\n".join(
        [
            "#include <denizen/base/team.hpp>",
            "#include <denizen/base/vocabulary.hpp>",
            "#include <denizen/task/kernel.hpp>",
            *([collectives.INCLUDE] if plan.collective_grains() else []),
            EXPORT,
            *(_struct(t) for t in plan.tasks),
            f"using denizen_tasks_program = denizen::task::Program<{names}>;",
            "DENIZEN_TASKS(denizen_tasks_program)",
            "using denizen_context = denizen::task::Context<denizen_tasks_program>;",
            *_context_functions(plan),
            "",
        ]
    )


def _struct(task: TaskType) -> str:
    lines = [f"DENIZEN_HANDLER(void*, {symbol(task)}, const void*, void*)"]
    lines.append(f"struct {task.name} {{")
    if task.grain != "thread":
        lines.append(f"    static constexpr auto grain = denizen::task::Grain::{task.grain};")
    if task.priority != "normal":
        priority = f"denizen::task::Priority::{task.priority}"
        lines.append(f"    static constexpr auto priority = {priority};")
    lines += fields_text(task)
    lines.append(f"    void run(auto& ctx) const {{ {symbol(task)}(this, &ctx); }}")
    return "\n".join([*lines, "};", task.checks()])


def _context_functions(plan: TaskPlan) -> list[str]:
    """Those that these tasks may call."""
    used, out = plan.calls, []

    def function(result: str, name: str, parameters: str, body: str) -> None:
        given = f", {parameters}" if parameters else ""
        out.append(
            f"DENIZEN_EXPORT {result} {PREFIX}_{name}(void* context{given})\n"
            f"{{\n    [[maybe_unused]] auto& c = *static_cast<denizen_context*>(context);\n"
            f"    {body}\n}}"
        )

    for i, task in enumerate(plan.tasks):
        given = f"*static_cast<const {task.name}*>(t)"
        ok = "== denizen::Errc::ok"
        if "spawn" in used:
            # Each lane of a warp's task would spawn one: its lane 0 does.
            body = f"return c.spawn({given}) {ok};"
            function("uint32_t", f"spawn_{i}", "const void* t", body)
        if "spawn_on" in used:
            body = f"return c.spawn_on(worker, {given}) {ok};"
            function("uint32_t", f"spawn_on_{i}", "uint32_t worker, const void* t", body)
        if "when" in used:
            body = f"return c.when(arrivals, {given}).index;"
            function("uint32_t", f"when_{i}", "uint32_t arrivals, const void* t", body)
    done = "\n    return nullptr;"
    if "arrive" in used:
        parameters = "uint32_t counter, uint64_t value"
        function("void*", "arrive", parameters, f"c.arrive({{counter}}, value);{done}")
    if "set" in used:
        promise = "{static_cast<uint32_t>(promise), static_cast<uint32_t>(promise >> 32)}"
        function(
            "void*",
            "set",
            "uint64_t promise, uint64_t value",
            f"c.set(denizen::task::Promise<uint64_t>{promise}, value);{done}",
        )
    function("uint32_t", "cancelled", "", "return c.cancelled();")
    for name in ("cancel", "sync"):
        function("void*", name, "", f"c.{name}();{done}")
    of_ranks = collectives.functions(
        used, plan.elements, plan.collective_grains(), "denizen::task::Grain"
    )
    for name, (result, parameters, body) in {**teams.functions(used), **of_ranks}.items():
        function(result, name, parameters, body)
    if "allocate" in used:
        function("void*", "allocate", "uint64_t bytes", "return c.arena().allocate(bytes);")
    if "free" in used:
        function("void*", "free", "void* block", f"c.arena().deallocate(block);{done}")
    for name in ("worker", "workers", "lane", "lanes"):
        function("uint32_t", name, "", f"return c.{name}();")
    return out
