# SPDX-License-Identifier: Apache-2.0
"""The operators of ONNX that make constants and shapes, and those that move or cut axes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from denizen.infer import axes as moves
from denizen.infer.onnx_call import Call, Stack, is_zero
from denizen.infer.steps import Size, Value, Zeros

MOST_SHAPE = 64  # items of a shape that is computed


# --- constants and shapes ---
def _constant(c: Call) -> Any:
    tensor = c.attribute("value")
    if tensor is not None:
        return c.tensors.array(tensor, c.name)
    for one in ("value_int", "value_ints", "value_float", "value_floats"):
        if (found := c.attribute(one)) is not None:
            return np.asarray(found)
    return c.refuse("it is no tensor and no number")


def _of_shape(c: Call, shape: Any) -> Any:
    tensor = c.attribute("value")
    fill = np.zeros(1, np.float32) if tensor is None else c.tensors.array(tensor, c.name)
    if not any(isinstance(dim, Size) for dim in np.atleast_1d(shape)):
        dims = c.ints(shape, "shape")
        if math.prod(dims) <= MOST_SHAPE:
            return np.full(dims, fill.reshape(-1)[0])
    if fill.any():
        c.refuse("constants other than zeros of a computed shape")
    return Zeros()


def _shape(c: Call, x: Any) -> Any:
    if isinstance(x, np.ndarray):
        return np.asarray(x.shape)
    value = c.value(x)
    lengths: dict[str, Any] = {
        "T": Size("T", value.tail - value.start), "B": Size("B"), "1": 1,
        "C": c.steps.width(value),
    }  # fmt: skip
    found = np.empty(len(value.axes), object)
    found[:] = [lengths[letter] for letter in value.axes]
    return found[c.attribute("start", 0) : c.attribute("end", None)]


def _gather(c: Call, data: Any, index: Any) -> Any:
    axis = c.attribute("axis", 0)
    if isinstance(index, Value):
        if axis != 0:
            c.refuse(f"axis {axis} of a table; 0")
        return c.steps.embedding(index, c.constant(data, "table"), c.name)
    where = c.constant(index, "index")
    if isinstance(data, np.ndarray):
        if where.size > MOST_SHAPE:
            c.refuse(f"{where.size} items of a constant; at most {MOST_SHAPE}")
        return np.asarray(np.take(data, where.astype(np.int64), axis))
    if isinstance(data, Stack):
        if where.ndim or axis != data.axis:
            c.refuse("several of the states of a recurrent layer; take one, such as h[-1]")
        return moves.select(data.values[int(where)], axis, 0, c.name)
    if where.ndim == 0:
        return moves.select(c.value(data), axis, int(where), c.name)
    if where.ravel().tolist() == [-1]:
        return moves.cut(c.value(data), axis, slice(-1, None), c.name)
    return c.refuse(f"items {where.ravel()[:4].tolist()} of an axis; one, such as -1")


# --- axes ---
def _axes(c: Call, given: Any) -> list[int] | None:
    """Of an input, in older files of an attribute."""
    if given is not None:
        return c.ints(given, "axes")
    found = c.attribute("axes")
    return None if found is None else [int(one) for one in found]


def _transpose(c: Call, x: Any) -> Any:
    if isinstance(x, np.ndarray):
        return x.transpose(c.attribute("perm"))
    value = c.value(x)
    return moves.permute(value, c.attribute("perm", range(len(value.axes))[::-1]), c.name)


def _squeeze(c: Call, x: Any, axes: Any = None) -> Any:
    where = _axes(c, axes)
    if isinstance(x, np.ndarray):
        return np.squeeze(x, None if where is None else tuple(where))
    return moves.squeeze(c.value(x), where, c.name)


def _unsqueeze(c: Call, x: Any, axes: Any = None) -> Any:
    where = _axes(c, axes) or []
    if isinstance(x, np.ndarray):
        return np.expand_dims(x, tuple(where))
    return moves.unsqueeze(c.value(x), where, c.name)


def _reshape(c: Call, x: Any, shape: Any) -> Any:
    dims = list(np.atleast_1d(c.constant(shape, "shape")))
    if isinstance(x, np.ndarray):
        return x.reshape([int(dim) for dim in dims])
    value = c.value(x)
    width = c.steps.width(value)
    lengths = _shape(c, value)
    kept: list[Any] = []
    for index, dim in enumerate(dims):
        if isinstance(dim, Size):
            kept.append(dim)
        elif dim == 0 and not c.attribute("allowzero", 0):
            kept.append(lengths[index])
        elif dim not in (width, 1, -1) and int(dim) in c.fixed:
            kept.append(c.fixed[int(dim)])
        else:
            kept.append(int(dim))
    return moves.reshape(value, width, kept, c.name)


def _flatten(c: Call, x: Any) -> Value:
    value = c.value(x)
    axis = c.attribute("axis", 1) % max(1, len(value.axes))
    if axis > 1:
        value = moves.flatten(value, 0, axis - 1, c.name)
    elif axis == 0:
        value, axis = moves.unsqueeze(value, [0], c.name), 1
    return moves.flatten(value, min(axis, 1), -1, c.name)


def _slice(c: Call, x: Any, *given: Any) -> Any:
    """``given``: starts, ends, axes, steps; in older files the first three are attributes."""

    def all_of(index: int, name: str) -> list[Any]:
        if index >= len(given) or given[index] is None:
            return list(c.attribute(name) or ())
        return list(np.atleast_1d(c.constant(given[index], name)))

    first, last = all_of(0, "starts"), all_of(1, "ends")
    where = [int(one) for one in all_of(2, "axes")] or list(range(len(first)))
    by = [int(one) for one in all_of(3, "steps")] or [1] * len(first)
    for start, stop, axis, step in zip(first, last, where, by, strict=True):
        end = stop if isinstance(stop, Size) else int(stop)
        if isinstance(x, np.ndarray):
            index = [slice(None)] * x.ndim
            index[axis] = slice(int(start), None if isinstance(end, Size) else end, step)
            x = x[tuple(index)]
        else:
            x = moves.cut(c.value(x), axis, slice(int(start), end, step), c.name)
    return x


def _pad(c: Call, x: Any, pads: Any = None, value: Any = None, axes: Any = None) -> Value:
    padded = c.value(x)
    if c.attribute("mode", "constant") != "constant":
        c.refuse(f"mode {c.attribute('mode')!r}; only zeros")
    number = c.attribute("value", 0.0) if value is None else c.constant(value, "value")
    if np.any(number):
        c.refuse(f"it pads with {number}; only zeros")
    sides = c.attribute("pads") if pads is None else c.ints(pads, "pads")
    where = range(len(padded.axes)) if axes is None else c.ints(axes, "axes")
    for index, axis in enumerate(where):
        both = int(sides[index]), int(sides[index + len(sides) // 2])
        padded = moves.pad(padded, axis, both, c.name)
    return padded


def _expand(c: Call, x: Any, shape: Any) -> Any:
    if not (isinstance(x, Zeros) or is_zero(x)):
        c.refuse("only zeros, for the initial state of a recurrent layer")
    return Zeros()


AXES: dict[str, Callable[..., Any]] = {
    "Gather": _gather,
    "Constant": _constant,
    "ConstantOfShape": _of_shape,
    "Shape": _shape,
    "Transpose": _transpose,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Slice": _slice,
    "Pad": _pad,
    "Expand": _expand,
}
