# SPDX-License-Identifier: Apache-2.0
"""A Model in NumPy, in double precision: one step of one stream after the other, written as plainly
as its definition (denizen.infer.Op)."""

import math

import numpy as np


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x):
    powers = np.exp(x - x.max())
    return powers / powers.sum()


ERF = np.vectorize(math.erf, otypes=[np.float64])
ACTIVATIONS = {
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: x * 0.5 * (1 + ERF(x / np.sqrt(2))),
    "gelu_tanh": lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    "silu": lambda x: x * sigmoid(x),
    "tanh": np.tanh,
    "sigmoid": sigmoid,
    "softmax": softmax,
}


class Reference:
    """One stream of ``model``: called with one step's input, it returns the answer."""

    def __init__(self, model):
        self.model = model
        self.weights = [[np.float64(w) for w in op.weights] for op in model.ops]
        self.state = [self._start(op, w) for op, w in zip(model.ops, self.weights, strict=True)]

    def _start(self, op, weights):
        if op.kind in ("lstm", "gru", "rnn"):
            hidden = weights[1].shape[1]
            return [np.zeros(hidden) for _ in range(2 if op.kind == "lstm" else 1)]
        if op.kind == "conv1d":
            _, width, taps = weights[0].shape
            return [np.zeros(width)] * ((taps - 1) * op.settings["dilation"])
        return None

    def __call__(self, x):
        values = [int(x) if self.model.tokens else np.float64(x)]
        for index, op in enumerate(self.model.ops):
            inputs = [values[value] for value in op.inputs]
            values.append(self._op(index, op, inputs))
            assert len(values[-1]) == self.model.widths[index + 1]
        return values[self.model.output]

    def _op(self, index, op, inputs):
        w, state, x = self.weights[index], self.state[index], inputs[0]
        match op.kind:
            case "linear":
                return w[0] @ x + w[1]
            case "lstm":
                h, c = state
                i, f, g, o = np.split(w[0] @ x + w[1] @ h + w[2], 4)
                c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
                self.state[index] = [sigmoid(o) * np.tanh(c), c]
                return self.state[index][0]
            case "gru":
                (h,) = state
                ri, zi, ni = np.split(w[0] @ x + w[2], 3)
                rh, zh, nh = np.split(w[1] @ h + w[3], 3)
                r, z = sigmoid(ri + rh), sigmoid(zi + zh)
                self.state[index] = [(1 - z) * np.tanh(ni + r * nh) + z * h]
                return self.state[index][0]
            case "rnn":
                before = w[0] @ x + w[1] @ state[0] + w[2]
                self.state[index] = [
                    np.maximum(before, 0) if op.settings["relu"] else np.tanh(before)
                ]
                return self.state[index][0]
            case "conv1d":
                window = [*state, x]
                self.state[index] = window[1:]
                taps = window[:: op.settings["dilation"]]
                return w[1] + sum(w[0][:, :, k] @ tap for k, tap in enumerate(taps))
            case "embedding":
                return w[0][x]
            case "layernorm":
                centred = x - x.mean()
                return centred / np.sqrt((centred**2).mean() + op.settings["eps"]) * w[0] + w[1]
            case "affine":
                return x * w[0] + w[1]
            case "add":
                return inputs[0] + inputs[1]
            case "concat":
                return np.concatenate(inputs)
            case kind:
                return ACTIVATIONS[kind](x)


def answers(model, inputs):
    """(steps, width): of one stream that gets ``inputs`` one after the other."""
    stream = Reference(model)
    return np.array([stream(x) for x in inputs])
