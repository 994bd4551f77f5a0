# SPDX-License-Identifier: Apache-2.0
"""The program of sample.py, with its handlers in Python."""

import numpy as np
from sample import ADD, ASK, BLOCK, HOP, ITEM, KEEP, RELEASE, TELL, TOTAL

import denizen


@denizen.actor
class Counter:
    sum: np.uint64 = 0
    count: np.uint32 = 0

    def on_add(self, m: ADD):
        self.sum += m.n
        self.count += 1

    def on_block(self, m: BLOCK):
        for i in range(len(m.words)):
            self.sum += m.words[i]
        self.count += 1

    def on_ask(self, m: ASK, ctx):
        ctx.reply(TOTAL(self.sum, self.count))


@denizen.actor
class Hopper:
    """Sends a message on until it has hopped often enough, then counts it."""

    hops: np.uint64 = 0
    ended: np.uint32 = 0

    def on_hop(self, m: HOP, ctx):
        self.hops += 1
        if m.left == 0:
            self.ended += 1
        else:
            ctx.send(m.to, HOP(to=ctx.self, left=m.left - 1))

    def on_ask(self, m: ASK, ctx):
        ctx.reply(TOTAL(self.hops, self.ended))


@denizen.actor
class Teller:
    """Talks to the host."""

    def on_tell(self, m: TELL, ctx):
        for i in range(m.count):
            ctx.send(denizen.HOST, ITEM(m.first + i, ctx.worker))

    def on_add(self, m: ADD, ctx):
        ctx.reply(ADD(m.n + 1))


@denizen.actor
class Slow:
    """Answers when it is told to, not when it is asked."""

    asker: denizen.ADDRESS = 0
    kept: np.uint32 = 0

    def on_keep(self, m: KEEP, ctx):
        self.asker = ctx.sender
        self.kept += 1

    def on_release(self, m: RELEASE, ctx):
        if self.asker != 0:
            ctx.send(self.asker, TOTAL(7, self.kept))
        self.asker = 0


@denizen.actor
class Team:
    """Run by all lanes of a warp, or by one thread."""

    grain = "warp"
    words: (np.uint32, 64)

    def on_add(self, m: ADD, ctx):
        i = ctx.lane
        while i < 64:
            self.words[i] += m.n + i
            i += ctx.lanes
        ctx.sync()

    def on_ask(self, m: ASK, ctx):
        ctx.sync()
        sum = 0
        for i in range(64):
            sum += self.words[i]
        ctx.reply(TOTAL(sum, ctx.lanes))


def program() -> denizen.Program:
    return denizen.Program(
        actors=[Counter, Hopper, Teller, Slow, Team],
        messages=[ADD, ASK, TOTAL, BLOCK, HOP, TELL, ITEM, KEEP, RELEASE],
        name="sample",
    )
