# SPDX-License-Identifier: Apache-2.0
"""The layers of ``torch.nn`` that have a step, each as calls of Steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from denizen.errors import ArgumentError
from denizen.infer import axes
from denizen.infer.steps import SUPPORTED, LayoutError, Steps, Value, Zeros, refuse


def array(tensor: Any) -> NDArray[Any]:
    """A tensor's numbers: floats in double precision, so that folding rounds once."""
    kept = tensor.detach().cpu()
    return np.asarray((kept.double() if kept.is_floating_point() else kept).numpy())


def is_layer(module: Any) -> bool:
    """Whether ``layer`` takes it whole, and need not look into its forward()."""
    own = type(module).__module__.startswith("torch.nn")
    return own and type(module).__name__ not in ("Sequential", "Module")


def layer(steps: Steps, module: Any, inputs: Sequence[Any], kwargs: Any, name: str) -> Any:
    """The layer's value, or for a recurrent one (value, state) as PyTorch returns it."""
    import torch  # noqa: PLC0415

    found = None
    for known, reader in _LAYERS.items():
        cls = getattr(torch.nn, known, None)
        if cls is not None and isinstance(module, cls) and type(module).forward is cls.forward:
            found = reader
            break
    kind = type(module).__name__
    if found is None:
        refuse(name, kind, f"it is not supported; supported are {SUPPORTED}")
    if module._forward_hooks or module._forward_pre_hooks:
        refuse(name, kind, "it has forward hooks, which a resident does not call; remove them")
    rest = [*inputs[1:], *kwargs.values()]
    if not inputs or not isinstance(inputs[0], Value):
        refuse(name, kind, "its input is not a value that the model's input makes")
    if not all(_is_zero_state(one) for one in rest):
        refuse(name, kind, "it takes an initial state; every stream begins with zeros")
    return found(steps, module, inputs[0], name)


def _is_zero_state(x: Any) -> bool:
    if isinstance(x, (tuple, list)):
        return all(_is_zero_state(one) for one in x)
    return x is None or isinstance(x, Zeros)


def _evaluates(module: Any, name: str) -> None:
    if module.training:
        refuse(
            name, type(module).__name__, "it is in training mode; call eval() on the model first"
        )


def _optional(tensor: Any) -> Any:
    return None if tensor is None else array(tensor)


# --- layers with weights ---
def _linear(steps: Steps, module: Any, x: Value, name: str) -> Value:
    return steps.linear(x, array(module.weight), _optional(module.bias), name)


class State:
    """What an LSTM, GRU or RNN returns beside its output: h of each layer at the last step."""

    def __init__(self, layers: Sequence[Value]) -> None:
        self.layers = layers

    def __getitem__(self, index: Any) -> Any:
        if not isinstance(index, int) or not -len(self.layers) <= index < len(self.layers):
            raise ArgumentError(f"state [{index}] of a recurrent layer; give one layer, such as -1")
        x = self.layers[index]
        return axes.select(x, x.axes.index("T"), -1, "state")


def _recurrent(steps: Steps, module: Any, x: Value, name: str) -> Any:
    kind = type(module).__name__
    if module.bidirectional:
        refuse(name, kind, "it is bidirectional: a step does not know what comes after it")
    if getattr(module, "proj_size", 0):
        refuse(name, kind, "proj_size is not supported; put a Linear after it")
    if module.dropout and module.num_layers > 1:
        _evaluates(module, name)
    if x.axes not in (("BTC",) if module.batch_first else ("TBC", "T1C")) and x.axes != "TC":
        raise LayoutError(
            name, kind, "its input is not (batch, time, channels), by its batch_first"
        )
    outputs = []
    for index in range(module.num_layers):
        w = [array(getattr(module, f"{part}_l{index}")) for part in ("weight_ih", "weight_hh")]
        if module.bias:
            b = [array(getattr(module, f"{part}_l{index}")) for part in ("bias_ih", "bias_hh")]
        else:
            b = [np.zeros(len(w[0]))] * 2
        one = f"{name}.{index}" if module.num_layers > 1 else name
        mode = module.mode.lower().partition("_")[0]
        relu = int(module.mode == "RNN_RELU") if mode == "rnn" else None
        biases = b if mode == "gru" else [b[0] + b[1]]
        x = steps.recurrent(x, mode, [*w, *biases], one, relu=relu)
        outputs.append(x)
    state = State(outputs)
    return x, ((state, None) if module.mode == "LSTM" else state)


def _conv1d(steps: Steps, module: Any, x: Value, name: str) -> Value:
    if module.padding_mode != "zeros" and any(np.atleast_1d(module.padding) != 0):
        refuse(name, "Conv1d", f"padding_mode {module.padding_mode!r}; give 'zeros'")
    return steps.conv1d(
        x, array(module.weight), _optional(module.bias), name,
        pads=pads_of(module.padding, module.kernel_size[0], module.dilation[0]),
        dilation=module.dilation[0], stride=module.stride[0], groups=module.groups,
    )  # fmt: skip


def pads_of(padding: Any, taps: int, dilation: int) -> tuple[int, int]:
    """PyTorch's padding of a convolution: before and after."""
    if padding == "valid":
        return 0, 0
    if padding == "same":
        whole = (taps - 1) * dilation
        return whole // 2, whole - whole // 2
    one = int(padding if isinstance(padding, int) else padding[0])
    return one, one


def _embedding(steps: Steps, module: Any, x: Value, name: str) -> Value:
    if module.max_norm is not None:
        refuse(name, "Embedding", "max_norm changes the weights; give a module without")
    return steps.embedding(x, array(module.weight), name)


def _layernorm(steps: Steps, module: Any, x: Value, name: str) -> Value:
    if len(module.normalized_shape) != 1:
        refuse(name, "LayerNorm", f"over {len(module.normalized_shape)} axes; give one")
    width = module.normalized_shape[0]
    scale = np.ones(width) if module.weight is None else array(module.weight)
    shift = np.zeros(width) if module.bias is None else array(module.bias)
    return steps.layernorm(x, scale, shift, module.eps, name)


def _batchnorm(steps: Steps, module: Any, x: Value, name: str) -> Value:
    _evaluates(module, name)
    if module.running_mean is None:
        refuse(name, "BatchNorm1d", "it has no running statistics: it needs a batch")
    mean, var = array(module.running_mean), array(module.running_var)
    scale = np.ones(len(mean)) if module.weight is None else array(module.weight)
    shift = np.zeros(len(mean)) if module.bias is None else array(module.bias)
    return steps.batchnorm(x, [scale, shift, mean, var], module.eps, name)


# --- layers without ---
def _activation(kind: str) -> Callable[[Steps, Any, Value, str], Value]:
    return lambda steps, module, x, name: steps.activation(x, kind, name)


def _gelu(steps: Steps, module: Any, x: Value, name: str) -> Value:
    return steps.activation(x, "gelu_tanh" if module.approximate == "tanh" else "gelu", name)


def _softmax(steps: Steps, module: Any, x: Value, name: str) -> Value:
    if module.dim is None:
        refuse(name, "Softmax", "it has no dim")
    return steps.softmax(x, module.dim, name)


def _dropout(steps: Steps, module: Any, x: Value, name: str) -> Value:
    if module.p:
        _evaluates(module, name)
    return x


def _identity(steps: Steps, module: Any, x: Value, name: str) -> Value:
    return x


def _flatten(steps: Steps, module: Any, x: Value, name: str) -> Value:
    return axes.flatten(x, module.start_dim, module.end_dim, name)


def _pad(steps: Steps, module: Any, x: Value, name: str) -> Value:
    if getattr(module, "value", 0) != 0:
        refuse(name, type(module).__name__, f"it pads with {module.value}; give 0")
    return axes.pad(x, -1, tuple(module.padding), name)


_LAYERS: dict[str, Callable[[Steps, Any, Value, str], Any]] = {
    "Linear": _linear,
    "LSTM": _recurrent,
    "GRU": _recurrent,
    "RNN": _recurrent,
    "Conv1d": _conv1d,
    "Embedding": _embedding,
    "LayerNorm": _layernorm,
    "BatchNorm1d": _batchnorm,
    "ReLU": _activation("relu"),
    "GELU": _gelu,
    "SiLU": _activation("silu"),
    "Tanh": _activation("tanh"),
    "Sigmoid": _activation("sigmoid"),
    "Softmax": _softmax,
    "Dropout": _dropout,
    "Dropout1d": _dropout,
    "Identity": _identity,
    "Flatten": _flatten,
    "ConstantPad1d": _pad,
    "ZeroPad1d": _pad,
}
