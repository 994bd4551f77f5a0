# SPDX-License-Identifier: Apache-2.0
"""denizen.infer.Resident: answers against the reference, versions, states, errors, waits."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from infer_reference import Reference, answers

import denizen
from denizen.infer import Model, Op, Resident

RANDOM = np.random.default_rng(30)


@pytest.fixture(params=["cpu", pytest.param("gpu:0", marks=pytest.mark.gpu)])
def where(request):
    return request.param


def weight(*shape, scale=0.3):
    return (RANDOM.standard_normal(shape) * scale).astype(np.float32)


def small(inputs=12, hidden=20, outputs=5):
    """A convolution, an LSTM and a GRU beside each other, and a head."""
    conv = Op("conv1d", (0,), (weight(hidden, inputs, 3), weight(hidden)), {"dilation": 2}, "conv")
    lstm = (weight(4 * hidden, hidden), weight(4 * hidden, hidden), weight(4 * hidden))
    gru = (weight(3 * hidden, hidden), weight(3 * hidden, hidden))
    gru += (weight(3 * hidden), weight(3 * hidden))
    ops = (
        conv,
        Op("lstm", (1,), lstm, {}, "lstm"),
        Op("gru", (1,), gru, {}, "gru"),
        Op("concat", (2, 3), (), {}, "both"),
        Op("layernorm", (4,), (weight(2 * hidden), weight(2 * hidden)), {"eps": 1e-5}, "norm"),
        Op("linear", (5,), (weight(outputs, 2 * hidden), weight(outputs)), {}, "head"),
    )
    return Model((inputs, hidden, hidden, hidden, 2 * hidden, 2 * hidden, outputs), ops, 6)


def stacked(inputs=7, hidden=33, outputs=3):
    """Two layers of an LSTM and a head."""
    ops, widths = [], [inputs, hidden, hidden, outputs]
    for layer in range(2):
        lstm = (weight(4 * hidden, widths[layer]), weight(4 * hidden, hidden), weight(4 * hidden))
        ops.append(Op("lstm", (layer,), lstm, {}, f"lstm{layer}"))
    ops.append(Op("linear", (2,), (weight(outputs, hidden), weight(outputs)), {}, "head"))
    return Model(tuple(widths), tuple(ops), 3)


def scaled(k):
    """A model that answers k * k * x, in two layers: a mixture of versions would be k * j * x."""
    layer = (np.eye(16, dtype=np.float32) * np.float32(k), np.zeros(16, np.float32))
    ops = (Op("linear", (0,), layer, {}, "a"), Op("linear", (1,), layer, {}, "b"))
    return Model((16, 16, 16), ops, 2)


def inputs(n, width=12):
    return RANDOM.standard_normal((n, width)).astype(np.float32)


@pytest.mark.parametrize(("weights", "off"), [("fp32", 1e-5), ("fp16", 3e-3), ("bf16", 3e-2)])
@pytest.mark.parametrize("parts", [1, 2])
def test_answers_are_those_of_the_reference(weights, off, parts, where):
    model = small()
    x = inputs(25)
    with Resident(model, device=where, streams=3, weights=weights, parts=parts) as m:
        one_by_one = np.array([m(row, stream=1) for row in x])
        at_once = m.steps(x, streams=2)
        assert (m.inputs, m.outputs, m.streams) == (12, 5, 3)
        assert f"12 -> 5, 3 streams, {weights}" in repr(m)
    assert one_by_one.dtype == np.float32
    assert np.abs(one_by_one - answers(model, x)).max() < off
    assert (one_by_one == at_once).all()


def test_steps_of_several_streams_in_one_call(where):
    model = small()
    x = inputs(60)
    streams = RANDOM.integers(0, 4, 60)
    references = [Reference(model) for _ in range(4)]
    expected = np.array([references[s](row) for s, row in zip(streams, x, strict=True)])
    with Resident(model, device=where, streams=4, requests=8) as m:
        found, versions = m.answers(x, streams)
        assert np.abs(found - expected).max() < 1e-5
        assert (versions == 1).all()
        assert m.stats().steps == 60
        assert m.steps(np.empty((0, 12), np.float32)).shape == (0, 5)


def test_tokens(where):
    ops = (Op("embedding", (0,), (weight(30, 6),), {}, "words"), Op("softmax", (1,), (), {}, "p"))
    model = Model((1, 6, 6), ops, 2, tokens=True)
    with Resident(model, device=where) as m:
        assert np.abs(m(7) - Reference(model)(7)).max() < 1e-6
        assert np.abs(m.steps([3, 29]) - answers(model, [3, 29])).max() < 1e-6
        with pytest.raises(denizen.ArgumentError, match="token 30; the model's embedding has"):
            m(30)
        with pytest.raises(denizen.ArgumentError, match="give a whole number"):
            m(1.5)


def test_coroutines_ask_at_once(where):
    model = small()
    x = inputs(8)

    async def stream(m, number):
        return [await m.step(row, stream=number) for row in x]

    async def all_of_them(m):
        return await asyncio.gather(*(stream(m, number) for number in range(6)))

    with Resident(model, device=where, streams=6, requests=4) as m:
        found = np.array(asyncio.run(all_of_them(m)))
    assert np.abs(found - answers(model, x)).max() < 1e-5


def test_two_models_beside_each_other(where):
    """Each of two threads has a stream of both models, and asks them by turns."""
    models, steps, rest = (small(), stacked()), 100, 10
    x = [[inputs(steps + rest, model.widths[0]) for _ in range(2)] for model in models]
    expected = [[answers(model, one) for one in of] for model, of in zip(models, x, strict=True)]
    begin = threading.Barrier(2, timeout=60)

    def ask(stream):
        off = [0.0, 0.0]
        begin.wait()
        for step in range(steps):
            for which in (stream, 1 - stream):
                y = residents[which](x[which][stream][step], stream=stream)
                off[which] = max(off[which], np.abs(y - expected[which][stream][step]).max())
        return off

    with Resident(models[1], device=where, streams=2) as second:
        # On a GPU: three blocks that exchange through L2 beside a cluster.
        with Resident(models[0], device=where, streams=2, parts=3) as first:
            residents = (first, second)
            with ThreadPoolExecutor(2) as askers:
                off = list(askers.map(ask, range(2)))
            assert np.max(off) < 1e-5
            assert [m.stats().steps for m in residents] == [2 * steps, 2 * steps]
        # One has gone, the other's states stay.
        for stream in range(2):
            y = second.steps(x[1][stream][steps:], stream)
            assert np.abs(y - expected[1][stream][steps:]).max() < 1e-5


def test_a_swap_under_load_mixes_no_versions(where):
    wrong, asked = [], []
    going = threading.Event()
    going.set()

    def ask(m, number):
        x = np.full((20, 16), 3, np.float32)
        while going.is_set():
            found, versions = m.answers(x, number)
            if not (found == 3.0 * versions[:, None].astype(np.float32) ** 2).all():
                wrong.append((found, versions))
            asked.append(len(x))

    with Resident(scaled(1), device=where, streams=3, parts=1) as m:
        askers = [threading.Thread(target=ask, args=(m, number)) for number in range(3)]
        for asker in askers:
            asker.start()
        for version in range(2, 22):
            assert m.swap(scaled(version)) == version
            found = m.answer(np.ones(16, np.float32))
            assert (found.output == version**2).all()
            assert found.version == version
        going.clear()
        for asker in askers:
            asker.join()
        assert m.version == 21
        assert m.stats().steps == sum(asked) + 20
    assert not wrong
    with (
        Resident(scaled(1), device=where) as m,
        pytest.raises(denizen.ArgumentError, match="the new model"),
    ):
        m.swap(small())


def test_states_are_read_set_and_reset(where):
    model = small()
    x = inputs(10)
    expected = answers(model, x)
    with Resident(model, device=where, streams=2) as m:
        m.steps(x[:6], streams=0)
        state = m.state(0)
        assert set(state) == {"conv.inputs", "lstm.h", "lstm.c", "gru.h"}
        assert (state["conv.inputs"] == x[2:6]).all()  # oldest first
        m.set_state(1, state)
        assert np.abs(m.steps(x[6:], streams=1) - expected[6:]).max() < 1e-5
        m.reset(1)
        assert not m.state(1)["lstm.c"].any()
        assert np.abs(m.steps(x, streams=1) - expected).max() < 1e-5
        with pytest.raises(denizen.ArgumentError, match="this model's has"):
            m.set_state(1, {"lstm.h": state["lstm.h"]})
        with pytest.raises(denizen.ArgumentError, match=r"'gru\.h' is float64"):
            m.set_state(1, {**state, "gru.h": np.zeros(20)})


@pytest.mark.parametrize("path", ["", 5, None], ids=repr)
def test_what_is_no_path(path):
    with Resident(small()) as m:
        for call in (m.save, m.restore):
            with pytest.raises(denizen.ArgumentError, match="; give the path of a file"):
                call(path)


def test_states_are_saved_and_restored(tmp_path, where):
    model, path = small(), tmp_path / "streams"
    x = inputs(10)
    with Resident(model, device=where, streams=2) as m:
        m.steps(x[:6], streams=1)
        m.save(os.fsencode(path))
        rest = m.steps(x[6:], streams=1)
    with Resident(model, device=where, streams=2) as m:
        m.restore(path)
        assert (m.steps(x[6:], streams=1) == rest).all()
        whole = path.read_bytes()
        path.write_bytes(whole[:-3])
        with pytest.raises(denizen.SnapshotError):
            m.restore(path)
        path.write_bytes(whole[:-3] + b"abc")
        with pytest.raises(denizen.SnapshotError):
            m.restore(path)
        path.write_bytes(whole)
    with (
        Resident(small(hidden=21), streams=2) as m,
        pytest.raises(denizen.SnapshotError, match="is of another model"),
    ):
        m.restore(path)


def test_wrong_arguments_are_told():
    model = small()
    for given, match in [
        ({"device": "gpu:99"}, "there is no GPU 99"),
        (
            {"copies": 2, "streams": 2},
            'copies = 2 and device "cpu": copies are of a model on a GPU',
        ),
        ({"copies": 0}, "copies = 0"),
        ({"device": "python"}, 'use "cpu", "cpu:PARTS" or "gpu:N"'),
        ({"device": "cpu:2", "parts": 3}, "give one of the two"),
        ({"streams": 0}, "streams = 0"),
        ({"weights": "tf32"}, 'would round as fp16 does and take the memory of fp32; use "fp16"'),
        ({"weights": "fp8"}, 'use "fp32", "bf16" or "fp16"'),
        ({"parts": 0}, "parts = 0"),
        ({"parts": 65}, "parts = 65; use 0 to 64"),
        ({"requests": 0}, "requests = 0"),
        ({"spin_us": -1}, "spin_us = -1"),
        ({"breath_us": -1}, "breath_us = -1"),
    ]:
        with pytest.raises(denizen.DenizenError, match=match):
            Resident(model, **given)
    bad = Op("linear", (0,), (np.full((2, 3), np.nan, np.float32), weight(2)), {}, "head")
    with pytest.raises(denizen.ArgumentError, match=r'layer "head".*finite'):
        Resident(Model((3, 2), (bad,), 1))
    large = Op("linear", (0,), (np.full((2, 3), 1e5, np.float32), weight(2)), {}, "head")
    with pytest.raises(denizen.ArgumentError, match=r'layer "head".*fp16 goes to 65504'):
        Resident(Model((3, 2), (large,), 1), weights="fp16")
    with Resident(model, streams=2, device="cpu:2") as m:
        assert m.stats().parts == 2
        row = inputs(1)[0]
        for x, stream, match in [
            (row, 2, "streams 0 to 1"),
            (row, -1, "streams 0 to 1"),
            (row, 0.5, "streams 0 to 1"),
            (row[:-1], 0, r"shape \(12,\)"),
            (row.astype(np.float64), 0, "x is float64"),
        ]:
            with pytest.raises(denizen.ArgumentError, match=match):
                m(x, stream=stream)
        with pytest.raises(denizen.ArgumentError, match="streams are 0 to 2"):
            m.steps(inputs(3), [0, 1, 2])
        with pytest.raises(denizen.ArgumentError, match="one for each of the 3 steps"):
            m.steps(inputs(3), [0, 1])
        with pytest.raises(denizen.ArgumentError, match="timeout"):
            m(row, timeout="soon")


def test_closed_and_forked():
    m = Resident(small())
    row = inputs(1)[0]
    m(row)
    child = os.fork()
    if child == 0:
        try:
            m(row)
        except denizen.ClosedError:
            m.close()
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    m(row)
    m.close()
    m.close()
    with pytest.raises(denizen.ClosedError, match="the resident model is closed"):
        m(row)
    with pytest.raises(denizen.ClosedError):
        asyncio.run(m.step(row))


@pytest.mark.gpu
def test_a_model_that_does_not_fit_on_a_gpu_says_how_much_is_missing():
    n = 1024
    layer = (weight(n, n, scale=0.03), weight(n))
    model = Model((n,) * 3, tuple(Op("linear", (i,), layer, {}, f"l{i}") for i in range(2)), 2)
    with pytest.raises(denizen.ArgumentError, match=r"one of them lacks \d+ bytes; use weights of"):
        Resident(model, device="gpu:0", parts=3)
    with Resident(model, device="gpu:0", weights="bf16") as m:
        x = inputs(20, n)
        assert np.abs(m.steps(x) - answers(model, x)).max() < 0.02
        assert "NVIDIA" in repr(m)


@pytest.mark.gpu
def test_copies_of_a_model_answer_as_one():
    model, x, of = small(), inputs(24), np.arange(24, dtype=np.uint32) % 6
    with Resident(model, streams=6) as one:
        expected = one.steps(x, of)
    with Resident(model, device="gpu:0", streams=6, copies=3) as m:
        np.testing.assert_allclose(m.steps(x, of), expected, rtol=1e-5, atol=1e-6)
        assert "3 times" in repr(m) and m.stats().steps == 24
    with pytest.raises(denizen.ArgumentError, match="copies = 100 of"):
        Resident(model, device="gpu:0", streams=100, copies=100, parts=8)


@pytest.mark.gpu
def test_a_gpu_serves_while_the_device_is_waited_for():
    torch = pytest.importorskip("torch")
    x = inputs(400)
    model = small()
    with Resident(model, device="gpu:0", breath_us=500) as m:
        found = []
        for row in x:
            found.append(m(row))
            if len(found) % 50 == 0:
                torch.cuda.synchronize()
                torch.empty(1 << 20, device="cuda")
    assert np.abs(np.array(found) - answers(model, x)).max() < 1e-4


WAITS = """
import sys, time
import numpy as np
from denizen.infer import Model, Op, Resident
n = 500
layer = (np.zeros((n, n), np.float32), np.zeros(n, np.float32))
model = Model((n,) * 9, tuple(Op("linear", (i,), layer, {}, f"l{i}") for i in range(8)), 8)
with Resident(model, parts=1) as m:
    x = np.zeros((50_000, n), np.float32)
    print("asking", flush=True)
    try:
        m.steps(x, timeout=600)
    except KeyboardInterrupt:
        at = time.monotonic()
        m(x[0])
        print(at, flush=True)
"""


def test_ctrl_c_ends_a_wait_and_the_model_goes_on():
    child = subprocess.Popen([sys.executable, "-c", WAITS], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline() == "asking\n"
        time.sleep(0.3)
        pressed = time.monotonic()
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=60)
    finally:
        child.kill()
    assert child.returncode == 0
    assert float(out) - pressed < 5  # 0.2 s on an idle machine


@pytest.mark.parametrize("window", [1, 5])
def test_timed_steps_answer_as_steps_do_and_tell_each_time(window, where):
    x, of = inputs(24), np.arange(24, dtype=np.uint32) % 3
    with Resident(small(), streams=3, requests=5, device=where) as m:
        expected = m.steps(x, of)
        for stream in range(3):
            m.reset(stream)
        got, took = np.empty_like(expected), np.zeros(24, np.uint64)
        m._core.timed(of, x, got, took, window, 10.0)
        np.testing.assert_array_equal(got, expected)
        assert took.min() > 0
        for wrong in (0, 6):
            with pytest.raises(denizen.ArgumentError, match="window"):
                m._core.timed(of, x, got, took, wrong, 10.0)
