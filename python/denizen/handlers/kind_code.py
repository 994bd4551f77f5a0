# SPDX-License-Identifier: Apache-2.0
"""Kinds of flow blocks as code: one output from inputs, and the loop that makes a piece of them."""

from __future__ import annotations

import ast
import ctypes
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import numpy as np

from denizen.handlers import ops, views
from denizen.handlers.expressions import PREFIX
from denizen.handlers.plan import build
from denizen.handlers.rewrite import Rewriter, Rewritten
from denizen.handlers.text import EXPORT

# dsp/include/denizen/dsp/resident/given.hpp
_LOOP = """
def dz_loop(dz_self, dz_x, dz_by, dz_y, dz_j, dz_end, dz_step, dz_base, dz_down):
    while dz_lt(dz_j, dz_end):
        dz_at = dz_add(dz_base, dz_mul(dz_j, dz_down))
        dz_made(dz_self, STREAMS)
        dz_j = dz_add(dz_j, dz_step)
"""
_INPUTS = ("dz_moved(dz_x, dz_at)", "dz_moved(dz_by, dz_at)")
_OUTPUTS = ("dz_moved(dz_y, dz_j)", "dz_moved(dz_y, dz_add(dz_mul({}, dz_end), dz_j))")
MOST_INPUTS = len(_INPUTS)
_PLACES = ("begin", "end", "step", "base", "down")


@dataclass(frozen=True)
class Kind:
    """What a class has declared."""

    name: str
    make: FunctionType
    constants: Mapping[str, Any]
    parameters: np.dtype[Any]
    takes: np.dtype[Any]
    makes: np.dtype[Any]
    before: int
    inputs: int = 1
    outputs: int = 1

    def rewritten(self, interpreted: bool = False) -> Rewritten:
        """CompileError has the user's file and line."""
        parts = self.makes.names or ()
        rewriter = Rewriter(interpreted, "kind")
        return rewriter.kind(self.make, self.constants, self.before, self.inputs, parts)


def _loop(kind: Kind) -> Rewritten:
    inner = kind.rewritten()
    outputs = [_OUTPUTS[k > 0].format(k) for k in range(kind.outputs)]
    text = _LOOP.replace("STREAMS", ", ".join([*_INPUTS[: kind.inputs], *outputs]))
    text = text.replace("dz_made", inner.alias).replace("dz_", PREFIX)
    tree = ast.parse(text).body[0]
    assert isinstance(tree, ast.FunctionDef)
    ast.increment_lineno(tree, inner.line)
    out = Rewritten(f"{PREFIX}loop", tree, inner.path, inner.line, {})
    out.functions[inner.alias] = inner
    return out


@dataclass(frozen=True)
class _Unit:
    kind: Kind
    rewritten: Rewritten  # the loop

    def key(self, prefix: str) -> str:
        dtypes = (self.kind.parameters, self.kind.takes, self.kind.makes)
        parts = [self.rewritten.text, prefix, str(self.kind.before)]
        parts += [f"{d.descr} {d.itemsize}" for d in dtypes]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    def signature(self, types: Any, prefix: str, typed: bool) -> Any:
        x = types.Samples(self.kind.takes, self.kind.before, False)
        y = types.Samples(self.kind.makes, 0, True)
        parameters = types.Ref("parameters", self.kind.parameters)
        return types.void(parameters, x, x, y, *[types.int64] * len(_PLACES))


def _unit(kind: Kind) -> _Unit:
    return _Unit(kind, _loop(kind))


def cpu_function(kind: Kind) -> int:
    """Its loop's address. MissingPackageError without Numba, CompileError with file and line."""
    from denizen.handlers.compiled import for_cpu  # noqa: PLC0415  (Numba is optional)

    return for_cpu(_unit(kind), "denizen_kind")


def gpu_parts(kinds: Sequence[Kind], architecture: int) -> list[tuple[str, bytes]]:
    """The LTO-IR of their loops, by symbols."""
    from denizen.handlers.compiled import for_gpu  # noqa: PLC0415  (Numba is optional)

    return [(_symbol(k), for_gpu(_unit(k), _symbol(k), architecture)) for k in kinds]


def _symbol(kind: Kind) -> str:
    return f"denizen_kind_{kind.name}"


def structs(kinds: Sequence[Kind]) -> str:
    """The C++ kinds that stand for them on a GPU."""
    given = "const void*, const void*, const void*, void*" + ", int64_t" * len(_PLACES)
    out = ["#include <denizen/dsp/resident/given.hpp>", EXPORT]
    out.append("namespace denizen_kinds {\nusing namespace denizen::flow::resident;")
    for kind in kinds:
        out.append(f"DENIZEN_HANDLER(void*, {_symbol(kind)}, {given})")
        out.append(
            f"struct {kind.name} {{\n    template <class T>\n"
            "    static DENIZEN_HD void make(const Piece<T>& p)\n    {\n"
            f"        {_symbol(kind)}(p.values + given_words, p.from, p.with, p.to,\n"
            "            p.begin + p.team.lane(), p.end, p.team.lanes(), p.base, p.stage.down);\n"
            "    }\n};"
        )
    return "\n".join([*out, "}", ""])


_FUNCTION = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4, *[ctypes.c_int64] * len(_PLACES))


def python_function(kind: Kind, failed: Callable[[BaseException], None]) -> Any:
    """The loop as a function of ctypes that runs make() in Python; its address is to be kept.

    Args:
        failed: gets what make() raises. What it should have made is 0 then.
    """
    make = build(kind.rewritten(interpreted=True), ops.names(), views.new)

    def array(address: int, count: int, dtype: np.dtype[Any]) -> Any:
        memory = (ctypes.c_char * (count * dtype.itemsize)).from_address(address)
        return np.ndarray(count, dtype, memory)  # type: ignore[arg-type]

    def loop(self: int, x: int, by: int | None, y: int, *places: int) -> None:
        begin, end, step, base, down = places
        if begin >= end:
            return
        parameters = array(self, 1, kind.parameters)[0:1].reshape(())
        record = views.Record(parameters, kind.name)
        first, last = base + begin * down - kind.before, base + (end - 1) * down
        taken = [
            array(at + first * kind.takes.itemsize, last - first + 1, kind.takes)
            for at in (x, by or 0)[: kind.inputs]
        ]
        made = [
            array(y + (k * end + begin) * kind.makes.itemsize, end - begin, kind.makes)
            for k in range(kind.outputs)
        ]
        try:
            for j in range(begin, end, step):
                at = base + j * down - first
                given = [views.Samples(stream, at, kind.before) for stream in taken]
                make(record, *given, *(views.Samples(stream, j - begin, 0) for stream in made))
        except BaseException as error:
            for stream in made:
                stream[...] = 0
            failed(error)

    return _FUNCTION(loop)
