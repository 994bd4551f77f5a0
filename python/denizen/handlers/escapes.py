# SPDX-License-Identifier: Apache-2.0
"""A message that a function makes lies in the function's own memory, and one made in a loop in the
same memory each time round: what would keep it longer is refused.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, NoReturn, Protocol

import numpy as np

from denizen.fields import seen


class _Refuses(Protocol):
    def _wrong(self, node: ast.AST, what: str) -> NoReturn: ...


_Made = Callable[[ast.expr], "np.dtype[Any] | None"]


def check_kept(function: ast.FunctionDef, made: _Made, refuse: _Refuses) -> None:
    """Refuses to return what is made here, and to give a second name to what a loop makes.

    Args:
        made: of a call that makes a message, a state or a task, its fields; None of all else.
    """
    names: dict[str, np.dtype[Any]] = {}
    in_loop: set[str] = set()
    loops = [n for n in ast.walk(function) if isinstance(n, ast.For | ast.While)]
    within = {id(n) for loop in loops for n in ast.walk(loop)}
    assigned = [n for n in ast.walk(function) if isinstance(n, ast.Assign)]
    pairs = [pair for a in assigned for pair in _pairs(a)]
    for _ in range(len(pairs) + 1):  # until a name of a name is known too
        for target, value in pairs:
            kind = _kind(value, names, made)
            if isinstance(target, ast.Name) and kind is not None:
                names[target.id] = kind
                if made(value) is not None and id(value) in within:
                    in_loop.add(target.id)
    for target, value in pairs:
        if isinstance(target, ast.Name) and isinstance(value, ast.Name) and value.id in in_loop:
            refuse._wrong(
                value,
                f"{value.id} is made in a loop, each time in the same memory: {target.id} = "
                f"{value.id} would change with it; keep its fields, one by one",
            )
    for node in ast.walk(function):
        if isinstance(node, ast.Return) and node.value is not None:
            kind = _kind(node.value, names, made)
            if kind is not None and (kind.names is not None or kind.shape):
                refuse._wrong(
                    node.value,
                    f"{function.name} returns what it has made, which ends with it; make it where "
                    "it is sent, or send it here: a function may take ctx",
                )


def _pairs(a: ast.Assign) -> list[tuple[ast.expr, ast.expr]]:
    out = []
    for target in a.targets:
        if isinstance(target, ast.Tuple) and isinstance(a.value, ast.Tuple):
            out += list(zip(target.elts, a.value.elts, strict=False))
        else:
            out.append((target, a.value))
    return out


def _kind(e: ast.expr, names: dict[str, np.dtype[Any]], made: _Made) -> np.dtype[Any] | None:
    """The type of what lies in memory that was made here; None of all else."""
    match e:
        case ast.Name(id=name):
            return names.get(name)
        case ast.Attribute(value=value, attr=attr):
            owner = _kind(value, names, made)
            if owner is None or attr not in (owner.names or ()):
                return None
            return seen(owner[attr])
        case ast.Subscript(value=value):
            cells = _kind(value, names, made)
            if cells is None or cells.subdtype is None:
                return None
            base, shape = cells.subdtype
            return np.dtype((base, shape[1:])) if shape[1:] else seen(base)
        case ast.IfExp(body=body, orelse=orelse):
            first = _kind(body, names, made)
            return first if first is not None else _kind(orelse, names, made)
    return made(e)
