# SPDX-License-Identifier: Apache-2.0
"""Expressions of a handler, as calls of ops.py; names from outside are looked up."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Mapping
from typing import Any

import numpy as np

from denizen.handlers.refused import REFUSED, Refusing

PREFIX = "dz_"  # of the names that are put in

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
    ("kind", 1): "what a block gets stays as it is; y[0] is what it makes",
}


class Expressions(Refusing):
    """The rewriting of one function's expressions, all but calls."""

    _of: str  # "actor", "task" or "kind": what the program is made of
    _kind: str  # "handler", "invariant", "task", "kind" or "function"
    _parameters: list[str]
    _locals: set[str]
    _constants: Mapping[str, Any]  # of the class
    _scope: dict[str, Any]  # the names from outside

    def _call(self, e: ast.Call) -> ast.expr:
        raise NotImplementedError

    def _op(self, name: str, *arguments: ast.expr) -> ast.expr:
        return ast.Call(ast.Name(PREFIX + name, ast.Load()), list(arguments), [])

    def _condition(self, e: ast.expr) -> ast.expr:
        return self._op("true", self._expression(e))

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
                cells, index = self._cell(e)
                return self._op("get", cells, index)
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
                return ast.BoolOp(e.op, [self._condition(v) for v in e.values])
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

    def _begins_with(self, e: ast.expr, name: str) -> bool:
        while isinstance(e, ast.Attribute | ast.Subscript):
            e = e.value
        return isinstance(e, ast.Name) and e.id == name

    def _attribute(self, e: ast.Attribute) -> ast.expr:
        if not self._is_local(e):
            return self._constant(e, self._outside(e))
        own = isinstance(e.value, ast.Name) and e.value.id == self._parameters[0]
        if own and self._kind != "function" and e.attr in self._constants:
            return self._constant(e, self._constants[e.attr])
        return ast.Attribute(self._place(e.value), e.attr, ast.Load())

    def _place(self, e: ast.expr) -> ast.expr:
        """What has fields or elements: a local, or a part of one."""
        if not self._is_local(e):
            self._refuse(e, "that; only locals have fields and elements")
        return self._expression(e)

    def _cell(self, e: ast.Subscript) -> tuple[ast.expr, ast.expr]:
        cells = self._place(e.value)
        places = e.slice.elts if isinstance(e.slice, ast.Tuple) else [e.slice]
        for place in places[:-1]:
            cells = self._op("get", cells, self._op("index", self._expression(place)))
        return cells, self._op("index", self._expression(places[-1]))

    def _binary(self, node: ast.AST, op: ast.operator, a: ast.expr, b: ast.expr) -> ast.expr:
        name = _BINARY.get(type(op))
        if name is None:
            self._refuse(node, "** or @; use math.pow(x, y), or x * x")
        return self._op(name, a, b)

    def _comparison(self, e: ast.Compare) -> ast.expr:
        if any(type(op) not in _COMPARE for op in e.ops):
            self._refuse(e, "is or in; compare numbers with ==")
        parts = [self._expression(x) for x in (e.left, *e.comparators)]
        if any(not isinstance(p, ast.Name | ast.Constant) for p in parts[1:-1]):
            self._refuse(e, "a < b < c where b is computed; write a < b and b < c")
        tests: list[ast.expr] = []
        for op, a, b in zip(e.ops, parts, parts[1:], strict=False):
            tests.append(self._op(_COMPARE[type(op)], a, b))
        return tests[0] if len(tests) == 1 else ast.BoolOp(ast.And(), tests)
