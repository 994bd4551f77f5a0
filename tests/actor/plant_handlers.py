# SPDX-License-Identifier: Apache-2.0
"""The program of test_supervision.py, with its handlers in Python."""

import numpy as np
from plant import KEEP, LOOK, SEEN, SEND, TOIL, WORK

import denizen


@denizen.actor
class Worker:
    count: np.uint32 = 0
    next: np.uint32 = 0
    disorder: np.uint32 = 0

    def on_work(self, m: WORK, ctx):
        self.count += 1
        self.disorder += 1 if m.number < self.next else 0
        self.next = m.number + 1
        if m.fails != 0:
            ctx.fail(m.fails)

    def on_look(self, m: LOOK, ctx):
        ctx.reply(SEEN(self.count, self.disorder, 0))


@denizen.actor
class Saver:
    restart_from = "snapshot"
    count: np.uint32 = 0

    def on_work(self, m: WORK):
        self.count += 1

    def on_keep(self, m: KEEP, ctx):
        ctx.checkpoint()

    def on_look(self, m: LOOK, ctx):
        ctx.reply(SEEN(self.count, 0, 0))


@denizen.actor
class Strict:
    deadline_ns = 50_000_000
    count: np.uint32 = 0

    def invariant(self):
        return self.count < 3

    def on_work(self, m: WORK):
        self.count += 1

    def on_toil(self, m: TOIL, ctx):
        begin = ctx.now_ns
        while ctx.now_ns - begin < m.ns:
            pass

    def on_look(self, m: LOOK, ctx):
        ctx.reply(SEEN(self.count, 0, 0))


@denizen.actor
class Watcher:
    downs: np.uint32 = 0

    def on_down(self, m: denizen.DOWN):
        self.downs += 1

    def on_send(self, m: SEND, ctx):
        for i in range(m.count):
            ctx.send(m.to, WORK(i, 0))

    def on_look(self, m: LOOK, ctx):
        ctx.reply(SEEN(0, 0, self.downs))


def program() -> denizen.Program:
    return denizen.Program(
        actors=[Worker, Saver, Strict, Watcher],
        messages=[WORK, LOOK, SEEN, KEEP, SEND, TOIL, denizen.DOWN],
        name="plant",
    )
