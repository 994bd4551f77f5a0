# SPDX-License-Identifier: Apache-2.0
"""A ``torch.nn.Module`` as a Model, by torch.fx. PyTorch is imported when a module is given."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from denizen.errors import ArgumentError
from denizen.infer import torch_functions, torch_layers
from denizen.infer.fold import model_of
from denizen.infer.layouts import LAYOUTS, first_with_a_step
from denizen.infer.model import Model
from denizen.infer.steps import SUPPORTED, InputWidth, Steps, Value, Zeros, refuse


def from_torch(*parts: Any, width: int | None = None) -> Model:
    """The model of ``parts``, modules that are applied one after the other.

    It computes what they do after ``eval()``: a module that drops values or normalises by the batch
    while it trains is refused until then. A part's input may be (batch, time, channels), (time,
    batch, channels), (batch, channels, time) or have fewer axes, whichever its layers ask for. Of a
    part that returns a tuple, such as an LSTM, the first item is the answer; initial states that a
    part takes beside its input are zeros.

    Conv1d: causal. Its padding is (kernel - 1) * dilation zeros on the left (``F.pad``, or padding
    on both sides whose right end a slice cuts off), or none: then the first answers, which PyTorch
    does not give, see zeros before the stream.

    ``width``: of the input, where no layer says it. Raises ArgumentError with the layer's name and
    type for anything that has no step or is not supported.
    """
    try:
        return _model(parts, width)
    except InputWidth as found:
        return _model(parts, found.width)


def _model(parts: Sequence[Any], width: int | None) -> Model:
    import torch  # noqa: PLC0415 - a module is given, so it is there

    steps = Steps(width)
    value = Value(0, "")
    for index, part in enumerate(parts):
        if not isinstance(part, torch.nn.Module):
            raise ArgumentError(
                f"part {index} is {type(part).__name__}; give modules of PyTorch (torch.nn.Module)"
            )
        value = _Part(part, str(index) if len(parts) > 1 else "").run(steps, value)
    return model_of(steps, value.number)


class _Part:
    """One module: traced once, read once for each layout that its input may have."""

    def __init__(self, module: Any, prefix: str) -> None:
        self.module, self.prefix = module, prefix
        self.graph = None if torch_layers.is_layer(module) else self._traced()

    def run(self, steps: Steps, value: Value) -> Value:
        name = self.prefix or type(self.module).__name__
        # A part after another takes what that makes, which is no token.
        layouts = [axes for axes in LAYOUTS if value.number == 0 or "C" in axes]

        def read(axes: str) -> Value:
            return steps.answer(self._read(steps, Value(value.number, axes)), name)

        return first_with_a_step(steps, layouts, read)[1]

    def _name(self, target: str) -> str:
        return ".".join(part for part in (self.prefix, target) if part)

    def _traced(self) -> Any:
        import torch  # noqa: PLC0415

        parameters = list(inspect.signature(self.module.forward).parameters.values())
        fixed = {p.name: p.default for p in parameters[1:] if p.default is not p.empty}
        try:
            graph = torch.fx.Tracer().trace(self.module, concrete_args=fixed)
        except Exception as error:
            where = self._name("") or "the model"
            raise ArgumentError(
                f"{where} ({type(self.module).__name__}) cannot be traced by torch.fx, so no step "
                f"is known: {error}"
            ) from error
        return graph

    def _read(self, steps: Steps, x: Value) -> Any:
        if self.graph is None:
            name = self.prefix or type(self.module).__name__
            return _first(torch_layers.layer(steps, self.module, [x], {}, name))
        values: dict[Any, Any] = {}
        inputs = iter([x])
        for node in self.graph.nodes:
            values[node] = self._node(steps, node, values, inputs)
            if node.op == "output":
                return _first(values[node])
        raise ArgumentError(f"{type(self.module).__name__} returns nothing")

    def _node(self, steps: Steps, node: Any, values: Mapping[Any, Any], inputs: Any) -> Any:
        import torch  # noqa: PLC0415

        def known(x: Any) -> Any:
            return torch.fx.node.map_arg(x, lambda n: values[n])

        # map_arg makes tuples and dicts of its own, which are tuples and dicts.
        args, kwargs = known(node.args), known(node.kwargs)
        if node.op == "placeholder":
            return next(inputs, Zeros())
        if node.op == "output":
            return args[0]
        if node.op == "get_attr":
            return _attribute(self.module, node.target)
        if node.op == "call_module":
            module = self.module.get_submodule(node.target)
            return torch_layers.layer(steps, module, list(args), kwargs, self._name(node.target))
        what = node.target if isinstance(node.target, str) else node.target.__name__
        name = self._name(node.name)
        done: Callable[..., Any] | None = torch_functions.FUNCTIONS.get(what.strip("_"))
        if done is None:
            refuse(name, what, f"it is not supported; supported are {SUPPORTED}")
        try:
            return done(torch_functions.Call(steps, name, what), *args, **kwargs)
        except ArgumentError:  # a ValueError, too
            raise
        except (TypeError, AttributeError, ValueError, IndexError) as error:
            _unread(name, what, error)


def _unread(name: str, what: str, error: Exception) -> NoReturn:
    raise ArgumentError(
        f"layer {name!r} ({what}) cannot be resident: its arguments are not supported ({error})"
    ) from error


def _first(answer: Any) -> Any:
    while isinstance(answer, (tuple, list)) and answer:
        answer = answer[0]
    return answer


def _attribute(module: Any, target: str) -> Any:
    """A parameter or buffer, as an array."""
    found = module
    for part in target.split("."):
        found = getattr(found, part)
    return torch_layers.array(found) if hasattr(found, "detach") else np.asarray(found)
