# SPDX-License-Identifier: Apache-2.0
"""Graphs of ONNX for the tests: small ones, and stacks of layers by a list of their names."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

STEPS = 7


def model(nodes, weights, *, shape, output="y", elements=TensorProto.FLOAT, opset=21):
    """A ModelProto from input "x" of ``shape`` to ``output``. ``weights``: arrays by name."""
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", elements, shape)],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    imports = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


class Stack:
    """Layers one after the other on (time, 1, channels), as an exporter writes them."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.nodes, self.weights = [], {}
        self.count = 0
        self.value = "x"

    def array(self, *shape):
        name = self.name("w")
        scale = 1 / np.sqrt(shape[-1])
        self.weights[name] = (scale * self.random.standard_normal(shape)).astype(np.float32)
        return name

    def ints(self, *values):
        name = self.name("i")
        self.weights[name] = np.array(values, np.int64)
        return name

    def name(self, prefix="v"):
        self.count += 1
        return f"{prefix}{self.count}"

    def node(self, kind, inputs, **attributes):
        made = self.name()
        self.nodes.append(
            helper.make_node(kind, inputs, [made], f"{kind.lower()}_{made}", **attributes)
        )
        return made

    def layer(self, kind, width):
        """The width after it."""
        x, out = self.value, int(self.random.integers(1, 9))
        if kind in ("LSTM", "GRU", "RNN"):
            gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind]
            more = {"linear_before_reset": 1} if kind == "GRU" else {}
            if kind == "RNN" and self.random.integers(2):
                more = {"activations": ["Relu"]}
            w, r = self.array(1, gates * out, width), self.array(1, gates * out, out)
            b = self.array(1, 2 * gates * out)
            y = self.node(kind, [x, w, r, b], hidden_size=out, **more)
            self.value = self.node("Squeeze", [y, self.ints(1)])
            return out
        if kind == "Conv":
            taps, dilation = (int(n) for n in self.random.integers(1, 4, 2))
            y = self.node("Transpose", [x], perm=[1, 2, 0])
            y = self.node(
                "Conv",
                [y, self.array(out, width, taps), self.array(out)],
                dilations=[dilation],
                pads=[(taps - 1) * dilation, 0],
            )
            if self.random.integers(2):
                learned = [self.array(out) for _ in range(4)]
                self.weights[learned[3]] = np.abs(self.weights[learned[3]]) + 0.5
                y = self.node("BatchNormalization", [y, *learned])
            self.value = self.node("Transpose", [y], perm=[2, 0, 1])
            return out
        if kind == "MatMul":
            y = self.node("MatMul", [x, self.array(width, out)])
            self.value = self.node("Add", [y, self.array(out)])
            return out
        if kind == "LayerNormalization":
            self.value = self.node(kind, [x, self.array(width), self.array(width)], axis=-1)
        elif kind == "SiLU":
            self.value = self.node("Mul", [x, self.node("Sigmoid", [x])])
        elif kind == "GELU by erf":
            half, one, root = (self.name("c") for _ in range(3))
            self.weights |= {half: np.float32(0.5), one: np.float32(1), root: np.float32(2**0.5)}
            erf = self.node("Erf", [self.node("Div", [x, root])])
            y = self.node("Mul", [x, self.node("Add", [erf, one])])
            self.value = self.node("Mul", [y, half])
        elif kind == "residual":
            y = self.node("MatMul", [x, self.array(width, width)])
            self.value = self.node("Add", [x, y])
        elif kind == "Concat":
            self.value = self.node(kind, [x, self.node("Tanh", [x])], axis=2)
            return 2 * width
        else:
            more = {"axis": 2} if kind == "Softmax" else {}
            more |= {"approximate": "tanh"} if kind == "Gelu" and self.random.integers(2) else {}
            self.value = self.node(kind, [x], **more)
        return width

    def model(self, kinds, width):
        for kind in kinds:
            width = self.layer(kind, width)
        self.nodes.append(helper.make_node("Identity", [self.value], ["y"], "last"))
        return model(self.nodes, self.weights, shape=["time", 1, None])


KINDS = (
    *("LSTM", "GRU", "RNN", "Conv", "MatMul", "LayerNormalization", "Relu", "Gelu", "SiLU"),
    *("GELU by erf", "Tanh", "Sigmoid", "Softmax", "residual", "Concat"),
)


def small():
    """One Gemm of 3 to 2, as bytes are wanted."""
    weights = {"w": np.ones((2, 3), np.float32), "b": np.zeros(2, np.float32)}
    gemm = helper.make_node("Gemm", ["x", "w", "b"], ["y"], "head", transB=1)
    return model([gemm], weights, shape=[None, 3])


def external(location, **more):
    """``small`` whose weight w lies in another file."""
    proto = small()
    tensor = proto.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in {"location": location, **more}.items():
        tensor.external_data.add(key=key, value=str(value))
    return proto
