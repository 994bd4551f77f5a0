# SPDX-License-Identifier: Apache-2.0
"""The operators of ONNX that have a step and compute, each as calls of Steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from denizen.infer import axes as moves
from denizen.infer.onnx_axes import AXES
from denizen.infer.onnx_call import Call, Stack, is_zero
from denizen.infer.steps import LayoutError, Value, Zeros


# --- layers with weights ---
def _gemm(c: Call, a: Any, b: Any, bias: Any = None) -> Value:
    if c.attribute("transA", 0):
        c.refuse("transA: the input would be transposed")
    w = c.constant(b, "weight").astype(np.float64) * c.attribute("alpha", 1.0)
    w = w if c.attribute("transB", 0) else w.T
    if bias is not None:
        bias = c.constant(bias, "bias").astype(np.float64) * c.attribute("beta", 1.0)
        bias = np.broadcast_to(bias.reshape(-1), (len(w),))
    return c.steps.linear(c.value(a), w, bias, c.name, "Gemm")


def _matmul(c: Call, a: Any, b: Any) -> Value:
    w = c.constant(b, "second input")
    if w.ndim != 2:
        c.refuse(f"its weight has {w.ndim} axes; two")
    return c.steps.linear(c.value(a), w.T, None, c.name, "MatMul")


# Where each of ONNX's gates stands in PyTorch's order: i, o, f, c; z, r, h.
_PLACES = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2), "rnn": (0,)}
_FUNCTIONS = {"lstm": ["Sigmoid", "Tanh", "Tanh"], "gru": ["Sigmoid", "Tanh"], "rnn": ["Tanh"]}


def _recurrent(c: Call, x: Any, w: Any, r: Any, b: Any = None, *rest: Any) -> Any:
    kind = c.node.op_type.lower()
    functions = [
        f.decode(errors="replace") if isinstance(f, bytes) else f
        for f in c.attribute("activations", _FUNCTIONS[kind])
    ]
    relu = kind == "rnn" and functions == ["Relu"]
    if c.attribute("direction", "forward") != "forward":
        c.refuse("it is not forward: a step does not know what comes after it")
    if functions != _FUNCTIONS[kind] and not relu:
        c.refuse(f"activations {functions}; give {_FUNCTIONS[kind]}")
    if c.attribute("clip") or c.attribute("input_forget", 0):
        c.refuse("clip and input_forget are not supported")
    if kind == "gru" and not c.attribute("linear_before_reset", 0):
        c.refuse("linear_before_reset = 0; export it with 1, which is what PyTorch computes")
    if len(rest) > 3 and rest[3] is not None:
        c.refuse("peepholes are not supported")
    for state in rest[1:3]:
        if not (state is None or isinstance(state, Zeros) or is_zero(state)):
            c.refuse("it takes an initial state; every stream begins with zeros")
    value = c.value(x)
    batch_first = bool(c.attribute("layout", 0))
    if value.axes not in (("BTC", "1TC") if batch_first else ("TBC", "T1C")):
        raise LayoutError(c.name, c.node.op_type, "its input is not (time, batch, channels)")
    weights = [c.constant(one, "weight").astype(np.float64)[0] for one in (w, r)]
    gates = len(_PLACES[kind])
    rows = weights[1].shape[1] * gates
    biases = np.zeros(2 * rows) if b is None else c.constant(b, "bias").astype(np.float64)[0]

    def ordered(x: NDArray[Any]) -> NDArray[Any]:
        parts = np.split(x, gates)
        places: list[Any] = [None] * gates
        for part, place in zip(parts, _PLACES[kind], strict=True):
            places[place] = part
        return np.concatenate(places)

    both = [ordered(half) for half in np.split(biases, 2)]
    kept = both if kind == "gru" else [both[0] + both[1]]
    y = c.steps.recurrent(
        value, kind, [*map(ordered, weights), *kept], c.name,
        relu=int(relu) if kind == "rnn" else None,
    )  # fmt: skip
    last = moves.select(y, y.axes.index("T"), -1, c.name)
    # An axis of directions: (time, 1, batch, channels), or (batch, time, 1, channels).
    return moves.unsqueeze(y, [2 if batch_first else 1], c.name), moves.unsqueeze(
        last, [1 if batch_first else 0], c.name
    )


def _conv(c: Call, x: Any, w: Any, b: Any = None) -> Value:
    weight = c.constant(w, "weight")
    if weight.ndim != 3:
        c.refuse(f"over {weight.ndim - 2} axes; over time alone")
    dilation = int(c.attribute("dilations", [1])[0])
    whole = (weight.shape[2] - 1) * dilation
    auto = c.attribute("auto_pad", "NOTSET")
    pads = {
        "NOTSET": tuple(c.attribute("pads", [0, 0])),
        "VALID": (0, 0),
        "SAME_UPPER": (whole // 2, whole - whole // 2),
        "SAME_LOWER": (whole - whole // 2, whole // 2),
    }[auto]
    bias = None if b is None else c.constant(b, "bias")
    return c.steps.conv1d(
        c.value(x), weight, bias, c.name, pads=(int(pads[0]), int(pads[1])), dilation=dilation,
        stride=int(c.attribute("strides", [1])[0]), groups=int(c.attribute("group", 1)),
    )  # fmt: skip


def _layernorm(c: Call, x: Any, scale: Any, shift: Any = None) -> Value:
    value, g = c.value(x), c.constant(scale, "scale")
    if c.attribute("axis", -1) not in (-1, len(value.axes) - 1):
        c.refuse("over several axes; over the last alone")
    b = np.zeros(len(g)) if shift is None else c.constant(shift, "shift")
    return c.steps.layernorm(value, g, b, c.attribute("epsilon", 1e-5), c.name)


def _batchnorm(c: Call, x: Any, *statistics: Any) -> Value:
    if c.attribute("training_mode", 0):
        c.refuse("it is in training mode; export the model after eval()")
    learned = [c.constant(one, "statistics") for one in statistics]
    return c.steps.batchnorm(c.value(x), learned, c.attribute("epsilon", 1e-5), c.name)


# --- activations ---
def _activation(kind: str) -> Callable[..., Any]:
    return lambda c, x: c.steps.activation(c.value(x), kind, c.name)


def _gelu(c: Call, x: Any) -> Value:
    tanh = c.attribute("approximate", "none") == "tanh"
    return c.steps.activation(c.value(x), "gelu_tanh" if tanh else "gelu", c.name)


def _softmax(c: Call, x: Any) -> Value:
    value = c.value(x)
    axis = c.attribute("axis", -1 if c.opset >= 13 else 1)
    if c.opset < 13 and axis not in (-1, len(value.axes) - 1):
        c.refuse(f"axis {axis} of opset {c.opset}, which is this one and all after it")
    return c.steps.softmax(value, axis, c.name)


# --- arithmetic ---
def _two(c: Call, a: Any, b: Any) -> tuple[Value, Any, bool]:
    """(a value, the other, whether they were swapped)"""
    if isinstance(a, Value):
        return a, b, False
    return c.value(b), a, True


def _number(c: Call, x: Any) -> Any:
    """One number, or one for each channel: of shape (), (C), (1, C), ..."""
    x = c.constant(x, "constant").astype(np.float64)
    if x.size > 1 and x.size != x.shape[-1]:
        c.refuse(f"a constant of shape {x.shape}; one number, or one for each channel")
    return x.reshape(-1) if x.size > 1 else float(x.reshape(-1)[0])


def _aligned(c: Call, x: Value, other: Any) -> Any:
    number = _number(c, other)
    if np.size(number) > 1 and x.axes[-1:] != "C":
        c.refuse("a constant along time")
    return number


def _add(c: Call, a: Any, b: Any) -> Any:
    if not isinstance(a, Value) and not isinstance(b, Value):
        return a + b
    x, other, _ = _two(c, a, b)
    if isinstance(other, Value):
        return c.steps.add(x, other, c.name)
    return c.steps.affine(x, 1.0, _aligned(c, x, other), c.name, "Add")


def _sub(c: Call, a: Any, b: Any) -> Any:
    if not isinstance(a, Value) and not isinstance(b, Value):
        return a - b
    if isinstance(b, Value):
        b = c.steps.affine(b, -1.0, 0.0, c.name, "Sub")
        return _add(c, a, b)
    return c.steps.affine(a, 1.0, -_aligned(c, a, b), c.name, "Sub")


def _mul(c: Call, a: Any, b: Any) -> Any:
    if not isinstance(a, Value) and not isinstance(b, Value):
        return a * b
    x, other, _ = _two(c, a, b)
    if isinstance(other, Value):
        return c.steps.multiply(x, other, c.name)
    return c.steps.affine(x, _aligned(c, x, other), 0.0, c.name, "Mul")


def _div(c: Call, a: Any, b: Any) -> Value:
    x = c.value(a)
    if isinstance(b, Value):
        c.refuse("only a division by a constant is supported")
    with np.errstate(divide="ignore"):
        return c.steps.affine(x, 1.0 / np.asarray(_aligned(c, x, b)), 0.0, c.name, "Div")


def _neg(c: Call, x: Any) -> Value:
    return c.steps.affine(c.value(x), -1.0, 0.0, c.name, "Neg")


def _concat(c: Call, *parts: Any) -> Any:
    axis = c.attribute("axis", 0)
    if all(isinstance(part, np.ndarray) for part in parts):
        return np.concatenate([part.astype(object) for part in parts], axis)
    if all(is_zero(part) or isinstance(part, Zeros) for part in parts):
        return Zeros()
    values = [part for part in parts if isinstance(part, Value)]
    if len(values) == len(parts) and all(
        v.axes[axis] in "1B" and "T" not in v.axes for v in values
    ):
        return Stack(values, axis)
    return c.steps.concat([c.value(part) for part in parts], axis, c.name)


# --- nothing ---
def _same(c: Call, x: Any, *rest: Any) -> Any:
    return x


def _dropout(c: Call, x: Any, ratio: Any = None, training: Any = None) -> Any:
    if training is not None and np.any(c.constant(training, "training_mode")):
        c.refuse("it is in training mode; export the model after eval()")
    return x


# Of an initial state they make another.
OF_ZEROS = frozenset(
    (
        "Cast",
        "Expand",
        "Gather",
        "Identity",
        "Reshape",
        "Slice",
        "Squeeze",
        "Transpose",
        "Unsqueeze",
    )
)
LAYERS: dict[str, Callable[..., Any]] = {
    **AXES,
    "Gemm": _gemm,
    "MatMul": _matmul,
    **dict.fromkeys(("LSTM", "GRU", "RNN"), _recurrent),
    "Conv": _conv,
    "LayerNormalization": _layernorm,
    "BatchNormalization": _batchnorm,
    "Relu": _activation("relu"),
    "Sigmoid": _activation("sigmoid"),
    "Tanh": _activation("tanh"),
    "Erf": _activation("erf"),
    "Gelu": _gelu,
    "Softmax": _softmax,
    "Add": _add,
    "Sub": _sub,
    "Mul": _mul,
    "Div": _div,
    "Neg": _neg,
    "Concat": _concat,
    "Dropout": _dropout,
    **dict.fromkeys(("Identity", "Cast"), _same),
}
