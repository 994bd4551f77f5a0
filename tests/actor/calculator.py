# SPDX-License-Identifier: Apache-2.0
"""Handlers in Python that use all that they may: the program of test_handlers.py."""

import math

import numpy as np

import denizen

CODES = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8", "b1")
SCALE = 3
LIMIT = np.uint64(2**63 + 5)


@denizen.record
class Point:
    x: np.float64
    y: np.int16


@denizen.message
class Everything:
    """One field of each type."""

    i1: np.int8
    i2: np.int16
    i4: np.int32
    i8: np.int64
    u1: np.uint8
    u2: np.uint16
    u4: np.uint32
    u8: np.uint64
    f4: np.float32
    f8: np.float64
    b1: np.bool_


@denizen.message
class Pair:
    a: np.int64
    b: np.uint64
    x: np.float64
    y: np.float64


@denizen.message
class Whole:
    """What whole numbers come to."""

    ints: (np.int64, 16)
    words: (np.uint64, 16)
    tests: (np.bool_, 16)


@denizen.message
class Real:
    values: (np.float64, 32)
    wholes: (np.int64, 8)


@denizen.message
class Number:
    n: np.int64


@denizen.message
class Shape:
    corners: (Point, 3)
    at: Point
    grid: (np.int32, (2, 3))
    small: Number


@denizen.message
class Ask:
    pass


@denizen.message
class Order:
    what: np.uint32
    who: denizen.ADDRESS


@denizen.message
class News:
    n: np.uint32
    sender: denizen.ADDRESS


@denizen.message
class Hurry:
    priority = "urgent"
    n: np.uint32


@denizen.actor
class Keeper:
    """Keeps one of each, and its own initial values."""

    i1: np.int8 = -5
    i2: np.int16 = 300
    i4: np.int32 = -70_000
    i8: np.int64 = -(2**62)
    u1: np.uint8 = 200
    u2: np.uint16 = 60_000
    u4: np.uint32 = 4_000_000_000
    u8: np.uint64 = 2**64 - 1
    f4: np.float32 = 0.1
    f8: np.float64 = 0.1
    b1: np.bool_ = True

    def on_everything(self, m: Everything, ctx):
        self.i1 += m.i1
        self.i2 += m.i2
        self.i4 += m.i4
        self.i8 += m.i8
        self.u1 += m.u1
        self.u2 += m.u2
        self.u4 += m.u4
        self.u8 += m.u8
        self.f4 += m.f4
        self.f8 += m.f8
        self.b1 = self.b1 and m.b1

    def on_ask(self, m: Ask, ctx):
        ctx.reply(
            Everything(
                self.i1, self.i2, self.i4, self.i8, self.u1, self.u2, self.u4, self.u8,
                f4=self.f4, f8=self.f8, b1=self.b1,
            )
        )  # fmt: skip


@denizen.actor
class Calculator:
    def on_pair(self, m: Pair, ctx):
        out = Whole()
        s, u, t = out.ints, out.words, out.tests
        a, b = m.a, m.b
        s[0] = a + 1
        s[1] = a * a
        s[2] = a // 7
        s[3] = a % 7
        s[4] = a // -7
        s[5] = a % -7
        s[6] = a >> 3
        s[7] = a << 60
        s[8] = -a
        s[9] = ~a
        s[10] = a // 0
        s[11] = a % 0
        s[12] = abs(a)
        s[13] = min(a, 5, -3)
        s[14] = int(m.x)
        s[15] = np.int8(a) + np.uint16(a)
        u[0] = b + 1
        u[1] = b * 6364136223846793005 + 1442695040888963407
        u[2] = b // 7
        u[3] = b % 7
        u[4] = b >> 33
        u[5] = b ^ (b << 13)
        u[6] = a + b
        u[7] = b - a
        u[8] = ~b
        u[9] = b // 0
        u[10] = max(a, b)
        u[11] = np.uint64(a) >> 1
        u[12] = LIMIT
        u[13] = np.uint64(1) if m.x < 0 else b
        total = np.uint64(0)
        for i in range(3):
            total += u[i]
        u[14] = total
        u[15] = b & 255 | 256
        t[0] = a < b
        t[1] = a == b
        t[2] = a > 0
        t[3] = b >= LIMIT
        t[4] = 0 < a < 100
        t[5] = not a
        t[6] = m.x < a
        t[7] = m.x == m.x
        t[8] = bool(a and b)
        t[9] = a or m.x > 1e300
        t[10] = b > -1
        t[11] = b <= a
        t[12] = m.x != m.y
        t[13] = bool(m.x)
        ctx.reply(out)

    def on_number(self, m: Number, ctx):
        """Ways through a handler."""
        n = m.n
        steps = 0
        while n != 1:
            if n % 2 == 0:
                n //= 2
            elif n > 1_000_000:
                break
            else:
                n = 3 * n + 1
            steps += 1
            if steps >= 1000:
                return
        found = 0
        for i in range(10, 0, -3):
            if i == 4:
                continue
            found = found * 10 + i
        a, b = 1, 2
        a, b = b, a + b
        ctx.reply(Number(steps * 100_000 + found * 10 + a + b))


def squared(x):
    return x * x


def distance(x, y):
    if x < 0:
        return -math.sqrt(squared(x) + squared(y))
    return math.sqrt(squared(x) + squared(y))


@denizen.actor
class Mathematician:
    FACTOR = 2.5

    def on_pair(self, m: Pair, ctx):
        out = Real()
        v, w = out.values, out.wholes
        x, y = m.x, m.y
        v[0] = x + y
        v[1] = x - y
        v[2] = x * y
        v[3] = x / y
        v[4] = x // y
        v[5] = x % y
        v[6] = x / 0
        v[7] = math.sqrt(x)
        v[8] = distance(x, y)
        v[9] = math.floor(x) / 2
        v[10] = abs(x)
        v[11] = min(x, y)
        v[12] = max(x, y, 0.25)
        v[13] = np.float32(x)
        v[14] = float(m.a) + self.FACTOR * SCALE
        v[15] = -x
        v[16] = math.fabs(x) + math.copysign(1.0, y)
        v[17] = math.fmod(x, y)
        v[18] = math.pi
        v[19] = m.b / 2
        v[20] = 1.0 if math.isnan(y) else 0.0
        w[0] = math.floor(x)
        w[1] = math.ceil(x)
        w[2] = math.trunc(x)
        w[3] = int(x * 1e300)
        w[4] = np.int32(x)
        ctx.reply(out)

    def on_number(self, m: Number, ctx):
        """What differs in the last bits."""
        out = Real()
        v = out.values
        x = m.n / 8
        v[0] = math.sin(x)
        v[1] = math.cos(x)
        v[2] = math.tan(x)
        v[3] = math.exp(x)
        v[4] = math.log(x)
        v[5] = math.log2(x)
        v[6] = math.log10(x)
        v[7] = math.log1p(x)
        v[8] = math.expm1(x)
        v[9] = math.atan(x)
        v[10] = math.atan2(x, 2)
        v[11] = math.hypot(x, 3)
        v[12] = math.pow(x, 1.5)
        v[13] = math.sinh(x)
        v[14] = math.cosh(x)
        v[15] = np.tanh(x)
        v[16] = math.asin(x / 10)
        v[17] = math.acos(x / 10)
        ctx.reply(out)


@denizen.actor
class Drawer:
    shape: Shape
    counts: (np.uint8, (2, 2))
    outside: np.int32 = 7

    def on_shape(self, m: Shape, ctx):
        self.shape.at = m.corners[1]
        for i in range(len(m.corners)):
            self.shape.corners[i].x += m.corners[i].x * 2
            self.shape.corners[i].y -= 1
        self.shape.small.n = m.small.n + len(m.grid)
        for i in range(2):
            for j in range(3):
                self.shape.grid[i, j] += m.grid[i][j] + 1
            self.counts[i, -1] += 255
        out = Shape()
        out.at = self.shape.at
        for i in range(3):
            out.corners[-1 - i] = self.shape.corners[i]
            out.grid[1, i] = self.shape.grid[0, i]
            out.grid[0, i] = self.counts[1, 1]
        out.small = self.shape.small
        ctx.reply(out)


@denizen.actor
class Reader:
    """Looks outside of an array, which the interpreter refuses."""

    cells: (np.int32, 4)
    behind: np.int32 = 7

    def on_number(self, m: Number, ctx):
        self.cells[m.n] = 99
        ctx.reply(Number(self.cells[m.n] * 100 + self.behind))


LONGEST = "news/of/the/world/at/large/" + "x" * 228


@denizen.actor
class Reporter:
    """What ctx has besides send and reply."""

    heard: np.uint32 = 0
    hurried: np.uint32 = 0

    def on_order(self, m: Order, ctx):
        if m.what == 0:
            ctx.subscribe("news/*")
        elif m.what == 1:
            ctx.reply(Number(ctx.publish("news/sport", News(m.what, ctx.self))))
        elif m.what == 2:
            ctx.unsubscribe("news/*")
        elif m.what == 3:
            ctx.stop(m.who)
        elif m.what == 4:
            ctx.pause(m.who)
        elif m.what == 5:
            ctx.resume(m.who)
        elif m.what == 6:
            ctx.restart(m.who)
        elif m.what == 7:
            ctx.drain(m.who)
        elif m.what == 10:
            ctx.subscribe("news/of/the/world/at/large/*")
            ctx.subscribe("news/of*")
        elif m.what == 11:
            count = ctx.publish("news/of/the/world/at/large/today", News(1, ctx.self))
            count += ctx.publish("news/of/the/world/at/large", News(10, ctx.self)) * 10
            count += ctx.publish(LONGEST, News(100, ctx.self)) * 100
            ctx.reply(Number(count))
        elif m.what == 12:
            ctx.unsubscribe("news/of/the/world/at/large/*")
        elif m.what == 8 and m.who != ctx.self:
            ctx.send(m.who, m)  # passes it on as it is
        else:
            ctx.send(denizen.HOST, News(m.what, m.who))

    def on_news(self, m: News):
        self.heard += m.n

    def on_hurry(self, m: Hurry, ctx):
        self.hurried = self.heard + m.n

    def on_ask(self, m: Ask, ctx):
        ctx.reply(Pair(a=self.heard, b=self.hurried, x=ctx.worker < ctx.workers, y=ctx.node))


@denizen.actor
class Middle:
    """Asks an actor of another language."""

    asker: denizen.ADDRESS = 0

    def on_order(self, m: Order, ctx):
        self.asker = ctx.sender
        ctx.send(m.who, Number(ctx.self << 32 | m.what))

    def on_number(self, m: Number, ctx):
        ctx.send(self.asker, m)


def program() -> denizen.Program:
    return denizen.Program(
        actors=[Keeper, Calculator, Mathematician, Drawer, Reader, Reporter], name="calculator"
    )


def mixed() -> denizen.Program:
    """An actor in Python and one in C++ text."""
    return denizen.Program(
        """
        struct Text {
            int64_t seen = 0;
            void on(const Number& m, auto& ctx) {
                ++seen;
                ctx.send(denizen::Address{static_cast<uint32_t>(m.n >> 32)},
                         Number{(m.n & 0xffffffff) + 1});
            }
        };
        """,
        actors=[Middle, "Text"],
        name="mixed",
    )
