# SPDX-License-Identifier: Apache-2.0
"""A model over whole sequences, read as what it does in one time step.

PyTorch and ONNX compute on (batch, time, channels) arrays; a resident gets one step of one stream.
The importers call a method of ``Steps`` for each layer, with values that know what their axes mean
and which time their first item belongs to. What mixes steps other than causally has no step, and
is refused with the layer's name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from denizen.errors import ArgumentError
from denizen.infer.model import ACTIVATIONS

# What an error offers instead.
SUPPORTED = (
    "Linear, LSTM, GRU, RNN, Conv1d (causal), Embedding, LayerNorm, BatchNorm1d, ReLU, GELU, SiLU, "
    "Tanh, Sigmoid, Softmax, additions, concatenations, and what only moves the batch or time axis"
)
Floats = NDArray[np.float32]


class InputWidth(Exception):  # noqa: N818 - not an error: the importer begins again with it
    """The first layer that says how wide the input is."""

    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.width = width


class LayoutError(ArgumentError):
    """The axes of a layer's input are not what it takes: those of the model's may mean others."""

    def __init__(self, name: str, kind: str, why: str) -> None:
        super().__init__(f"layer {name!r} ({kind}) cannot be resident: {why}")


@dataclass(frozen=True)
class Value:
    """A value of the step, as the user's model sees it: an array with an axis for each letter.

    ``axes``: B batch, T time, C channels, 1 an axis of one item. ``start``: the time of item 0,
    above 0 where a convolution drops its first steps, below after padding. ``tail``: items after
    the last step, which padding on both sides makes and a slice removes.
    """

    number: int
    axes: str
    start: int = 0
    tail: int = 0


@dataclass(frozen=True)
class Size:
    """The length of axes that a streaming model does not know: of the batch, of time, of both.

    ``extra``: how many items there are beyond the steps.
    """

    axes: str
    extra: int = 0

    def __add__(self, other: int) -> Size:
        return Size(self.axes, self.extra + other)

    def __sub__(self, other: int) -> Size:
        return Size(self.axes, self.extra - other)

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, Size):
            return Size(self.axes + other.axes)
        return self if other == 1 else NotImplemented

    __rmul__ = __mul__


class Zeros:
    """Zeros of any shape: the initial state of a recurrent layer."""


@dataclass(frozen=True)
class Node:
    """An op on its way to a Model: its kind may be one that only patterns use ("erf", "mul")."""

    kind: str
    inputs: tuple[int, ...]
    weights: tuple[Floats, ...]
    settings: dict[str, int | float]
    name: str


def refuse(name: str, kind: str, why: str) -> NoReturn:
    raise ArgumentError(f"layer {name!r} ({kind}) cannot be resident: {why}")


def floats(x: Any) -> Floats:
    return np.ascontiguousarray(x, np.float32)


class Steps:
    """Makes one node for each layer. ``width``: of the input; None until a layer says it."""

    def __init__(self, width: int | None) -> None:
        self.nodes: list[Node] = []
        self.widths: list[int | None] = [width]
        self.tokens = False

    def node(
        self,
        kind: str,
        values: Sequence[Value],
        width: int | None,
        name: str,
        weights: Sequence[Any] = (),
        **settings: int | float,
    ) -> Value:
        inputs = tuple(value.number for value in values)
        self.nodes.append(Node(kind, inputs, tuple(floats(w) for w in weights), settings, name))
        self.widths.append(width)
        return replace(values[0], number=len(self.nodes))

    def width(self, value: Value) -> int | None:
        return self.widths[value.number]

    def keep(self, nodes: int) -> None:
        """Forgets all nodes after the first ``nodes``."""
        del self.nodes[nodes:], self.widths[nodes + 1 :]

    # --- what a layer asks of its input ---
    def _takes(self, value: Value, width: int, name: str, kind: str) -> None:
        known = self.width(value)
        if known is None:
            raise InputWidth(width)
        if known != width:
            refuse(name, kind, f"it takes {width} floats a step and gets {known}")

    def _plain(self, value: Value, name: str, kind: str) -> None:
        if value.start < 0:
            refuse(name, kind, "padding in time is for a convolution; pad right before it")
        if "C" not in value.axes:
            raise LayoutError(name, kind, "its input is a token, which an embedding alone takes")

    def _channels(self, value: Value, axis: int, name: str, kind: str) -> None:
        self._plain(value, name, kind)
        if not -len(value.axes) <= axis < len(value.axes) or value.axes[axis] != "C":
            raise LayoutError(name, kind, f"its axis {axis} is not that of the channels")

    # --- layers ---
    def linear(self, x: Value, weight: Any, bias: Any, name: str, kind: str = "Linear") -> Value:
        w = floats(weight)
        self._channels(x, -1, name, kind)
        self._takes(x, w.shape[1], name, kind)
        b = np.zeros(w.shape[0]) if bias is None else bias
        return self.node("linear", [x], w.shape[0], name, [w, b])

    def recurrent(
        self, x: Value, kind: str, weights: Sequence[Any], name: str, *, relu: int | None = None
    ) -> Value:
        """One layer, of ``weights`` as a Model has them."""
        self._channels(x, -1, name, kind.upper())
        if "T" not in x.axes:
            raise LayoutError(name, kind.upper(), "its input has no axis of time")
        if x.start != 0:
            refuse(
                name, kind.upper(),
                f"its input begins {x.start} steps late, after a convolution without padding; pad "
                "the convolution on the left",
            )  # fmt: skip
        hidden = int(weights[1].shape[1])
        self._takes(x, weights[0].shape[1], name, kind.upper())
        settings = {} if relu is None else {"relu": relu}
        return self.node(kind, [x], hidden, name, weights, **settings)

    def conv1d(
        self,
        x: Value,
        weight: Any,
        bias: Any,
        name: str,
        *,
        pads: tuple[int, int],
        dilation: int,
        stride: int,
        groups: int,
    ) -> Value:
        kind = "Conv1d"
        w = grouped(floats(weight), groups)
        out, inner, taps = w.shape
        if stride != 1:
            refuse(name, kind, f"stride {stride}: every step has one answer; give stride 1")
        if x.axes not in ("BCT", "CT", "1CT"):
            raise LayoutError(name, kind, "its input is not (batch, channels, time)")
        self._takes(x, inner, name, kind)
        reach = (taps - 1) * dilation
        start = x.start - pads[0] + reach
        if start < 0:
            refuse(name, kind, f"its padding is longer than its reach of {reach} steps")
        if x.start < 0 and x.start + reach < 0:
            refuse(name, kind, f"the padding before it is longer than its reach of {reach} steps")
        b = np.zeros(out) if bias is None else bias
        made = self.node("conv1d", [x], out, name, [w, b], dilation=dilation)
        return replace(made, start=start, tail=x.tail + pads[1])

    def embedding(self, x: Value, weight: Any, name: str) -> Value:
        w = floats(weight)
        if x.number != 0 or "C" in x.axes:
            why = "its input is not the model's own input, one token a step"
            raise LayoutError(name, "Embedding", why)
        self.tokens = True
        return replace(self.node("embedding", [x], w.shape[1], name, [w]), axes=x.axes + "C")

    def layernorm(self, x: Value, scale: Any, shift: Any, eps: float, name: str) -> Value:
        self._channels(x, -1, name, "LayerNorm")
        self._takes(x, len(scale), name, "LayerNorm")
        return self.node("layernorm", [x], self.width(x), name, [scale, shift], eps=eps)

    def batchnorm(self, x: Value, learned: Sequence[Any], eps: float, name: str) -> Value:
        """(x - mean) / sqrt(var + eps) * scale + shift; ``learned``: scale, shift, mean, var."""
        scale, shift, mean, var = learned
        self._channels(x, 1, name, "BatchNorm1d")
        factor = np.asarray(scale, np.float64) / np.sqrt(np.asarray(var, np.float64) + eps)
        offset = np.asarray(shift, np.float64) - np.asarray(mean, np.float64) * factor
        return self.affine(x, factor, offset, name, "BatchNorm1d")

    def affine(self, x: Value, scale: Any, shift: Any, name: str, kind: str) -> Value:
        """x * scale + shift, each a number or one for each channel."""
        self._plain(x, name, kind)
        sizes = {np.size(one) for one in (scale, shift)} - {1}
        if len(sizes) > 1 or any(np.ndim(one) > 1 for one in (scale, shift)):
            refuse(name, kind, "a constant is one number, or one for each channel")
        if sizes:
            self._takes(x, sizes.pop(), name, kind)
        width = self.width(x)
        if width is None:
            raise ArgumentError(
                f"layer {name!r} ({kind}) is the first and does not say how wide the input is; "
                "give width="
            )
        both = [np.broadcast_to(np.reshape(one, -1), (width,)) for one in (scale, shift)]
        return self.node("affine", [x], width, name, both)

    def activation(self, x: Value, kind: str, name: str) -> Value:
        assert kind in (*ACTIVATIONS, "erf")
        self._plain(x, name, kind)
        return self.node(kind, [x], self.width(x), name)

    def softmax(self, x: Value, axis: int, name: str) -> Value:
        self._channels(x, axis, name, "Softmax")
        return self.activation(x, "softmax", name)

    # --- of two values and more ---
    def _alike(self, values: Sequence[Value], name: str, kind: str) -> None:
        for value in values:
            self._plain(value, name, kind)
        first = values[0]
        for other in values[1:]:
            if other.axes != first.axes:
                refuse(name, kind, "its inputs have different axes")
            if (other.start, other.tail) != (first.start, first.tail):
                refuse(
                    name, kind,
                    f"its inputs differ in time: they begin at steps {first.start} and "
                    f"{other.start}, and go {first.tail} and {other.tail} beyond the last",
                )  # fmt: skip

    def add(self, a: Value, b: Value, name: str) -> Value:
        self._alike([a, b], name, "Add")
        widths = {self.width(a), self.width(b)}
        if len(widths) > 1:
            known = widths - {None}
            if len(known) == 1:
                raise InputWidth(known.pop() or 0)
            refuse(name, "Add", f"it adds {self.width(a)} floats and {self.width(b)}")
        return self.node("add", [a, b], self.width(a), name)

    def multiply(self, a: Value, b: Value, name: str) -> Value:
        """Only as a part of SiLU or GELU (fold.py), which are written so in ONNX."""
        self._alike([a, b], name, "Mul")
        return self.node("mul", [a, b], self.width(a), name)

    def concat(self, values: Sequence[Value], axis: int, name: str) -> Value:
        self._alike(values, name, "Concat")
        self._channels(values[0], axis, name, "Concat")
        if len(values) == 1:
            return values[0]
        widths = [self.width(value) for value in values]
        if None in widths:
            raise ArgumentError(
                f"layer {name!r} (Concat) does not say how wide the input is; give width="
            )
        return self.node("concat", values, sum(width or 0 for width in widths), name)

    def answer(self, x: Any, name: str) -> Value:
        """What the model returns, checked to be known at its step."""
        if not isinstance(x, Value):
            refuse(name, "output", "it is not a value that its input makes")
        if x.axes.count("C") != 1:
            refuse(name, "output", "it is a token")
        if x.start < 0:
            refuse(name, "output", "padding in time is for a convolution")
        if x.tail > 0:
            refuse(
                name, "output",
                f"it goes {x.tail} steps beyond the last input: a convolution that is padded on "
                "both sides looks ahead. Pad (kernel - 1) * dilation on the left alone, or slice "
                "the end off",
            )  # fmt: skip
        return x


def grouped(w: Floats, groups: int) -> Floats:
    """(out, in / groups, k) as (out, in, k), with zeros between the groups."""
    if groups == 1:
        return w
    out, inner, taps = w.shape
    full = np.zeros((out, inner * groups, taps), np.float32)
    for group in range(groups):
        rows = slice(group * out // groups, (group + 1) * out // groups)
        full[rows, group * inner : (group + 1) * inner] = w[rows]
    return full
