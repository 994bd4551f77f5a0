# SPDX-License-Identifier: Apache-2.0
"""Resident blocks in Python make the same of a stream on the interpreter, CPU threads and a GPU."""

import math

import numpy as np
import pytest

import denizen
from denizen import _core, flow
from denizen.compilers import find_nvrtc
from denizen.flow.resident import compile_gpu
from denizen.handlers.kind_code import gpu_parts

EVERYWHERE = ["python", "cpu:1", "cpu:2", pytest.param("gpu", marks=pytest.mark.gpu)]


@flow.kind
class Smooth:
    before = 2
    a: np.float32 = 0.5

    def make(self, x, y):
        y[0] = self.a * x[0] + (1 - self.a) * x[-2]


def turn(re, im):
    return math.atan2(im, re)


@flow.kind
class Demodulate:
    takes = np.complex64
    makes = np.float32
    before = 1
    gain: np.float32 = 2.0

    def make(self, x, y):
        re = x[0].real * x[-1].real + x[0].imag * x[-1].imag
        im = x[0].imag * x[-1].real - x[0].real * x[-1].imag
        y[0] = self.gain * turn(re, im)


@flow.kind
class Sum:
    """Every third output of five taps, as a filter."""

    before = 4
    down = 3
    taps: (np.float32, 5) = (1, 2, 3, 2, 1)

    def make(self, x, y):
        sum = 0.0
        for k in range(len(self.taps)):
            sum += self.taps[k] * x[-k]
        y[0] = sum


@flow.kind
class Rotate:
    takes = np.complex64
    half: np.bool_
    more: np.int16 = 3

    def make(self, x, y):
        y[0].real = -x[0].imag * self.more
        y[0].imag = x[0].real * self.more
        if self.half:
            y[0].real = y[0].real / 2
            y[0].imag = y[0].imag / 2


KINDS = [Smooth, Demodulate, Sum, Rotate]


@pytest.fixture(scope="module", params=EVERYWHERE)
def resident(request):
    try:
        made = flow.Resident(request.param, chain_workers=2, kinds=KINDS)
        made.function_of(Smooth.code, print)
    except denizen.MissingPackageError as error:
        pytest.skip(str(error))
    return made


def through(samples, *blocks, quantum=100):
    """What the blocks make of a stream."""
    return received(samples, (), *blocks, quantum=quantum).samples


def received(samples, tags, *blocks, quantum):
    """What arrives behind the blocks."""
    with flow.Flowgraph() as graph:
        source = graph.add(flow.ArraySource("source", samples, tags))
        sink = graph.add(flow.ArraySink("sink", blocks[-1].samples.becomes))
        graph.circuit("samples", source.out, quanta=4, samples=quantum)
        port = source.out
        for block in blocks:
            graph.add(block)
            graph.connect(port, block.samples)
            port = block.samples
        graph.connect(port, sink.port)
        graph.run(timeout=60)
    return sink


def noise(count, dtype=np.float32):
    rng = np.random.default_rng(1)
    real = rng.normal(size=count)
    out = real + 1j * rng.normal(size=count) if dtype == np.complex64 else real
    return out.astype(dtype)


@pytest.mark.parametrize("count", [1, 99, 1000])
def test_samples_before_are_there_across_quanta(resident, count):
    x = noise(count)
    found = through(x, Smooth("smooth", executor=resident, a=0.25))
    before = np.concatenate([np.zeros(2), x])[:count]
    expected = (0.25 * x.astype(float) + 0.75 * before).astype(np.float32)
    np.testing.assert_array_equal(found, expected)


def test_complex_to_real(resident):
    x = noise(500, np.complex64)
    found = through(x, Demodulate("fm", executor=resident))
    expected = 2 * np.angle(x[1:] * np.conj(x[:-1]))
    np.testing.assert_allclose(found[1:], expected, atol=1e-5)


def test_fewer_outputs_than_inputs(resident):
    x = noise(1001)
    found = through(x, Sum("sum", executor=resident))
    expected = np.convolve(x, [1, 2, 3, 2, 1])[: len(x)][::3]
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_a_chain_of_several_kinds_and_one_of_the_library(resident):
    x = noise(700, np.complex64)
    rotate = Rotate("rotate", executor=resident, half=True)
    power = flow.MagnitudeSquared("power", executor=resident)
    found = through(x, rotate, power, Smooth("smooth", executor=resident, a=1.0))
    np.testing.assert_allclose(found, np.abs(x * 1.5) ** 2, rtol=1e-5)


@pytest.mark.parametrize("quantum", [5, 64, 600])
def test_tags_stay_with_their_samples_across_rates(resident, quantum):
    """To the first output that is made of their sample, wherever quanta end."""
    tags = [flow.Tag(s, "at", s) for s in range(0, 500, 7)]
    first, third = (Sum(name, executor=resident) for name in ("first", "third"))
    second = Smooth("second", executor=resident)
    found = received(noise(500), tags, first, second, third, quantum=quantum).tags
    assert found == [flow.Tag(-(-s // 9), "at", s) for s, _, _ in tags if s <= 495]

    kinds = [flow.Tag(3, "text", "here"), flow.Tag(3, "half", 0.5), flow.Tag(4, "whole", -1)]
    assert received(noise(9), kinds, Smooth("alone", executor=resident), quantum=5).tags == kinds


@flow.kind
class Above:
    """Makes nothing of some samples."""

    down = 2

    def make(self, x, y):
        if x[0] > 5:
            y[0] = x[0]


@flow.kind
class Half:
    """Makes one part of what is complex, and leaves it before it does at times."""

    takes = np.complex64

    def make(self, x, y):
        if x[0].imag > 3:
            return
        y[0].real = x[0].real


@pytest.mark.parametrize("where", EVERYWHERE)
@pytest.mark.parametrize("quantum", [3, 64])
def test_what_is_not_made_is_zero(where, quantum):
    """However the stream is cut."""
    try:
        resident = flow.Resident(where, kinds=[Above, Half])
        above, half = Above("above", executor=resident), Half("half", executor=resident)
    except denizen.MissingPackageError as error:
        pytest.skip(str(error))
    x = np.arange(20, dtype=np.float32)
    expected = np.where(x > 5, x, 0)
    np.testing.assert_array_equal(through(x, above, quantum=quantum), expected[::2])
    found = through((x + 1j * (x % 7)).astype(np.complex64), half, quantum=quantum)
    np.testing.assert_array_equal(found, np.where(x % 7 > 3, 0, x))


def test_parameters_change_while_it_runs():
    sent = []

    class Steady(flow.Block):
        def __init__(self):
            super().__init__("steady")
            self.out = self.source("out", "f4")

        def work(self):
            self.out.array[:] = 1
            self.out.produce()
            sent.append(1)
            if len(sent) == 20:
                smooth.post(a=3.0)
            if len(sent) == 200:
                self.finish()

    smooth = Rescale("rescale", executor=flow.Resident("cpu:1", kinds=[Rescale]))
    with flow.Flowgraph() as graph:
        steady = graph.add(Steady())
        graph.add(smooth)
        sink = graph.add(flow.ArraySink("sink", "f4"))
        graph.circuit("samples", steady.out, quanta=2, samples=64)
        graph.connect(steady.out, smooth.samples)
        graph.connect(smooth.samples, sink.port)
        graph.run(timeout=60)
    found = np.array(sink.samples)
    assert found[0] == 2
    assert found[-1] == 3
    assert np.flatnonzero(np.diff(found)).size == 1
    assert np.flatnonzero(np.diff(found))[0] % 64 == 63


@flow.kind
class Rescale:
    a: np.float32 = 2.0

    def make(self, x, y):
        y[0] = self.a * x[0]


def test_what_make_raises_reaches_who_waits():
    @flow.kind
    class Wrong:
        ahead: np.int32 = 1

        def make(self, x, y):
            y[0] = x[self.ahead]  # which is not there

    resident = flow.Resident("python", kinds=[Wrong])
    with pytest.raises(denizen.FailedError, match='block "wrong" has failed: sample 1 of 0 to 0'):
        through(noise(10), Wrong("wrong", executor=resident))


def test_its_methods_compile_for_a_gpu():
    pytest.importorskip("numba.cuda")
    assert all(code for _, code in gpu_parts([k.code for k in (*KINDS, Above, Half)], 90))


@pytest.mark.deep  # the link optimises for half a minute; another's is in test_teams_of_handlers.py
def test_a_cubin_of_it_is_made_without_a_gpu():
    pytest.importorskip("numba.cuda")
    find_nvrtc()
    try:
        _core.nvrtc_version()
    except denizen.CompileError as error:
        pytest.skip(str(error).splitlines()[0])
    assert compile_gpu([k.code for k in KINDS], 90)


def test_what_is_refused():
    with pytest.raises(denizen.ArgumentError, match=r"kind Idle has no method make\(self, x, y\)"):

        @flow.kind
        class Idle: ...

    with pytest.raises(denizen.ArgumentError, match=r"Wide.a is float64; .* at most 32 bits"):

        @flow.kind
        class Wide:
            a: np.float64

            def make(self, x, y): ...

    with pytest.raises(denizen.ArgumentError, match="Bytes makes uint8 of uint8; a resident"):

        @flow.kind
        class Bytes:
            takes = np.uint8

            def make(self, x, y): ...

    for given in (5, None, "Smooth", Smooth, lambda x, y: None):
        with pytest.raises(denizen.ArgumentError, match=r"is no class; @flow.kind decorates one"):
            flow.kind(given)

    other = flow.Resident("cpu:1", kinds=[Sum])
    with pytest.raises(
        denizen.ArgumentError, match=r"no kind Smooth: flow.Resident\(device, kinds"
    ):
        Smooth("smooth", executor=other)
    with pytest.raises(denizen.ArgumentError, match=r"executor .cpu.; Smooth runs on a flow.Res"):
        Smooth("smooth", executor="cpu")
    with pytest.raises(denizen.ArgumentError, match="Sum has no parameter b; it has taps f4"):
        Sum("sum", executor=other, b=1)


def make(self, x, y):
    pass


@pytest.mark.parametrize(
    ("declared", "text"),
    [
        ({"before": 1.5}, r"K\.before = 1\.5; use a whole number from 0 to 4096"),
        ({"before": -1}, r"K\.before = -1; use a whole number from 0 to 4096"),
        ({"down": "2"}, r"K\.down = '2'; use a whole number from 1 to 4096"),
        ({"down": 0}, r"K\.down = 0; use a whole number from 1 to 4096"),
        ({"takes": "zz"}, r"K\.takes = 'zz'; use a NumPy dtype"),
        ({"makes": 5}, r"K\.makes = 5; use a NumPy dtype"),
        ({"__annotations__": {"down": np.float32}, "down": 1}, r"K\.down is no parameter: down"),
        ({"__annotations__": {"make": np.float32}}, r"K\.make is no parameter: make says"),
    ],
    ids=["fraction", "negative", "text", "none", "unknown", "number", "a-parameter", "make"],
)
def test_what_is_declared_is_refused_by_name(declared, text):
    with pytest.raises(denizen.ArgumentError, match=text):
        flow.kind(type("K", (), {"make": make, **declared}))


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("x[0] = 1", "what a block gets stays as it is; y\\[0\\] is what it makes"),
        ("self.a = 1", "a block's parameters stay as they are; the host posts new ones"),
        ("return x[0]", "return with a value; y\\[0\\] = ... answers"),
        ("x.send(5)", "what it calls is a function outside of the class"),
        ("y[0] = x", "a number is needed here, not an array"),
        ("y[0] = len(x)", "a stream has no length; x\\[0\\] is the sample"),
        ("y[0] = self.b", "has no field b; it has a"),
        ("y.b = 1", "a number has no b$"),
        ("y[1] = x[0]", "y\\[1\\] is not there; what is there is y\\[0\\]"),
        ("y[0] = x[-1]", "x\\[-1\\] is not there; what is there is x\\[0\\]"),
    ],
)
def test_refused_at_its_line(tmp_path, body, text):
    pytest.importorskip("numba")
    folder = tmp_path / "a folder"  # with a space in its name
    folder.mkdir()
    path = folder / "user.py"
    path.write_text(
        "import numpy as np\nfrom denizen import flow\n@flow.kind\nclass Kind:\n"
        f"    a: np.float32\n    def make(self, x, y):\n        {body}\n"
    )
    names = {}
    exec(compile(path.read_text(), str(path), "exec"), names)
    with pytest.raises(denizen.CompileError, match=f"(?m)user.py:7: .*{text}"):
        names["Kind"]("k", executor=flow.Resident("cpu:1", kinds=[names["Kind"]]))
