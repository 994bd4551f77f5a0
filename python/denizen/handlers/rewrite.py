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
import math
import operator
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, Literal

import numpy as np

from denizen.actor import ActorType
from denizen.errors import CompileError, MessageError
from denizen.fields import is_scalar
from denizen.handlers import ops
from denizen.handlers.assigned import check_assigned
from denizen.handlers.calls import CALLS, INSTEAD, TASK_CALLS, TASK_INSTEAD, TASK_VALUES
from denizen.handlers.escapes import check_kept
from denizen.handlers.expressions import PREFIX
from denizen.handlers.instead import instead_of
from denizen.handlers.of_context import OfContext
from denizen.message import MessageType, checked
from denizen.source import text_of
from denizen.task_type import TaskType

_BUILTIN = {
    int: "to_int",
    float: "to_float",
    bool: "true",
    abs: "abs_",
    np.absolute: "abs_",
    len: "length",
}
# What may stand between two whole numbers that are written, and how large the second may be.
_WRITTEN: dict[type[ast.operator], tuple[Callable[[int, int], int], float]] = {
    ast.Add: (operator.add, math.inf),
    ast.Sub: (operator.sub, math.inf),
    ast.Mult: (operator.mul, math.inf),
    ast.LShift: (operator.lshift, 63),
    ast.Pow: (operator.pow, 64),
}
_MOST_BITS = 128
_NUMPY = frozenset(("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4"))


@dataclass
class Rewritten:
    """One function in its new form."""

    alias: str  # the name it is called by
    tree: ast.FunctionDef
    path: str
    line: int
    scope: dict[str, Any]  # the names from outside, for what only the interpreter runs
    # Of ctx, those of its functions too, and the line of the first of each.
    calls: dict[str, int] = field(default_factory=dict)
    elements: set[str] = field(default_factory=set)  # likewise, of arrays that ctx gives
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
        self.instead = TASK_INSTEAD if of == "task" else INSTEAD
        self.values = {"actor": ops.VALUES, "task": TASK_VALUES, "kind": ()}[of]
        self._done: dict[FunctionType, Rewritten] = {}
        self._under_way: list[FunctionType] = []

    def handler(self, function: FunctionType, actor: ActorType) -> Rewritten:
        return _Function(self, function, "handler", actor.constants, actor).rewritten()

    def task(self, function: FunctionType, constants: Mapping[str, Any]) -> Rewritten:
        return _Function(self, function, "task", constants).rewritten()

    def kind(
        self,
        function: FunctionType,
        constants: Mapping[str, Any],
        before: int,
        inputs: int,
        parts: Sequence[str],
    ) -> Rewritten:
        """`parts`: the fields of what it makes, none if that is a number."""
        made = _Function(self, function, "kind", constants)
        made.before, made.inputs, made.parts = before, inputs, parts
        return made.rewritten()

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


class _Function(OfContext):
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
        self._of = program.of
        self._kind = kind
        self._constants = constants
        self._path = function.__code__.co_filename
        self._first = function.__code__.co_firstlineno
        self._scope = _scope_of(function)
        found = self._definition(function)
        self._tree = found
        parameters = found.args
        if parameters.vararg or parameters.kwarg or parameters.kwonlyargs:
            self._refuse(found, "parameters with *; name each")
        if parameters.defaults and kind != "function":
            self._refuse(found, "parameters with defaults; it is called with all of them")
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
            self._first,
            self._scope,
        )

    def _definition(self, function: FunctionType) -> ast.FunctionDef:
        """Its text, with the numbers that its lines have in its file."""
        name = function.__code__.co_name
        at = self._path, self._first
        if name == "<lambda>":
            raise CompileError.at(*at, "a handler cannot use a lambda; define a function")
        try:
            lines, first = text_of(function)
        except (OSError, TypeError):
            raise CompileError(
                f"{self._path}:{self._first}: the text of "
                f"{function.__qualname__} is not to be found; write it to a file or a notebook's "
                "cell"
            ) from None
        self._margin = len(lines[0]) - len(lines[0].lstrip())
        try:
            body = ast.parse(textwrap.dedent("".join(lines))).body
        except SyntaxError:
            body = []
        found = body[0] if body else None
        if not isinstance(found, ast.FunctionDef | ast.AsyncFunctionDef) or found.name != name:
            what = f"the file has changed since {function.__qualname__} was loaded; load it anew"
            raise CompileError.at(*at, what)
        ast.increment_lineno(found, first - 1)
        if isinstance(found, ast.AsyncFunctionDef):
            self._unknown(found)
        return found

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
            body=[*self._cleared(), *self._block(self._tree.body)],
            decorator_list=[],
        )
        if "type_params" in ast.FunctionDef._fields:  # since Python 3.12
            tree.type_params = []  # type: ignore[attr-defined, unused-ignore]
        check_assigned(self._tree, self._locals - {*self._parameters}, self)
        check_kept(self._tree, self._made_type, self)
        ast.copy_location(tree, self._tree)
        self._out.tree = ast.fix_missing_locations(tree)
        return self._out

    def _cleared(self) -> list[ast.stmt]:
        """What a kind's make() may not assign is 0: of another sample is what lies there."""
        if self._kind != "kind":
            return []
        made: set[str] = set()
        if not any(isinstance(node, ast.Return) for node in ast.walk(self._tree)):
            for s in self._tree.body:
                made |= {ast.unparse(t) for t in s.targets} if isinstance(s, ast.Assign) else set()
        out: list[ast.stmt] = []
        for y in self._outputs():
            if f"{y}[0]" in made:
                continue
            zero, first, cells = ast.Constant(0.0), ast.Constant(0), ast.Name(y, ast.Load())
            if not self.parts:
                out.append(ast.Expr(self._op("put", cells, first, zero)))
            left = [part for part in self.parts if f"{y}[0].{part}" not in made]
            out += [self._store_field(self._op("get", cells, first), part, zero) for part in left]
        return out

    # ---- calls

    def _call(self, e: ast.Call) -> ast.expr:
        if isinstance(e.func, ast.Attribute) and self._is_local(e.func):
            return self._of_context(e, e.func)
        if isinstance(e.func, ast.Name) and e.func.id in self._locals:
            self._refuse(e, f"{e.func.id}(), a local here, as a function; give it another name")
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
        match e.args:
            case [ast.Constant(value="inf" | "-inf" | "nan")] if callee is float:
                return ast.Constant(float(ast.literal_eval(e.args[0])))
            case [x] if callee in (bool, np.bool_) and not e.keywords:
                return self._condition(x)
            case [x] if callee in (np.floor, np.ceil, np.trunc) and not e.keywords:
                return self._rounded(x, callee)
        if callee is pow or callee in (np.where, np.clip):
            return self._spelled_out(e, callee)
        own = getattr(callee, "py_func", callee)  # of a function that Numba has decorated
        known = self._known(callee)
        if not isinstance(own, FunctionType) and callee not in (min, max) and known is None:
            self._refuse(e, instead_of(ast.unparse(e.func), callee))
        if isinstance(own, FunctionType) and known is None:
            return self._of_function(e, own)
        if e.keywords:
            self._refuse(e, f"arguments of {ast.unparse(e.func)}() by name; give them in order")
        arguments = [self._expression(a) for a in e.args]
        if callee in (min, max):
            if len(arguments) < 2:
                name = callee.__name__
                self._refuse(
                    e, f"{name}() of an array; use a loop: for x in a: out = {name}(out, x)"
                )
            out = arguments[0]
            for more in arguments[1:]:
                out = self._op(f"{callee.__name__}_", out, more)
            return out
        assert known is not None
        name, count = known
        if len(arguments) != count:
            written = ast.unparse(e.func)
            way = f"; write {written}(x) / {written}(base)" if name == "m_log" else ""
            takes = "1 argument" if count == 1 else f"{count} arguments"
            self._wrong(e, f"{written} takes {takes} here{way}")
        return self._op(name, *arguments)

    def _of_function(self, e: ast.Call, own: FunctionType) -> ast.expr:
        """A call of a function in Python, whose arguments may have names and defaults."""
        inner = self._program.function(own, f"{self._path}:{e.lineno}")
        names = [a.arg for a in inner.tree.args.args]
        given: dict[str, ast.expr] = dict(zip(names, e.args, strict=False))
        for k in e.keywords:
            if k.arg is None or k.arg not in names or k.arg in given:
                wrong = "twice" if k.arg in given else "that it has not"
                what = f"gets {k.arg} {wrong}" if k.arg else "is called with **; name each argument"
                self._wrong(e, f"{own.__name__}({', '.join(names)}) {what}")
            given[k.arg] = k.value
        arguments = {name: self._expression(value) for name, value in given.items()}
        defaults = own.__defaults__ or ()
        for name, value in zip(reversed(names), reversed(defaults), strict=False):
            if name not in arguments:
                if not isinstance(value, int | float | np.bool_ | np.number):
                    what = f"{name} of {own.__name__}(), which is {value!r} by default; give it"
                    self._refuse(e, f"{what} a number")
                arguments[name] = self._constant(e, value)
        if len(e.args) > len(names) or len(arguments) < len(names):
            takes = "1 argument" if len(names) == 1 else f"{len(names)} arguments"
            self._wrong(e, f"{own.__name__} takes {takes}")
        self._out.functions[inner.alias] = inner
        for name in inner.calls:
            self._out.calls.setdefault(name, e.lineno)
        self._out.elements |= inner.elements
        self._out.makes.update(inner.makes)
        self._out.spawns.update(inner.spawns)
        return ast.Call(ast.Name(inner.alias, ast.Load()), [arguments[n] for n in names], [])

    def _rounded(self, x: ast.expr, callee: Any) -> ast.expr:
        """np.floor(x), np.ceil(x) and np.trunc(x), which are floats; math's are whole numbers."""
        number = self._op("to_float", self._expression(x))
        one = ast.Constant(1.0)
        if callee is np.floor:
            return self._op("floordiv", number, one)
        if callee is np.ceil:
            return self._op("neg", self._op("floordiv", self._op("neg", number), one))
        whole = self._op("floordiv", self._op("m_fabs", number), one)
        return self._op("m_copysign", whole, self._op("to_float", self._expression(x)))

    def _spelled_out(self, e: ast.Call, callee: Any) -> ast.expr:
        """pow(x, n), np.where(test, a, b) and np.clip(x, low, high), of numbers."""
        count = 2 if callee is pow else 3
        if len(e.args) != count or e.keywords:
            self._wrong(e, f"{ast.unparse(e.func)} takes {count} arguments here")
        if callee is pow:
            return self._power(e, *e.args)
        if callee is np.where:
            test, *ways = e.args
            return ast.IfExp(self._condition(test), *(self._expression(w) for w in ways))
        x, low, high = (self._expression(a) for a in e.args)
        return self._op("min_", self._op("max_", x, low), high)

    def _known(self, callee: Any) -> tuple[str, int] | None:
        """The operation that a function from outside is, and how many arguments it takes."""
        try:
            if callee in _BUILTIN:
                return _BUILTIN[callee], 1
            if isinstance(callee, type) and issubclass(callee, np.integer | np.floating):
                code = np.dtype(callee).str[1:]
                if code in _NUMPY:
                    return f"to_{code}", 1
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
            if not is_scalar(made.dtype[name]):
                self._wrong(value, f"field {name} of {made.name} is a record; assign it afterwards")
            if (number := self._written(value)) is not None:
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
            if is_scalar(made.dtype[n])
        ]
        return ast.Call(ast.Name(f"{PREFIX}new_{made.name}", ast.Load()), values, [])

    def _written(self, e: ast.expr) -> int | float | None:
        """The number that is written there: as such, as a name from outside, or as what operators
        make of two of these."""
        number: Any
        match e:
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                number = self._written(operand)
                return None if number is None else -number
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _WRITTEN:
                a, b = self._written(left), self._written(right)
                made, most = _WRITTEN[type(op)]
                if not (isinstance(a, int) and isinstance(b, int) and 0 <= b <= most):
                    return None
                # One that fits nowhere is told as it is: what is made of it may take long to make.
                large = next((n for n in (a, b) if n.bit_length() > _MOST_BITS), None)
                return made(a, b) if large is None else large
            case ast.Constant(value=value):
                number = value
            case ast.Name() if not self._is_local(e):
                number = self._outside(e)
            case _:
                return None
        if isinstance(number, bool | np.bool_):
            return None
        if isinstance(number, int | np.integer):
            return int(number)
        return float(number) if isinstance(number, float | np.floating) else None

    def _made_type(self, e: ast.expr) -> np.dtype[Any] | None:
        """Of a call that makes a message, a state or a task: its fields."""
        if not isinstance(e, ast.Call) or self._is_local(e.func):
            return None
        callee = self._outside(e.func)
        return callee.dtype if isinstance(callee, MessageType | ActorType | TaskType) else None
