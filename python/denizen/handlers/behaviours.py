# SPDX-License-Identifier: Apache-2.0
"""One handler of a message out of those that an actor's behaviours have for it."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from denizen.actor import BEHAVIOUR, Behaviour
from denizen.handlers.expressions import PREFIX
from denizen.handlers.rewrite import Rewritten


class _Renamed(ast.NodeTransformer):
    def __init__(self, names: dict[str, str]) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.Name:
        node.id = self._names.get(node.id, node.id)
        return node


def merged(own: Rewritten, others: Sequence[tuple[Behaviour, Rewritten]]) -> Rewritten:
    """The behaviour that is in force runs, and the actor's own handler where none of these is.

    Locals of each keep to themselves: two of the same name may have different types.
    """
    parameters = [a.arg for a in own.tree.args.args]
    before: list[ast.stmt] = []
    for behaviour, other in others:
        mine = {
            node.id: f"{node.id}__{behaviour.name}"
            for node in ast.walk(other.tree)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
        mine |= dict(zip((a.arg for a in other.tree.args.args), parameters, strict=True))
        body = [_Renamed(mine).visit(statement) for statement in other.tree.body]
        field = ast.Attribute(ast.Name(parameters[0], ast.Load()), BEHAVIOUR, ast.Load())
        equal = _call("eq", field, ast.Constant(behaviour.number))
        whole = ast.If(_call("true", equal), [*body, ast.Return(None)], [])
        before.append(ast.copy_location(whole, other.tree))
        own.calls |= other.calls
        own.elements |= other.elements
        own.makes.update(other.makes)
        own.spawns.update(other.spawns)
        own.functions.update(other.functions)
        own.scope = {**other.scope, **own.scope}
    own.tree.body = [*before, *own.tree.body]
    ast.fix_missing_locations(own.tree)
    return own


def _call(name: str, *arguments: ast.expr) -> ast.expr:
    return ast.Call(ast.Name(PREFIX + name, ast.Load()), list(arguments), [])
