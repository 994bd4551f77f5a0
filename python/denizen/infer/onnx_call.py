# SPDX-License-Identifier: Apache-2.0
"""One node of an ONNX graph, as the functions of its operators get it.

Constants are NumPy arrays; shapes are arrays of ints and Size. A wrong number or kind of inputs is
a TypeError or the like, to which from_onnx.py adds the node's name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from denizen.infer.onnx_file import Tensors
from denizen.infer.steps import Size, Steps, Value, refuse


@dataclass(frozen=True)
class Stack:
    """Values along a new axis, of which one is taken later: the last states of several layers."""

    values: Sequence[Value]
    axis: int


@dataclass(frozen=True)
class Call:
    """One node. ``fixed``: what lengths of the input's time and batch the file was exported for."""

    steps: Steps
    name: str
    node: Any
    opset: int
    tensors: Tensors
    fixed: Mapping[int, Size]

    def attribute(self, name: str, default: Any = None) -> Any:
        import onnx  # noqa: PLC0415

        for one in self.node.attribute:
            if one.name == name:
                found = onnx.helper.get_attribute_value(one)
                return found.decode(errors="replace") if isinstance(found, bytes) else found
        return default

    def refuse(self, why: str) -> Any:
        refuse(self.name, self.node.op_type, why)

    def value(self, x: Any) -> Value:
        if not isinstance(x, Value):
            self.refuse("its input is not a value that the model's input makes")
        assert isinstance(x, Value)
        return x

    def constant(self, x: Any, what: str) -> NDArray[Any]:
        if not isinstance(x, np.ndarray):
            self.refuse(f"its {what} is not a constant")
        return np.asarray(x)

    def ints(self, x: Any, what: str) -> list[int]:
        return [int(one) for one in np.atleast_1d(self.constant(x, what))]


def is_zero(x: Any) -> bool:
    return isinstance(x, np.ndarray) and not x.any()
