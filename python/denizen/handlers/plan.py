# SPDX-License-Identifier: Apache-2.0
"""What a program's handlers in Python are, rewritten: before it is known where they run."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from denizen.actor import ActorType
from denizen.errors import CompileError
from denizen.handlers import blocks, collectives
from denizen.handlers.behaviours import merged
from denizen.handlers.calls import OF_ACTORS_TASKS
from denizen.handlers.expressions import PREFIX
from denizen.handlers.rewrite import Rewriter, Rewritten
from denizen.life import DOWN
from denizen.message import MessageType
from denizen.task_type import TaskType

# Calls that only HandlerTable::full has.
_OF_BUFFERS = {"data", "keep", "release", *collectives.KINDS}
_OF_FULL = {"watch", "checkpoint", "allocate", "free", *_OF_BUFFERS}
_ALLOCATE = {"allocate", "free"}
MAX_TASK_BYTES = 40  # as max_task_bytes in program_table.hpp


@dataclass
class Plan:
    """The handlers, by the names of actor and message; all messages they name; and the tasks that
    they spawn, with their functions by name."""

    actors: list[ActorType]
    handlers: dict[tuple[str, str], Rewritten] = field(default_factory=dict)
    invariants: dict[str, Rewritten] = field(default_factory=dict)
    messages: dict[str, MessageType] = field(default_factory=dict)
    tasks: list[TaskType] = field(default_factory=list)
    functions: dict[str, Rewritten] = field(default_factory=dict)

    def all_rewritten(self) -> Iterator[Rewritten]:
        """Handlers and tasks."""
        yield from self.handlers.values()
        yield from self.functions.values()

    def calls(self, actor: ActorType) -> set[str]:
        """What its handlers call of ctx."""
        return {c for (a, _), r in self.handlers.items() if a == actor.name for c in r.calls}

    def collective_grains(self) -> set[str]:
        """Of the actors and tasks that call collectives."""
        calls = [(a.grain, self.calls(a)) for a in self.actors]
        calls += [(t.grain, {*self.functions[t.name].calls}) for t in self.tasks]
        return {grain for grain, named in calls if named & {*collectives.KINDS}}

    def can_fail(self, actor: ActorType) -> bool:
        return (
            actor.can_fail
            or actor.deadline_ns > 0
            or actor.invariant is not None
            or "fail" in self.calls(actor)
        )

    def spawned(self, actor: ActorType) -> bool:
        """Whether handlers spawn it."""
        return any(actor.name in r.spawns for r in self.all_rewritten())

    def allocates(self, actor: ActorType) -> bool:
        return bool(self.calls(actor) & _ALLOCATE)

    def task_allocates(self, task: TaskType) -> bool:
        return bool(self.functions[task.name].calls.keys() & _ALLOCATE)

    def task_fails(self, task: TaskType) -> bool:
        return "fail" in self.functions[task.name].calls

    def full(self, messages: Sequence[MessageType]) -> bool:
        """Whether anything is declared that costs each message a little: HandlerTable::full."""
        of_actors = any(
            self.can_fail(a)
            or a.overflow != "wait"
            or a.restart_from != "initial"
            or self.calls(a) & _OF_FULL
            for a in self.actors
        )
        of_messages = any(m.priority != "data" or m.buffer_offsets() or m is DOWN for m in messages)
        return of_actors or of_messages or bool(self.tasks)

    @property
    def text(self) -> str:
        """What the handlers do: equal texts are the same code."""
        parts = [f"{a}.{m}:\n{r.text}" for (a, m), r in self.handlers.items()]
        parts += [f"task {t}:\n{r.text}" for t, r in self.functions.items()]
        return "\n".join([*parts, *(f"{a}:\n{r.text}" for a, r in self.invariants.items())])

    @property
    def digest(self) -> str:
        digest = hashlib.sha256(self.text.encode())
        for actor in self.actors:
            digest.update(repr((actor.name, actor.dtype.descr, actor.dtype.itemsize)).encode())
        for task in self.tasks:
            digest.update(repr((task.name, task.dtype.descr, task.dtype.itemsize)).encode())
        for message in self.messages.values():
            digest.update(
                repr((message.name, message.dtype.descr, message.dtype.itemsize)).encode()
            )
        return digest.hexdigest()[:16]

    def each(self) -> Iterator[tuple[ActorType, str, Rewritten]]:
        actors = {a.name: a for a in self.actors}
        for (actor, message), rewritten in self.handlers.items():
            yield actors[actor], message, rewritten


def plan(actors: Sequence[ActorType], *, interpreted: bool = False) -> Plan:
    """Rewrites all handlers of these actors. Raises CompileError with the user's file and line.

    Args:
        interpreted: for device="python", where handlers may print.
    """
    out = Plan(list(actors))
    rewriter = Rewriter(interpreted)
    known = 0
    while known < len(out.actors) or len(out.functions) < len(out.tasks):  # each makes others known
        for actor in out.actors[known:]:
            _rewrite_actor(out, actor, rewriter)
            known += 1
        for task in out.tasks[len(out.functions) :]:
            _rewrite_task(out, task, rewriter)
    return out


def _rewrite_actor(out: Plan, actor: ActorType, rewriter: Rewriter) -> None:
    for message in actor.messages.values():
        _add(out, message, f"{actor.name} takes")
    for name, function in actor.handlers.items():
        new = rewriter.handler(function, actor)
        of_behaviours = [
            (b, rewriter.handler(b.handlers[name], actor))
            for b in actor.behaviours.values()
            if name in b.handlers
        ]
        if of_behaviours:
            new = merged(new, of_behaviours)
        out.handlers[actor.name, name] = new
        if "checkpoint" in new.calls and actor.restart_from != "snapshot":
            what = f'{actor.name} calls ctx.checkpoint(); it declares restart_from = "snapshot"'
            raise CompileError.at(new.path, new.line, what)
        _add_made(out, new, actor.name)
        if "random" in new.calls:
            _check_random(actor, new)
        if actor.grain == "block":
            blocks.check(actor.name, new)
    if actor.invariant is not None:
        out.invariants[actor.name] = rewriter.invariant(actor.invariant, actor.constants)


def _rewrite_task(out: Plan, task: TaskType, rewriter: Rewriter) -> None:
    assert task.run is not None  # _add_task() has seen to that
    new = rewriter.task(task.run, task.constants)
    out.functions[task.name] = new
    wrong = sorted(new.calls.keys() - OF_ACTORS_TASKS)
    if wrong:
        what = f"a task has no ctx.{wrong[0]}; it may call {', '.join(sorted(OF_ACTORS_TASKS))}"
        raise CompileError.at(new.path, new.calls[wrong[0]], what)
    if task.grain == "block":
        blocks.check(task.name, new)
    _add_made(out, new, task.name)


def _add_made(out: Plan, new: Rewritten, who: str) -> None:
    """What a handler or a task makes."""
    for message in new.makes.values():
        _add(out, message, f"{who} makes")
    for child in new.spawns.values():
        if isinstance(child, TaskType):
            _add_task(out, child, f"{new.path}:{new.line}: {who}")
        else:
            _add_actor(out, child, f"{new.path}:{new.line}: {who}")


def _add_task(out: Plan, task: TaskType, who: str) -> None:
    there = next((t for t in out.tasks if t.name == task.name), None)
    if there is not None:
        if there is not task:
            raise CompileError(f"{who} spawns another task {task.name} than the program has")
        return
    if task.run is None:
        raise CompileError(f"{who}: {task.name} is a task of a C++ text; decorate a class")
    if task.dtype.itemsize > MAX_TASK_BYTES:
        raise CompileError(
            f"{who}: task {task.name} has {task.dtype.itemsize} bytes, the limit is "
            f"{MAX_TASK_BYTES} in a program of actors; give it the address of a block instead"
        )
    if task.priority != "normal":
        raise CompileError(
            f"{who}: task {task.name} has a priority; in a program of actors tasks have none"
        )
    out.tasks.append(task)


def _add_actor(out: Plan, child: ActorType, who: str) -> None:
    there = next((a for a in out.actors if a.name == child.name), None)
    if there is None:
        out.actors.append(child)
    elif there is not child:
        raise CompileError(f"{who} spawns another actor {child.name} than the program has")


def _check_random(actor: ActorType, new: Rewritten) -> None:
    fields: Any = actor.dtype.fields or {}
    if "random" not in fields or fields["random"][0] != np.dtype(np.uint64):
        what = f"ctx.random() keeps its state in a field of {actor.name}: random: np.uint64 = 1"
        raise CompileError.at(new.path, new.line, what)


def _add(out: Plan, message: MessageType, who: str) -> None:
    there = out.messages.setdefault(message.name, message)
    if there is not message and there.dtype != message.dtype:
        raise CompileError(
            f"{who} another message {message.name} than the rest of the program: {message!r} and "
            f"{there!r}; use one of them"
        )


def ordered(messages: Mapping[str, MessageType]) -> list[MessageType]:
    """Down is first, if it is there: src/actor/handlers.hpp."""
    return sorted(messages.values(), key=lambda m: m is not DOWN)


def build(
    rewritten: Rewritten,
    names: Mapping[str, Any],
    new: Callable[[MessageType | ActorType | TaskType], Any],
    wrap: Callable[[Any], Any] = lambda function: function,
    done: dict[str, Any] | None = None,
) -> Any:
    """The function itself.

    Args:
        names: the operations, see ops.names().
        new: what stands for a type of messages, actors or tasks.
        wrap: what becomes of the functions it calls.
    """
    done = {} if done is None else done
    scope: dict[str, Any] = {PREFIX + name: operation for name, operation in names.items()}
    made: dict[str, MessageType | ActorType | TaskType] = {**rewritten.makes, **rewritten.spawns}
    scope.update({f"{PREFIX}new_{name}": new(each) for name, each in made.items()})
    for alias, inner in rewritten.functions.items():
        if alias not in done:
            done[alias] = wrap(build(inner, names, new, wrap, done))
        scope[alias] = done[alias]
    whole = {**rewritten.scope, **scope}
    module = ast.Module(body=[rewritten.tree], type_ignores=[])
    exec(compile(module, rewritten.path, "exec"), whole)
    return whole[rewritten.alias]
