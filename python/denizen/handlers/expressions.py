# SPDX-License-Identifier: Apache-2.0
"""Expressions of a handler, as calls of ops.py; names from outside are looked up."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from denizen.handlers import ops
from denizen.handlers.refused import REFUSED, Refusing

PREFIX = "dz_"  # of the names that are put in
MOST_FACTORS = 16  # of x ** n
_TESTS = (("true", 1), *((f"m_{name}", 1) for name in ops.ASKS))

_BINARY: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "truediv",
    ast.FloorDiv: "floordiv",
    ast.Mod: "mod",
    ast.LShift: "lshift",
    ast.RShift: "rshift",
    ast.BitAnd: "and_",
    ast.BitOr: "or_",
    ast.BitXor: "xor",
}
_COMPARE: dict[type[ast.cmpop], str] = {
    ast.Lt: "lt",
    ast.LtE: "le",
    ast.Gt: "gt",
    ast.GtE: "ge",
    ast.Eq: "eq",
    ast.NotEq: "ne",
}
# What does not change, by the kind of function and the place of its parameter.
_FIXED = {
    ("handler", 1): "what came stays as it is; make a new message with other fields",
    ("task", 0): "a task's fields stay as they are; use a local, or a new task",
    ("kind", 0): "a block's parameters stay as they are; the host posts new ones",
}


class Expressions(Refusing):
    """The rewriting of one function's expressions, all but calls."""

    _of: str  # "actor", "task" or "kind": what the program is made of
    _kind: str  # "handler", "invariant", "task", "kind" or "function"
    _parameters: list[str]
    _locals: set[str]
    _constants: Mapping[str, Any]  # of the class
    _scope: dict[str, Any]  # the names from outside
    before = 0  # samples, of a kind
    inputs = 1  # so many of its parameters; those behind are outputs
    parts: Sequence[str] = ()  # of what it makes

    def _call(self, e: ast.Call) -> ast.expr:
        raise NotImplementedError

    def _known(self, callee: Any) -> tuple[str, int] | None:
        raise NotImplementedError

    def _op(self, name: str, *arguments: ast.expr) -> ast.expr:
        return ast.Call(ast.Name(PREFIX + name, ast.Load()), list(arguments), [])

    def _condition(self, e: ast.expr) -> ast.expr:
        if isinstance(e, ast.BoolOp):
            return ast.BoolOp(e.op, [self._condition(v) for v in e.values])
        if isinstance(e, ast.Constant) and e.value in (True, 1):
            return ast.Constant(True)  # so that no way leads out of `while True`
        return self._op("true", self._expression(e))

    def _one_of(self, e: ast.BoolOp) -> ast.expr:
        """Of `a or b` the first that holds, of `a and b` the first that does not, else the last."""
        if all(self._is_condition(v) for v in e.values):
            return self._condition(e)
        out = self._expression(e.values[-1])
        for value in reversed(e.values[:-1]):
            self._pure(value, f"{ast.unparse(e)}, where a value comes of a call")
            test, here = self._condition(value), self._expression(value)
            first, second = (here, out) if isinstance(e.op, ast.Or) else (out, here)
            out = ast.IfExp(test, first, second)
        return out

    def _is_condition(self, e: ast.expr) -> bool:
        """Whether its value is True or False, as far as its form says."""
        match e:
            case ast.Compare() | ast.UnaryOp(op=ast.Not()) | ast.Constant(value=bool()):
                return True
            case ast.BoolOp(values=values):
                return all(self._is_condition(v) for v in values)
            case ast.Call(func=func) if not self._is_local(func):
                return self._known(self._outside(func)) in _TESTS
        return False

    def _pure(self, e: ast.expr, what: str) -> None:
        """Refuses what must not be computed twice."""
        for node in ast.walk(e):
            if isinstance(node, ast.Call) and (
                self._is_local(node.func) or self._known(self._outside(node.func)) is None
            ):
                self._refuse(e, f"{what}; assign it to a name before")

    def _element(self, e: ast.expr) -> Any:
        """An element of what is outside, at places that are known."""
        match e:
            case ast.Subscript(value=value, slice=place):
                owner = self._element(value)
                try:
                    at = ast.literal_eval(place)
                except ValueError:
                    at = None
                if at is None or not isinstance(owner, tuple | list | dict | np.ndarray):
                    shown = ast.unparse(value)
                    self._refuse(
                        e,
                        f"{ast.unparse(e)} with {shown} from outside; give the actor a field that "
                        f"begins with it, as table: (np.float32, 8) = {shown}, and use self.table",
                    )
                try:
                    return owner[at]
                except (LookupError, TypeError) as error:
                    self._wrong(e, f"{ast.unparse(e)}: {error}")
        return self._outside(e)

    def _power(self, node: ast.expr, base: ast.expr, exponent: ast.expr) -> ast.expr:
        """Whole exponents are products, which wrap; a float's is math.pow()."""
        if not self._is_local(exponent) and isinstance(exponent, ast.Name | ast.Attribute):
            exponent = ast.copy_location(ast.Constant(self._outside(exponent)), exponent)
        to = exponent.value if isinstance(exponent, ast.Constant) else None
        match exponent:
            case ast.UnaryOp(ast.USub(), ast.Constant(float(least))):
                to = -least
        if (
            isinstance(base, ast.Constant)
            and type(base.value) is type(to) is int
            and 0 <= to < 1000
        ):
            return self._constant(node, base.value**to)
        if type(to) is float:
            return self._op("m_pow", self._expression(base), ast.Constant(to))
        if type(to) is not int or not 1 <= to <= MOST_FACTORS:
            self._refuse(
                node,
                f"** with this exponent; use a number from 1 to {MOST_FACTORS}, a float, "
                "1 << n for 2 ** n, or math.pow(x, y)",
            )
        self._pure(base, f"** of {ast.unparse(base)}")
        out = self._expression(base)
        for _ in range(to - 1):
            out = self._op("mul", out, self._expression(base))
        return out

    def _expression(self, e: ast.expr) -> ast.expr:
        new = self._new_expression(e)
        for node in ast.walk(new):
            if "lineno" in node._attributes and not hasattr(node, "lineno"):
                ast.copy_location(node, e)
        return new

    def _new_expression(self, e: ast.expr) -> ast.expr:
        match e:
            case ast.Constant():
                return self._constant(e, e.value)
            case ast.Name(id=name):
                if name in self._locals:
                    return e
                return self._constant(e, self._outside(e))
            case ast.Attribute():
                return self._attribute(e)
            case ast.Subscript():
                if not self._is_local(e):
                    return self._constant(e, self._element(e))
                cells, index = self._cell(e)
                return self._op("get", cells, index)
            case ast.BinOp(op=ast.Pow()):
                return self._power(e, e.left, e.right)
            case ast.BinOp():
                return self._binary(e, e.op, self._expression(e.left), self._expression(e.right))
            case ast.UnaryOp(op=ast.Not()):
                return ast.UnaryOp(ast.Not(), self._condition(e.operand))
            case ast.UnaryOp(op=ast.UAdd()):
                return self._expression(e.operand)
            case ast.UnaryOp(op=ast.USub()):
                inner = self._expression(e.operand)
                if isinstance(inner, ast.Constant) and type(inner.value) in (int, float):
                    return ast.Constant(-inner.value)  # type: ignore[operator]
                return self._op("neg", inner)
            case ast.UnaryOp(op=ast.Invert()):
                return self._op("invert", self._expression(e.operand))
            case ast.BoolOp():
                return self._one_of(e)
            case ast.Compare():
                return self._comparison(e)
            case ast.IfExp():
                return ast.IfExp(
                    self._condition(e.test), self._expression(e.body), self._expression(e.orelse)
                )
            case ast.Call():
                return self._call(e)
        self._unknown(e)

    def _constant(self, node: ast.expr, value: Any) -> ast.expr:
        if isinstance(value, np.bool_ | np.integer | np.floating):
            value = value.item()
        if isinstance(value, bool | float):
            return ast.Constant(value)
        if isinstance(value, int):
            if not -(2**63) <= value < 2**64:
                self._refuse(node, f"{value}; whole numbers have 64 bits")
            value = int(value)  # of an enumeration
            return ast.Constant(value) if value < 2**63 else self._op("to_u8", ast.Constant(value))
        if isinstance(value, str):
            self._refuse(node, REFUSED[ast.JoinedStr])
        if isinstance(value, complex | np.complexfloating):
            self._refuse(node, "a complex number; assign the parts of a field: self.z.real = 1.0")
        if value is None:
            self._refuse(node, "None; use a number that stands for it, such as -1, or a bool")
        shown = ast.unparse(node)
        self._refuse(
            node,
            f"{shown}, which is {value!r:.60}; what it may use from outside are numbers, message "
            "types and functions",
        )

    def _outside(self, e: ast.expr) -> Any:
        """What a name, or a name and attributes, from outside stands for."""
        match e:
            case ast.Name(id=name):
                if name in self._locals:
                    return None
                if name in self._scope:
                    return self._scope[name]
                if hasattr(builtins, name):
                    return getattr(builtins, name)
                self._wrong(e, f"{name} is not defined")
            case ast.Attribute(value=ast.Call(func=func, args=[kind]), attr=attr):
                limits = None if self._is_local(func) else self._outside(func)
                if limits in (np.iinfo, np.finfo):
                    found = limits(self._outside(kind))
                    if not hasattr(found, attr):
                        self._wrong(e, f"{ast.unparse(e.value)} has no {attr}")
                    return getattr(found, attr)
            case ast.Attribute(value=value, attr=attr):
                root = value
                while isinstance(root, ast.Attribute):
                    root = root.value
                if not isinstance(root, ast.Name) or root.id in self._locals:
                    return None
                owner = self._outside(value)
                if not hasattr(owner, attr):
                    self._wrong(e, f"{ast.unparse(value)} has no {attr}")
                return getattr(owner, attr)
        return None

    def _is_local(self, e: ast.expr) -> bool:
        while isinstance(e, ast.Attribute | ast.Subscript):
            e = e.value
        return isinstance(e, ast.Name) and e.id in self._locals

    def _not_fixed(self, target: ast.expr) -> None:
        for (kind, place), what in _FIXED.items():
            if kind == self._kind and self._begins_with(target, self._parameters[place]):
                self._wrong(target, what)
        if self._kind == "kind" and any(self._begins_with(target, x) for x in self._taken()):
            made = self._outputs()[0]
            self._wrong(target, f"what a block gets stays as it is; {made}[0] is what it makes")

    def _taken(self) -> list[str]:
        """A kind's inputs."""
        return self._parameters[1 : 1 + self.inputs]

    def _outputs(self) -> list[str]:
        """A kind's, by their parameters."""
        return self._parameters[1 + self.inputs :]

    def _begins_with(self, e: ast.expr, name: str) -> bool:
        while isinstance(e, ast.Attribute | ast.Subscript):
            e = e.value
        return isinstance(e, ast.Name) and e.id == name

    def _attribute(self, e: ast.Attribute) -> ast.expr:
        if not self._is_local(e):
            found = self._outside(e)
            if found is None:
                self._refuse(e, f"{ast.unparse(e)}; assign {ast.unparse(e.value)} to a name before")
            return self._constant(e, found)
        own = isinstance(e.value, ast.Name) and e.value.id == self._parameters[0]
        if own and self._kind != "function" and e.attr in self._constants:
            return self._constant(e, self._constants[e.attr])
        return ast.Attribute(self._place(e.value), e.attr, ast.Load())

    def _place(self, e: ast.expr) -> ast.expr:
        """What has fields or elements: a local, or a part of one."""
        if not self._is_local(e):
            self._refuse(
                e, f"{ast.unparse(e)}, which is from outside; what it changes are fields of self"
            )
        return self._expression(e)

    def _cell(self, e: ast.Subscript) -> tuple[ast.expr, ast.expr]:
        cells = self._place(e.value)
        if isinstance(e.slice, ast.Constant) and isinstance(e.slice.value, str):
            self._refuse(e, f"a name as a place; write {ast.unparse(e.value)}.{e.slice.value}")
        places = e.slice.elts if isinstance(e.slice, ast.Tuple) else [e.slice]
        for place in places[:-1]:
            cells = self._op("get", cells, self._op("index", self._expression(place)))
        last = self._expression(places[-1])
        if self._kind == "kind" and isinstance(e.value, ast.Name):
            self._sample(e, e.value.id, last)
        return cells, self._op("index", last)

    def _sample(self, e: ast.Subscript, stream: str, place: ast.expr) -> None:
        """A constant place of a kind's stream is one that is there."""
        if stream not in self._parameters[1:]:
            return
        least = -self.before if stream in self._taken() else 0
        if isinstance(place, ast.Constant) and not least <= place.value <= 0:  # type: ignore[operator]
            there = f"{stream}[{least}] to {stream}[0], by `before`" if least else f"{stream}[0]"
            self._wrong(e, f"{ast.unparse(e)} is not there; what is there is {there}")

    def _binary(self, node: ast.AST, op: ast.operator, a: ast.expr, b: ast.expr) -> ast.expr:
        name = _BINARY.get(type(op))
        if name is None:
            power = isinstance(op, ast.Pow)
            self._refuse(
                node, "**=; write x = x ** 2" if power else "@; use a loop over the elements"
            )
        return self._op(name, a, b)

    def _comparison(self, e: ast.Compare) -> ast.expr:
        if any(isinstance(op, ast.Is | ast.IsNot) for op in e.ops):
            self._refuse(e, "is; a field always has a value: compare numbers with ==")
        if any(isinstance(op, ast.In | ast.NotIn) for op in e.ops):
            return self._contained(e)
        given = [e.left, *e.comparators]
        for middle in given[1:-1]:
            self._pure(middle, "a < b < c where b comes of a call")
        tests: list[ast.expr] = []
        for op, a, b in zip(e.ops, given, given[1:], strict=False):
            tests.append(self._op(_COMPARE[type(op)], self._expression(a), self._expression(b)))
        return tests[0] if len(tests) == 1 else ast.BoolOp(ast.And(), tests)

    def _contained(self, e: ast.Compare) -> ast.expr:
        """x in (1, 2)"""
        where = e.comparators[0]
        outside = self._outside(where) if isinstance(where, ast.Name | ast.Attribute) else None
        if isinstance(outside, tuple | list | set | frozenset) and len(outside) <= MOST_FACTORS:
            elements = [ast.copy_location(ast.Constant(x), where) for x in outside]
            where = ast.Tuple(list[ast.expr](elements), ast.Load())
        if len(e.ops) > 1 or not isinstance(where, ast.Tuple | ast.List | ast.Set):
            self._refuse(e, "in, but for x in (1, 2); write a <= x and x < b, or a loop")
        self._pure(e.left, f"{ast.unparse(e.left)} in ..., which comes of a call")
        equal = [self._op("eq", self._expression(e.left), self._expression(x)) for x in where.elts]
        found = ast.BoolOp(ast.Or(), equal) if len(equal) > 1 else [*equal, ast.Constant(False)][0]
        return ast.UnaryOp(ast.Not(), found) if isinstance(e.ops[0], ast.NotIn) else found
