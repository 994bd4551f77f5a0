# SPDX-License-Identifier: Apache-2.0
"""Actors in Python, whose handlers Numba compiles."""

import numpy as np

import denizen


@denizen.message
class Serve:
    other: denizen.ADDRESS
    left: np.uint32


@denizen.message
class Score:
    pass


@denizen.message
class Hits:
    hits: np.uint32
    own: denizen.ADDRESS


@denizen.actor
class Player:
    hits: np.uint32 = 0

    def on_serve(self, m: Serve, ctx):
        self.hits += 1
        if m.left != 0:
            ctx.send(m.other, Serve(ctx.self, m.left - 1))

    def on_score(self, m: Score, ctx):
        ctx.reply(Hits(self.hits, ctx.self))
