# SPDX-License-Identifier: Apache-2.0
"""Actors in Python: a class with fields, and a method for each message it takes.

    @denizen.actor
    class Counter:
        sum: np.uint64 = 0
        def on_tick(self, m: Tick, ctx): self.sum += m.n
        def on_ask(self, m: Ask, ctx): ctx.reply(Total(self.sum))

The hint of a method's second parameter says which message it takes; its name is free. What an actor
declares in C++ is a class attribute here: grain = "warp", overflow = "fail", deadline_ns = 50_000,
restart_from = "snapshot", and a method invariant(self). A class within is a behaviour: handlers
that take messages in place of the actor's own once ctx.become() has put it in force. See
docs/python-handlers.md.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from types import FunctionType
from typing import Any

import numpy as np

from denizen.errors import ArgumentError
from denizen.fields import caller_names, check_class, check_name, field_of, hints_of
from denizen.fixed import Fixed
from denizen.message import MessageType, checked, fields_of
from denizen.shown import html_table
from denizen.source import keep_text

# As the enumerators of denizen::Grain, Overflow and RestartFrom.
GRAINS = ("thread", "warp", "block")
BLOCK_THREADS = range(64, 513, 32)  # that it may ask for, as in actor/detail/grain.hpp
OVERFLOWS = ("wait", "fail", "drop_oldest")
RESTARTS = ("initial", "snapshot")

BEHAVIOUR = "behaviour"  # the field that says which one is in force: 0 is the actor itself

_CHOICES = {"grain": GRAINS, "overflow": OVERFLOWS, "restart_from": RESTARTS}


class Behaviour:
    """Handlers of an actor, by message's name, that are in force by ctx.become()."""

    def __init__(self, owner: str, name: str, number: int) -> None:
        self.owner, self.name, self.number = owner, name, number
        self.handlers: dict[str, FunctionType] = {}

    def __getattr__(self, name: str) -> FunctionType:
        """Door.Open.on_push: a handler by its method's name, by which pickle knows it."""
        for handler in self.__dict__.get("handlers", {}).values():
            if handler.__name__ == name:
                return handler  # type: ignore[no-any-return]
        raise AttributeError(f"behaviour {self.__dict__.get('name')} has no {name}")

    def __repr__(self) -> str:
        return f"<behaviour {self.owner}.{self.name}; takes {', '.join(self.handlers)}>"


class ActorType(Fixed):
    """An actor type: `dtype` is its state, `initial` a new actor's, `handlers` by message's name.

    A Program takes it among its actors.
    """

    def __init__(self, cls: type, names: Mapping[str, Any]) -> None:
        self.name = cls.__name__
        check_name("actor", self.name)
        hints = hints_of(cls, names)
        for field in hints:
            check_name(f"field of actor {self.name}", field)
        fields = [(f, *field_of(f"{self.name}.{f}", hint)) for f, hint in hints.items()]
        within = [value for value in vars(cls).values() if isinstance(value, type)]
        if within:
            if BEHAVIOUR in hints:
                raise ArgumentError(
                    f"{self.name} has classes within, which are behaviours, and a field "
                    f"{BEHAVIOUR}, which says which one is in force; give the field another name"
                )
            fields.append((BEHAVIOUR, *field_of(f"{self.name}.{BEHAVIOUR}", np.uint32)))
        plain = np.dtype(fields, align=True)
        self.dtype: np.dtype[np.void] = np.dtype(
            {
                "names": list(plain.names or ()),
                "formats": [plain[n] for n in plain.names or ()],
                "offsets": [plain.fields[n][1] for n in plain.names or ()] if plain.fields else [],
                "itemsize": max(plain.itemsize, 1),
            },
            align=True,
        )
        self.grain, self.overflow, self.restart_from = "thread", "wait", "initial"
        self.deadline_ns = 0
        self.block_threads = 0
        self.can_fail = False
        self.invariant: FunctionType | None = None
        self.constants: dict[str, Any] = {}
        self.handlers: dict[str, FunctionType] = {}
        self.messages: dict[str, MessageType] = {}
        self.behaviours: dict[str, Behaviour] = {}
        initial: Any = np.zeros((), self.dtype)
        for name, value in vars(cls).items():
            if name in hints:
                try:
                    initial[name] = checked(f"{self.name}.{name}", self.dtype[name], value)
                except ValueError as error:
                    raise ArgumentError(f"{self.name}.{name} = {value!r}: {error}") from error
            elif isinstance(value, FunctionType):
                self._method(name, value, names, self.handlers)
            elif isinstance(value, type):
                self._behaviour(name, value, names)
            elif not (name.startswith("__") and name.endswith("__")):
                self._attribute(name, value)
        self.initial = initial
        if self.block_threads and self.grain != "block":
            raise ArgumentError(
                f"{self.name}.block_threads = {self.block_threads}, and its grain is "
                f'"{self.grain}"; threads of a block are for grain = "block"'
            )
        self._check_behaviours()
        if not self.messages:
            raise ArgumentError(
                f"actor {self.name} takes no message; give it a method whose second parameter has "
                "a message type as hint: def on_tick(self, m: Tick, ctx)"
            )
        self._made = True

    def _attribute(self, name: str, value: Any) -> None:
        if name in _CHOICES:
            if value not in _CHOICES[name]:
                known = ", ".join(f'"{c}"' for c in _CHOICES[name])
                raise ArgumentError(f"{self.name}.{name} = {value!r}; use one of {known}")
            setattr(self, name, value)
        elif name == "can_fail":
            self.can_fail = bool(value)
        elif name == "block_threads":
            if isinstance(value, bool) or value not in BLOCK_THREADS:
                raise ArgumentError(
                    f"{self.name}.block_threads = {value!r}; use a multiple of 32 from 64 to 512"
                )
            self.block_threads = value
        elif name == "deadline_ns":
            if not isinstance(value, int) or not 0 < value < 2**63:
                raise ArgumentError(f"{self.name}.deadline_ns = {value!r}; use whole ns from 1")
            self.deadline_ns = value
        elif isinstance(value, bool | int | float | np.number):
            self.constants[name] = value
        elif isinstance(value, staticmethod | classmethod | property):
            raise ArgumentError(
                f"{self.name}.{name} is a {type(value).__name__}; an actor has fields and "
                f"handlers, and what these call is a function outside of the class: def {name}(x)"
            )
        else:
            raise ArgumentError(
                f"{self.name}.{name} = {value!r:.60} is neither a number nor a declaration; a "
                f"field has a type: {name}: {_field_for(value)}"
            )

    def _behaviour(self, name: str, given: type, names: Mapping[str, Any]) -> None:
        made = self.behaviours[name] = Behaviour(self.name, name, 1 + len(self.behaviours))
        for attribute, value in vars(given).items():
            if isinstance(value, FunctionType) and attribute != "invariant":
                self._method(attribute, value, names, made.handlers)
            elif not (attribute.startswith("__") and attribute.endswith("__")):
                raise ArgumentError(
                    f"{self.name}.{name}.{attribute} is no handler; a behaviour has handlers, and "
                    "the actor the fields"
                )

    def _check_behaviours(self) -> None:
        """The actor's own handlers take what comes first, and what a behaviour has none for."""
        missing = [m for m in self.messages if m not in self.handlers]
        if missing:
            taker = next(b for b in self.behaviours.values() if missing[0] in b.handlers)
            raise ArgumentError(
                f"{self.name}.{taker.name} takes {missing[0]}, for which {self.name} has no "
                f"handler of its own: that is in force in a new actor; give it one, if with pass"
            )

    def __getattr__(self, name: str) -> Behaviour | FunctionType:
        """Door.Open, a behaviour by its name; Door.on_push, a handler by its method's."""
        found: Behaviour | None = self.__dict__.get("behaviours", {}).get(name)
        if found is not None:
            return found
        for handler in self.__dict__.get("handlers", {}).values():
            if handler.__name__ == name:
                return handler  # type: ignore[no-any-return]
        raise AttributeError(f"actor type {self.__dict__.get('name')} has no {name}")

    def functions(self) -> list[FunctionType]:
        """All that it is made of."""
        of = [self.handlers, *(b.handlers for b in self.behaviours.values())]
        found = [f for handlers in of for f in handlers.values()]
        return found if self.invariant is None else [*found, self.invariant]

    def _method(
        self,
        name: str,
        method: FunctionType,
        names: Mapping[str, Any],
        handlers: dict[str, FunctionType],
    ) -> None:
        code = method.__code__
        where = f"{code.co_filename}:{code.co_firstlineno}: {self.name}.{name}"
        parameters = list(inspect.signature(method).parameters)
        if name == "invariant":
            if len(parameters) != 1:
                raise ArgumentError(f"{where} takes its actor alone: def invariant(self)")
            self.invariant = method
            keep_text(method)
            return
        hint = hints_of(method, names).get(parameters[1]) if len(parameters) > 1 else None
        if name == "__init__":
            raise ArgumentError(
                f"{where} is no handler; a new actor begins with what its fields are given: "
                "sum: np.uint64 = 5, or ctx.spawn() gives it"
            )
        if not isinstance(hint, MessageType) or len(parameters) > 3:
            raise ArgumentError(
                f"{where} is no handler: one is def {name}(self, m: Message, ctx) or (self, m: "
                "Message), with a message type as hint; what handlers call is a function outside "
                "of the class"
            )
        if hint.name in handlers:
            other = handlers[hint.name].__name__
            raise ArgumentError(f"{where} takes {hint.name}, and so does {other}; use one of them")
        handlers[hint.name] = method
        keep_text(method)
        self.messages[hint.name] = hint

    def __repr__(self) -> str:
        takes = ", ".join(self.handlers)
        return f"<actor {self.name}: {fields_of(self.dtype)}; takes {takes}>"

    def _repr_html_(self) -> str:
        rows = [("state", fields_of(self.dtype))]
        rows += [(f.__name__, f"takes {message}") for message, f in self.handlers.items()]
        return html_table(f"actor {self.name}, {self.dtype.itemsize} bytes", rows)


def _field_for(value: Any) -> str:
    """A field that could begin with it."""
    cells = np.asarray(value) if isinstance(value, np.ndarray | tuple | list) else None
    if cells is None or cells.dtype.kind not in "iuf" or not cells.size:
        return "np.uint32 = 0"
    shape = str(cells.shape[0]) if cells.ndim == 1 else str(cells.shape)
    return f"(np.{cells.dtype}, {shape}) = ..."


def actor(cls: type) -> ActorType:
    """A decorator: makes an actor type of a class with fields and handlers.

    Raises ArgumentError, with the method's file and line, for what is neither a field, a
    declaration, a constant nor a handler.
    """
    check_class(cls, "actor")
    return ActorType(cls, caller_names(1))
