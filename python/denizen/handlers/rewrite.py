# SPDX-License-Identifier: Apache-2.0
"""A handler's text, checked and spelled out.

What a handler may contain is a list of what is allowed; all else is refused with the user's file
and line and what to write instead. What is allowed becomes calls of ops.py, `x = m.n + 1` for
instance `x = dz_add(m.n, 1)`: one text for the interpreter and for Numba, so that both mean the
same. Names from outside are looked up here and now: numbers become constants, functions are
rewritten too. Lines stay where they are, for debuggers and compile errors.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import math
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, Literal, NoReturn, cast

import numpy as np

from denizen.actor import BEHAVIOUR, ActorType, Behaviour
from denizen.errors import CompileError, MessageError
from denizen.handlers import ops
from denizen.handlers.calls import CALLS, ELEMENTS, INSTEAD, TASK_CALLS, TASK_VALUES
from denizen.handlers.generator import next_random
from denizen.message import MessageType, checked
from denizen.task_type import TaskType

_NEXT_RANDOM = cast(FunctionType, next_random)

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
_BUILTIN = {int: "to_int", float: "to_float", bool: "true", abs: "abs_", len: "length"}
_NUMPY = {np.dtype(c).type: c for c in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4")}

# What is refused, and what to write instead.
_REFUSED: dict[type[ast.AST], str] = {
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


_ANSWERS = {"handler": "ctx.reply(...)", "task": "ctx.set(...)", "kind": "y[0] = ..."}
# What does not change, by the kind of function and the place of its parameter.
_FIXED = {
    ("handler", 1): "what came stays as it is; make a new message with other fields",
    ("task", 0): "a task's fields stay as they are; use a local, or a new task",
    ("kind", 0): "a block's parameters stay as they are; the host posts new ones",
    ("kind", 1): "what a block gets stays as it is; y[0] is what it makes",
}


@dataclass
class Rewritten:
    """One function in its new form."""

    alias: str  # the name it is called by
    tree: ast.FunctionDef
    path: str
    line: int
    scope: dict[str, Any]  # the names from outside, for what only the interpreter runs
    calls: set[str] = field(default_factory=set)  # of ctx, those of its functions too
    makes: dict[str, MessageType] = field(default_factory=dict)  # likewise
    spawns: dict[str, ActorType | TaskType] = field(default_factory=dict)  # likewise
    functions: dict[str, Rewritten] = field(default_factory=dict)  # that it calls itself, by alias

    @property
    def text(self) -> str:
        """What it does, wherever it stands: the same text is the same machine code."""
        return "\n".join([ast.unparse(self.tree), *(f.text for f in self.functions.values())])


class Rewriter:
    """Rewrites the functions of a program, each one once.

    Args:
        interpreted: print() and breakpoint() stay as they are, with whatever they are given.
        of: what they are: handlers of actors, and tasks that these spawn; tasks of a program of
            tasks alone; or kinds of flow blocks, which have no ctx.
    """

    def __init__(self, interpreted: bool, of: Literal["actor", "task", "kind"] = "actor") -> None:
        self.interpreted = interpreted
        self.of = of
        self.calls = {"actor": CALLS, "task": TASK_CALLS, "kind": {}}[of]
        self.values = {"actor": ops.VALUES, "task": TASK_VALUES, "kind": ()}[of]
        self._done: dict[FunctionType, Rewritten] = {}
        self._under_way: list[FunctionType] = []

    def handler(self, function: FunctionType, actor: ActorType) -> Rewritten:
        return _Function(self, function, "handler", actor.constants, actor).rewritten()

    def task(self, function: FunctionType, constants: Mapping[str, Any]) -> Rewritten:
        return _Function(self, function, "task", constants).rewritten()

    def kind(self, function: FunctionType, constants: Mapping[str, Any]) -> Rewritten:
        return _Function(self, function, "kind", constants).rewritten()

    def invariant(self, function: FunctionType, constants: Mapping[str, Any]) -> Rewritten:
        return _Function(self, function, "invariant", constants).rewritten()

    def function(self, function: FunctionType, at: str) -> Rewritten:
        if function in self._under_way:
            path, _, line = at.rpartition(":")
            what = f"{function.__name__} calls itself; use a loop, or a message to self"
            raise CompileError.at(path, int(line), what)
        if function not in self._done:
            self._under_way.append(function)
            try:
                self._done[function] = _Function(self, function, "function", {}).rewritten()
            finally:
                self._under_way.pop()
        return self._done[function]

    def number(self, function: FunctionType) -> int:
        """One for each function, for its alias: two may have the same name."""
        return len(self._done) + len(self._under_way)


def _scope_of(function: FunctionType) -> dict[str, Any]:
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    inside = {}
    for name, cell in cells:
        try:
            inside[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return {**function.__globals__, **inside}


def topic_words(text: str, pattern: bool) -> list[int] | str:
    """The four words of a topic (topic.hpp), or what is wrong with it."""
    data = text.encode()
    prefix = pattern and data.endswith(b"*")
    name = data[:-1] if prefix else data
    if b"*" in name:
        return "has a * that is not at a pattern's end"
    if len(name) > 15 or (not name and not prefix):
        return "has 1 to 15 bytes"
    key = name.ljust(15, b"\0") + bytes([len(name) | (128 if prefix else 0)])
    return [int(w) for w in np.frombuffer(key, "<u4")]


class _Function:
    """The rewriting of one function."""

    def __init__(
        self,
        program: Rewriter,
        function: FunctionType,
        kind: str,
        constants: Mapping[str, Any],
        actor: ActorType | None = None,
    ) -> None:
        self._actor = actor  # whose handler it is
        self._program = program
        self._function = function
        self._kind = kind
        self._constants = constants
        self._path = function.__code__.co_filename
        self._scope = _scope_of(function)
        self._temporaries = 0
        try:
            lines, first = inspect.getsourcelines(function)
        except (OSError, TypeError):
            raise CompileError(
                f"{self._path}:{function.__code__.co_firstlineno}: the text of "
                f"{function.__qualname__} is not to be found; write it to a file or a notebook's "
                "cell"
            ) from None
        self._margin = len(lines[0]) - len(lines[0].lstrip())
        module = ast.parse(textwrap.dedent("".join(lines)))
        ast.increment_lineno(module, first - 1)
        found = module.body[0]
        if not isinstance(found, ast.FunctionDef):
            self._refuse(found, "a lambda; define a function")
        self._tree = found
        parameters = found.args
        if parameters.vararg or parameters.kwarg or parameters.kwonlyargs or parameters.defaults:
            self._refuse(found, "parameters with * or with defaults; name each")
        self._parameters = [a.arg for a in (*parameters.posonlyargs, *parameters.args)]
        self._locals = {*self._parameters}
        for node in ast.walk(found):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                self._locals.add(node.id)
        for name in self._locals:
            if name.startswith(PREFIX):
                self._refuse(found, f"the name {name}; those with {PREFIX} are denizen's own")
        number = f"_{program.number(function)}" if kind == "function" else ""
        self._out = Rewritten(
            f"{PREFIX}{kind}_{function.__name__}{number}",
            found,
            self._path,
            function.__code__.co_firstlineno,
            self._scope,
        )

    def rewritten(self) -> Rewritten:
        if len(self._parameters) == {"handler": 2, "task": 1}.get(self._kind):
            self._parameters.append(f"{PREFIX}ctx")  # it is called with one
        tree = ast.FunctionDef(
            name=self._out.alias,
            args=ast.arguments(
                posonlyargs=[],
                args=[ast.arg(arg=p) for p in self._parameters],
                kwonlyargs=[],
                kw_defaults=[],
                defaults=[],
            ),
            body=self._block(self._tree.body),
            decorator_list=[],
        )
        if "type_params" in ast.FunctionDef._fields:  # since Python 3.12
            tree.type_params = []  # type: ignore[attr-defined, unused-ignore]
        ast.copy_location(tree, self._tree)
        self._out.tree = ast.fix_missing_locations(tree)
        return self._out

    # ---- what is refused

    def _refuse(self, node: ast.AST, what: str) -> NoReturn:
        raise self._error(node, f"a handler cannot use {what}")

    def _wrong(self, node: ast.AST, what: str) -> NoReturn:
        raise self._error(node, what)

    def _error(self, node: ast.AST, what: str) -> CompileError:
        line = getattr(node, "lineno", self._function.__code__.co_firstlineno)
        column = getattr(node, "col_offset", None)
        return CompileError.at(
            self._path, line, what, None if column is None else column + self._margin
        )

    def _unknown(self, node: ast.AST) -> NoReturn:
        for kind, what in _REFUSED.items():
            if isinstance(node, kind):
                self._refuse(node, what)
        self._refuse(node, f"{type(node).__name__}; see docs/python-handlers.md for what it can")

    # ---- statements

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
                return [self._loop(s)]
            case ast.Assign():
                if len(s.targets) != 1:
                    self._refuse(s, "a = b = ...; assign on two lines")
                return self._assigned(s.targets[0], s.value)
            case ast.AugAssign():
                return self._augmented(s)
        self._unknown(s)

    def _else(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        return self._block(statements) if statements else []

    def _returned(self, s: ast.stmt, value: ast.expr | None) -> ast.stmt:
        none = value is None or (isinstance(value, ast.Constant) and value.value is None)
        if self._kind in _ANSWERS:
            if not none:
                own = self._kind == "task" and self._program.of == "actor"
                answer = _ANSWERS["handler" if own else self._kind]
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

    def _loop(self, s: ast.For) -> ast.stmt:
        if s.orelse:
            self._refuse(s, "else of a loop; use a name that says how it ended")
        call = s.iter
        if not isinstance(s.target, ast.Name):
            self._refuse(s, "several names in a loop; use one, over range()")
        if not (isinstance(call, ast.Call) and self._outside(call.func) is range):
            self._refuse(s, "a loop over anything but range(); for an array a: range(len(a))")
        if call.keywords or not 1 <= len(call.args) <= 3:
            self._refuse(s, "range() with these arguments; use range(begin, end, step)")
        bounds: list[ast.expr] = [self._op("index", self._expression(a)) for a in call.args[:2]]
        if len(call.args) == 3:
            step = self._expression(call.args[2])
            if not (isinstance(step, ast.Constant) and type(step.value) is int and step.value):
                self._refuse(s, "a step that is no constant; use while")
            bounds.append(step)
        loop = ast.For(
            s.target, ast.Call(ast.Name("range", ast.Load()), bounds, []), self._block(s.body), []
        )
        return loop

    def _assigned(self, target: ast.expr, value: ast.expr) -> list[ast.stmt]:
        if isinstance(target, ast.Tuple):
            if not isinstance(value, ast.Tuple) or len(value.elts) != len(target.elts):
                self._refuse(target, "that; on the right side of a, b = ... are as many values")
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

    # ---- expressions

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
            self._refuse(node, _REFUSED[ast.JoinedStr])
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

    # ---- calls

    def _call(self, e: ast.Call) -> ast.expr:
        if isinstance(e.func, ast.Attribute) and self._is_local(e.func):
            return self._of_context(e, e.func)
        callee = self._outside(e.func)
        if isinstance(callee, MessageType | ActorType | TaskType):
            if self._program.of == "kind":
                self._wrong(e, f"{callee!r} cannot be made here; a block makes samples only")
            if self._program.of == "task" and not isinstance(callee, TaskType):
                what = "a task of a program of tasks makes tasks only"
                self._wrong(e, f"{callee!r} cannot be made here; {what}")
            return self._new(e, callee)
        if callee in (print, breakpoint):
            if not self._program.interpreted:
                self._refuse(e, f'{callee.__name__}(), but for device="python", which prints')
            return e
        own = getattr(callee, "py_func", callee)  # of a function that Numba has decorated
        known = self._known(callee)
        if not isinstance(own, FunctionType) and callee not in (min, max) and known is None:
            self._refuse(
                e,
                f"{ast.unparse(e.func)}(); it may call int, float, bool, abs, min, max, len, "
                "functions of math, NumPy's scalar types, and functions in Python",
            )
        if e.keywords:
            self._refuse(e, "arguments by name, but for a message's fields; give them in order")
        arguments = [self._expression(a) for a in e.args]
        if isinstance(own, FunctionType) and known is None:
            line = f"{self._path}:{e.lineno}"
            inner = self._program.function(own, line)
            if len(inner.tree.args.args) != len(arguments):
                self._wrong(e, f"{own.__name__} takes {len(inner.tree.args.args)} arguments")
            self._out.functions[inner.alias] = inner
            self._out.calls |= inner.calls
            self._out.makes.update(inner.makes)
            self._out.spawns.update(inner.spawns)
            return ast.Call(ast.Name(inner.alias, ast.Load()), arguments, [])
        if callee in (min, max):
            if len(arguments) < 2:
                self._refuse(e, f"{callee.__name__}() of an array; use a loop")
            out = arguments[0]
            for more in arguments[1:]:
                out = self._op(f"{callee.__name__}_", out, more)
            return out
        assert known is not None
        name, count = known
        if len(arguments) != count:
            self._wrong(e, f"{ast.unparse(e.func)} takes {count} arguments here")
        return self._op(name, *arguments)

    def _known(self, callee: Any) -> tuple[str, int] | None:
        """The operation that a function from outside is, and how many arguments it takes."""
        try:
            if callee in _BUILTIN:
                return _BUILTIN[callee], 1
            if callee in _NUMPY:
                return f"to_{_NUMPY[callee]}", 1
        except TypeError:  # not hashable
            return None
        if callee is np.float64:
            return "to_float", 1
        if callee is np.bool_:
            return "true", 1
        for name in ops.MATH:
            if callee is getattr(math, name, self) or callee is getattr(np, name, self):
                return f"m_{name}", 2 if name in ops.TWO else 1
        return None

    def _new(self, e: ast.Call, made: MessageType | ActorType | TaskType) -> ast.expr:
        """A message, a task, or the state of an actor that is about to be spawned."""
        names = made.dtype.names or ()
        if len(e.args) > len(names):
            self._wrong(e, f"{made!r} has {len(names)} fields, not {len(e.args)}")
        given = dict(zip(names, e.args, strict=False))
        for k in e.keywords:
            if k.arg is None or k.arg not in names:
                self._wrong(e, f"{made.name} has no field {k.arg}; it is {made!r}")
            if k.arg in given:
                self._wrong(e, f"field {k.arg} of {made.name} is given twice")
            given[k.arg] = k.value
        what = {MessageType: "message", TaskType: "task"}.get(type(made), "state")
        for name, value in given.items():
            if made.dtype[name].shape:
                self._wrong(
                    e,
                    f"field {name} of {made.name} is an array; make the {what} first and "
                    f"assign its elements: x = {made.name}(); x.{name}[0] = ...",
                )
            if not _is_scalar(made.dtype[name]):
                self._wrong(value, f"field {name} of {made.name} is a record; assign it afterwards")
            if (number := _number(value)) is not None:
                try:
                    checked(f"field {name} of {made.name}", made.dtype[name], number)
                except MessageError as error:
                    self._wrong(value, str(error))
        if isinstance(made, MessageType):
            self._out.makes[made.name] = made
            initial: Any = np.zeros((), made.dtype)
        else:
            self._out.spawns[made.name] = made
            initial = made.initial
        values = [
            self._expression(given[n]) if n in given else self._constant(e, initial[n][()])
            for n in names
            if _is_scalar(made.dtype[n])
        ]
        return ast.Call(ast.Name(f"{PREFIX}new_{made.name}", ast.Load()), values, [])

    def _of_context(self, e: ast.Call, callee: ast.Attribute) -> ast.expr:
        name = callee.attr
        calls = self._program.calls
        if name in self._program.values:
            self._wrong(e, f"ctx.{name} is a value: write it without ()")
        call = calls.get(name)
        if call is None or not isinstance(callee.value, ast.Name):
            if name in INSTEAD:
                self._refuse(e, f"{ast.unparse(callee)}(); use {INSTEAD[name]}")
            self._refuse(
                e,
                f"{ast.unparse(callee)}(); what it calls is a function outside of the class"
                + (f", or of ctx: {', '.join(calls)}" if calls else ""),
            )
        if e.keywords:
            self._refuse(e, "arguments by name; give them in order")
        self._out.calls.add(name)
        if not call.least <= len(e.args) <= call.most:
            self._wrong(e, f"ctx.{name} takes {call.takes}")
        if name in ("publish", "subscribe", "unsubscribe"):
            words = self._topic_words(e, name)
            rest = [self._expression(a) for a in e.args[1:]]
            return self._op(f"ctx_{name}", callee.value, *words, *rest)
        if name in ops.TYPED:
            *given, kind = e.args
            code = ELEMENTS.get(self._outside(kind))
            if code is None:
                self._wrong(e, f"ctx.{name} takes {call.takes}")
            arguments = [self._expression(a) for a in given]
            return self._op(f"ctx_{name}_{code}", callee.value, *arguments)
        if name == "random":
            return self._random(e)
        if name == "become":
            return self._become(e)
        left = call.defaults[len(e.args) - call.least :]
        arguments = [self._expression(a) for a in e.args] + [ast.Constant(d) for d in left]
        return self._op(f"ctx_{call.op or name}", callee.value, *arguments)

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


def _number(e: ast.expr) -> int | float | None:
    """The number that is written there."""
    negative = isinstance(e, ast.UnaryOp) and isinstance(e.op, ast.USub)
    value = e.operand if isinstance(e, ast.UnaryOp) and negative else e
    number = value.value if isinstance(value, ast.Constant) else None
    if isinstance(number, bool) or not isinstance(number, int | float):
        return None
    return -number if negative else number


def _is_scalar(dtype: np.dtype[Any]) -> bool:
    return dtype.subdtype is None and dtype.names is None
