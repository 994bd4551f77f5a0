# SPDX-License-Identifier: Apache-2.0
"""Files of ONNX: random stacks of layers answer as onnxruntime does, step by step; what has no step
and what is not what it says is refused by a named error."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from infer_reference import answers

import denizen
from denizen import infer

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
graphs = pytest.importorskip("onnx_graphs")
helper = onnx.helper
F32 = np.float32


def theirs(proto, x):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options)
    return session.run(None, {"x": x})[0]


# onnxruntime computes in single precision, the reference in double: each layer adds some 1e-6.
@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(graphs.KINDS), min_size=1, max_size=6), st.integers(0, 2**32 - 1))
def test_random_stacks_answer_as_onnxruntime_does(kinds, seed):
    stack = graphs.Stack(seed)
    width = int(stack.random.integers(1, 9))
    proto = stack.model(kinds, width)
    x = stack.random.standard_normal((graphs.STEPS, 1, width)).astype(F32)
    model = infer.model_of(proto, width=width)
    assert model.widths[0] == width
    expected = theirs(proto, x)[:, 0]
    scale = 1 + np.abs(expected).max()
    np.testing.assert_allclose(answers(model, x[:, 0]), expected, rtol=0, atol=2e-5 * scale)


def test_what_was_written_in_parts_is_one_layer():
    stack = graphs.Stack(1)
    proto = stack.model(["MatMul", "GELU by erf", "Conv", "SiLU"], 3)
    model = infer.model_of(proto)
    assert [op.kind for op in model.ops] == ["linear", "gelu", "conv1d", "silu"]


def test_tokens_and_the_last_state_of_a_layer():
    random = np.random.default_rng(2)
    weights = {
        "table": random.standard_normal((11, 4)).astype(F32),
        "w": random.standard_normal((1, 12, 4)).astype(F32),
        "r": random.standard_normal((1, 12, 3)).astype(F32),
        "first": np.int64(0),
    }
    nodes = [
        helper.make_node("Gather", ["table", "x"], ["e"], "embedding"),
        helper.make_node("LSTM", ["e", "w", "r"], ["", "h"], "lstm", hidden_size=3),
        helper.make_node("Gather", ["h", "first"], ["y"], "last", axis=0),
    ]
    proto = graphs.model(nodes, weights, shape=["time", 1], elements=onnx.TensorProto.INT64)
    model = infer.model_of(proto)
    assert model.tokens
    assert model.widths == (1, 4, 3)
    tokens = random.integers(0, 11, (graphs.STEPS, 1))
    for steps in (1, graphs.STEPS):
        expected = theirs(proto, tokens[:steps])
        np.testing.assert_allclose(answers(model, tokens[:steps, 0])[-1:], expected, atol=1e-6)


def test_a_path_and_the_bytes_are_the_same_model(tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(graphs.small().SerializeToString())
    for source in (path, str(path), path.read_bytes(), graphs.small()):
        model = infer.model_of(source)
        assert [op.name for op in model.ops] == ["head"]
        np.testing.assert_array_equal(model.ops[0].weights[0], np.ones((2, 3)))


# --- what has no step ---
def one(kind, weights=None, shape=("time", 1, 3), **attributes):
    node = helper.make_node(kind, ["x", *(weights or {})], ["y"], "it", **attributes)
    return graphs.model([node], weights or {}, shape=list(shape))


LSTM = {"w": np.ones((1, 8, 3), F32), "r": np.ones((1, 8, 2), F32)}
GRU = {"w": np.ones((1, 6, 3), F32), "r": np.ones((1, 6, 2), F32)}
CONV = {"w": np.ones((2, 3, 3), F32)}
REFUSED = {
    "of an unknown kind": (one("Det"), "layer 'it' (Det) cannot be resident: it is not supported"),
    "in parts": (one("ReduceMean"), "opset 20"),
    "bidirectional": (one("LSTM", LSTM, direction="bidirectional"), "not forward"),
    "with another activation": (
        one("LSTM", LSTM, activations=["Tanh", "Tanh", "Tanh"]), "activations ['Tanh'",
    ),
    "a GRU that resets before": (one("GRU", GRU), "linear_before_reset"),
    "a stride": (one("Conv", CONV, ("b", 3, "t"), strides=[2]), "stride 2"),
    "a look ahead": (one("Conv", CONV, ("b", 3, "t"), pads=[1, 1]), "1 steps beyond the last"),
    "a softmax over time": (one("Softmax", axis=0), "axis 0 is not that of the channels"),
    "an unknown width": (one("Tanh", shape=("t", 1, None)), "give width="),
    "a width that does not fit": (
        one("Gemm", {"w": np.ones((4, 2), F32)}, (1, 3)), "it takes 4 floats a step and gets 3",
    ),
    "a product of values": (
        graphs.model([helper.make_node("Mul", ["x", "x"], ["y"], "it")], {}, shape=[1, 3]),
        "only a product that is a SiLU or a GELU",
    ),
    "an input nobody makes": (
        graphs.model([helper.make_node("Add", ["x", "z"], ["y"], "it")], {}, shape=[1, 3]),
        "its input 'z' is made by no node before it",
    ),
    "a slice of the channels": (
        one("Slice", {"a": np.array([1]), "b": np.array([2]), "c": np.array([2])}), "(Slice)",
    ),
    "an input too few": (one("Gemm", shape=(1, 3)), "its inputs or attributes"),
    "another domain": (
        graphs.model(
            [helper.make_node("Relu", ["x"], ["y"], "it", domain="com.acme")], {}, shape=[1, 3]
        ),
        "layer 'it' (Relu) cannot be resident",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_step_is_refused_by_its_name(name):
    proto, why = REFUSED[name]
    with pytest.raises(denizen.ArgumentError) as caught:
        infer.model_of(proto)
    assert why in str(caught.value)


# --- what is not what it says ---
@pytest.mark.parametrize("data", [b"", b"\x00" * 64, b"no model at all", b"\x08\x0a"])
def test_bytes_that_are_no_model(data):
    with pytest.raises(denizen.ArgumentError, match="is not an ONNX model"):
        infer.model_of(data)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(denizen.ArgumentError, match="cannot be read: No such file"):
        infer.model_of(tmp_path / "none.onnx")


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_damaged_files_end_in_a_named_error_or_a_model(data):
    whole = bytearray(graphs.Stack(3).model(["LSTM", "MatMul"], 3).SerializeToString())
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    try:
        model = infer.model_of(bytes(whole[: data.draw(st.integers(0, len(whole)))]))
    except denizen.ArgumentError as error:
        assert len(str(error)) > 20
    else:
        assert isinstance(model, infer.Model)


def test_a_tensor_that_promises_more_than_it_holds():
    proto = graphs.small()
    proto.graph.initializer[0].dims[:] = [1 << 20, 1 << 20]
    with pytest.raises(denizen.ArgumentError, match=r"tensor 'w' has shape .* at most"):
        infer.model_of(proto)
    proto.graph.initializer[0].dims[:] = [1 << 10, 1 << 10]
    with pytest.raises(denizen.ArgumentError, match=r"'w' has shape .* holds 24 bytes"):
        infer.model_of(proto)


def test_weights_in_another_file(tmp_path):
    (tmp_path / "w.bin").write_bytes(b"xx" + np.arange(6, dtype=F32).tobytes())
    path = tmp_path / "model.onnx"
    path.write_bytes(graphs.external("w.bin", offset=2, length=24).SerializeToString())
    model = infer.model_of(path)
    np.testing.assert_array_equal(model.ops[0].weights[0], np.arange(6).reshape(2, 3))
    with pytest.raises(denizen.ArgumentError, match="the model came without a folder"):
        infer.model_of(path.read_bytes())


def test_weights_outside_the_models_folder(tmp_path):
    (tmp_path / "secret").write_bytes(bytes(64))
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path / "secret")
    path = folder / "model.onnx"
    for location in ("../secret", str(tmp_path / "secret"), "link", "", "a\0b", "."):
        path.write_bytes(graphs.external(location).SerializeToString())
        with pytest.raises(denizen.ArgumentError, match="not in the model's folder"):
            infer.model_of(path)


def test_a_file_of_weights_that_is_too_short(tmp_path):
    (tmp_path / "w.bin").write_bytes(bytes(20))
    path = tmp_path / "model.onnx"
    for more, why in (({}, "holds 20 at 0"), ({"length": 8}, "gives it 8"), ({"offset": -4}, "-4")):
        path.write_bytes(graphs.external("w.bin", **more).SerializeToString())
        with pytest.raises(denizen.ArgumentError, match=why):
            infer.model_of(path)
