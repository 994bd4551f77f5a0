# SPDX-License-Identifier: Apache-2.0
"""Statements of a handler: loops, conditions and assignments, which become calls of ops.py."""

from __future__ import annotations

import ast

from denizen.handlers import ops
from denizen.handlers.expressions import PREFIX, Expressions

_ANSWERS = {"handler": "ctx.reply(...)", "task": "ctx.set(...)"}


class Statements(Expressions):
    """The rewriting of one function's statements."""

    _temporaries = 0  # names that were put in

    def _is_context(self, e: ast.expr) -> bool:
        raise NotImplementedError

    def _block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        out = [new for s in statements for new in self._statement(s)]
        return out or [ast.Pass()]

    def _statement(self, s: ast.stmt) -> list[ast.stmt]:
        made = self._made(s)
        for new in made:
            for node in ast.walk(new):
                if "lineno" in node._attributes and not hasattr(node, "lineno"):
                    ast.copy_location(node, s)
        return made

    def _made(self, s: ast.stmt) -> list[ast.stmt]:
        match s:
            case ast.Pass() | ast.Break() | ast.Continue():
                return [s]
            case ast.Expr(value=ast.Constant(value=str())):
                return []  # a docstring
            case ast.Expr(value=value):
                return [ast.Expr(self._expression(value))]
            case ast.Return(value=value):
                return [self._returned(s, value)]
            case ast.If():
                test = self._condition(s.test)
                return [ast.If(test, self._block(s.body), self._else(s.orelse))]
            case ast.While():
                if s.orelse:
                    self._refuse(s, "else of a loop; use a name that says how it ended")
                return [ast.While(self._condition(s.test), self._block(s.body), [])]
            case ast.For():
                return self._loop(s)
            case ast.Assign():
                if len(s.targets) == 1:
                    return self._assigned(s.targets[0], s.value)
                if any(isinstance(t, ast.Tuple) for t in s.targets):
                    self._refuse(s, "a, b = c = ...; assign on two lines")
                name = self._temporary()
                out = [self._store(name, self._expression(s.value))]
                for t in s.targets:
                    out += self._to(t, ast.Name(name, ast.Load()))
                return out
            case ast.AugAssign():
                return self._augmented(s)
        self._unknown(s)

    def _else(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        return self._block(statements) if statements else []

    def _returned(self, s: ast.stmt, value: ast.expr | None) -> ast.stmt:
        none = value is None or (isinstance(value, ast.Constant) and value.value is None)
        if self._kind in (*_ANSWERS, "kind"):
            if not none:
                own = self._kind == "task" and self._of == "actor"
                kind = "handler" if own else self._kind
                answer = _ANSWERS.get(kind) or f"{self._outputs()[0]}[0] = ..."
                self._refuse(s, f"return with a value; {answer} answers")
            return ast.Return(None)
        if none:
            if self._kind == "invariant":
                self._refuse(s, "return without a value in invariant(); return True or False")
            return ast.Return(None)
        assert value is not None
        if self._kind == "invariant":
            return ast.Return(self._condition(value))
        return ast.Return(self._expression(value))

    def _loop(self, s: ast.For) -> list[ast.stmt]:
        if s.orelse:
            self._refuse(s, "else of a loop; use a name that says how it ended")
        call = s.iter
        callee = None
        if isinstance(call, ast.Call) and not self._is_local(call.func):
            callee = self._outside(call.func)
        if isinstance(call, ast.Call) and callee is range:
            if not isinstance(s.target, ast.Name):
                self._refuse(s, "several names in a loop over range(); use one")
            if call.keywords or not 1 <= len(call.args) <= 3:
                self._refuse(s, "range() with these arguments; use range(begin, end, step)")
            bounds: list[ast.expr] = [self._op("index", self._expression(a)) for a in call.args[:2]]
            if len(call.args) == 3:
                step = self._expression(call.args[2])
                if not (isinstance(step, ast.Constant) and type(step.value) is int and step.value):
                    self._refuse(s, "a step that is no constant; use while")
                bounds.append(step)
            body = self._block(s.body)
            return [*self._bounded(bounds), self._over(s.target, bounds, body)]
        return self._elements(s, callee)

    def _over(self, target: ast.expr, bounds: list[ast.expr], body: list[ast.stmt]) -> ast.stmt:
        return ast.For(target, ast.Call(ast.Name("range", ast.Load()), bounds, []), body, [])

    def _bounded(self, bounds: list[ast.expr]) -> list[ast.stmt]:
        """What comes before a loop over a range whose begin is not 0."""
        if len(bounds) < 2:
            return []
        name = self._temporary()
        before = self._store(name, bounds[0])
        match bounds[2:]:
            case [ast.Constant(int(step))]:
                down = step < 0
            case _:
                down = False
        bounds[0] = ast.Name(name, ast.Load())
        bounds[1] = self._op("downto" if down else "upto", bounds[0], bounds[1])
        return [before]

    def _elements(self, s: ast.For, callee: object) -> list[ast.stmt]:
        """`for x in a`, `for i, x in enumerate(a)`, `for x, y in zip(a, b)`: by their places."""
        arrays, targets = [s.iter], [s.target]
        if isinstance(s.iter, ast.Call):
            arrays = list(s.iter.args)
            targets = list(s.target.elts) if isinstance(s.target, ast.Tuple) else [s.target]
        count = targets.pop(0) if callee is enumerate and targets else None
        if (
            (isinstance(s.iter, ast.Call) and (callee not in (enumerate, zip) or s.iter.keywords))
            or not arrays
            or len(arrays) != len(targets)
            or not all(self._is_local(a) for a in arrays)
            or not all(isinstance(t, ast.Name) for t in (*targets, *([count] if count else [])))
        ):
            if callee is reversed:
                self._refuse(s, "reversed(); use range(n - 1, -1, -1)")
            self._refuse(
                s,
                "this loop; what it may go over are range(), an array that is a field or a local, "
                "enumerate(array) and zip(array, other)",
            )
        names = [self._temporary() for _ in arrays]
        out: list[ast.stmt] = [
            self._store(n, self._place(a)) for n, a in zip(names, arrays, strict=True)
        ]
        lengths = [self._op("length", ast.Name(n, ast.Load())) for n in names]
        least = lengths[0]
        for more in lengths[1:]:
            least = self._op("min_", least, more)
        place = self._temporary()
        body: list[ast.stmt] = []
        if count is not None:
            body.append(ast.Assign([count], ast.Name(place, ast.Load())))
        for target, name in zip(targets, names, strict=True):
            element = self._op("get", ast.Name(name, ast.Load()), ast.Name(place, ast.Load()))
            body.append(ast.Assign([target], element))
        bounds = [self._op("index", least)]
        out.append(self._over(ast.Name(place, ast.Store()), bounds, body + self._block(s.body)))
        return out

    def _assigned(self, target: ast.expr, value: ast.expr) -> list[ast.stmt]:
        if isinstance(target, ast.Tuple):
            if not isinstance(value, ast.Tuple) or len(value.elts) != len(target.elts):
                self._refuse(
                    target,
                    "a, b = ... of one value; on the right side are as many values, and a function "
                    "returns one: call one for each, or give it an array to write to",
                )
            names = [self._temporary() for _ in target.elts]
            out = [
                self._store(name, self._expression(v))
                for name, v in zip(names, value.elts, strict=True)
            ]
            for t, name in zip(target.elts, names, strict=True):
                out += self._to(t, ast.Name(name, ast.Load()))
            return out
        return self._to(target, self._expression(value))

    def _to(self, target: ast.expr, value: ast.expr) -> list[ast.stmt]:
        """Assigns what is rewritten already."""
        match target:
            case ast.Name():
                return [ast.Assign([target], value)]
            case ast.Attribute():
                if self._is_context(target.value):
                    self._wrong(target, f"{ast.unparse(target)} = ...: state is in fields of self")
                self._not_constant(target)
                return [self._store_field(self._place(target.value), target.attr, value)]
            case ast.Subscript():
                self._not_fixed(target)
                cells, index = self._cell(target)
                return [ast.Expr(self._op("put", cells, index, value))]
        self._unknown(target)

    def _augmented(self, s: ast.AugAssign) -> list[ast.stmt]:
        value = self._expression(s.value)
        match s.target:
            case ast.Name(id=name):
                old: ast.expr = ast.Name(name, ast.Load())
                return [self._store(name, self._binary(s, s.op, old, value))]
            case ast.Attribute():
                self._not_constant(s.target)
                name = self._temporary()
                before = self._store(name, self._place(s.target.value))
                place = ast.Name(name, ast.Load())
                new = self._binary(s, s.op, ast.Attribute(place, s.target.attr, ast.Load()), value)
                return [before, self._store_field(place, s.target.attr, new)]
            case ast.Subscript():
                self._not_fixed(s.target)
                cells, index = self._cell(s.target)
                names = self._temporary(), self._temporary()
                first, second = (ast.Name(n, ast.Load()) for n in names)
                new = self._binary(s, s.op, self._op("get", first, second), value)
                return [
                    self._store(names[0], cells),
                    self._store(names[1], index),
                    ast.Expr(self._op("put", first, second, new)),
                ]
        self._unknown(s.target)

    def _store_field(self, record: ast.expr, name: str, value: ast.expr) -> ast.stmt:
        """Not record.name = value, which Numba would convert by rules of its own."""
        place = ast.Attribute(record, ops.PLACE + name, ast.Load())
        return ast.Expr(self._op("store", place, value))

    def _store(self, name: str, value: ast.expr) -> ast.stmt:
        return ast.Assign([ast.Name(name, ast.Store())], value)

    def _temporary(self) -> str:
        self._temporaries += 1
        return f"{PREFIX}{self._temporaries}"

    def _not_constant(self, target: ast.Attribute) -> None:
        self._not_fixed(target)
        own = isinstance(target.value, ast.Name) and target.value.id == self._parameters[0]
        if own and self._kind != "function" and target.attr in self._constants:
            self._wrong(
                target,
                f"{target.attr} is a constant of the class; a field has a type: "
                f"{target.attr}: np.int64 = {self._constants[target.attr]!r}",
            )
