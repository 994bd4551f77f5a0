# SPDX-License-Identifier: Apache-2.0
"""Other ways to compute a step of a model of the experiment ``infer``, of what is installed.

PyTorch gets the same weights in its own modules, ONNX Runtime a graph of one step, whose states are
inputs and outputs. Each keeps its state from call to call as its users do.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from denizen import terminal
from denizen.infer import Model, Op

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Rival:
    """``step`` takes an input, (width,), and gives the answer; ``reset``: its state is zeros.

    ``spins``: its threads go on looking for work for tens of milliseconds after a step, and so take
    the cores from whoever is measured then.
    """

    case: str
    step: Callable[[Floats], Any]
    reset: Callable[[], None]
    spins: bool = False
    holds: Any = None  # what a step uses and does not name


def numpy_answers(model: Model, x: Floats) -> Floats:
    """(steps, outputs): what a model of LSTMs, causal convolutions, linear layers, ReLU and sigmoid
    answers to a series, in NumPy."""
    state: dict[int, Any] = {}
    return np.stack([_numpy_step(model, state, one) for one in x])


def _sigmoid(x: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-x)), np.float32)


def _numpy_step(model: Model, state: dict[int, Any], x: Floats) -> Floats:
    values = [x]
    for index, op in enumerate(model.ops):
        w, now = op.weights, values[op.inputs[0]]
        if op.kind == "linear":
            values.append(w[0] @ now + w[1])
        elif op.kind == "relu":
            values.append(np.maximum(now, 0))
        elif op.kind == "sigmoid":
            values.append(_sigmoid(now))
        elif op.kind == "lstm":
            h, c = state.get(index, (np.zeros(w[1].shape[1], np.float32),) * 2)
            i, f, g, o = np.split(w[0] @ now + w[1] @ h + w[2], 4)
            c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
            state[index] = _sigmoid(o) * np.tanh(c), c
            values.append(state[index][0])
        else:
            taps, dilation = w[0].shape[2], int(op.settings["dilation"])
            empty = [np.zeros(len(now), np.float32)] * ((taps - 1) * dilation)
            window = [*state.get(index, empty), now]
            state[index] = window[1:]
            made = [w[0][:, :, k] @ one for k, one in enumerate(window[::dilation])]
            values.append(np.sum(made, axis=0) + w[1])
    return values[model.output]


def of(model: Model, *, quick: bool = False) -> list[Rival]:
    """All that are installed here and take the model; quick: without what compiles for seconds."""
    found: list[Rival] = []
    if importlib.util.find_spec("onnxruntime") and importlib.util.find_spec("onnx"):
        found += [_onnxruntime(model, spins=True), _onnxruntime(model, spins=False)]
    if importlib.util.find_spec("torch"):
        found += _torch(model, compiled=not quick)
    return found


# --- ONNX Runtime ---
class _Step:
    """The graph of one step: its nodes, and its states as inputs and outputs."""

    def __init__(self, model: Model) -> None:
        self.nodes: list[Any] = []
        self.weights: dict[str, NDArray[Any]] = {}
        self.states: dict[str, str] = {}  # output by input
        self.shapes = {"x": [1, model.widths[0]]}
        values = ["x"]
        for index, op in enumerate(model.ops):
            made = f"v{index + 1}"
            {"lstm": self._lstm, "conv1d": self._conv1d}.get(op.kind, self._plain)(
                op, values[op.inputs[0]], made
            )
            values.append(made)
        self.answer = values[model.output]

    def _node(self, kind: str, inputs: list[str], outputs: list[str], **attributes: Any) -> None:
        from onnx import helper  # noqa: PLC0415

        self.nodes.append(helper.make_node(kind, inputs, outputs, **attributes))

    def _weight(self, name: str, array: Any) -> str:
        self.weights[name] = np.ascontiguousarray(array)
        return name

    def _plain(self, op: Op, now: str, made: str) -> None:
        if op.kind == "relu":
            return self._node("Relu", [now], [made])
        both = [self._weight(f"{made}.{k}", one) for k, one in enumerate(op.weights)]
        return self._node("Gemm", [now, *both], [made], transB=1)

    def _lstm(self, op: Op, now: str, made: str) -> None:
        def order(array: Floats) -> Floats:
            i, f, g, o = np.split(array, 4)
            return np.concatenate([i, o, f, g])[None]

        hidden = op.weights[1].shape[1]
        bias = np.concatenate([order(op.weights[2]), np.zeros((1, 4 * hidden), np.float32)], axis=1)
        given = [self._weight(f"{made}.{k}", order(op.weights[k])) for k in (0, 1)]
        first = self._weight(f"{made}.first", np.array([0]))
        h, c = f"{made}.h", f"{made}.c"
        self.states |= {h: f"{made}.H", c: f"{made}.C"}
        self.shapes |= {h: [1, 1, hidden], c: [1, 1, hidden]}
        self._node("Unsqueeze", [now, first], [f"{made}.x"])
        inputs = [f"{made}.x", *given, self._weight(f"{made}.2", bias), "", h, c]
        self._node("LSTM", inputs, ["", f"{made}.H", f"{made}.C"], hidden_size=hidden)
        self._node("Squeeze", [f"{made}.H", first], [made])

    def _conv1d(self, op: Op, now: str, made: str) -> None:
        w, dilation = op.weights[0], int(op.settings["dilation"])
        past, window = (w.shape[2] - 1) * dilation, f"{made}.window"
        self.states[f"{made}.h"] = f"{made}.H"
        self.shapes[f"{made}.h"] = [1, w.shape[1], past]
        last = self._weight(f"{made}.axis", np.array([2]))
        self._node("Unsqueeze", [now, last], [f"{made}.x"])
        self._node("Concat", [f"{made}.h", f"{made}.x"], [window], axis=2)
        cut = [self._weight(f"{made}.{at}", np.array([at])) for at in (1, past + 1)]
        self._node("Slice", [window, *cut, last], [f"{made}.H"])
        both = [self._weight(f"{made}.w", w), self._weight(f"{made}.b", op.weights[1])]
        self._node("Conv", [window, *both], [f"{made}.y"], dilations=[dilation])
        self._node("Squeeze", [f"{made}.y", last], [made])


def _onnxruntime(model: Model, *, spins: bool) -> Rival:
    import onnxruntime  # noqa: PLC0415
    from onnx import TensorProto, helper, numpy_helper  # noqa: PLC0415

    graph = _Step(model)

    def values(named: Mapping[str, Any]) -> list[Any]:
        float32 = TensorProto.FLOAT
        return [helper.make_tensor_value_info(n, float32, shape) for n, shape in named.items()]

    answers = values(dict.fromkeys((graph.answer, *graph.states.values())))
    weights = [numpy_helper.from_array(array, name) for name, array in graph.weights.items()]
    proto = helper.make_model(
        helper.make_graph(graph.nodes, "step", values(graph.shapes), answers, weights),
        opset_imports=[helper.make_opsetid("", 18)],
        ir_version=9,
    )
    options = onnxruntime.SessionOptions()
    if not spins:
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    zeros = {name: np.zeros(graph.shapes[name], np.float32) for name in graph.states}
    kept: dict[str, Any] = dict(zeros)

    def step(x: Floats) -> Any:
        answer, *new = session.run(None, {"x": x[None], **kept})
        kept.update(zip(graph.states, new, strict=True))
        return answer

    case = "ONNX Runtime, CPU" if spins else "ONNX Runtime, CPU, no spinning"
    return Rival(case, step, lambda: kept.update(zeros), spins)


# --- PyTorch ---
def _torch(model: Model, *, compiled: bool) -> list[Rival]:
    import torch  # noqa: PLC0415

    on_gpu = torch.cuda.is_available()
    torch.backends.cudnn.allow_tf32 = False  # its convolutions would be off by 1e-3
    where = torch.device("cuda" if on_gpu else "cpu")
    found = [_eager("PyTorch eager", model, where)]
    try:
        if compiled:
            found.append(_eager("torch.compile", model, where, compiled=True))
    except Exception as error:  # needs a C++ compiler or Triton, and says so in many ways
        terminal.error(f"no arm of torch.compile: {str(error).splitlines()[0]}")
    if on_gpu:
        found.append(_graph(model))
    return found


def _step_of(model: Model, where: Any) -> tuple[Callable[..., Any], list[Any]]:
    """(x, states -> answer and new states, zeros for the states), of one row."""
    import torch  # noqa: PLC0415

    layers: list[tuple[Op, Any]] = []
    zeros: list[Any] = []
    for op in model.ops:
        w = [torch.from_numpy(one).to(where) for one in op.weights]
        if op.kind == "lstm":
            hidden = w[1].shape[1]
            cell = torch.nn.LSTMCell(w[0].shape[1], hidden, device=where)
            own = dict(zip(("weight_ih", "weight_hh", "bias_ih"), w, strict=True))
            cell.load_state_dict({**own, "bias_hh": torch.zeros_like(w[2])})
            layers.append((op, cell.requires_grad_(False)))
            zeros += [torch.zeros(1, hidden, device=where) for _ in range(2)]
        else:
            if op.kind == "conv1d":
                past = (w[0].shape[2] - 1) * int(op.settings["dilation"])
                zeros.append(torch.zeros(1, w[0].shape[1], past, device=where))
            layers.append((op, w))

    def step(x: Any, states: list[Any]) -> tuple[Any, list[Any]]:
        left, new = list(states), []
        for op, w in layers:
            if op.kind == "linear":
                x = torch.nn.functional.linear(x, *w)
            elif op.kind == "relu":
                x = torch.relu(x)
            elif op.kind == "lstm":
                x, c = w(x, (left.pop(0), left.pop(0)))
                new += [x, c]
            else:
                window = torch.cat([left.pop(0), x[:, :, None]], 2)
                new.append(window[:, :, 1:])
                dilation = int(op.settings["dilation"])
                x = torch.nn.functional.conv1d(window, *w, dilation=dilation)[:, :, 0]
        return x, new

    return step, zeros


def _eager(case: str, model: Model, where: Any, *, compiled: bool = False) -> Rival:
    import torch  # noqa: PLC0415

    function, zeros = _step_of(model, where)
    if compiled:
        torch._dynamo.reset()  # each model is compiled anew, not as one more case of the last
        function = torch.compile(function)
    states = [zeros]

    def step(x: Floats) -> Any:
        with torch.inference_mode():
            answer, states[0] = function(torch.from_numpy(x[None]).to(where), states[0])
            return answer.cpu().numpy()  # waits for it

    def reset() -> None:
        states[0] = zeros

    step(np.zeros(model.widths[0], np.float32))  # compiles
    reset()
    return Rival(case, step, reset)


def _graph(model: Model) -> Rival:
    """A captured step, its copies from and to pinned memory in it: one launch and one wait."""
    import torch  # noqa: PLC0415

    function, zeros = _step_of(model, torch.device("cuda"))
    outputs = model.widths[model.output]
    given, answer = (torch.zeros(1, n).pin_memory() for n in (model.widths[0], outputs))
    states = [zero.clone() for zero in zeros]

    def once() -> None:
        made, new = function(given.to("cuda", non_blocking=True), states)
        for old, one in zip(states, new, strict=True):
            old.copy_(one)
        answer.copy_(made, non_blocking=True)

    with torch.inference_mode():
        beside = torch.cuda.Stream()
        with torch.cuda.stream(beside):
            for _ in range(3):
                once()
        beside.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            once()
    seen, came = given.numpy(), answer.numpy()

    def step(x: Floats) -> Any:
        seen[0] = x
        graph.replay()
        torch.cuda.current_stream().synchronize()
        return came

    def reset() -> None:
        for state in states:
            state.zero_()

    # The graph's kernels read the weights where they lie, but nothing of it keeps them there.
    return Rival("CUDA graph, pinned copies", step, reset, holds=function)
