# SPDX-License-Identifier: Apache-2.0
"""A local that is read has been assigned, whichever way a handler came there.

Python finds that out as it runs, and a compiled handler would read whatever lies there.
"""

from __future__ import annotations

import ast
from typing import Any, NoReturn, Protocol


class _Refuses(Protocol):
    def _wrong(self, node: ast.AST, what: str) -> NoReturn: ...
    def _outside(self, e: ast.expr) -> Any: ...


_Names = frozenset[str]


def check_assigned(function: ast.FunctionDef, names: set[str], refuse: _Refuses) -> None:
    """Refuses to read one of ``names``, the locals, where it may not have been assigned."""
    ways = _Ways(frozenset(names), refuse)
    end = ways.block(function.body, frozenset())
    gives = [s for s in ways.returns if s.value is not None]
    if gives and (end is not None or len(gives) < len(ways.returns)):
        refuse._wrong(
            gives[0],
            f"{function.name} returns a value here and none on another way; return one on each",
        )


class _Ways:
    """Follows the ways through a function. What is assigned is a set of names, None where no way
    leads."""

    def __init__(self, names: _Names, refuse: _Refuses) -> None:
        self._names = names
        self._refuse = refuse
        self.returns: list[ast.Return] = []  # those that a way leads to
        self._breaks: list[list[_Names]] = []  # of each loop around
        self._turns: list[list[_Names]] = []  # likewise, where it goes on with the next turn

    def block(self, statements: list[ast.stmt], there: _Names | None) -> _Names | None:
        for s in statements:
            if there is None:  # behind a return
                return None
            there = self._statement(s, there)
        return there

    def _statement(self, s: ast.stmt, there: _Names) -> _Names | None:
        match s:
            case ast.If():
                self._read(s.test, there)
                ways = [self.block(s.body, there), self.block(s.orelse, there)]
                return _in_all(ways)
            case ast.While():
                self._read(s.test, there)
                breaks, _ = self._turn(s.body, there)
                always = isinstance(s.test, ast.Constant) and bool(s.test.value)
                return _in_all([*breaks, *([] if always else [there])])
            case ast.For():
                self._read(s.iter, there)
                targets = {n.id for n in ast.walk(s.target) if isinstance(n, ast.Name)}
                breaks, ends = self._turn(s.body, there | targets)
                return _in_all([*breaks, *(ends if self._runs(s.iter) else [there])])
            case ast.Return():
                self.returns.append(s)
                if s.value is not None:
                    self._read(s.value, there)
                return None
            case ast.Break():
                self._breaks[-1].append(there)
                return None
            case ast.Continue():
                self._turns[-1].append(there)
                return None
        self._read(s, there)
        return there | {
            n.id for n in ast.walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        }

    def _turn(self, body: list[ast.stmt], there: _Names) -> tuple[list[_Names], list[_Names]]:
        """How a loop's body may leave it, and how it may end a turn."""
        self._breaks.append([])
        self._turns.append([])
        end = self.block(body, there)
        ends = self._turns.pop() + ([] if end is None else [end])
        return self._breaks.pop(), ends

    def _runs(self, iterated: ast.expr) -> bool:
        """Whether a loop over it has a first turn, as far as its text says."""
        match iterated:
            case ast.Call(args=[_, *_] as args) if self._refuse._outside(iterated.func) is range:
                bounds = [self._number(a) for a in args]
                if None in bounds or len(bounds) > 3:
                    return False
                return len(range(*bounds)) > 0  # type: ignore[arg-type]
        return False

    def _number(self, e: ast.expr) -> int | None:
        negative = isinstance(e, ast.UnaryOp) and isinstance(e.op, ast.USub)
        inner = e.operand if isinstance(e, ast.UnaryOp) and negative else e
        value = inner.value if isinstance(inner, ast.Constant) else self._refuse._outside(inner)
        if not isinstance(value, int):
            return None
        return -value if negative else value

    def _read(self, e: ast.AST, there: _Names) -> None:
        for node in ast.walk(e):
            name = node.id if isinstance(node, ast.Name) else ""
            reads = isinstance(getattr(node, "ctx", None), ast.Load)
            if isinstance(e, ast.AugAssign) and node is e.target:
                reads = True
            if reads and name in self._names - there:
                self._refuse._wrong(
                    node, f"{name} may not have been assigned yet; assign it before"
                )


def _in_all(ways: list[_Names | None] | list[_Names]) -> _Names | None:
    """What each of the ways that there are has assigned."""
    those = [w for w in ways if w is not None]
    return frozenset.intersection(*those) if those else None
