# SPDX-License-Identifier: Apache-2.0
"""A Model is valid once it exists; anything else than a model is refused. Needs NumPy alone."""

import json
import subprocess
import sys

import numpy as np
import pytest
from infer_reference import answers

import denizen
from denizen import infer

F32 = np.float32
W, B = np.ones((2, 3), F32), np.zeros(2, F32)
HEAD = infer.Op("linear", (0,), (W, B), name="head")


def test_a_model_answers_with_its_output():
    double = infer.Op("add", (1, 1))
    model = infer.Model((3, 2, 2), (HEAD, double), 2)
    assert model.parameters == 8
    np.testing.assert_array_equal(answers(model, [[1, 2, 3]]), [[12, 12]])


OPS = {
    "an unknown kind": (("conv3d", (0,)), "layer 'head' (conv3d): this kind is not known"),
    "too many inputs": (("tanh", (0, 1)), "takes 1 value(s), not 2"),
    "one value to join": (("concat", (0,)), "takes two or more values, not 1"),
    "a weight too few": (("linear", (0,), (W,)), "has 1 weights; it takes W, b"),
    "weights of another type": (("linear", (0,), (np.ones((2, 3)), B)), "is float64; give float32"),
    "weights in another order": (("linear", (0,), (W.T, B)), "is not contiguous"),
    "no weights at all": (("linear", (0,), (np.ones((0, 3), F32), B)), "has shape (0, 3)"),
    "a setting that is not known": (("tanh", (0,), (), {"slope": 1}), "has the settings ['slope']"),
    "a setting out of range": (
        ("conv1d", (0,), (np.ones((2, 3, 2), F32), B), {"dilation": 0}), "dilation is 0; give 1 to",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OPS)
def test_an_op_that_is_none(name):
    given, why = OPS[name]
    with pytest.raises(denizen.ArgumentError) as caught:
        infer.Op(*given, name="head")
    assert why in str(caught.value)


def op(kind, *inputs, weights=(), **settings):
    return infer.Op(kind, inputs, weights, settings, "it")


TABLE = np.ones((5, 2), F32)
LSTM = (np.ones((8, 3), F32), np.ones((8, 2), F32), np.ones(7, F32))
MODELS = {
    "widths too few": (((3,), (HEAD,), 1), "1 ops and 1 widths"),
    "no floats": (((0, 2), (HEAD,), 1), "a value has 0 floats"),
    "a later value": (((3, 3), (op("tanh", 1),), 1), "reads (1,); it may read 0 to 0"),
    "an input of another width": (((4, 2), (HEAD,), 1), "W has shape (2, 3); it takes (2, 4)"),
    "a bias of another width": (((3, 2), (op("lstm", 0, weights=LSTM),), 1), "b has shape (7,)"),
    "an output of another width": (((3, 4), (HEAD,), 1), "makes 2 floats, and value 1 has 4"),
    "values of two widths": (((3, 2, 3), (HEAD, op("add", 0, 1)), 2), "adds 3 floats and 2"),
    "no such answer": (((3, 2), (HEAD,), 2), "the model's answer is value 2"),
    "floats for an embedding": (
        ((3, 2), (op("embedding", 0, weights=(TABLE,)),), 1), "reads value 0, which is not a token",
    ),
    "a token for a layer": (((1, 1), (op("tanh", 0),), 1, True), "reads a token"),
    "a token as the answer": (((1,), (), 0, True), "the model's answer is value 0"),
    "several tokens": (((3,), (), 0, True), "the input is a token, and its width 3, not 1"),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_a_model_that_is_none(name):
    given, why = MODELS[name]
    with pytest.raises(denizen.ArgumentError) as caught:
        infer.Model(*given)
    assert why in str(caught.value)


def test_anything_else_than_a_model_is_refused():
    model = infer.Model((3, 2), (HEAD,), 1)
    assert infer.model_of(model) is model
    for given in ((), (3,), (model, model), (np.ones(3),)):
        with pytest.raises(denizen.ArgumentError, match="a model is wanted, and"):
            infer.model_of(*given)


SCRIPT = """
import json, sys
import denizen
before = "denizen.infer" in sys.modules
denizen.infer.Model
try:
    denizen.infer.model_of(3)
except denizen.ArgumentError:
    pass
print(json.dumps([before, sorted({"torch", "onnx", "google"} & set(sys.modules))]))
"""


def printed(script):
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return done.stdout


def test_it_is_imported_when_it_is_used_and_no_framework_with_it():
    assert json.loads(printed(SCRIPT)) == [False, []]


def test_without_the_package_onnx_its_name_is_told():
    script = """
import sys
sys.modules["onnx"] = None
import denizen
try:
    denizen.infer.model_of(b"...")
except denizen.MissingPackageError as error:
    print(error)
"""
    assert "onnx is not installed: pip install onnx" in printed(script)


def lstm_and_head():
    random = np.random.default_rng(0)
    w, r, b, v = (random.normal(size=s).astype(F32) for s in ((32, 3), (32, 8), 32, (2, 8)))
    ops = (
        infer.Op("lstm", (0,), (w, r, b), name="lstm"),
        infer.Op("layernorm", (1,), (np.ones(8, F32), np.zeros(8, F32)), {"eps": 1e-3}, "norm"),
        infer.Op("linear", (2,), (v, np.ones(2, F32)), name="head"),
    )
    return infer.Model((3, 8, 8, 2), ops, 3)


def test_a_model_comes_back_from_its_file(tmp_path):
    model, path = lstm_and_head(), tmp_path / "m.npz"
    model.save(path)
    again = infer.model_of(path)
    assert (again.widths, again.output, again.tokens) == ((3, 8, 8, 2), 3, False)
    for one, other in zip(again.ops, model.ops, strict=True):
        assert (one.kind, one.inputs, one.name) == (other.kind, other.inputs, other.name)
        assert one.settings == other.settings
        assert all(np.array_equal(a, b) for a, b in zip(one.weights, other.weights, strict=True))
    x = np.ones(3, F32)
    with infer.Resident(str(path), device="cpu:1") as m, infer.Resident(model, device="cpu:1") as n:
        assert m(x).tobytes() == n(x).tobytes()


def test_a_file_that_is_no_model_is_refused_by_its_name(tmp_path):
    path = tmp_path / "m.npz"
    lstm_and_head().save(path)
    good = path.read_bytes()

    def refused(why="m.npz"):
        with pytest.raises(denizen.ArgumentError, match=why) as caught:
            infer.model_of(path)
        assert str(path) in str(caught.value)

    random = np.random.default_rng(0)
    for _ in range(60):
        at = random.integers(0, len(good) - 9)
        path.write_bytes(good[:at])
        refused()
    for told, why in (
        ([1], "it has widths"),
        ({"widths": [3], "output": 0, "tokens": False, "ops": 1}, "it has widths"),
        ({"widths": [3, "x"], "output": 1, "tokens": False, "ops": []}, "not whole numbers"),
        ({"widths": [3], "output": 1, "tokens": False, "ops": []}, "the model's answer is value 1"),
        ({"widths": [3, 3], "output": 1, "tokens": False, "ops": [{"kind": "tanh"}]}, "op 0 is"),
    ):
        np.savez(path, model=np.frombuffer(json.dumps(told).encode(), np.uint8))
        refused(why)
    np.savez(path, model=np.array([{}], object))
    refused("not a model")
    np.savez(path, other=np.zeros(3))
    refused("model.npy")
    path.unlink()
    refused("cannot be read")
