# SPDX-License-Identifier: Apache-2.0
"""What of a source file is code: two texts that differ in comments alone do the same."""

from __future__ import annotations

import ast
import re

# What comes first wins: what looks like a comment in a string is none, and the marks between the
# digits of a number begin no character.
_PARTS = re.compile(
    r"""
    (?P<kept>
        (?:u8|[uUL])?R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)"   # raw
      | "(?:\\.|[^"\\\n])*"
      | (?<![\w'])[0-9](?:'?[\w.])*
      | '(?:\\.|[^'\\\n])+'
    )
  | (?://(?:\\\n|[^\n])*|/\*.*?\*/|[^\S\n]+)+   # comments and blanks
    """,
    re.DOTALL | re.VERBOSE,
)


def _cpp(text: str) -> str:
    """Without comments, and without empty lines and spaces that say nothing. Lines stay: a
    directive of the preprocessor ends with its own."""

    def turned(found: re.Match[str]) -> str:
        return found[0] if found["kept"] is not None else " "

    lines = _PARTS.sub(turned, text).split("\n")
    return "\n".join(stripped for line in lines if (stripped := line.strip()))


def _python(text: str) -> str:
    """The syntax tree without the strings that describe modules, classes and functions."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                node.body = node.body[1:] if isinstance(first.value.value, str) else node.body
    return ast.dump(tree)


def same(before: str, now: str, suffix: str) -> bool:
    """Whether two texts of a file that ends with ``suffix`` are the same code. Of one that is
    neither Python nor C++, and of Python that does not parse, whether they are the same text."""
    if before == now:
        return True
    if suffix == ".py":
        try:
            return _python(before) == _python(now)
        except (SyntaxError, ValueError):
            return False
    return suffix in (".cpp", ".hpp", ".cu", ".cuh", ".h", ".c") and _cpp(before) == _cpp(now)
