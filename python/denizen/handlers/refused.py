# SPDX-License-Identifier: Apache-2.0
"""What a handler's text may not contain: an error at its line, with what to write instead."""

from __future__ import annotations

import ast
from typing import NoReturn

from denizen.errors import CompileError

# What is refused, and what to write instead.
REFUSED: dict[type[ast.AST], str] = {
    ast.Raise: "raise; use ctx.fail(code)",
    ast.Assert: "assert; use if and ctx.fail(code), or a method invariant(self)",
    ast.Try: "try; nothing raises in a handler, use if",
    ast.With: "with; there is nothing to close",
    ast.Import: "import; import at the top of the file",
    ast.ImportFrom: "import; import at the top of the file",
    ast.FunctionDef: "a function within; define it outside of the handler",
    ast.AsyncFunctionDef: "async; ctx.send() and a handler for the reply do that",
    ast.ClassDef: "a class; define it outside of the handler",
    ast.Lambda: "lambda; define a function outside of the handler",
    ast.List: "a list; use a field that is an array, such as seen: (np.uint32, 16)",
    ast.Tuple: "a tuple; use several names",
    ast.Dict: "a dict; use a field that is an array",
    ast.Set: "a set; use a field that is an array",
    ast.ListComp: "a list; use a loop over range()",
    ast.DictComp: "a dict; use a loop over range()",
    ast.SetComp: "a set; use a loop over range()",
    ast.GeneratorExp: "a generator; use a loop over range()",
    ast.JoinedStr: "a string; text travels as an array of np.uint8",
    ast.Yield: "yield; send a message",
    ast.YieldFrom: "yield; send a message",
    ast.Await: "await; send a message, its answer has a handler",
    ast.Global: "global; state is in fields",
    ast.Nonlocal: "nonlocal; state is in fields",
    ast.Delete: "del; a local ends with the handler",
    ast.NamedExpr: ":=; assign on a line of its own",
    ast.Starred: "*; name the values one by one",
    ast.Slice: "a slice; use a loop over range()",
    ast.Match: "match; use if and elif",
    ast.AnnAssign: "a type for a local; write x = np.uint32(...)",
}


class Refusing:
    """One function's text, which may be refused."""

    _path: str
    _first: int  # its first line there
    _margin: int  # columns that the text was moved to the left

    def _refuse(self, node: ast.AST, what: str) -> NoReturn:
        raise self._error(node, f"a handler cannot use {what}")

    def _wrong(self, node: ast.AST, what: str) -> NoReturn:
        raise self._error(node, what)

    def _error(self, node: ast.AST, what: str) -> CompileError:
        line = getattr(node, "lineno", self._first)
        column = getattr(node, "col_offset", None)
        return CompileError.at(
            self._path, line, what, None if column is None else column + self._margin
        )

    def _unknown(self, node: ast.AST) -> NoReturn:
        for kind, what in REFUSED.items():
            if isinstance(node, kind):
                self._refuse(node, what)
        self._refuse(node, f"{type(node).__name__}; see docs/python-handlers.md for what it can")
