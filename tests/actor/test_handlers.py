# SPDX-License-Identifier: Apache-2.0
"""Handlers in Python mean the same on every backend: one body for the interpreter, CPU and GPU."""

import math
import os

import calculator
import numpy as np
import pytest
from backends import HANDLERS, begin
from calculator import CODES, Everything, Number, Order, Pair, Shape

import denizen


@pytest.fixture(scope="module", params=HANDLERS)
def where(request):
    return request.param


@pytest.fixture(scope="module")
def rt(where):
    with begin(calculator.program(), where) as runtime:
        yield runtime


def wrapped(value, code):
    bits = 8 * int(code[1])
    value &= (1 << bits) - 1
    return value - (1 << bits) if code[0] == "i" and value >> (bits - 1) else value


def test_fields_of_every_type_begin_with_their_values_and_wrap(rt):
    (keeper,) = rt.spawn(calculator.Keeper)
    first = rt.ask(keeper, "Ask", timeout=20)
    whole = [c for c in CODES if c[0] in "iu"]
    begin = {c: getattr_of(calculator.Keeper, c) for c in CODES}
    assert first.tolist() == tuple(begin[c] for c in CODES)
    added = {c: int(np.iinfo(c).max) - 3 for c in whole}
    for times in range(1, 4):
        rt.send(keeper, Everything(**added, f4=1e8, f8=1e300, b1=times < 2))
        now = rt.ask(keeper, "Ask", timeout=20)
        for c in whole:
            assert int(now[c]) == wrapped(begin[c] + times * added[c], c), c
        assert now["b1"] == (times < 2)
    f4 = np.float32(0.1)
    for _ in range(3):
        f4 = np.float32(float(f4) + 1e8)
    assert now["f4"] == f4
    assert now["f8"] == 0.1 + 1e300 + 1e300 + 1e300


def getattr_of(actor, field):
    return actor.initial[field].item()


WHOLE = [
    (0, 0),
    (1, 1),
    (-1, 2**64 - 1),
    (12345, 2**63 + 12345),
    (-(2**63), 2**63),
    (2**63 - 1, 2**63 - 1),
    (-7, 7),
    (99, 99),
]


@pytest.mark.parametrize(("a", "b"), WHOLE)
@pytest.mark.parametrize("x", [0.0, -1.5, 1e19, math.inf])
def test_whole_numbers(rt, a, b, x):
    (actor,) = rt.spawn(calculator.Calculator)
    out = rt.ask(actor, Pair(a=a, b=b, x=x, y=2.0), timeout=20)
    s, u = (lambda v: wrapped(v, "i8")), (lambda v: wrapped(v, "u8"))
    nearest = 0 if x == 0 else -1 if x == -1.5 else 2**63 - 1
    signed = [
        s(a + 1), s(a * a), a // 7, a % 7, s(a // -7), a % -7, a >> 3, s(a << 60), s(-a), ~a,
        0, 0, s(abs(a)), min(a, 5, -3), nearest, wrapped(a, "i1") + wrapped(a, "u2"),
    ]  # fmt: skip
    assert out["ints"].tolist() == signed
    first = [u(b + 1), u(b * 6364136223846793005 + 1442695040888963407), b // 7]
    unsigned = [
        *first, b % 7, b >> 33, u(b ^ (b << 13)), u(a + b), u(b - a), u(~b), 0, u(max(a, b)),
        u(a) >> 1, 2**63 + 5, 1 if x < 0 else b, u(sum(first)), b & 255 | 256,
    ]  # fmt: skip
    assert out["words"].tolist() == unsigned
    tests = [
        a < b, a == b, a > 0, b >= 2**63 + 5, 0 < a < 100, not a, x < a, True, bool(a and b),
        bool(a or x > 1e300), True, b <= a, x != 2.0, bool(x),
    ]  # fmt: skip
    assert out["tests"].tolist()[:14] == tests


@pytest.mark.parametrize(
    ("x", "y"),
    [(1.5, 2.0), (-7.25, 2.0), (7.25, -2.0), (0.0, 0.0), (1e300, 1e-300), (-0.5, math.nan)],
)
def test_floats(rt, x, y):
    (actor,) = rt.spawn(calculator.Mathematician)
    out = rt.ask(actor, Pair(a=-3, b=2**64 - 1, x=x, y=y), timeout=20)
    with np.errstate(all="ignore"):
        fx, fy = np.float64(x), np.float64(y)
        rest = np.fmod(fx, fy)
        distance = math.sqrt(x * x + y * y) if not math.isinf(x * x) else math.inf
        largest = y if y > x else x
        values = [
            fx + fy, fx - fy, fx * fy, fx / fy, np.floor(fx / fy),
            rest + fy if rest != 0 and (rest < 0) != (fy < 0) else rest,
            fx / np.float64(0), np.sqrt(fx), -distance if x < 0 else distance,
            math.floor(min(x, 2.0**63)) / 2, abs(x), y if y < x else x,
            0.25 if largest < 0.25 else largest, np.float32(x), -3 + 7.5, -x,
            abs(x) + math.copysign(1, y), rest, math.pi, (2.0**64) / 2, float(math.isnan(y)),
        ]  # fmt: skip
    if x == 1e300:
        values[9] = (2**63 - 1) / 2
    np.testing.assert_array_equal(out["values"][:21], np.array(values))
    most = 2**63 - 1
    wholes = [math.floor(x), math.ceil(x), math.trunc(x)] if x != 1e300 else [most] * 3
    far = 0 if x == 0 else most if x > 0 else -most - 1
    low = wrapped(int(x) if x != 1e300 else most, "i4")
    assert out["wholes"].tolist()[:5] == [*wholes, far, low]


def test_functions_of_math_to_the_last_bits(rt):
    (actor,) = rt.spawn(calculator.Mathematician)
    for n in (1, 7, 33):
        x = n / 8
        out = rt.ask(actor, Number(n=n), timeout=20)["values"]
        expected = [
            math.sin(x), math.cos(x), math.tan(x), math.exp(x), math.log(x), math.log2(x),
            math.log10(x), math.log1p(x), math.expm1(x), math.atan(x), math.atan2(x, 2),
            math.hypot(x, 3), math.pow(x, 1.5), math.sinh(x), math.cosh(x), math.tanh(x),
            math.asin(x / 10), math.acos(x / 10),
        ]  # fmt: skip
        np.testing.assert_allclose(out[:18], expected, rtol=1e-14)


def test_loops_and_branches(rt):
    (actor,) = rt.spawn(calculator.Calculator)
    found = 0
    for i in (10, 7, 1):
        found = found * 10 + i
    for n, steps in ((1, 0), (6, 8), (27, 111)):
        answer = rt.ask(actor, Number(n=n), timeout=20)["n"]
        assert answer == steps * 100_000 + found * 10 + 2 + 3
    with pytest.raises(denizen.DeadlineError):  # it returns without an answer
        rt.ask(actor, Number(n=0), timeout=0.2)


def test_records_and_arrays(rt):
    (drawer,) = rt.spawn(calculator.Drawer)
    m = Shape(small=(5,))
    m["corners"]["x"] = [1, 2, 3]
    m["corners"]["y"] = [10, 20, -(2**15)]
    m["grid"] = [[1, 2, 3], [4, 5, 6]]
    rt.ask(drawer, m, timeout=20)
    out = rt.ask(drawer, m, timeout=20)
    assert out["at"].tolist() == (2.0, 20)
    assert out["corners"]["x"].tolist() == [12, 8, 4]  # the last corner first
    assert out["corners"]["y"].tolist() == [-2, -2, -2]
    assert out["grid"].tolist() == [[254] * 3, [4, 6, 8]]
    assert out["small"].tolist() == (7,)


def test_outside_of_an_array_is_nothing(rt, where):
    (reader,) = rt.spawn(calculator.Reader)
    assert rt.ask(reader, Number(n=-1), timeout=20)["n"] == 9907
    assert rt.ask(reader, Number(n=3), timeout=20)["n"] == 9907
    for n in (4, -5, 2**62):
        if where == "python":
            with pytest.raises(IndexError):
                rt.ask(reader, Number(n=n), timeout=20)
        else:
            assert rt.ask(reader, Number(n=n), timeout=20)["n"] == 7


def order(rt, actor, what, who=0):
    rt.send(actor, Order(what=what, who=int(who)))
    rt.drain()


def test_topics(rt):
    a, b, c = rt.spawn(calculator.Reporter, 3)
    for actor in (a, b):
        order(rt, actor, 0)
    assert rt.ask(c, Order(what=1), timeout=20)["n"] == 2
    rt.publish("news/world", "News", n=10)
    rt.drain()
    order(rt, b, 2)
    rt.publish("news/world", "News", n=100)
    rt.drain()
    assert [int(rt.ask(x, "Ask", timeout=20)["a"]) for x in (a, b, c)] == [111, 11, 0]
    order(rt, a, 2)


def test_long_topics(rt):
    a, b, c = rt.spawn(calculator.Reporter, 3)
    order(rt, a, 10)
    rt.subscribe(b, calculator.LONGEST)
    assert len(calculator.LONGEST) == 255
    assert rt.ask(c, Order(what=11), timeout=20)["n"] == 2 + 10 + 300
    assert rt.publish(calculator.LONGEST, "News", n=1000) == 3
    rt.drain()
    heard = [int(rt.ask(x, "Ask", timeout=20)["a"]) for x in (a, b)]
    assert heard == [2 + 10 + 200 + 2000, 100 + 1000]
    order(rt, a, 12)
    assert rt.publish(calculator.LONGEST[:-1], "News", n=1) == 1
    rt.drain()
    rt.stop(a)
    rt.stop(b)
    rt.drain()
    assert rt.publish(calculator.LONGEST, "News", n=1) == 0
    with pytest.raises(denizen.ArgumentError, match="256 bytes; use"):
        rt.publish(calculator.LONGEST + "x", "News", n=1)


def test_orders_to_others(rt):
    a, b = rt.spawn(calculator.Reporter, 2)
    rt.send(b, "News", n=5)
    order(rt, a, 4, b)
    assert rt.state(b) == "paused"
    rt.send(b, "News", n=6)
    order(rt, a, 5, b)
    assert rt.ask(b, "Ask", timeout=20)["a"] == 11
    order(rt, a, 6, b)
    assert rt.inspect(b).incarnation == 2
    assert rt.ask(b, "Ask", timeout=20)["a"] == 0
    order(rt, a, 3, b)
    assert rt.state(b) == "stopped"
    (c,) = rt.spawn(calculator.Reporter)
    order(rt, a, 7, c)
    assert rt.state(c) == "stopped"


def test_a_message_is_passed_on_as_it_is_and_the_host_gets_one(rt):
    a, b = rt.spawn(calculator.Reporter, 2)
    rt.send(a, Order(what=8, who=int(b)))
    got = rt.receive(timeout=20)
    assert (got.type, got.message.tolist(), got.sender) == ("News", (8, int(b)), b)


def test_urgent_messages_overtake(rt):
    (a,) = rt.spawn(calculator.Reporter)
    rt.pause()
    for _ in range(10):
        rt.send(a, "News", n=1)
    rt.send(a, "Hurry", n=1000)
    rt.resume()
    answer = rt.ask(a, "Ask", timeout=20)
    assert answer["a"] == 10
    assert 1000 <= answer["b"] < 1010
    assert answer["x"] == 1
    assert answer["y"] == 0


@pytest.mark.parametrize("where", [w for w in HANDLERS if w != "python"])
def test_a_program_mixes_both(where):
    with begin(calculator.mixed(), where) as rt:
        (middle,) = rt.spawn(calculator.Middle)
        (text,) = rt.spawn("Text")
        for i in range(3):
            answer = rt.ask(middle, Order(what=i, who=int(text)), timeout=20)
            assert answer["n"] == i + 1


def test_for_a_gpu_beside_a_numpy_without_row_stack(run_python):
    """NumPy 2.5; the parts by Numba alone."""
    pytest.importorskip("numba.cuda")
    printed = run_python(f"""
import sys
sys.path.insert(0, {os.path.dirname(__file__)!r})
import numpy as np
if hasattr(np, "row_stack"):
    del np.row_stack
import calculator
from denizen.handlers.compiled import gpu_parts
program = calculator.program()
parts = gpu_parts(program.plan(), list(program.messages.values()), 90)
print(len(parts) > 0, all(code for _, code in parts), hasattr(np, "row_stack"))
""")
    assert printed == "True True False\n"


@pytest.mark.deep  # the link optimises for half a minute; another's is in test_teams_of_handlers.py
def test_a_cubin_is_made_without_a_gpu(nvrtc):
    pytest.importorskip("numba.cuda")
    image = calculator.program().compile_gpu(90)
    assert image.state_sizes == [a.dtype.itemsize for a in calculator.program().in_python]
    names = list(calculator.program().messages)
    for number, actor in enumerate(calculator.program().in_python):
        takes = [m for i, m in enumerate(names) if image.handles(number, i)]
        assert sorted(takes) == sorted(actor.handlers)
