# SPDX-License-Identifier: Apache-2.0
"""Modules of PyTorch: each step of the model is what the module computes in single precision, to
1e-5 of the answers' scale; what has no step is refused by the layer's name. Needs PyTorch."""

import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from infer_reference import answers

import denizen
from denizen import infer

torch = pytest.importorskip("torch")
nn, F = torch.nn, torch.nn.functional
STEPS = 7


def theirs(call, x):
    with torch.no_grad():
        return call(x).numpy()


def same(model, x, expected, steps=slice(None)):
    scale = 1 + np.abs(expected).max()
    got = answers(model, x)[steps]
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-5 * scale)


def random(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


# --- modules that are applied one after the other ---
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("bias", [True, False])
def test_a_recurrent_layer_and_its_head(kind, bias):
    torch.manual_seed(0)
    layer, head = getattr(nn, kind)(5, 6, 2, bias=bias), nn.Linear(6, 3)
    x = random(STEPS, 5)
    model = infer.model_of(layer, head)
    assert [op.kind for op in model.ops] == [kind.lower(), kind.lower(), "linear"]
    assert [op.name for op in model.ops] == ["0.0", "0.1", "1"]
    same(model, x.numpy(), theirs(lambda x: head(layer(x)[0]), x))


ACTIVATIONS = {
    "relu": nn.ReLU(), "gelu": nn.GELU(), "gelu_tanh": nn.GELU("tanh"), "silu": nn.SiLU(),
    "tanh": nn.Tanh(), "sigmoid": nn.Sigmoid(), "softmax": nn.Softmax(-1),
}  # fmt: skip


def stack(kinds, width):
    """A Sequential on (batch, channels)."""
    layers = []
    for kind in kinds:
        if kind == "Linear":
            layers.append(nn.Linear(width, width + 1))
            width += 1
        elif kind == "LayerNorm":
            layers.append(nn.LayerNorm(width))
        elif kind == "BatchNorm1d":
            layers.append(nn.BatchNorm1d(width))
            layers[-1].running_mean.normal_()
            layers[-1].running_var.uniform_(0.5, 2)
        elif kind in ACTIVATIONS:
            layers.append(ACTIVATIONS[kind])
        else:
            layers.append(getattr(nn, kind)())
    return nn.Sequential(*layers).eval()


KINDS = ["Linear", "LayerNorm", "BatchNorm1d", "Dropout", "Identity", "Flatten", *ACTIVATIONS]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(KINDS), min_size=1, max_size=8), st.integers(0, 2**31))
def test_random_stacks(kinds, seed):
    torch.manual_seed(seed)
    module = stack(kinds, 3)
    x = torch.randn(STEPS, 3)
    model = infer.model_of(module, width=3)
    same(model, x.numpy(), theirs(module, x))
    assert [op.kind for op in model.ops].count("affine") <= kinds.count("BatchNorm1d")


def test_batchnorm_joins_the_layer_before_it():
    model = infer.model_of(stack(["Linear", "BatchNorm1d", "relu"], 3))
    assert [op.kind for op in model.ops] == ["linear", "relu"]


# --- modules of a user ---
class Causal(nn.Conv1d):
    def forward(self, x):
        return super().forward(F.pad(x, ((self.kernel_size[0] - 1) * self.dilation[0], 0)))


class Convolutions(nn.Module):
    """A temporal convolutional network, with both ways to pad and a residual."""

    def __init__(self):
        super().__init__()
        self.left = Causal(4, 6, 3, dilation=2, groups=2)
        self.norm = nn.BatchNorm1d(6)
        self.both = nn.Conv1d(6, 6, 2, padding=1)
        self.down = nn.Conv1d(4, 6, 1)

    def forward(self, x):
        y = torch.relu(self.norm(self.left(x)))
        return F.relu(self.both(y)[:, :, : x.size(2)] + self.down(x))


def test_convolutions():
    torch.manual_seed(0)
    module = Convolutions().eval()
    x = random(1, 4, STEPS)
    model = infer.model_of(module)
    same(model, x[0].T.numpy(), theirs(module, x)[0].T)


def test_a_convolution_without_padding_sees_zeros_first():
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv1d(3, 4, 3), nn.ReLU(), nn.Conv1d(4, 2, 2, dilation=2))
    x = random(1, 3, STEPS)
    model = infer.model_of(module)
    same(model, x[0].T.numpy(), theirs(module, x)[0].T, slice(4, None))


class Summary(nn.Module):
    """Last states, tensors' methods, operators, constants and a buffer."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(5, 6, 2, batch_first=True)
        self.gru = nn.GRU(6, 4, batch_first=True)
        self.norm = nn.LayerNorm(4)
        self.head = nn.Linear(10, 3)
        self.register_buffer("scale", torch.tensor([1.0, 2.0, 3.0]))

    def forward(self, x, hidden=None):
        zeros = torch.zeros(2, x.size(0), 6, device=x.device)
        y, (h, _) = self.lstm(x, (zeros, zeros))
        z, hidden = self.gru(y, hidden)
        z = F.dropout(self.norm(F.gelu(z)), 0.1, self.training)
        last = torch.cat([h[-1], z[:, -1, :]], dim=1)
        y = self.head(last.view(x.size(0), -1))
        return torch.softmax((y - 0.5) * self.scale / 2, -1), hidden


def test_the_answer_from_last_states():
    torch.manual_seed(0)
    module = Summary().eval()
    x = random(1, STEPS, 5)
    model = infer.model_of(module)
    for steps in (1, STEPS):
        expected = theirs(lambda x: module(x)[0], x[:, :steps])
        same(model, x[0, :steps].numpy(), expected, slice(-1, None))


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(11, 4)
        self.rnn = nn.RNN(4, 3, nonlinearity="relu")

    def forward(self, tokens):
        return self.rnn(self.table(tokens))[0]


def test_tokens():
    torch.manual_seed(0)
    module = Words()
    tokens = torch.arange(STEPS) % 11
    model = infer.model_of(module)
    assert model.tokens
    same(model, tokens.numpy(), theirs(module, tokens))


# --- what has no step ---
class Mean(nn.Module):
    def forward(self, x):
        return x.mean(1)


class Branch(nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x


class Late(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(3, 3, 3)

    def forward(self, x):
        return x[:, :, 2:] + self.conv(F.pad(x, (1, 1)))[:, :, 2:]


class Dropped(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.lstm = nn.Conv1d(3, 4, 3), nn.LSTM(4, 4, batch_first=True)

    def forward(self, x):
        return self.lstm(self.conv(x).transpose(1, 2))[0]


def hooked():
    layer = nn.Linear(3, 3)
    layer.register_forward_hook(lambda *_: None)
    return layer


REFUSED = {
    "attention": (
        lambda: nn.Sequential(nn.Linear(3, 4), nn.MultiheadAttention(4, 2)),
        "layer '1' (MultiheadAttention) cannot be resident: it is not supported",
    ),
    "two directions": (lambda: nn.LSTM(3, 4, bidirectional=True), "layer 'LSTM' (LSTM)"),
    "a projection": (lambda: nn.LSTM(3, 4, proj_size=2), "proj_size"),
    "a stride": (lambda: nn.Conv1d(3, 4, 3, stride=2), "stride 2"),
    "a look ahead": (lambda: nn.Conv1d(3, 4, 3, padding=1), "looks ahead"),
    "a residual that is late": (Late, "its inputs differ in time"),
    "a state after dropped steps": (Dropped, "layer 'lstm' (LSTM) cannot be resident: its input b"),
    "another padding": (lambda: nn.Conv1d(3, 3, 3, padding=2, padding_mode="circular"), "circular"),
    "training": (lambda: nn.Sequential(nn.Linear(3, 4), nn.Dropout()), "in training mode"),
    "a hook": (hooked, "forward hooks"),
    "a mean": (Mean, "layer 'mean' (mean)"),
    "a branch by data": (Branch, "cannot be traced"),
    "widths that do not fit": (
        lambda: nn.Sequential(nn.Linear(3, 4), nn.Linear(5, 6)), "takes 5 floats a step and gets 4",
    ),
    "an unknown width": (nn.Tanh, "give width="),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_step_is_refused_by_its_name(name):
    make, why = REFUSED[name]
    with pytest.raises(denizen.ArgumentError) as caught:
        infer.model_of(make())
    assert why in str(caught.value)


def test_a_part_that_is_no_module():
    with pytest.raises(denizen.ArgumentError, match="a model is wanted, and Linear, int was given"):
        infer.model_of(nn.Linear(3, 4), 3)


@pytest.mark.deep
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dynamo", [False, True])
def test_what_pytorch_exports_to_onnx(dynamo):
    pytest.importorskip("onnxscript")
    torch.manual_seed(0)
    module = Summary().eval()
    x = random(1, STEPS, 5)
    file = io.BytesIO()
    torch.onnx.export(module, (x,), file, dynamo=dynamo, verbose=False)
    model = infer.model_of(file.getvalue())
    same(model, x[0].numpy(), theirs(lambda x: module(x)[0], x), slice(-1, None))
