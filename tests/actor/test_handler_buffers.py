# SPDX-License-Identifier: Apache-2.0
"""Handlers in Python work in the memory that a message refers to, and keep it when they say so."""

import numpy as np
import pytest
from backends import HANDLERS, begin

import denizen


@denizen.message
class Scale:
    data: denizen.BUFFER
    by: np.float32


@denizen.message
class Keep:
    data: denizen.BUFFER


@denizen.message
class Sum:
    pass


@denizen.message
class Release:
    pass


@denizen.message
class Told:
    sum: np.float32
    count: np.uint64


@denizen.actor
class Scaler:
    kept: denizen.BUFFER

    def on_scale(self, m: Scale, ctx):
        x = ctx.data(m.data, np.float32)
        for i in range(len(x)):
            x[i] *= m.by
        ctx.reply(Told(x[0], len(x)))

    def on_keep(self, m: Keep, ctx):
        if ctx.keep(m.data):
            self.kept = m.data
        ctx.reply(Told(0, 0))

    def on_sum(self, m: Sum, ctx):
        x = ctx.data(self.kept, np.float32)
        total = 0.0
        for i in range(len(x)):
            total += x[i]
        ctx.reply(Told(total, len(x)))

    def on_release(self, m: Release, ctx):
        ctx.release(self.kept)
        ctx.reply(Told(0, 0))


@pytest.fixture(params=HANDLERS[1:])  # the interpreter has no buffers
def rt(request):
    with begin(denizen.Program(actors=[Scaler], name="scaler"), request.param) as runtime:
        yield runtime


def filled(rt):
    buffer = rt.buffer(10, np.float32, kind="pinned")
    buffer.numpy()[:] = np.arange(10)
    return buffer


def test_a_handler_works_in_the_memory_itself(rt):
    (scaler,) = rt.spawn(Scaler)
    with filled(rt) as buffer:
        told = rt.ask(scaler, Scale(data=buffer, by=3.0), timeout=20)
        assert told.tolist() == (0.0, 10)
        assert (buffer.numpy() == 3 * np.arange(10)).all()


def test_what_is_kept_outlives_its_message_until_it_is_released(rt):
    (scaler,) = rt.spawn(Scaler)
    with filled(rt) as buffer:
        rt.ask(scaler, Keep(data=buffer), timeout=20)
    filled(rt).close()  # the host gives back what is free when it makes another
    assert rt.ask(scaler, Sum(), timeout=20).tolist() == (45.0, 10)
    assert rt.stats()["errors"] == 0
    rt.ask(scaler, Release(), timeout=20)
    filled(rt).close()
    assert rt.ask(scaler, Sum(), timeout=20).tolist() == (0.0, 0)
    assert "its buffer was freed" in rt.stats()["first_error"]
