# SPDX-License-Identifier: Apache-2.0
"""Kinds in Python whose ports have names: one stream or two in step, a circuit for each output."""

import numpy as np
import pytest

import denizen
from denizen import flow
from denizen.handlers.kind_code import gpu_parts

EVERYWHERE = ["python", "cpu:1", "cpu:2", pytest.param("gpu", marks=pytest.mark.gpu)]


@flow.kind
class Butterfly:
    """The sum of a sample and another stream's two samples ago, and the difference."""

    inputs = "a", "b"
    outputs = "sum", "difference"
    before = 2
    gain: np.float32 = 1.0

    def make(self, a, b, sum, difference):
        sum[0] = self.gain * (a[0] + b[-2])
        difference[0] = self.gain * (a[-1] - b[0])


@flow.kind
class Parts:
    """Of every third sample the parts, and what is positive of the sample before."""

    takes = np.complex64
    makes = np.float32
    outputs = "real", "imag", "positive"
    before = 1
    down = 3

    def make(self, x, real, imag, positive):
        real[0] = x[0].real
        imag[0] = x[0].imag
        if x[-1].real > 0:
            positive[0] = x[-1].real


@flow.kind
class Product:
    takes = np.complex64
    inputs = "a", "b"

    def make(self, a, b, y):
        y[0].real = a[0].real * b[0].real - a[0].imag * b[0].imag
        y[0].imag = a[0].real * b[0].imag + a[0].imag * b[0].real


KINDS = [Butterfly, Parts, Product]


@pytest.fixture(scope="module", params=EVERYWHERE)
def resident(request):
    try:
        made = flow.Resident(request.param, chain_workers=2, kinds=KINDS)
        made.function_of(Parts.code, print)
    except denizen.MissingPackageError as error:
        pytest.skip(str(error))
    return made


def between(block, streams, tags=None, quantum=100, room=70):
    """What each output has sent: its samples and its tags."""
    test = flow.Alone(block)
    for i, (name, samples) in enumerate(streams.items()):
        given = (tags or {}).get(name, ())
        test.feed(block.inputs[name], samples, given, quantum=quantum + 9 * i)
    sinks = {}
    for name, port in block.outputs.items():
        test.circuit(port, quanta=2, samples=room)
        sinks[name] = test.collect(port)
    test.run(timeout=60)
    return sinks


def noise(count, dtype=np.float32, seed=1):
    rng = np.random.default_rng(seed)
    real = rng.normal(size=count)
    out = real + 1j * rng.normal(size=count) if dtype == np.complex64 else real
    return out.astype(dtype)


def delayed(x, count):
    return np.concatenate([np.zeros(count, x.dtype), x])[: len(x)]


@pytest.mark.parametrize(("quantum", "room"), [(7, 300), (100, 11), (5000, 4000)])
def test_two_inputs_and_two_outputs_however_they_are_cut(resident, quantum, room):
    a, b = noise(3000), noise(3000, seed=2)  # three jobs
    block = Butterfly("butterfly", executor=resident)
    got = between(block, {"a": a, "b": b}, quantum=quantum, room=room)
    np.testing.assert_array_equal(got["sum"].samples, a + delayed(b, 2))
    np.testing.assert_array_equal(got["difference"].samples, delayed(a, 1) - b)


def test_several_outputs_at_a_lower_rate(resident):
    x = noise(3001, np.complex64)
    got = between(Parts("parts", executor=resident), {"x": x})
    np.testing.assert_array_equal(got["real"].samples, x.real[::3])
    np.testing.assert_array_equal(got["imag"].samples, x.imag[::3])
    np.testing.assert_array_equal(
        got["positive"].samples, np.maximum(delayed(x, 1).real, np.float32(0))[::3]
    )


def test_it_ends_with_the_shorter_stream(resident):
    a, b = noise(500, np.complex64), noise(333, np.complex64, seed=2)
    for streams in ({"a": a, "b": b}, {"a": b, "b": a}):
        got = between(Product("product", executor=resident), streams)
        np.testing.assert_allclose(got["y"].samples, a[:333] * b, rtol=1e-5, atol=1e-6)


def test_tags_of_every_input_go_to_every_output(resident):
    """To the first output that is made of their sample."""
    marks = [flow.Tag(s, "at", s) for s in range(0, 3000, 7)]
    got = between(Parts("parts", executor=resident), {"x": noise(3000, np.complex64)}, {"x": marks})
    expected = [flow.Tag(-(-s // 3), "at", s) for _, _, s in marks if s <= 2997]
    for sink in got.values():
        assert sink.tags == expected

    tags = {"a": [flow.Tag(5, "a", "text")], "b": [flow.Tag(5, "b", 0.5), flow.Tag(150, "b", 1)]}
    streams = {"a": noise(200), "b": noise(200)}
    got = between(Butterfly("butterfly", executor=resident), streams, tags)
    for sink in got.values():
        assert sink.tags == [*tags["a"], *tags["b"]]


def test_a_chain_and_the_library_before_and_behind_it():
    """A channel of a band, its parts, and what a filter makes of one of them."""
    pytest.importorskip("numba")
    resident = flow.Resident("cpu:2", kinds=KINDS)
    x = noise(2000, np.complex64)
    with flow.Flowgraph() as graph:
        source = graph.add(flow.ArraySource("source", x, [flow.Tag(300, "here", 1)]))
        mixer = graph.add(flow.Mixer("mixer", [2], executor=resident))
        parts = graph.add(Parts("parts", executor=resident))
        fir = graph.add(flow.Fir("fir", [1, 1], dtype="f4", executor=resident))
        sinks = {name: graph.add(flow.ArraySink(name, "f4")) for name in parts.outputs}
        graph.circuit("iq", source.out, quanta=3, samples=64)
        graph.connect(source.out, mixer.samples)
        graph.connect(mixer.samples, parts.inputs["x"])
        for name, port in parts.outputs.items():
            graph.circuit(f"of {name}", port, quanta=3, samples=32)
        graph.connect(parts.outputs["real"], fir.samples)
        graph.connect(fir.samples, sinks["real"].port)
        for name in ("imag", "positive"):
            graph.connect(parts.outputs[name], sinks[name].port)
        graph.run(timeout=60)
    real = 2 * x.real[::3]
    np.testing.assert_allclose(sinks["real"].samples, real + delayed(real, 1), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(sinks["imag"].samples, 2 * x.imag[::3])
    assert [sink.tags for sink in sinks.values()] == 3 * [[flow.Tag(100, "here", 1)]]


def test_parameters_change_while_it_runs(resident):
    class Ones(flow.Block):
        def __init__(self, name, block):
            super().__init__(name)
            self.out = self.source("out", "f4")
            self.block, self.sent = block, 0

        def work(self):
            self.out.array[:] = 1
            self.out.produce()
            self.sent += 1
            if self.sent == 10 and self.block is not None:
                self.block.post(gain=3.0)
            if self.sent == 60:
                self.finish()

    block = Butterfly("butterfly", executor=resident)
    with flow.Flowgraph() as graph:
        graph.add(block)
        for name, retunes in (("a", block), ("b", None)):
            source = graph.add(Ones(name, retunes))
            graph.circuit(f"to {name}", source.out, 2, 64)
            graph.connect(source.out, block.inputs[name])
        sinks = []
        for name, port in block.outputs.items():
            graph.circuit(f"from {name}", port, 2, 64)
            sinks.append(graph.add(flow.ArraySink(f"sink {name}", "f4")))
            graph.connect(port, sinks[-1].port)
        graph.run(timeout=60)
    found = sinks[0].samples[2:]
    assert (found[0], found[-1]) == (2, 6)
    assert np.count_nonzero(np.diff(found)) == 1


def test_what_make_raises_reaches_who_waits():
    @flow.kind
    class Wrong:
        outputs = "low", "high"
        ahead: np.int32 = 1

        def make(self, x, low, high):
            low[0] = x[0]
            high[0] = x[self.ahead]  # which is not there

    block = Wrong("wrong", executor=flow.Resident("python", kinds=[Wrong]))
    with pytest.raises(denizen.FailedError, match='block "wrong" has failed: sample 1 of 0 to 0'):
        between(block, {"x": noise(10)})


def test_it_compiles_for_a_gpu():
    pytest.importorskip("numba.cuda")
    assert all(code for _, code in gpu_parts([k.code for k in KINDS], 90))


def test_what_it_is_shown_as():
    assert repr(Parts) == (
        "<flow kind Parts: complex64 to float32, before 1, down 3, x to real, imag, positive; "
        "no fields>"
    )


def test_in_place_or_not_its_ports_are_named():
    block = Parts("parts", executor=flow.Resident("python", kinds=[Parts]))
    with pytest.raises(AttributeError, match=r'"parts" is not in place: its ports are inputs\["x"'):
        _ = block.samples
    with pytest.raises(AttributeError, match="'KindBlock' object has no attribute 'out'"):
        _ = block.out
    assert (block.inputs["x"].label, block.outputs["imag"].label) == ("parts.x", "parts.imag")
    with flow.Flowgraph() as graph:
        graph.add(block)
        with pytest.raises(denizen.ArgumentError, match=r'port "parts\.x" has no writer'):
            graph.validate()


def make(self, x, y):
    pass


@pytest.mark.parametrize(
    ("declared", "text"),
    [
        ({"outputs": "low"}, r"K\.outputs = 'low'; use a tuple of the ports' names, as in outp"),
        ({"inputs": (1,)}, r"K\.inputs = \(1,\); use a tuple of the ports' names"),
        ({"outputs": ()}, r"K\.outputs names 0 ports; a resident block has one output at least"),
        ({"inputs": ("a", "b", "c")}, r"K\.inputs names 3 ports; a resident block has 1 to 2 inp"),
        (
            {"outputs": ("low", "high")},
            r"kind K has make\(self, x, y\) and no method make\(self, x, low, high\), whose param",
        ),
        (
            {"inputs": ("a", "b")},
            r"kind K has make\(self, x, y\) and no method make\(self, a, b",
        ),
    ],
    ids=["text", "number", "none", "three", "outputs", "inputs"],
)
def test_ports_are_refused_by_name(declared, text):
    with pytest.raises(denizen.ArgumentError, match=text):
        flow.kind(type("K", (), {"make": make, **declared}))


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("b[0] = 1", "what a block gets stays as it is; low\\[0\\] is what it makes"),
        ("return a[0]", "return with a value; low\\[0\\] = ... answers"),
        ("high[0] = b[-1]", "b\\[-1\\] is not there; what is there is b\\[0\\]"),
        ("high[1] = b[0]", "high\\[1\\] is not there; what is there is high\\[0\\]"),
    ],
)
def test_refused_at_its_line(tmp_path, body, text):
    pytest.importorskip("numba")
    path = tmp_path / "user.py"
    path.write_text(
        "from denizen import flow\n@flow.kind\nclass Kind:\n    inputs = 'a', 'b'\n"
        f"    outputs = 'low', 'high'\n    def make(self, a, b, low, high):\n        {body}\n"
    )
    names = {}
    exec(compile(path.read_text(), str(path), "exec"), names)
    with pytest.raises(denizen.CompileError, match=f"(?m)user.py:7: .*{text}"):
        names["Kind"]("k", executor=flow.Resident("cpu:1", kinds=[names["Kind"]]))
