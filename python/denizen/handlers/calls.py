# SPDX-License-Identifier: Apache-2.0
"""What a handler may call of ctx: how many arguments each call takes, and which."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from denizen.handlers import ops


@dataclass(frozen=True)
class Call:
    """`takes`: what the error says of its arguments. `least`, `most`: how many they are; those
    behind are `defaults`. `op`: the operation, if it has another name."""

    takes: str
    least: int
    most: int
    defaults: tuple[Any, ...] = ()
    op: str = ""


def _call(takes: str, least: int, *defaults: Any, op: str = "") -> Call:
    return Call(takes, least, least + len(defaults), defaults, op)


_LATER = _call("ns, an address and a message", 3)
_NOTHING = _call("nothing", 0)
_ACTOR = _call("an actor's address", 1)

_TEAM = dict.fromkeys(
    ("reduce", "scan"), _call('a number and "add", "least" or "greatest": ctx.reduce(x, "add")', 2)
)


def _collectives(rank: str, instead: str = "") -> dict[str, Call]:
    """Those of a context. `rank`: what they are given in the errors, `instead`: of broadcast()."""
    reduced = (
        f'a rank, two arrays, and "sum", "min", "max" or "avg": ctx.{{}}({rank}, x, out, "sum")'
    )
    moved = f"a rank and two arrays: ctx.{{}}({rank}, x, out)"
    return {
        **{n: _call(reduced.format(n), 3, "sum") for n in ("all_reduce", "reduce_scatter")},
        **{n: _call(moved.format(n), 3) for n in ("all_gather", "all_to_all")},
        "broadcast": _call(
            "a rank, two arrays and the number of the rank that has the data: "
            f"ctx.broadcast({rank}, x, out, 0){instead}",
            4,
        ),
        "barrier": _call(f"a rank: ctx.barrier({rank})", 1),
    }


_COLLECTIVES = _collectives("m.rank", "; ctx.publish(topic, message) sends a message to many")

_MEMORY = {
    "allocate": _call("a number of elements and their type: ctx.allocate(100, np.float32)", 2),
    "array": _call(
        "an address, a number of elements and their type: ctx.array(self.at, 100, np.float32)", 3
    ),
    "address": _call("an array of ctx.allocate: ctx.address(block)", 1),
    "free": _call("an array of ctx.allocate, or its address", 1),
}

CALLS = {
    "send": _call("an address and a message", 2),
    "send_each": _call("an address, a message and whether this lane sends", 2, True),
    "reply": _call("a message", 1),
    "publish": _call("a topic and a message", 2),
    "subscribe": _call("a topic", 1),
    "unsubscribe": _call("a topic", 1),
    "send_after": _LATER,
    "send_every": _LATER,
    "cancel": _call("what ctx.send_after or ctx.send_every gave", 1),
    "spawn": _call("a new actor's state or a task: ctx.spawn(Child(5))", 1),
    **dict.fromkeys(("stop", "pause", "resume", "restart", "drain", "watch", "unwatch"), _ACTOR),
    "become": _call("a behaviour of this actor: ctx.become(self.Open)", 1),
    "fail": _call("a code", 1),
    "checkpoint": _NOTHING,
    "sync": _NOTHING,
    "fence": _NOTHING,
    **_TEAM,
    "random": _NOTHING,
    "data": _call("a field and a type: ctx.data(m.samples, np.float32)", 2),
    "keep": _call("a field of type denizen.BUFFER", 1),
    "release": _call("a field of type denizen.BUFFER", 1),
    **_COLLECTIVES,
    **_MEMORY,
}

# Those of them that a task of a program of actors may make.
OF_ACTORS_TASKS = frozenset({
    "send", "send_each", "reply", "publish", "spawn", "stop", "pause", "resume", "restart", "drain",
    "fail", "sync", "fence", "data", *_TEAM, *_COLLECTIVES, *_MEMORY,
})  # fmt: skip

# The same of the context of a task in a program of tasks alone.
TASK_CALLS = {
    "spawn": _call("a task: ctx.spawn(Work(5))", 1, op="spawn_task"),
    "spawn_on": _call("a worker's number and a task", 2),
    "when": _call("a number of arrivals and the task that waits for them", 2),
    "arrive": _call("a counter and a value", 1, 0),
    "set": _call("a field of type tasks.PROMISE and a value", 2),
    "cancelled": _NOTHING,
    "cancel": _call("nothing", 0, op="cancel_group"),
    "sync": _NOTHING,
    **_TEAM,
    **_collectives("self.rank"),
    **_MEMORY,
}
TASK_VALUES = ("worker", "workers", "lane", "lanes")

# What other runtimes have under these names, and what does it here.
INSTEAD = {
    "forward": "ctx.send(address, m), which sends on what came",
    "arena": "ctx.allocate(count, np.float32) and ctx.free(array)",
    "ask": "ctx.send(address, message), and a handler for the answer",
    "sleep": "ctx.send_after(ns, ctx.self, message)",
    "join": "ctx.when(n, task), which runs the task when n others have said ctx.arrive(counter)",
    "now": "ctx.now_ns",
    "time": "ctx.now_ns",
    "log": 'ctx.send(denizen.HOST, message), or print(...) on device="python"',
    "exit": "ctx.stop(ctx.self)",
    "print": 'print(...), on device="python"',
}
# The same of a task in a program of tasks alone, which has no buffers.
TASK_INSTEAD = {**INSTEAD, "data": "ctx.array(self.x, 100, np.float32), where self.x is an address"}

# An element's type in the name of an operation.
ELEMENTS = {np.dtype(code).type: code for code in ops.CODES}
