# SPDX-License-Identifier: Apache-2.0
"""Actors that handlers spawn, blocks that they allocate and pass on, lanes, random numbers."""

import numpy as np

import denizen


@denizen.message
class Grow:
    depth: np.uint32
    root: denizen.ADDRESS


@denizen.message
class Grown:
    leaves: np.uint32


@denizen.message
class Leave:
    pass


@denizen.message
class Fill:
    count: np.int64
    to: denizen.ADDRESS


@denizen.message
class Filled:
    at: np.uint64
    count: np.int64


@denizen.message
class Answer:
    a: np.int64
    b: np.uint64
    x: np.float64


@denizen.message
class Ask:
    n: np.int64


@denizen.message
class Last:
    n: np.int64


@denizen.actor
class Node:
    """A binary tree: each node spawns two, and tells its parent how many leaves there are."""

    parent: denizen.ADDRESS
    root: denizen.ADDRESS
    depth: np.uint32 = 7
    waits: np.uint8 = 2
    leaves: np.uint32
    seeds: (np.int16, 3) = (1, -2, 3)

    def grow(self, m: Grow, ctx):
        if m.depth == 0:
            ctx.send(self.parent, Grown(1))
            ctx.stop(ctx.self)
            return
        for i in range(2):
            state = Node(ctx.self, m.root, depth=m.depth - 1)
            state.seeds[0] += i
            ctx.send(ctx.spawn(state), Grow(m.depth - 1, m.root))

    def grown(self, m: Grown, ctx):
        self.leaves += m.leaves
        self.waits -= 1
        if self.waits == 0:
            ctx.send(self.parent, Grown(self.leaves))
            ctx.stop(ctx.self)

    def ask(self, m: Ask, ctx):
        sum = 0
        for i in range(len(self.seeds)):
            sum += self.seeds[i]
        ctx.reply(Answer(sum, self.depth, self.waits))


@denizen.actor
class Gardener:
    """Spawns trees; its type is named, its nodes' are found."""

    asker: denizen.ADDRESS
    planted: denizen.ADDRESS

    def plant(self, m: Grow, ctx):
        self.asker = ctx.sender
        ctx.send(ctx.spawn(Node(parent=ctx.self)), m)

    def grown(self, m: Grown, ctx):
        ctx.send(self.asker, m)

    def ask(self, m: Ask, ctx):
        state = Node(depth=m.n)
        state.seeds[2] = 100
        self.planted = ctx.spawn(state)
        ctx.send(self.planted, m)

    def answer(self, m: Answer, ctx):
        ctx.send(denizen.HOST, m)


@denizen.actor
class Filler:
    """Fills a block, and sends its address on."""

    def fill(self, m: Fill, ctx):
        block = ctx.allocate(m.count, np.float32)
        for i in range(len(block)):
            block[i] = i + 0.5
        ctx.fence()
        ctx.send(m.to, Filled(ctx.address(block), len(block)))

    def answer(self, m: Answer, ctx):
        ctx.send(denizen.HOST, m)


@denizen.actor
class Summer:
    asker: denizen.ADDRESS
    empty: np.uint64

    def filled(self, m: Filled, ctx):
        ctx.fence()
        block = ctx.array(m.at, m.count, np.float32)
        sum = 0.0
        for i in range(len(block)):
            sum += block[i]
        words = ctx.array(m.at, 1, np.uint32)
        first = 0
        if len(words) > 0:
            first = words[0]
        ctx.free(block)
        ctx.free(np.uint64(0))
        ctx.send(denizen.HOST, Answer(first, len(block), sum))


@denizen.actor
class Dice:
    random: np.uint64 = 42

    def ask(self, m: Ask, ctx):
        sum = 0.0
        for _ in range(m.n):
            sum += ctx.random()
        ctx.reply(Answer(int(ctx.random() * 6) + 1, self.random, sum))


@denizen.actor
class Lanes:
    """All lanes of a warp, or one thread: each sends the squares of its share."""

    grain = "warp"
    sum: np.int64
    came: np.int64

    def ask(self, m: Ask, ctx):
        i = ctx.lane
        rounds = (m.n + ctx.lanes - 1) // ctx.lanes
        for _ in range(rounds):
            ctx.send_each(ctx.self, Last(i * i), i < m.n)
            i += ctx.lanes

    def last(self, m: Last, ctx):
        if ctx.lane == 0:
            self.sum += m.n
            self.came += 1
        ctx.sync()

    def leave(self, m: Leave, ctx):
        ctx.reply(Answer(self.sum, self.came, 0))


def program():
    actors = [Gardener, Filler, Summer, Dice, Lanes]
    return denizen.Program(actors=actors, name="plants")
