# SPDX-License-Identifier: Apache-2.0
"""The models of the experiment ``infer``, with random weights.

The LSTMs are those of a published benchmark of an FPGA (Vollo, https://vollo.myrtle.ai,
benchmark-lstm, v25.1.2): as many inputs as hidden units, and one linear layer of 32 outputs.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from denizen import infer

OUTPUTS = 32

Floats = NDArray[np.float32]


def _weights(random: np.random.Generator, *shape: int) -> Floats:
    reach = 1 / np.sqrt(shape[-1] if len(shape) < 3 else shape[-1] * shape[-2])
    return random.uniform(-reach, reach, shape).astype(np.float32)


def lstm(layers: int, hidden: int) -> infer.Model:
    random = np.random.default_rng(0)
    ops = [
        infer.Op(
            "lstm",
            (layer,),
            (
                _weights(random, 4 * hidden, hidden),
                _weights(random, 4 * hidden, hidden),
                _weights(random, 4 * hidden),
            ),
            name=f"lstm.{layer}",
        )
        for layer in range(layers)
    ]
    return _with_head(random, ops, hidden)


def mlp(layers: int, hidden: int) -> infer.Model:
    random = np.random.default_rng(0)
    ops: list[infer.Op] = []
    for layer in range(layers):
        both = _weights(random, hidden, hidden), _weights(random, hidden)
        ops.append(infer.Op("linear", (len(ops),), both, name=f"linear.{layer}"))
        ops.append(infer.Op("relu", (len(ops),), name=f"relu.{layer}"))
    return _with_head(random, ops, hidden)


def conv(layers: int, hidden: int, taps: int) -> infer.Model:
    """Each layer reaches twice as far back as the one before."""
    random = np.random.default_rng(0)
    ops: list[infer.Op] = []
    for layer in range(layers):
        both = _weights(random, hidden, hidden, taps), _weights(random, hidden)
        dilation = {"dilation": 1 << layer}
        ops.append(infer.Op("conv1d", (len(ops),), both, dilation, f"conv.{layer}"))
        ops.append(infer.Op("relu", (len(ops),), name=f"relu.{layer}"))
    return _with_head(random, ops, hidden)


def _with_head(random: np.random.Generator, ops: list[infer.Op], hidden: int) -> infer.Model:
    both = _weights(random, OUTPUTS, hidden), _weights(random, OUTPUTS)
    ops.append(infer.Op("linear", (len(ops),), both, name="head"))
    widths = (hidden,) * len(ops) + (OUTPUTS,)
    return infer.Model(widths, tuple(ops), len(ops))


MODELS: dict[str, Callable[[], infer.Model]] = {
    "lstm_tiny, 2 x 128": lambda: lstm(2, 128),
    "lstm_small, 3 x 256": lambda: lstm(3, 256),
    "lstm_med, 3 x 480": lambda: lstm(3, 480),
    "lstm_med_deep, 6 x 320": lambda: lstm(6, 320),
    "lstm_large, 3 x 960": lambda: lstm(3, 960),
    "MLP, 3 x 256": lambda: mlp(3, 256),
    "MLP, 3 x 1024": lambda: mlp(3, 1024),
    "Conv1d, 4 x 64, 3 taps": lambda: conv(4, 64, 3),
}

# Microseconds of a step there, from host to host over PCIe: mean and p99, by board.
PUBLISHED = {
    "lstm_tiny, 2 x 128": {"IA-840F": (1.9, 2.0), "V80": (2.8, 2.8)},
    "lstm_small, 3 x 256": {"IA-840F": (3.0, 3.1), "V80": (3.3, 3.4)},
    "lstm_med, 3 x 480": {"IA-840F": (4.2, 4.4), "V80": (4.3, 4.5)},
    "lstm_med_deep, 6 x 320": {"IA-840F": (4.3, 4.5), "V80": (4.5, 4.8)},
    "lstm_large, 3 x 960": {"V80": (8.5, 8.7)},
}
