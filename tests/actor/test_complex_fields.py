# SPDX-License-Identifier: Apache-2.0
"""Complex numbers are fields: NumPy's on the host, records of their parts in handlers and C++."""

import numpy as np
import pytest
from backends import HANDLERS, begin

import denizen

N = 3


@denizen.record
class Point:
    at: np.complex64
    weight: np.float32


@denizen.message
class Sample:
    z: np.complex64
    point: Point
    taps: (np.complex128, N)


@denizen.message
class Turned:
    z: np.complex64
    taps: (np.complex128, N)
    sum: np.complex128
    seen: np.complex64
    times: np.uint32


@denizen.actor
class Turner:
    turn: np.complex128 = 0.5 - 2j
    last: np.complex64 = 0
    kept: (np.complex128, N)
    times: np.uint32 = 0

    def on_sample(self, m: Sample, ctx):
        self.times += 1
        out = Turned(times=self.times)
        out.z.real = m.z.real * self.turn.real - m.z.imag * self.turn.imag
        out.z.imag = m.z.real * self.turn.imag + m.z.imag * self.turn.real
        for i in range(len(m.taps)):
            out.sum.real += m.taps[i].real * m.point.weight
            out.sum.imag += m.taps[i].imag * m.point.weight
            out.taps[i] = self.kept[i]
            self.kept[i] = m.taps[i]
        out.seen = self.last
        self.last = m.point.at
        ctx.reply(out)


def samples():
    rng = np.random.default_rng(5)
    made = []
    for _ in range(4):
        z = rng.normal(size=(2 + N, 2)) @ (1, 1j)
        made.append(Sample(z=z[0], point=(z[1], 0.25), taps=z[2:]))
    return made


@pytest.mark.parametrize("where", HANDLERS)
def test_they_come_back_as_they_were_sent(where):
    with begin(denizen.Program(actors=[Turner]), where) as rt:
        (turner,) = rt.spawn(Turner)
        kept, last = np.zeros(N, np.complex128), np.complex64(0)
        for i, m in enumerate(samples()):
            got = rt.ask(turner, m, timeout=20)
            assert got["z"] == pytest.approx(m["z"] * (0.5 - 2j), rel=1e-6)
            assert got["sum"] == pytest.approx(0.25 * m["taps"].sum(), rel=1e-6)
            np.testing.assert_array_equal(got["taps"], kept)
            assert (got["seen"], got["times"]) == (last, i + 1)
            kept, last = m["taps"].copy(), m["point"]["at"]


@pytest.mark.parametrize("where", [one for one in HANDLERS if one != "python"])
def test_c_plus_plus_has_their_parts(where):
    text = """
        struct Halver {
            void on(const Sample& m, auto& ctx) {
                Turned out{};
                out.z.real = m.z.real / 2;
                out.z.imag = m.point.at.imag;
                out.taps[2].imag = m.taps[1].real;
                ctx.reply(out);
            }
        };
    """
    program = denizen.Program(text, actors=["Halver"], messages=[Sample, Turned])
    with begin(program, where) as rt:
        (halver,) = rt.spawn("Halver")
        got = rt.ask(halver, Sample(3 + 4j, (1 + 2j, 0), [0, 7 - 1j, 0]), timeout=60)
        assert (got["z"], got["taps"][2]) == (1.5 + 2j, 7j)


def test_what_such_a_field_does_not_hold_is_refused():
    with pytest.raises(denizen.MessageError, match=r"c8: up to 3\.40282e\+38, or an infinity"):
        Sample(z=1e300j)
    with pytest.raises(denizen.MessageError, match="is c8; 'i' is none"):
        Sample(z="i")
    with pytest.raises(denizen.MessageError, match="times of Turned is u4; 1j is none"):
        Turned(times=1j)
    with pytest.raises(denizen.ArgumentError, match=r"is no field; use .* complex64, complex128"):
        denizen.message(type("Half", (), {"__annotations__": {"x": np.float16}}))


@denizen.message
class Pair:
    a: np.complex64
    b: np.complex64


@denizen.actor
class Equal:
    def on_pair(self, m: Pair, ctx):
        ctx.stop(m.a == m.b)


@denizen.actor
class Square:
    z: np.complex64

    def on_pair(self, m: Pair, ctx):
        self.z = m.a * m.a


@denizen.actor
class Long:
    def on_pair(self, m: Pair, ctx):
        ctx.stop(abs(m.a) > 1)


@pytest.mark.parametrize(
    ("actor", "line"), [(Equal, "m.a == m.b"), (Square, "m.a * m.a"), (Long, "abs(m.a) > 1")]
)
def test_a_whole_one_is_told_to_be_its_parts(actor, line):
    pytest.importorskip("numba")
    with pytest.raises(denizen.CompileError, match=r"use its parts, x.real and x.imag") as caught:
        denizen.Program(actors=[actor]).compile_cpu()
    assert line in str(caught.value)
