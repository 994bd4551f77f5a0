# SPDX-License-Identifier: Apache-2.0
"""A model of ONNX as a Model. The package onnx is imported here alone."""

from __future__ import annotations

from typing import Any

from denizen.errors import ArgumentError
from denizen.infer import onnx_file
from denizen.infer.fold import model_of
from denizen.infer.layouts import LAYOUTS, first_with_a_step
from denizen.infer.model import Model
from denizen.infer.onnx_call import Call
from denizen.infer.onnx_layers import LAYERS, OF_ZEROS
from denizen.infer.steps import SUPPORTED, InputWidth, Size, Steps, Value, Zeros, refuse

_TOKENS = (6, 7)  # TensorProto.INT32, INT64


def from_onnx(source: Any, *, width: int | None = None) -> Model:
    """The model of an ONNX graph's first output, as a function of its first input.

    ``source``: a path, the bytes of a file, or a ``ModelProto``. Weights may lie in other files of
    its folder. Further inputs are initial states of recurrent layers, and zeros. The input may be
    (time, batch, channels), (batch, time, channels), (batch, channels, time) or have fewer axes,
    whichever its layers ask for; integers are one token a step. Conv: as in ``from_torch``.

    ``width``: of the input, where neither the graph nor a layer says it. Raises ArgumentError with
    the node's name and type for anything that has no step or is not supported, and for a file that
    is not what it says; MissingPackageError without the package onnx.
    """
    proto, folder = onnx_file.read(source)
    try:
        return _model(proto, folder, width)
    except InputWidth as found:
        return _model(proto, folder, found.width)


def _model(proto: Any, folder: Any, width: int | None) -> Model:
    graph = _Graph(proto, folder)
    steps = Steps(width)
    _, value = first_with_a_step(steps, graph.layouts, lambda axes: graph.read(steps, axes, width))
    return model_of(steps, value.number)


class _Graph:
    def __init__(self, proto: Any, folder: Any) -> None:
        self.graph = proto.graph
        self.opset = max((o.version for o in proto.opset_import if not o.domain), default=0)
        self.tensors = onnx_file.Tensors(folder)
        self.weights = {t.name: self.tensors.array(t, t.name) for t in self.graph.initializer}
        # Of older files, weights are among the inputs.
        self.inputs = [one for one in self.graph.input if one.name not in self.weights]
        if not self.inputs:
            raise ArgumentError("the model has no input")
        kind = self.inputs[0].type.tensor_type
        tokens = kind.elem_type in _TOKENS
        self.dims = [d.dim_value for d in kind.shape.dim] if kind.HasField("shape") else None
        self.layouts = [
            axes
            for axes in LAYOUTS
            if ("C" not in axes) == tokens and (self.dims is None or len(axes) == len(self.dims))
        ]
        if not self.layouts:
            raise ArgumentError(
                f"input {self.inputs[0].name!r} has {len(self.dims or ())} axes; a model takes "
                "time, batch and channels"
            )

    def read(self, steps: Steps, axes: str, width: int | None) -> Value:
        """The graph's first output, where its input's axes mean ``axes``."""
        lengths = dict(zip(axes, self.dims or (), strict=False))
        if width is None and "C" in axes:
            steps.widths[0] = lengths.get("C") or None
        values: dict[str, Any] = {**self.weights, "": None}
        values.update({one.name: Zeros() for one in self.inputs[1:]})
        values[self.inputs[0].name] = Value(0, axes)
        fixed = {size: Size(letter) for letter, size in lengths.items() if letter in "TB" and size}
        for index, node in enumerate(self.graph.node):
            self._node(steps, node, index, values, fixed)
        output = self.graph.output[0].name
        return steps.answer(values.get(output), output)

    def _node(
        self, steps: Steps, node: Any, index: int, values: dict[str, Any], fixed: dict[int, Size]
    ) -> None:
        name = node.name or f"{node.op_type} {index}"
        done = LAYERS.get(node.op_type) if node.domain in ("", "ai.onnx") else None
        if done is None:
            older = node.op_type in ("ReduceMean", "Pow", "Sqrt")
            hint = ". A LayerNorm or GELU in parts? Export with opset 20 or later" if older else ""
            refuse(name, node.op_type, f"it is not supported; supported are {SUPPORTED}{hint}")
        unknown = [one for one in node.input if one not in values]
        if unknown:
            refuse(name, node.op_type, f"its input {unknown[0]!r} is made by no node before it")
        call = Call(steps, name, node, self.opset, self.tensors, fixed)
        inputs = [values[one] for one in node.input]
        if inputs and isinstance(inputs[0], Zeros) and node.op_type in OF_ZEROS:
            values.update((output, inputs[0]) for output in node.output)
            return
        try:
            made = done(call, *inputs)
        except ArgumentError:  # a ValueError, too
            raise
        except (TypeError, AttributeError, ValueError, IndexError, KeyError) as error:
            raise ArgumentError(
                f"layer {name!r} ({node.op_type}) cannot be resident: its inputs or attributes are "
                f"not supported ({error})"
            ) from error
        outputs = made if isinstance(made, tuple) else (made,)
        for output in node.output:
            values[output] = None
        values.update(zip(node.output, outputs, strict=False))
        values[""] = None
