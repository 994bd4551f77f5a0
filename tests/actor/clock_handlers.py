# SPDX-License-Identifier: Apache-2.0
"""What handlers in Python send later."""

import numpy as np

import denizen


@denizen.message
class Begin:
    ns: np.uint64
    every: np.bool_


@denizen.message
class Until:
    """Of two moments, what is left from the first to the second."""

    now: np.int64
    then: np.int64


@denizen.message
class Strike:
    pass


@denizen.message
class Quit:
    pass


@denizen.message
class Struck:
    times: np.uint32
    armed: np.bool_


@denizen.actor
class Clock:
    times: np.uint32 = 0
    timer: np.uint32 = 0

    def on_begin(self, m: Begin, ctx):
        if m.every:
            self.timer = ctx.send_every(m.ns, ctx.self, Strike())
        else:
            self.timer = ctx.send_after(m.ns, ctx.self, Strike())

    def on_until(self, m: Until, ctx):
        self.timer = ctx.send_after(m.then - m.now, ctx.self, Strike())

    def on_strike(self, m: Strike):
        self.times += 1

    def on_quit(self, m: Quit, ctx):
        ctx.reply(Struck(self.times, ctx.cancel(self.timer)))

    def on_struck(self, m: Struck, ctx):
        ctx.reply(Struck(self.times, self.timer != 0))


def program():
    return denizen.Program(actors=[Clock], name="clock")
