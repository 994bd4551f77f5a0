# SPDX-License-Identifier: Apache-2.0
"""How objects look in a shell and in a notebook: their public name and a few facts."""

from __future__ import annotations

import html
import sys
from collections.abc import Sequence


def html_table(title: str, rows: Sequence[Sequence[str]]) -> str:
    """For notebooks."""
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><caption>{html.escape(title)}</caption>{body}</table>"


class Shown:
    """A base of classes that are shown by ``_facts()``: (name, value), which neither wait nor raise
    while the object is in use, nor when it is closed.
    """

    __slots__ = ()

    def _facts(self) -> list[tuple[str, str]]:
        raise NotImplementedError

    def __repr__(self) -> str:
        facts = "; ".join(" ".join(fact).strip() for fact in self._facts())
        return f"<{_public_name(type(self))}: {facts}>"

    def _repr_html_(self) -> str:
        return html_table(_public_name(type(self)), self._facts())


def _public_name(cls: type) -> str:
    """Where users find it: ``denizen.graph.Graph`` of denizen.graph.graph; a class of their own has
    its name alone.
    """
    parts = cls.__module__.split(".")
    if parts[0] != "denizen":
        return cls.__name__
    while len(parts) > 1:
        above = sys.modules.get(".".join(parts[:-1]))
        if getattr(above, cls.__name__, None) is not cls:
            break
        parts.pop()
    return ".".join([*parts, cls.__name__])
