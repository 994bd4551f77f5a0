# SPDX-License-Identifier: Apache-2.0
"""The ways of a thread through its program."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from litmus import Litmus, Thread


@dataclass
class Event:
    kind: str  # R, W, F or B
    thread: int  # -1: the initial stores
    at: int = 0  # which instruction
    place: str = ""
    value: int = 0
    order: str = "weak"
    scope: str = ""
    partner: int = -1  # of a read-modify-write's load its store, in the thread's list
    after: frozenset[int] = frozenset()  # loads of the thread's list that it depends on


@dataclass
class Trace:
    """One way of a thread through its program."""

    events: list[Event]
    registers: dict[str, int]
    barriers: int = 0
    stuck: bool = False  # at the next barrier


@dataclass
class _State:
    at: int = 0
    registers: dict[str, int] = field(default_factory=dict)
    sources: dict[str, frozenset[int]] = field(default_factory=dict)  # of registers: loads
    decided: frozenset[int] = frozenset()  # by which branches were taken
    events: list[Event] = field(default_factory=list)
    barriers: int = 0

    def value(self, operand: str) -> int:
        return self.registers.get(operand, 0) if operand.startswith("r") else int(operand)

    def source(self, operand: str) -> frozenset[int]:
        return self.sources.get(operand, frozenset())


def _changed(operation: str, before: int, operands: list[int]) -> int | None:
    """What an atomic operation stores; None: nothing."""
    if operation == "cas":
        return operands[1] if before == operands[0] else None
    simple = {"add": before + operands[0], "or": before | operands[0], "exch": operands[0]}
    return simple[operation]


def traces(number: int, thread: Thread, values: dict[str, set[int]]) -> Iterator[Trace]:
    """All ways of `thread`, whose loads return any of `values` of the place."""
    labels = {i.operands[0]: at for at, i in enumerate(thread.program) if i.kind == "label"}
    states = [_State()]
    while states:
        s = states.pop()
        if s.at == len(thread.program):
            yield Trace(s.events, s.registers, s.barriers)
            continue
        one = thread.program[s.at]
        access = Event("R", number, s.at, "", 0, one.order, one.scope, after=s.decided)
        s.at += 1
        if one.kind == "fence":
            s.events.append(replace(access, kind="F"))
        elif one.kind == "bar":
            yield Trace([*s.events], dict(s.registers), s.barriers, True)
            s.events.append(replace(access, kind="B", value=s.barriers))
            s.barriers += 1
        elif one.kind in ("beq", "bne"):
            left, right, label = one.operands
            s.decided |= s.source(left) | s.source(right)
            if (s.value(left) == s.value(right)) == (one.kind == "beq"):
                s.at = labels[label]
        elif one.kind == "goto":
            s.at = labels[one.operands[0]]
        elif one.kind == "st":
            place, value = one.operands
            after = s.decided | s.source(value)
            s.events.append(
                replace(access, kind="W", place=place, value=s.value(value), after=after)
            )
        elif one.kind != "label":
            register = "" if one.kind == "red" else one.operands[0]
            place, *given = one.operands[0 if one.kind == "red" else 1 :]
            for value in sorted(values[place]):
                t = _State(s.at, dict(s.registers), dict(s.sources), s.decided, [*s.events])
                t.barriers = s.barriers
                load = replace(access, place=place, value=value)
                mine = frozenset([len(t.events)])
                t.events.append(load)
                if register:
                    t.registers[register] = value
                    t.sources[register] = mine
                if one.kind != "ld":
                    stored = _changed(one.operation, value, [s.value(g) for g in given])
                    if stored is not None:
                        load.partner = len(t.events)
                        from_ = frozenset().union(*(s.source(g) for g in given))
                        after = s.decided | from_ | mine
                        t.events.append(replace(load, kind="W", value=stored, after=after))
                states.append(t)
            continue
        states.append(s)


def possible_values(test: Litmus) -> dict[str, set[int]]:
    places = {p for t in test.threads for p in _places(t)}
    values = {place: {test.initial.get(place, 0)} for place in places}
    for _ in range(4):  # a read-modify-write raises what it may find by a step each time
        found = {place: set(known) for place, known in values.items()}
        for number, thread in enumerate(test.threads):
            for trace in traces(number, thread, values):
                for event in trace.events:
                    if event.kind == "W":
                        found[event.place].add(event.value)
        if found == values:
            break
        values = found
    return values


def _places(thread: Thread) -> Iterator[str]:
    for one in thread.program:
        if one.kind in ("ld", "atom"):
            yield one.operands[1]
        elif one.kind in ("st", "red"):
            yield one.operands[0]
