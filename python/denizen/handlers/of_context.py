# SPDX-License-Identifier: Apache-2.0
"""What a handler or a task does with its context: each call of ctx becomes a call of ops.py."""

from __future__ import annotations

import ast
import difflib
from typing import TYPE_CHECKING, Any, cast

from denizen.actor import BEHAVIOUR, ActorType, Behaviour
from denizen.handlers import collectives, ops, teams
from denizen.handlers.calls import ELEMENTS, Call
from denizen.handlers.generator import next_random
from denizen.handlers.instead import instead_of_method
from denizen.handlers.statements import Statements
from denizen.handlers.topic_key import topic_words

if TYPE_CHECKING:
    from types import FunctionType

    from denizen.handlers.rewrite import Rewriter, Rewritten

_NEXT_RANDOM = cast("FunctionType", next_random)


class OfContext(Statements):
    """The rewriting of one function's uses of its context."""

    _program: Rewriter
    _actor: ActorType | None  # whose handler it is
    _parameters: list[str]
    _out: Rewritten

    def _attribute(self, e: ast.Attribute) -> ast.expr:
        if self._is_context(e.value) and e.attr not in self._program.values:
            if e.attr in self._program.calls:
                self._wrong(e, f"ctx.{e.attr} is a call: write ctx.{e.attr}(...)")
            known = ", ".join((*self._program.values, *self._program.calls))
            instead = self._program.instead.get(e.attr)
            way = f"use {instead}" if instead else f"it has {known}"
            self._wrong(e, f"ctx has no {e.attr}; {way}")
        return super()._attribute(e)

    def _of_context(self, e: ast.Call, callee: ast.Attribute) -> ast.expr:
        name = callee.attr
        calls = self._program.calls
        if name in self._program.values:
            self._wrong(e, f"ctx.{name} is a value: write it without ()")
        call = calls.get(name)
        if call is None or not isinstance(callee.value, ast.Name):
            if name in self._program.instead:
                self._refuse(e, f"{ast.unparse(callee)}(); use {self._program.instead[name]}")
            if not self._is_context(callee.value):
                self._refuse(e, instead_of_method(callee))
            of = f", or of ctx: {', '.join(calls)}" if calls else ""
            near = difflib.get_close_matches(name, [*calls, *self._program.values], 1)
            if near:
                of = f"; of ctx there is {near[0]}"
            self._refuse(
                e, f"{ast.unparse(callee)}(); what it calls is a function outside of the class{of}"
            )
        if e.keywords:
            self._refuse(e, "arguments by name; give them in order")
        self._out.calls.setdefault(name, e.lineno)
        if not call.least <= len(e.args) <= call.most:
            self._wrong(e, f"ctx.{name} takes {call.takes}")
        if name in ("publish", "subscribe", "unsubscribe"):
            words = self._topic_words(e, name)
            rest = [self._expression(a) for a in e.args[1:]]
            return self._op(f"ctx_{name}", callee.value, *words, *rest)
        if name in teams.CALLS:
            value, way = e.args
            combine = way.value if isinstance(way, ast.Constant) else None
            if combine not in teams.WAYS:
                self._wrong(e, f"ctx.{name} takes {call.takes}")
            return self._op(f"ctx_{name}_{combine}", callee.value, self._expression(value))
        if name in ops.TYPED:
            *given, kind = e.args
            code = ELEMENTS.get(self._outside(kind))
            if code is None:
                self._wrong(e, f"ctx.{name} takes {call.takes}")
            self._out.elements.add(code)
            arguments = [self._expression(a) for a in given]
            return self._op(f"ctx_{name}_{code}", callee.value, *arguments)
        if name in collectives.KINDS and name != "barrier":
            return self._collective(e, callee.value, name, call)
        if name == "random":
            return self._random(e)
        if name == "become":
            return self._become(e)
        left = call.defaults[len(e.args) - call.least :]
        arguments = [self._expression(a) for a in e.args] + [ast.Constant(d) for d in left]
        return self._op(f"ctx_{call.op or name}", callee.value, *arguments)

    def _collective(self, e: ast.Call, ctx: ast.expr, name: str, call: Call) -> ast.expr:
        rank, x, out = (self._expression(a) for a in e.args[:3])
        more = e.args[3] if len(e.args) > 3 else ast.Constant("sum")
        how = more.value if isinstance(more, ast.Constant) else None
        root: ast.expr = ast.Constant(0)
        if name == "broadcast":
            root, how = self._expression(more), "sum"
        if how not in collectives.REDUCTIONS:
            self._wrong(e, f"ctx.{name} takes {call.takes}")
        kind = ast.Constant(collectives.KINDS.index(name))
        by = ast.Constant(collectives.REDUCTIONS.index(how))
        return self._op(f"ctx_{collectives.OPERATION}", ctx, rank, kind, by, root, x, out)

    def _is_context(self, e: ast.expr) -> bool:
        place = {"handler": 2, "task": 1}.get(self._kind)
        if not isinstance(e, ast.Name) or place is None:  # a function may get it by any name
            return isinstance(e, ast.Name) and e.id == "ctx"
        return len(self._parameters) > place and e.id == self._parameters[place]

    def _become(self, e: ast.Call) -> ast.expr:
        """The field that says which behaviour is in force gets another number."""
        if self._actor is None:
            self._refuse(e, "ctx.become() outside of a handler; call it there")
        wanted, own = e.args[0], self._actor
        given: Any = None
        if isinstance(wanted, ast.Attribute) and self._is_local(wanted):
            if self._begins_with(wanted, self._parameters[0]):
                given = own.behaviours.get(wanted.attr)
        else:
            given = self._outside(wanted)
        if given is not own and given not in own.behaviours.values():
            known = ", ".join(own.behaviours) or "none: a behaviour is a class within the actor's"
            self._wrong(
                e, f"{ast.unparse(wanted)} is no behaviour of {own.name}, which has {known}"
            )
        number = given.number if isinstance(given, Behaviour) else 0
        state = ast.Name(self._parameters[0], ast.Load())
        place = ast.Attribute(state, ops.PLACE + BEHAVIOUR, ast.Load())
        return self._op("store", place, ast.Constant(number))

    def _random(self, e: ast.Call) -> ast.expr:
        """The next number of the generator whose state is the actor's field `random`."""
        if self._kind != "handler":
            self._refuse(e, "ctx.random() in a function; give it the number")
        inner = self._program.function(_NEXT_RANDOM, f"{self._path}:{e.lineno}")
        self._out.functions[inner.alias] = inner
        state = ast.Name(self._parameters[0], ast.Load())
        return ast.Call(ast.Name(inner.alias, ast.Load()), [state], [])

    def _topic_words(self, e: ast.Call, name: str) -> list[ast.expr]:
        topic = e.args[0]
        if isinstance(topic, ast.Name | ast.Attribute):
            value = self._outside(topic)
        else:
            value = topic.value if isinstance(topic, ast.Constant) else None
        if not isinstance(value, str):
            self._wrong(e, f'ctx.{name} takes a topic as text that is known now: "market/EURUSD"')
        words = topic_words(value, pattern=name != "publish")
        if isinstance(words, str):
            self._wrong(e, f'the topic "{value}" {words}')
        return [ast.Constant(w) for w in words]
