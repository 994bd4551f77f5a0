# SPDX-License-Identifier: Apache-2.0
"""What the importers recorded, made smaller: patterns become one op, scales join the weights.

SiLU and GELU are written as several nodes in ONNX; BatchNorm is a scale and a shift, which a Linear
or Conv1d before it takes into its weights. What nothing reads is dropped.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from denizen.errors import ArgumentError
from denizen.infer.model import Model, Op
from denizen.infer.steps import Node, Steps, floats, refuse


def model_of(steps: Steps, output: int) -> Model:
    """The model whose answer is value ``output``."""
    nodes, output = _live(*_activations(steps, output))
    while (folded := _scales(nodes, output)) is not None:
        nodes, output = _live(folded[0], folded[1])
    for node in nodes:
        if node.kind in ("mul", "erf"):
            refuse(node.name, node.kind.capitalize(), "only a product that is a SiLU or a GELU")
    names: dict[str, int] = {}  # a layer that is used twice is two, each with its own state
    ops = []
    for node in nodes:
        used = names[node.name] = names.get(node.name, 0) + 1
        name = node.name if used == 1 else f"{node.name}#{used}"
        ops.append(Op(node.kind, node.inputs, node.weights, node.settings, name))
    width = 1 if steps.tokens else steps.widths[0]
    if width is None:
        raise ArgumentError("no layer of the model says how wide its input is; give width=")
    widths = [width]
    for op in ops:
        widths.append(op.width(tuple(widths[value] for value in op.inputs)))
    return Model(tuple(widths), tuple(ops), output, steps.tokens)


def _live(nodes: Sequence[Node], output: int) -> tuple[list[Node], int]:
    """Those that the answer needs, and its new number."""
    needed = {output}
    for number in range(len(nodes), 0, -1):
        if number in needed:
            needed.update(nodes[number - 1].inputs)
    numbers = {0: 0}
    kept = []
    for number, node in enumerate(nodes, 1):
        if number in needed:
            kept.append(replace(node, inputs=tuple(numbers[value] for value in node.inputs)))
            numbers[number] = len(kept)
    return kept, numbers[output]


def _scalar(node: Node) -> tuple[float, float] | None:
    """(scale, shift) of an affine that is the same for all channels."""
    if node.kind != "affine":
        return None
    scale, shift = node.weights
    if np.ptp(scale) or np.ptp(shift):
        return None
    return float(scale[0]), float(shift[0])


def _activations(steps: Steps, output: int) -> tuple[list[Node], int]:
    """x sigmoid(x) is silu(x); a x (1 + erf(x / sqrt 2)) is a scale of gelu(x)."""
    nodes = steps.nodes
    made = list(nodes)
    scales: dict[int, float] = {}  # of a gelu, by its number

    def node(value: int) -> Node | None:
        return made[value - 1] if value else None

    def peeled(value: int) -> tuple[int, float]:
        """(v, a) where this value is a v."""
        this = node(value)
        if this is not None and (scalar := _scalar(this)) is not None and scalar[1] == 0:
            return this.inputs[0], scalar[0]
        return value, 1.0

    def cdf(value: int) -> tuple[int, float] | None:
        """(v, a) where this value is a (1 + erf(v / sqrt 2))."""
        value, outer = peeled(value)
        one = node(value)
        if one is None or (scalar := _scalar(one)) is None or scalar[0] != scalar[1]:
            return None
        erf = node(one.inputs[0])
        if erf is None or erf.kind != "erf":
            return None
        inner, factor = peeled(erf.inputs[0])
        close = math.isclose(factor, math.sqrt(0.5), rel_tol=1e-6)
        return (inner, outer * scalar[0]) if close else None

    for index, this in enumerate(nodes):
        if this.kind != "mul":
            continue
        for a, b in (this.inputs, this.inputs[::-1]):
            other = node(b)
            if other is not None and other.kind == "sigmoid" and other.inputs == (a,):
                made[index] = replace(this, kind="silu", inputs=(a,))
                break
            base, scale = peeled(a)
            found = cdf(b)
            if found is not None and found[0] in (a, base):
                whole = 2 * found[1] * (1.0 if found[0] == a else scale)
                made[index] = replace(this, kind="gelu", inputs=(found[0],))
                if not math.isclose(whole, 1.0, rel_tol=1e-6):
                    scales[index + 1] = whole
                break
    return _scaled(steps, made, scales, output)


def _scaled(
    steps: Steps, nodes: Sequence[Node], scales: Mapping[int, float], output: int
) -> tuple[list[Node], int]:
    """An affine after each node that has a scale; the next one of the model often cancels it."""
    made: list[Node] = []
    numbers = [0]
    for number, this in enumerate(nodes, 1):
        made.append(replace(this, inputs=tuple(numbers[value] for value in this.inputs)))
        if number in scales:
            width = steps.widths[number] or 1
            both = floats(np.full(width, scales[number])), floats(np.zeros(width))
            made.append(Node("affine", (len(made),), both, {}, this.name))
        numbers.append(len(made))
    return made, numbers[output]


def _scales(nodes: Sequence[Node], output: int) -> tuple[list[Node], int] | None:
    """One affine folded into what makes its input, or dropped; None if there is none to fold."""
    readers = [0] * (len(nodes) + 1)
    readers[output] += 1
    for node in nodes:
        for value in node.inputs:
            readers[value] += 1
    for number, node in enumerate(nodes, 1):
        if node.kind != "affine":
            continue
        before = node.inputs[0]
        scale, shift = (weight.astype(np.float64) for weight in node.weights)
        if np.allclose(scale, 1, rtol=0, atol=1e-7) and not shift.any():
            return _without(nodes, output, number, before)
        if before == 0 or readers[before] > 1:
            continue
        maker = nodes[before - 1]
        if maker.kind not in ("linear", "conv1d", "affine"):
            continue
        weight, bias = (w.astype(np.float64) for w in maker.weights)
        factor = scale.reshape(-1, *[1] * (weight.ndim - 1))
        joined = floats(weight * factor), floats(bias * scale + shift)
        made = list(nodes)
        made[before - 1] = replace(maker, weights=joined)
        return _without(made, output, number, before)
    return None


def _without(
    nodes: Sequence[Node], output: int, number: int, instead: int
) -> tuple[list[Node], int]:
    """Node ``number`` is read no more: its readers read ``instead``."""

    def moved(value: int) -> int:
        return instead if value == number else value

    made = [replace(node, inputs=tuple(moved(value) for value in node.inputs)) for node in nodes]
    return made, moved(output)
