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
from denizen.handlers.expressions import PREFIX
from denizen.handlers.rewrite import Rewriter, Rewritten
from denizen.life import DOWN
from denizen.message import MessageType
from denizen.task_type import TaskType

# Calls that only HandlerTable::full has.
_OF_FULL = {"watch", "data", "keep", "release", "checkpoint", "allocate", "free"}
_ALLOCATE = {"allocate", "free"}


@dataclass
class Plan:
    """The handlers, by the names of actor and message; and all messages they name."""

    actors: list[ActorType]
    handlers: dict[tuple[str, str], Rewritten] = field(default_factory=dict)
    invariants: dict[str, Rewritten] = field(default_factory=dict)
    messages: dict[str, MessageType] = field(default_factory=dict)

    def calls(self, actor: ActorType) -> set[str]:
        """What its handlers call of ctx."""
        return {c for (a, _), r in self.handlers.items() if a == actor.name for c in r.calls}

    def can_fail(self, actor: ActorType) -> bool:
        return (
            actor.can_fail
            or actor.deadline_ns > 0
            or actor.invariant is not None
            or "fail" in self.calls(actor)
        )

    def spawned(self, actor: ActorType) -> bool:
        """Whether handlers spawn it."""
        return any(actor.name in r.spawns for r in self.handlers.values())

    def allocates(self, actor: ActorType) -> bool:
        return bool(self.calls(actor) & _ALLOCATE)

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
        return of_actors or of_messages

    @property
    def text(self) -> str:
        """What the handlers do: equal texts are the same code."""
        parts = [f"{a}.{m}:\n{r.text}" for (a, m), r in self.handlers.items()]
        return "\n".join([*parts, *(f"{a}:\n{r.text}" for a, r in self.invariants.items())])

    @property
    def digest(self) -> str:
        digest = hashlib.sha256(self.text.encode())
        for actor in self.actors:
            digest.update(repr((actor.name, actor.dtype.descr, actor.dtype.itemsize)).encode())
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
    for actor in out.actors:  # those that they spawn come behind them
        for message in actor.messages.values():
            _add(out, message, f"{actor.name} takes")
        for name, function in actor.handlers.items():
            new = rewriter.handler(function, actor.constants)
            out.handlers[actor.name, name] = new
            if "checkpoint" in new.calls and actor.restart_from != "snapshot":
                what = f'{actor.name} calls ctx.checkpoint(); it declares restart_from = "snapshot"'
                raise CompileError.at(new.path, new.line, what)
            for message in new.makes.values():
                _add(out, message, f"{actor.name} makes")
            for child in new.spawns.values():
                assert isinstance(child, ActorType)  # a handler makes no tasks
                _add_actor(out, child, f"{new.path}:{new.line}: {actor.name}")
            if "random" in new.calls:
                _check_random(actor, new)
        if actor.invariant is not None:
            out.invariants[actor.name] = rewriter.invariant(actor.invariant, actor.constants)
    return out


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
