# SPDX-License-Identifier: Apache-2.0
"""ctx.become(): which of an actor's handlers take its next message, on every backend."""

import numpy as np
import pytest
from backends import HANDLERS, begin

import denizen


@denizen.message
class Push:
    pass


@denizen.message
class Lock:
    code: np.uint32


@denizen.message
class Look:
    pass


@denizen.message
class Seen:
    opened: np.uint32
    closed: np.uint32
    pushes: np.uint32


@denizen.actor
class Door:
    code: np.uint32
    opened: np.uint32
    closed: np.uint32
    pushes: np.uint32

    def on_push(self, m: Push, ctx):  # as a new door does
        x = 1
        self.opened += x
        ctx.become(self.Open)

    def on_lock(self, m: Lock, ctx):
        self.code = m.code
        ctx.become(Door.Locked)

    def on_look(self, m: Look, ctx):
        ctx.reply(Seen(self.opened, self.closed, self.pushes))

    class Open:
        def on_push(self, m: Push, context):
            x = 0.5  # of another type than above
            self.closed += int(2 * x)
            context.become(Door)

        def on_lock(self, m: Lock):
            pass

    class Locked:
        def on_push(self, mine: Push):
            self.pushes += 1

        def on_lock(self, given: Lock, ctx):
            if given.code == self.code:
                ctx.become(Door)


@pytest.fixture(scope="module", params=HANDLERS)
def rt(request):
    with begin(Door, request.param) as runtime:
        yield runtime


def seen(rt, door):
    return rt.ask(door, Look(), timeout=20).tolist()


def test_the_behaviour_in_force_takes_the_message(rt):
    (door,) = rt.spawn(Door)
    for _ in range(7):
        rt.send(door, Push())
    assert seen(rt, door) == (4, 3, 0)
    rt.send(door, Lock(1))  # of no effect on an open one
    rt.send(door, Push())
    assert seen(rt, door) == (4, 4, 0)
    rt.send(door, Lock(5))
    rt.send(door, Push())
    rt.send(door, Lock(4))
    rt.send(door, Push())
    assert seen(rt, door) == (4, 4, 2)
    rt.send(door, Lock(5))
    rt.send(door, Push())
    assert seen(rt, door) == (5, 4, 2)


def test_a_restart_begins_with_the_actors_own(rt):
    (door,) = rt.spawn(Door)
    rt.send(door, Lock(5))
    rt.send(door, Push())
    assert seen(rt, door) == (0, 0, 1)
    rt.restart(door)
    rt.send(door, Push())
    assert seen(rt, door) == (1, 0, 0)


def test_a_snapshot_has_it(tmp_path):
    with begin(Door, "cpu:1") as rt:
        (door,) = rt.spawn(Door)
        rt.send(door, Lock(5))
        rt.drain()
        rt.save(tmp_path / "doors")
    with begin(Door, "cpu:1", restore=tmp_path / "doors") as rt:
        rt.send(door, Push())
        assert seen(rt, door) == (0, 0, 1)


def test_what_is_no_behaviour_is_refused():
    @denizen.actor
    class Gate:
        def on_push(self, m: Push, ctx):
            ctx.become(Door.Open)

        class Up:
            def on_push(self, m: Push):
                pass

    with pytest.raises(denizen.CompileError, match=r"Door.Open is no behaviour of Gate, .* Up"):
        denizen.Program(actors=[Gate])

    with pytest.raises(denizen.ArgumentError, match=r"Half.Up takes Push, for which Half has no"):

        @denizen.actor
        class Half:
            def on_look(self, m: Look, ctx):
                ctx.become(self.Up)

            class Up:
                def on_push(self, m: Push):
                    pass

    with pytest.raises(denizen.ArgumentError, match=r"Own.Up.limit is no handler"):

        @denizen.actor
        class Own:
            def on_push(self, m: Push):
                pass

            class Up:
                limit = 3

    with pytest.raises(denizen.ArgumentError, match="a field behaviour"):

        @denizen.actor
        class Named:
            behaviour: np.uint32

            def on_push(self, m: Push):
                pass

            class Up:
                def on_push(self, m: Push):
                    pass


def test_a_function_cannot_become():
    def open_it(door):
        door.become(1)

    @denizen.actor
    class Gate:
        def on_push(self, m: Push, ctx):
            open_it(ctx)

    with pytest.raises(denizen.CompileError, match=r"ctx.become\(\) outside of a handler"):
        denizen.Program(actors=[Gate])
