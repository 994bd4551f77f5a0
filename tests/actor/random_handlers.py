# SPDX-License-Identifier: Apache-2.0
"""Random handlers of what handlers in Python may contain, as the text of a module."""

from __future__ import annotations

import importlib.util
import random
import types
from pathlib import Path
from typing import Any

HEAD = """\
import math

import numpy as np

import denizen


@denizen.message
class Input:
    n: np.int64
    w: np.uint64
    x: np.float64
    small: np.int8


@denizen.message
class Seen:
    cells: (np.int64, 3)
    words: (np.uint64, 3)
    reals: (np.float64, 3)
    tests: (np.bool_, 3)
    i: np.int32
    u: np.uint64
    h: np.uint16
    f: np.float64
    g: np.float32
    b: np.bool_


def mixed(p, q):
    if p > q:
        return p * 3 - q
    return q ^ (p >> 2)


def scaled(x, by=3, less=0):
    return x * by - less


def halved(x):
    return x / 2 + 1
"""

ACTOR = """

@denizen.actor
class Machine{number}:
    i: np.int32 = 123456789
    u: np.uint64 = 0xFEDCBA9876543210
    h: np.uint16 = 54321
    f: np.float64 = -2.75
    g: np.float32 = 0.1
    b: np.bool_ = True
    cells: (np.int64, 4)
    words: (np.uint64, 3)
    random: np.uint64 = 99

    def on_input(self, m: Input, ctx):
        out = Seen()
        block = ctx.allocate(5, np.{element})
        for i in range(len(block)):
            block[i] = 7 - 3 * i
        n = m.n
        k = np.int64(m.small)
        w = m.w
        x = m.x
{body}
        out.i = self.i
        out.u = self.u
        out.h = self.h
        out.f = self.f
        out.g = self.g
        out.b = self.b
        ctx.free(block)
        again = ctx.spawn(Echo{number}(to=ctx.sender, k=k, calls=m.small))
        ctx.send(again, out)


@denizen.actor
class Echo{number}:
    to: denizen.ADDRESS
    k: np.int64
    calls: np.int16 = 5
    seeds: (np.int32, 2) = (-4, 9)

    def on_seen(self, m: Seen, ctx):
        out = Seen()
        for i in range(len(m.cells)):
            out.cells[i] = m.cells[i] ^ self.k
            out.words[i] = m.words[i] + self.seeds[i % 2]
            out.reals[i] = m.reals[i] * self.calls
            out.tests[i] = m.tests[i]
        out.i = m.i
        out.u = m.u
        out.h = m.h
        out.f = m.f
        out.g = m.g
        out.b = m.b
        ctx.send(self.to, out)
        ctx.stop(ctx.self)
"""


class Writer:
    """Writes statements. Expressions are of kinds: i signed, u unsigned, f float, b bool."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._loops = 0

    def body(self) -> list[str]:
        """Statements that change the state and locals, and between them what all can see."""
        out = []
        for place in range(3):
            out += self._block(self._rng.randint(1, 2), 2)
            for cells, kind in (("cells", "i"), ("words", "u"), ("reals", "f"), ("tests", "b")):
                out.append(f"out.{cells}[{place}] = {self._of(kind, 2)}")
        return out

    def _pick(self, *given: Any) -> Any:
        return given[self._rng.randrange(len(given))]

    def _block(self, count: int, depth: int) -> list[str]:
        return [line for _ in range(count) for line in self._statement(depth)]

    def _statement(self, depth: int) -> list[str]:
        kind = self._rng.randrange(10 if depth > 0 else 6)
        if kind < 2:
            name, of = (("n", "i"), ("k", "i"), ("w", "u"), ("x", "f"))[self._rng.randrange(4)]
            return [f"{name} = {self._of(of, 3)}"]
        if kind < 4:
            field = self._pick("i", "u", "h", "f", "g", "b")
            return [f"self.{field} = {self._any(3) if field in 'fgb' else self._stored(3)}"]
        if kind < 5:
            place = self._pick(
                "self.i", "self.u", "self.h", f"block[{self._place(5)}]",
                f"self.cells[{self._place(4)}]", f"self.words[{self._place(3)}]",
            )  # fmt: skip
            return [f"{place} {self._pick('+', '-', '*', '^', '&', '|')}= {self._whole(2)}"]
        if kind < 6:
            cells, size = ("cells", 4) if self._rng.random() < 0.5 else ("words", 3)
            return [f"self.{cells}[{self._place(size)}] = {self._stored(3)}"]
        if kind < 8:
            out = [f"if {self._of('b', 2)}:", *self._indented(2, depth - 1)]
            if self._rng.random() < 0.5:
                out += ["else:", *self._indented(2, depth - 1)]
            return out
        self._loops += 1
        name = f"i{self._loops}"
        if self._rng.random() < 0.3:
            inner = self._indented(1, depth - 1)
            cells = self._pick("self.cells", "block", "out.cells")
            return self._pick(
                [f"for {name} in {cells}:", f"    n += {name}", *inner],
                [
                    f"for {name}, e{name} in enumerate({cells}):",
                    f"    k ^= {name} - e{name}",
                    *inner,
                ],
                [f"for e{name}, {name} in zip({cells}, out.tests):", f"    n ^= e{name}", *inner],
            )
        if kind < 9:
            bounds = self._pick("5", "1, 6, 2", "4, 0, -1", "(n & 7)")
            inner = self._indented(2, depth - 1)
            way = self._pick("", "break", "continue")
            if way:
                inner.append(f"    if {self._of('b', 1)}:")
                inner += [f"        {way}", f"    n += {name}"]
            return [f"for {name} in range({bounds}):", *inner]
        return [
            f"{name} = 0",
            f"while {name} < 4 and {self._of('b', 1)}:",
            f"    {name} += 1",
            *self._indented(2, depth - 1),
        ]

    def _indented(self, count: int, depth: int) -> list[str]:
        return [f"    {line}" for line in self._block(count, depth)]

    def _place(self, size: int) -> str:
        return self._pick(str(self._rng.randrange(size)), f"n % {size}", "-1", f"w % {size}")

    def _any(self, depth: int) -> str:
        return self._of(self._pick("i", "u", "f", "b"), depth)

    def _stored(self, depth: int) -> str:
        """What a field or an element that is a whole number takes."""
        kind = self._pick("i", "u", "f", "b")
        value = self._of(kind, depth)
        return f"int({value})" if kind == "f" else value

    def _whole(self, depth: int) -> str:
        return self._of(self._pick("i", "u"), depth)

    def _number(self, depth: int) -> str:
        return self._of(self._pick("i", "u", "f"), depth)

    def _of(self, kind: str, depth: int) -> str:
        leaf = depth == 0 or self._rng.random() < 0.2
        write = {"i": self._signed, "u": self._unsigned, "f": self._real, "b": self._test}[kind]
        return write(-1 if leaf else depth - 1)

    def _signed(self, d: int) -> str:
        if d < 0:
            return self._pick(
                "n", "k", "m.n", "m.small", "self.i", "self.h", "self.cells[1]", "3", "-7",
                "255", "81985529216486895", "0", "len(self.cells)", "len(block)",
                "int(ctx.random() * 100)", "int(block[1])",
            )  # fmt: skip
        a, b = self._of("i", d), self._of("i", d)
        return self._pick(
            f"({a} {self._pick('+', '-', '*', '//', '%', '&', '|', '^')} {b})",
            f"({a} {self._pick('<<', '>>')} {self._whole(d)})",
            f"(-{a})",
            f"(~{a})",
            f"abs({a})",
            f"min({a}, {b})",
            f"max({a}, {b})",
            f"int({self._of('f', d)})",
            f"math.floor({self._of('f', d)})",
            f"np.int64({self._number(d)})",
            f"np.{self._pick('int8', 'int16', 'uint8', 'uint32', 'int32')}({self._number(d)})",
            f"({a} if {self._of('b', d)} else {b})",
            f"mixed({a}, {b})",
            f"(n {self._pick('and', 'or')} {b})",
            f"(self.h ** {self._rng.randint(1, 5)})",
            f"np.where({self._of('b', d)}, {a}, {b})",
            f"np.clip({a}, -9, {b})",
            f"scaled({a}{self._pick('', f', {b}', f', less={b}')})",
            f"self.cells[{self._place(4)}]",
        )

    def _unsigned(self, d: int) -> str:
        if d < 0:
            return self._pick("w", "m.w", "self.u", "self.words[2]", "12297829382473034410")
        a, b = self._of("u", d), self._of("u", d)
        return self._pick(
            f"({a} {self._pick('+', '-', '*', '//', '%', '&', '|', '^')} {self._whole(d)})",
            f"({self._of('i', d)} {self._pick('+', '-', '*', '//', '%', '&')} {b})",
            f"({a} {self._pick('<<', '>>')} {self._whole(d)})",
            f"(-{a})",
            f"(~{a})",
            f"min({a}, {self._whole(d)})",
            f"max({a}, {self._whole(d)})",
            f"np.uint64({self._number(d)})",
            f"({a} if {self._of('b', d)} else {b})",
            f"mixed({a}, {b})",
            f"self.words[{self._place(3)}]",
        )

    def _real(self, d: int) -> str:
        if d < 0:
            return self._pick("x", "m.x", "self.f", "self.g", "0.5", "-3.0", "1e18", "ctx.random()")
        a = self._of("f", d)
        return self._pick(
            f"({a} {self._pick('+', '-', '*', '/', '//', '%')} {self._number(d)})",
            f"({self._whole(d)} / {self._whole(d)})",
            f"float({self._whole(d)})",
            f"math.sqrt({a})",
            f"math.fabs({a})",
            f"abs({a})",
            f"(-{a})",
            f"min({a}, {self._number(d)})",
            f"max({a}, {self._number(d)})",
            f"np.float32({a})",
            "(x ** 2)",
            f"np.{self._pick('floor', 'ceil', 'trunc')}({self._pick('x', 'm.x', 'self.g')})",
            f"halved({a})",
            f"({a} if {self._of('b', d)} else {self._of('f', d)})",
        )

    def _test(self, d: int) -> str:
        if d < 0:
            return self._pick("self.b", "True", "n > 0", "w > 5", "x < 1.5")
        a = self._number(d)
        return self._pick(
            f"({a} {self._pick('<', '<=', '>', '>=', '==', '!=')} {self._number(d)})",
            f"(not {self._any(d)})",
            f"bool({self._any(d)} and {self._any(d)})",
            f"bool({self._any(d)} or {self._any(d)})",
            f"({self._test(-1)} {self._pick('and', 'or')} {self._test(d - 1)})",
            f"(-5 <= n < {self._number(0)})",
            f"(n {self._pick('in', 'not in')} (0, 7, -13))",
            f"(0 < n < {self._number(0)})",
            f"bool({a})",
            f"math.isnan({self._of('f', d)})",
        )


def module_text(rng: random.Random, actors: int) -> str:
    out = [HEAD]
    for number in range(actors):
        lines = Writer(rng).body()
        body = "\n".join(f"        {x}" for x in lines)
        element = rng.choice(("int8", "uint16", "int32", "int64"))
        out.append(ACTOR.format(number=number, element=element, body=body))
    return "\n".join(out)


def load(text: str, path: Path) -> types.ModuleType:
    """The text as a module, from a file: what a handler is made of is read there."""
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def actors_of(module: types.ModuleType) -> list:
    return [v for n, v in vars(module).items() if n.startswith("Machine")]
