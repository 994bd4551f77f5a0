# SPDX-License-Identifier: Apache-2.0
"""What to write instead of a function or a method that a handler cannot call."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import numpy as np

from denizen.handlers import ops

_LOOP = "a loop over the elements: for x in a: total += x"
_TEXT = "numbers: text travels as an array of np.uint8"
_FIELD = "a field that is an array, as seen: (np.uint32, 16), or ctx.allocate(n, np.uint32)"
_RANDOM = "ctx.random(), whose state is the actor's field random: np.uint64 = 1"
_CLOCK = "ctx.now_ns"
_KNOWN = (
    "it may call int, float, bool, abs, min, max, len, pow, NumPy's scalar types, np.where and "
    f"np.clip of numbers, functions in Python, and of math {', '.join((*ops.ONE, *ops.TWO))}, "
    f"{', '.join(ops.ASKS)}"
)

# By the name behind the last dot.
_FUNCTIONS = {
    **dict.fromkeys(("sum", "any", "all", "mean", "dot", "prod", "count_nonzero"), _LOOP),
    **dict.fromkeys(("argmax", "argmin", "sorted", "sort"), "a loop over the elements"),
    **dict.fromkeys(("zeros", "ones", "empty", "array", "arange", "full", "list", "dict"), _FIELD),
    **dict.fromkeys(("str", "repr", "format", "chr", "ord"), _TEXT),
    **dict.fromkeys(("random", "randint", "rand", "uniform", "default_rng", "randrange"), _RANDOM),
    **dict.fromkeys(("time", "time_ns", "perf_counter", "perf_counter_ns", "monotonic"), _CLOCK),
    **dict.fromkeys(("now", "today", "utcnow"), _CLOCK),
    **dict.fromkeys(("isinstance", "type", "getattr", "hasattr", "setattr"), "a field by its name"),
    **dict.fromkeys(("minimum", "fmin"), "min(a, b)"),
    **dict.fromkeys(("maximum", "fmax"), "max(a, b)"),
    "sleep": "ctx.send_after(ns, ctx.self, message)",
    "round": "math.floor(x + 0.5)",
    "rint": "math.floor(x + 0.5)",
    "square": "x * x",
    "divmod": "a // b and a % b",
    "float16": "np.float32",
    "half": "np.float32",
    "longdouble": "np.float64",
    "complex": "a complex field's parts: self.z.real = x, self.z.imag = y",
    "complex64": "a complex field's parts: self.z.real = x, self.z.imag = y",
    "complex128": "a complex field's parts: self.z.real = x, self.z.imag = y",
    "datetime64": "a np.int64 of nanoseconds",
    "timedelta64": "a np.int64 of nanoseconds",
    "input": "a message of the host",
    "open": "a message to the host, or denizen.io",
    "reversed": "range(n - 1, -1, -1)",
}

_METHODS = {
    **dict.fromkeys(("sum", "mean", "any", "all", "max", "min", "prod", "dot"), _LOOP),
    **dict.fromkeys(("fill", "copy", "sort"), "a loop: for i in range(len(a)): a[i] = ..."),
    **dict.fromkeys(("append", "extend", "pop", "insert"), "a[n] = x and n += 1: arrays are fixed"),
    **dict.fromkeys(("astype", "view"), "np.float32(x) of each element"),
    "item": "the number itself",
    "tolist": "the array itself",
}


def instead_of(name: str, callee: Any) -> str:
    """Of a function from outside, by the name that it is called by there."""
    last = name.rpartition(".")[2]
    if last in _FUNCTIONS:
        return f"{name}(); use {_FUNCTIONS[last]}"
    if isinstance(callee, np.dtype):
        return f"{name}(); a field of this record is assigned part by part: self.at.x = ..."
    if isinstance(callee, type):
        return (
            f"{name}(), a class; what has parts is a field of a @denizen.record, whose parts are "
            "assigned: self.at.x = ..."
        )
    if isinstance(callee, Callable) and hasattr(callee, "__wrapped__"):  # type: ignore[arg-type]
        return f"{name}(), a decorated function; use the one within, without the decorator"
    return f"{name}(); {_KNOWN}"


def instead_of_method(callee: ast.Attribute) -> str:
    """Of a method of a local: handlers have none."""
    written = ast.unparse(callee)
    if callee.attr in _METHODS:
        return f"{written}(); use {_METHODS[callee.attr]}"
    return f"{written}(); what it calls is a function outside of the class, given what it needs"
