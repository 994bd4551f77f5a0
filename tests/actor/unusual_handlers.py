# SPDX-License-Identifier: Apache-2.0
"""What a user of NumPy or PyTorch writes first: each case is the body of a handler of its own."""

from __future__ import annotations

HEAD = """\
import enum
import functools
import math

import numpy as np

import denizen

TAPS = np.arange(8, dtype=np.float32) / 4
PAIR = (1, 2)
N = 3


class Color(enum.IntEnum):
    RED = 1
    BLUE = 2


class Config:
    STEPS = 7


def scaled(x, by=3, less=0):
    return x * by - less


def total(cells):
    out = 0.0
    for x in cells:
        out += x
    return out


def bump(state):
    state.i += 1
    return state.place


def maker(k):
    def add(x):
        return x + k

    return add


plus_five = maker(5)


def until_positive(x):
    while True:
        if x > 0:
            return x
        x += 7


def elements(n):
    made = Go(n=n)
    made.words[1] = n + 1
    return made.words[1] + made.n


@denizen.record
class Point:
    x: np.float64
    y: np.float32


@denizen.message
class Go:
    n: np.int32
    k: np.uint32
    x: np.float64
    g: np.float32
    b: np.bool_
    words: (np.int16, 4)


@denizen.message
class Out:
    i: np.int64
    u: np.uint64
    f: np.float64
    b: np.bool_
    s: np.int8
"""

ACTOR = """

@denizen.actor
class Case{number}:
    LIMIT = 5
    i: np.int64
    sum: np.uint64
    small: np.uint8 = 250
    flag: np.bool_
    cells: (np.float32, 4) = (0.5, 1.5, -2.5, 4.0)
    grid: (np.int32, (2, 3))
    cube: (np.int64, (2, 3, 4))
    places: (Point, 3)
    place: Point
    taps: (np.float32, 8) = TAPS

    def on_go(self, m: Go, ctx):
{body}
"""

# By a function that CUDA does not round correctly: its pow is within 2 units of the last place
# (CUDA C++ Programming Guide, mathematical functions).
ROUNDED = {"a negative power"}

# Name, body; what the first input, n = -7, k = 3, x = 2.5, b = True, gives, as i, u, f, b.
CASES = [
    ("for over an array", "for x in m.words:\n    self.i += x", (-2, 0, 0, False)),
    ("for over rows", "for r in self.grid:\n    for c in r:\n        self.i += c + 1", (6,)),
    ("for over records", "for p in self.places:\n    p.x += 1\nf = self.places[2].x", (0, 0, 1)),
    ("enumerate", "for i, x in enumerate(m.words):\n    self.i += i * x", (-8,)),
    ("zip", "for a, p in zip(m.words, self.places):\n    self.i += a", (2,)),
    ("continue", "for x in m.words:\n    if x < 0:\n        continue\n    self.i += x", (4,)),
    ("break", "for x in m.words:\n    if x < 0:\n        break\n    self.i += x", (1,)),
    ("its name afterwards", "for q in range(4):\n    pass\nself.i = q", (3,)),
    ("while True", "while True:\n    z = self.i\n    self.i += 1\n    if z > 3:\n        break",
     (5,)),
    ("or", "self.i = m.n or 9\nu = m.k or 9", (-7, 3)),
    ("and", "self.i = m.n and m.k", (3,)),
    ("three", "self.i = (m.n > 0) or m.k or 7", (3,)),
    ("bool of both", "b = bool(m.n and self.sum)", (0, 0, 0, False)),
    ("chained", "b = -10 < m.n + 1 <= m.k != 7", (0, 0, 0, True)),
    ("in", "b = m.n in (0, -7)\nself.flag = m.n not in PAIR\nself.i = self.flag", (1, 0, 0, True)),
    ("powers", "self.i = m.n**N\nf = m.x**0.5 + m.x**2\nu = 2**40", (-343, 2**40)),
    ("pow", "self.i = pow(m.n, 2)", (49,)),
    ("where and clip", "self.i = np.where(m.n > 0, 1, 2)\nf = np.clip(m.x, 0, 1.5)", (2, 0, 1.5)),
    ("rounding", "f = np.floor(-m.x) + np.ceil(m.x) * 10 + np.trunc(-m.x) * 100", (0, 0, -173)),
    ("math's rounding", "self.i = math.floor(-m.x) * 10 + math.ceil(m.x)", (-27,)),
    ("abs", "self.i = np.abs(m.n)\nf = np.absolute(-m.x)", (7, 0, 2.5)),
    ("defaults", "self.i = scaled(m.n) + scaled(m.n, 2) + scaled(x=m.n, less=1)", (-57,)),
    ("a closure", "self.i = plus_five(m.n)", (-2,)),
    ("an array given", "f = total(self.cells)", (0, 0, 3.5)),
    ("a record given back", "p = bump(self)\np.x = 4\nf = self.place.x", (1, 0, 4)),
    ("a field of what is made", "self.i = elements(m.n)", (-13,)),
    ("returns from a loop", "self.i = until_positive(m.n)", (7,)),
    ("several names", "a = b2 = self.i = m.n\nself.i += a + b2", (-21,)),
    ("swapped", "self.cells[0], self.cells[1] = self.cells[1], self.cells[0]\nf = self.cells[0]",
     (0, 0, 1.5)),
    ("an element from outside", "f = TAPS[2] + PAIR[1]", (0, 0, 2.5)),
    ("a table", "f = self.taps[(m.k + 2) % 8]", (0, 0, 1.25)),
    ("an enumeration", "self.i = Color.BLUE + Config.STEPS", (9,)),
    ("limits", "self.i = np.iinfo(np.int32).max\nf = np.finfo(np.float32).eps", (2**31 - 1,)),
    ("infinity", "f = float('inf')\nb = m.x < math.inf", (0, 0, float("inf"), True)),
    ("two dimensions", "self.grid[1, -1] = m.n\nself.i = self.grid[1][2] + len(self.grid[0])",
     (-4,)),
    ("three dimensions", "self.cube[1, 2, 3] = m.n\nself.i = self.cube[1][2][3]", (-7,)),
    ("a narrow field", "self.small += 10\nself.i = self.small", (4,)),
    ("narrow numbers", "self.i = np.uint8(200) + np.uint8(100) + np.longlong(m.n)", (293,)),
    ("a hash", "h = np.uint32(m.k * 2654435761)\nu = h ^ h >> 16", (0, 3668359093)),
    ("bools", "self.i = (m.n > 0) | m.b\nf = m.b * 0.5 + (m.b + m.b)", (1, 0, 2.5)),
    ("a flag", "self.flag = m.n\nb = self.flag and m.n < 3", (0, 0, 0, True)),
    ("overflow", "self.i = m.n\nfor q in range(6):\n    self.i *= self.i", None),
    ("division by zero", "self.i = m.n // 0 + m.n % 0\nf = m.x / 0", (0, 0, float("inf"))),
    ("rounds down", "self.i = m.n // 2 * 10 + m.n % 3", (-38,)),
    ("a zero's sign", "z = m.x * 0\nf = 1 / np.ceil(z) + 1 / np.floor(z) + 1 / (z // 3.0)",
     (0, 0, float("inf"))),
    ("a root of minus zero", "f = 1 / (m.x * -0.0) ** 0.5", (0, 0, float("inf"))),
    ("a root of minus infinity", "f = (m.x - math.inf) ** 0.5", (0, 0, float("inf"))),
    ("a negative power", "f = m.x**-1.0", (0, 0, 0.4)),
    ("a range that wraps", "z = 2**63 - 1 - m.k\nfor q in range(z, z + 9):\n    self.i += 1\n"
     "for q in range(-z, -z - 9, -1):\n    self.i += 1", (0,)),
    ("a range of too many", "for q in range(m.n - 2**62, 2**63 - 1):\n    self.i += 1\n"
     "    if q < 0 and self.i > 4:\n        break", (5,)),
    ("shifts", "self.i = m.n >> 1\nu = m.n << 3", (-4, 2**64 - 56)),
    ("a name of a builtin", "len = 3\nself.i = len", (3,)),
    ("an early return", "if m.n < 0:\n    ctx.reply(Out(i=1))\n    return", (1,)),
    ("a message in two ways", "if m.b:\n    o = Out(i=2)\nelse:\n    o = Out(i=3)\nself.i = o.i",
     (2,)),
]  # fmt: skip


def text() -> str:
    """A module with an actor for each case, which answers with i, u, f and b."""
    out = [HEAD]
    for number, (_, body, _) in enumerate(CASES):
        own = ["u = np.uint64(0)", "f = 0.0", "b = False", *body.split("\n")]
        own.append("ctx.reply(Out(self.i, u, f, b, m.n))")
        lines = "\n".join(f"        {line}" for line in own)
        out.append(ACTOR.format(number=number, body=lines))
    return "\n".join(out)
