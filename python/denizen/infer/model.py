# SPDX-License-Identifier: Apache-2.0
"""What a resident computes in one time step of one stream: values, and the ops that make them.

The importers (``from_torch``, ``from_onnx``) make a Model, ``Resident`` runs it. A Model is valid
once it exists: the shape of each weight, the width of each value and the order of the ops are
checked when it is made.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from denizen.errors import ArgumentError

# Kinds that map each element alone, and softmax, which keeps the width too.
ACTIVATIONS = ("relu", "gelu", "gelu_tanh", "silu", "tanh", "sigmoid", "softmax")
# One value holds at most as many floats, and one weight at most as many.
MOST_WIDTH = 1 << 20
MOST_WEIGHT = 1 << 30


@dataclass(frozen=True, eq=False)
class Op:
    """One op: ``kind`` of the values ``inputs``, of which it makes one more.

    ``weights`` are row-major float32, in PyTorch's order of gates:

    =========== ===================================================== ==================
    kind        weights                                               settings
    =========== ===================================================== ==================
    linear      W (out, in), b (out)
    lstm        Wih (4h, in), Whh (4h, h), b (4h); gates i, f, g, o
    gru         Wih (3h, in), Whh (3h, h), bih (3h), bhh (3h); r, z, n
    rnn         Wih (h, in), Whh (h, h), b (h)                        relu: 0 (tanh), 1
    conv1d      W (out, in, k), b (out)                               dilation: from 1
    embedding   W (n, d)
    layernorm   g (width), b (width)                                  eps: above 0
    affine      scale (width), shift (width)
    =========== ===================================================== ==================

    relu, gelu (by erf), gelu_tanh, silu, tanh, sigmoid and softmax (over the whole width) take one
    value and no weights; add takes two of one width, concat two or more. lstm, gru and rnn keep
    their state from step to step, conv1d the last (k - 1) * dilation inputs; it begins with zeros.

    ``name`` is the layer's in the user's model. Raises ArgumentError, with that name, for a kind
    that is not known and for weights of another dtype or shape.
    """

    kind: str
    inputs: tuple[int, ...]
    weights: tuple[NDArray[np.float32], ...] = ()
    settings: Mapping[str, int | float] = field(default_factory=dict)
    name: str = ""

    def __post_init__(self) -> None:
        if self.kind not in _KINDS:
            raise ArgumentError(
                f"{self}: this kind is not known; the kinds are {', '.join(_KINDS)}"
            )
        kind = _KINDS[self.kind]
        if len(self.inputs) != kind.inputs and not (kind.inputs == _SEVERAL <= len(self.inputs)):
            wanted = "two or more values" if self.kind == "concat" else f"{kind.inputs} value(s)"
            raise ArgumentError(f"{self} takes {wanted}, not {len(self.inputs)}")
        if len(self.weights) != len(kind.weights):
            names = ", ".join(kind.weights) or "none"
            raise ArgumentError(f"{self} has {len(self.weights)} weights; it takes {names}")
        for name, weight in zip(kind.weights, self.weights, strict=True):
            if not isinstance(weight, np.ndarray) or weight.dtype != np.float32:
                got = weight.dtype if isinstance(weight, np.ndarray) else type(weight).__name__
                raise ArgumentError(f"{self}: weight {name} is {got}; give float32")
            if not weight.flags.c_contiguous:
                raise ArgumentError(
                    f"{self}: weight {name} is not contiguous; give np.ascontiguousarray of it"
                )
            if not weight.shape or not 0 < weight.size <= MOST_WEIGHT:
                raise ArgumentError(
                    f"{self}: weight {name} has shape {weight.shape}; 1 to {MOST_WEIGHT} elements"
                )
        if set(self.settings) != set(kind.settings):
            raise ArgumentError(
                f"{self} has the settings {sorted(self.settings)}; it takes {sorted(kind.settings)}"
            )
        for key, (least, most) in kind.settings.items():
            if not least <= self.settings[key] <= most:
                raise ArgumentError(
                    f"{self}: {key} is {self.settings[key]}; give {least:g} to {most:g}"
                )

    def __str__(self) -> str:
        return f"layer {self.name!r} ({self.kind})" if self.name else f"a layer of kind {self.kind}"

    def width(self, widths: tuple[int, ...]) -> int:
        """The width of the value it makes of values of these widths; ArgumentError for others."""
        return _KINDS[self.kind].width(self, widths)


@dataclass(frozen=True, eq=False)
class Model:
    """A model's step: value 0 is the input, op i makes value i + 1, ``output`` is the answer.

    ``widths[v]``: how many floats value v has. ``tokens``: the input is one int32 index, for an
    embedding, and its width is 1. Raises ArgumentError, with the layer's name, for an op that reads
    a later value and for widths that do not fit.
    """

    widths: tuple[int, ...]
    ops: tuple[Op, ...]
    output: int
    tokens: bool = False

    def __post_init__(self) -> None:
        if len(self.widths) != len(self.ops) + 1:
            raise ArgumentError(
                f"the model has {len(self.ops)} ops and {len(self.widths)} widths; one width for "
                "the input and one for each op"
            )
        for width in self.widths:
            if not 0 < width <= MOST_WIDTH:
                raise ArgumentError(f"a value has {width} floats; 1 to {MOST_WIDTH}")
        if self.tokens and self.widths[0] != 1:
            raise ArgumentError(f"the input is a token, and its width {self.widths[0]}, not 1")
        for index, op in enumerate(self.ops):
            if not all(0 <= value <= index for value in op.inputs):
                raise ArgumentError(
                    f"{op} makes value {index + 1} and reads {op.inputs}; it may read 0 to {index}"
                )
            if (op.kind == "embedding") != (self.tokens and 0 in op.inputs):
                raise ArgumentError(
                    f"{op} reads a token, which only an embedding does"
                    if op.kind != "embedding"
                    else f"{op} reads value {op.inputs[0]}, which is not a token"
                )
            width = op.width(tuple(self.widths[value] for value in op.inputs))
            if width != self.widths[index + 1]:
                raise ArgumentError(
                    f"{op} makes {width} floats, and value {index + 1} has {self.widths[index + 1]}"
                )
        if not 0 <= self.output < len(self.widths) or (self.tokens and self.output == 0):
            raise ArgumentError(
                f"the model's answer is value {self.output}; give a value that an op makes, at "
                f"most {len(self.ops)}"
            )

    @property
    def parameters(self) -> int:
        """How many floats its weights are."""
        return sum(weight.size for op in self.ops for weight in op.weights)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes it to an .npz file, whole or not at all, of which ``model_of(path)`` makes it."""
        from denizen.infer import model_file  # noqa: PLC0415 - which knows this class

        model_file.write(path, self)


# --- what each kind takes, and how wide its value is ---
_SEVERAL = 2  # of concat: as many at least


@dataclass(frozen=True)
class _Kind:
    inputs: int
    width: Callable[[Op, tuple[int, ...]], int]
    weights: tuple[str, ...] = ()
    settings: Mapping[str, tuple[float, float]] = field(default_factory=dict)


def _want(op: Op, shapes: Mapping[int, tuple[int, ...]]) -> None:
    for index, shape in shapes.items():
        if op.weights[index].shape != shape:
            name = _KINDS[op.kind].weights[index]
            raise ArgumentError(
                f"{op}: weight {name} has shape {op.weights[index].shape}; it takes {shape}"
            )


def _linear(op: Op, widths: tuple[int, ...]) -> int:
    out = int(op.weights[0].shape[0])
    _want(op, {0: (out, widths[0]), 1: (out,)})
    return out


def _recurrent(gates: int) -> Callable[[Op, tuple[int, ...]], int]:
    def width(op: Op, widths: tuple[int, ...]) -> int:
        hidden = int(op.weights[1].shape[-1])
        rows = gates * hidden
        biases = {index: (rows,) for index in range(2, len(op.weights))}
        _want(op, {0: (rows, widths[0]), 1: (rows, hidden), **biases})
        return hidden

    return width


def _conv1d(op: Op, widths: tuple[int, ...]) -> int:
    shape: Any = op.weights[0].shape
    out, taps = int(shape[0]), int(shape[-1])
    _want(op, {0: (out, widths[0], taps), 1: (out,)})
    return out


def _embedding(op: Op, widths: tuple[int, ...]) -> int:
    shape: Any = op.weights[0].shape
    if len(shape) != 2:
        raise ArgumentError(f"{op}: weight W has shape {shape}; it takes two dimensions")
    return int(shape[1])


def _scaled(op: Op, widths: tuple[int, ...]) -> int:
    _want(op, {0: (widths[0],), 1: (widths[0],)})
    return widths[0]


def _same(op: Op, widths: tuple[int, ...]) -> int:
    return widths[0]


def _add(op: Op, widths: tuple[int, ...]) -> int:
    if widths[0] != widths[1]:
        raise ArgumentError(f"{op} adds {widths[0]} floats and {widths[1]}; give two of one width")
    return widths[0]


def _concat(op: Op, widths: tuple[int, ...]) -> int:
    return sum(widths)


_KINDS: Mapping[str, _Kind] = {
    "linear": _Kind(1, _linear, ("W", "b")),
    "lstm": _Kind(1, _recurrent(4), ("Wih", "Whh", "b")),
    "gru": _Kind(1, _recurrent(3), ("Wih", "Whh", "bih", "bhh")),
    "rnn": _Kind(1, _recurrent(1), ("Wih", "Whh", "b"), {"relu": (0, 1)}),
    "conv1d": _Kind(1, _conv1d, ("W", "b"), {"dilation": (1, 1 << 20)}),
    "embedding": _Kind(1, _embedding, ("W",)),
    "layernorm": _Kind(1, _scaled, ("g", "b"), {"eps": (1e-12, 1.0)}),
    "affine": _Kind(1, _scaled, ("scale", "shift")),
    **{kind: _Kind(1, _same) for kind in ACTIVATIONS},
    "add": _Kind(2, _add),
    "concat": _Kind(_SEVERAL, _concat),
}
