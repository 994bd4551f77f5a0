# SPDX-License-Identifier: Apache-2.0
"""The functions, operators and methods of tensors that have a step.

Looked up by name without underscores at its ends: ``x.relu_()``, ``F.relu`` and ``torch.relu`` are
one. An argument that no entry takes is an error of the call (from_torch.py names the layer).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from denizen.infer import axes
from denizen.infer.steps import Size, Steps, Value, Zeros, refuse
from denizen.infer.torch_layers import State, pads_of


@dataclass(frozen=True)
class Call:
    """One call: where its nodes go, its name in the graph and what is called."""

    steps: Steps
    name: str
    what: str


def _activation(kind: str) -> Callable[..., Any]:
    def call(c: Call, x: Value, inplace: bool = False) -> Value:
        return c.steps.activation(x, kind, c.name)

    return call


def _gelu(c: Call, x: Value, approximate: str = "none") -> Value:
    return c.steps.activation(x, "gelu_tanh" if approximate == "tanh" else "gelu", c.name)


def _softmax(c: Call, x: Value, dim: int, _stacklevel: int = 3, dtype: Any = None) -> Value:
    return c.steps.softmax(x, dim, c.name)


def _linear(c: Call, x: Value, weight: Any, bias: Any = None) -> Value:
    return c.steps.linear(x, weight, bias, c.name)


def _conv1d(c: Call, x: Value, weight: Any, bias: Any = None, *more: Any, **kwargs: Any) -> Value:
    given = dict(zip(("stride", "padding", "dilation", "groups"), more, strict=False)) | kwargs
    one = {key: np.atleast_1d(given.get(key, 1))[0] for key in ("stride", "dilation", "groups")}
    pads = pads_of(given.get("padding", 0), weight.shape[-1], int(one["dilation"]))
    return c.steps.conv1d(
        x, weight, bias, c.name, pads=pads, dilation=int(one["dilation"]),
        stride=int(one["stride"]), groups=int(one["groups"]),
    )  # fmt: skip


def _embedding(c: Call, x: Value, weight: Any, padding_idx: Any = None, **other: Any) -> Value:
    if any(other.values()):
        refuse(c.name, c.what, f"of its options only padding_idx is supported, not {list(other)}")
    return c.steps.embedding(x, weight, c.name)


def _layer_norm(c: Call, x: Value, shape: Any = None, *more: Any, **kwargs: Any) -> Value:
    given = dict(zip(("weight", "bias", "eps"), more, strict=False)) | kwargs
    shape = given.get("normalized_shape", shape)
    if len(shape) != 1:
        refuse(c.name, c.what, f"over {len(shape)} axes; give one")
    scale, shift = given.get("weight"), given.get("bias")
    scale = np.ones(shape) if scale is None else scale
    shift = np.zeros(shape) if shift is None else shift
    return c.steps.layernorm(x, scale, shift, given.get("eps", 1e-5), c.name)


def _dropout(
    c: Call, x: Value, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Any:
    if training and p:
        refuse(c.name, c.what, "it is in training mode; call eval() on the model first")
    return x


# --- arithmetic ---
def _is_constant(x: Any) -> bool:
    return isinstance(x, (int, float)) or (isinstance(x, np.ndarray) and x.ndim <= 1)


def _add(c: Call, a: Any, b: Any, alpha: float = 1) -> Any:
    if isinstance(a, Size) or isinstance(b, Size):
        return a + b if isinstance(a, Size) else b + a
    if not isinstance(a, Value):
        a, b = b, a
    if _is_constant(b):
        return c.steps.affine(a, 1.0, np.multiply(b, alpha), c.name, "Add")
    if alpha != 1:
        b = c.steps.affine(b, alpha, 0.0, c.name, "Add")
    return c.steps.add(a, b, c.name)


def _sub(c: Call, a: Any, b: Any, alpha: float = 1) -> Any:
    if isinstance(a, Size):
        return a - b
    if not isinstance(a, Value):
        return _add(c, c.steps.affine(b, -1.0, 0.0, c.name, "Sub"), a)
    return _add(c, a, b, -alpha)


def _mul(c: Call, a: Any, b: Any) -> Any:
    if isinstance(a, Size) or isinstance(b, Size):
        return a * b
    if not isinstance(a, Value):
        a, b = b, a
    if _is_constant(b):
        return c.steps.affine(a, b, 0.0, c.name, "Mul")
    return c.steps.multiply(a, b, c.name)


def _div(c: Call, a: Any, b: Any) -> Value:
    if not isinstance(a, Value) or not _is_constant(b):
        refuse(c.name, c.what, "only a division by a constant is supported")
    return c.steps.affine(a, 1.0 / np.asarray(b, np.float64), 0.0, c.name, "Div")


def _neg(c: Call, x: Value) -> Value:
    return c.steps.affine(x, -1.0, 0.0, c.name, "Neg")


def _cat(c: Call, tensors: Sequence[Any], dim: int = 0) -> Value:
    return c.steps.concat(list(tensors), dim, c.name)


# --- axes ---
def _list(rest: Sequence[Any]) -> list[Any]:
    """x.view(a, b) or x.view((a, b))"""
    return list(rest[0]) if rest and isinstance(rest[0], (tuple, list)) else list(rest)


def _permute(c: Call, x: Value, *dims: Any, **kwargs: Any) -> Value:
    return axes.permute(x, _list(dims or tuple(kwargs.values())), c.name)


def _transpose(c: Call, x: Value, dim0: int, dim1: int) -> Value:
    return axes.transpose(x, dim0, dim1, c.name)


def _squeeze(c: Call, x: Any, dim: Any = None) -> Any:
    if isinstance(x, State):
        if len(x.layers) != 1 or dim not in (0, None):
            refuse(c.name, c.what, "of the state of several layers; take one, such as h[-1]")
        return x[0]
    return axes.squeeze(x, None if dim is None else _list((dim,)), c.name)


def _unsqueeze(c: Call, x: Value, dim: int) -> Value:
    return axes.unsqueeze(x, [dim], c.name)


def _flatten(c: Call, x: Value, start_dim: int = 0, end_dim: int = -1) -> Value:
    return axes.flatten(x, start_dim, end_dim, c.name)


def _reshape(c: Call, x: Value, *shape: Any, **kwargs: Any) -> Value:
    return axes.reshape(x, c.steps.width(x), _list(shape or tuple(kwargs.values())), c.name)


def _shape(c: Call, x: Value) -> list[Any]:
    lengths = {"T": Size("T", x.tail - x.start), "B": Size("B"), "1": 1, "C": c.steps.width(x)}
    return [lengths[letter] for letter in x.axes]


def _size(c: Call, x: Value, dim: int | None = None) -> Any:
    return _shape(c, x) if dim is None else _shape(c, x)[dim]


def _getattr(c: Call, x: Any, attribute: str) -> Any:
    if attribute == "shape":
        return _shape(c, x)
    if attribute in ("device", "dtype"):
        return attribute
    if attribute == "T" and len(x.axes) == 2:
        return axes.transpose(x, 0, 1, c.name)
    refuse(c.name, attribute, "this attribute of a tensor is not supported")


def _getitem(c: Call, x: Any, index: Any) -> Any:
    if not isinstance(x, Value):
        return x[index]
    parts = list(index) if isinstance(index, tuple) else [index]
    if ... in parts:
        place = parts.index(...)
        missing = len(x.axes) - (len(parts) - 1 - parts.count(None))
        parts[place : place + 1] = [slice(None)] * missing
    axis = 0
    for part in parts:
        if part is None:
            x = axes.unsqueeze(x, [axis], c.name)
            axis += 1
        elif isinstance(part, slice):
            x = axes.cut(x, axis, part, c.name)
            axis += 1
        else:
            x = axes.select(x, axis, part, c.name)
    return x


def _narrow(c: Call, x: Value, dim: int, start: Any, length: Any) -> Value:
    return axes.cut(x, dim, slice(start, length + start), c.name)


def _pad(c: Call, x: Value, pad: Sequence[int], mode: str = "constant", value: Any = None) -> Value:
    if mode != "constant" or value:
        refuse(c.name, c.what, f"mode {mode!r} with {value}; only zeros")
    for index in range(0, len(pad), 2):
        x = axes.pad(x, -1 - index // 2, (pad[index], pad[index + 1]), c.name)
    return x


# --- nothing ---
def _same(c: Call, x: Any, *args: Any, **kwargs: Any) -> Any:
    return x


def _zeros(c: Call, *args: Any, **kwargs: Any) -> Zeros:
    return Zeros()


def _nothing(c: Call, *args: Any, **kwargs: Any) -> None:
    return None


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{kind: _activation(kind) for kind in ("relu", "silu", "tanh", "sigmoid")},
    "gelu": _gelu,
    "softmax": _softmax,
    "linear": _linear,
    "conv1d": _conv1d,
    "embedding": _embedding,
    "layer_norm": _layer_norm,
    **dict.fromkeys(("dropout", "dropout1d"), _dropout),
    **dict.fromkeys(("add", "iadd"), _add),
    **dict.fromkeys(("sub", "isub", "subtract"), _sub),
    **dict.fromkeys(("mul", "imul", "multiply"), _mul),
    **dict.fromkeys(("div", "truediv", "itruediv", "divide"), _div),
    **dict.fromkeys(("neg", "negative"), _neg),
    **dict.fromkeys(("cat", "concat", "concatenate"), _cat),
    "permute": _permute,
    **dict.fromkeys(("transpose", "swapaxes", "swapdims"), _transpose),
    "squeeze": _squeeze,
    "unsqueeze": _unsqueeze,
    "flatten": _flatten,
    **dict.fromkeys(("reshape", "view"), _reshape),
    "size": _size,
    "getattr": _getattr,
    "getitem": _getitem,
    "narrow": _narrow,
    "pad": _pad,
    **dict.fromkeys(
        ("contiguous", "clone", "detach", "float", "to", "type_as", "flatten_parameters"), _same
    ),
    **dict.fromkeys(("zeros", "zeros_like", "new_zeros"), _zeros),
    **dict.fromkeys(("assert_is_none", "torch_assert", "assert"), _nothing),
}
