# SPDX-License-Identifier: Apache-2.0
"""Handlers in Python spawn, allocate, send by lanes and draw random numbers, everywhere alike."""

import numpy as np
import plants
import pytest
from backends import HANDLERS, begin

import denizen


@pytest.fixture(scope="module", params=HANDLERS)
def rt(request):
    with begin(plants.program(), request.param) as runtime:
        yield runtime


def test_what_handlers_spawn_is_of_the_program():
    assert plants.program().actors == ("Gardener", "Filler", "Summer", "Dice", "Lanes", "Node")


def test_a_tree_of_spawned_actors_grows_and_goes(rt):
    (gardener,) = rt.spawn(plants.Gardener)
    before = len(rt.actors())
    for depth in (0, 1, 5):
        grown = rt.ask(gardener, plants.Grow(depth=depth), timeout=20)
        assert grown["leaves"] == 2**depth
    rt.drain()
    assert len(rt.actors()) == before
    assert rt.stats()["dead_letters"] == 0


def test_a_new_state_has_its_defaults_but_for_what_is_given(rt):
    (gardener,) = rt.spawn(plants.Gardener)
    rt.send(gardener, plants.Ask(n=3))
    answer = rt.receive(timeout=20).message
    assert answer.tolist() == (1 - 2 + 100, 3, 2.0)


@pytest.mark.parametrize("count", [1, 7, 5000])
def test_a_block_of_the_arena_goes_on_by_its_address(rt, count):
    (filler,), (summer,) = rt.spawn(plants.Filler), rt.spawn(plants.Summer)
    rt.send(filler, plants.Fill(count=count, to=int(summer)))
    answer = rt.receive(timeout=20).message
    half = int(np.float32(0.5).view(np.uint32))
    assert answer.tolist() == (half, count, count * count / 2)


@pytest.mark.parametrize("count", [-1, 2**40, 2**62])
def test_no_room_is_an_empty_array(rt, count):
    (filler,), (summer,) = rt.spawn(plants.Filler), rt.spawn(plants.Summer)
    rt.send(filler, plants.Fill(count=count, to=int(summer)))
    assert rt.receive(timeout=20).message.tolist() == (0, 0, 0.0)


def test_what_is_freed_is_the_arenas_again(rt):
    (filler,), (summer,) = rt.spawn(plants.Filler), rt.spawn(plants.Summer)
    for _ in range(5):  # 20 MB each, of 64
        rt.send(filler, plants.Fill(count=50, to=int(summer)))
        assert rt.receive(timeout=20).message["b"] == 50
    rt.drain()
    if not isinstance(rt._core, denizen._core.Runtime):
        return
    assert rt.arena().live_blocks == 0


def mixed(state):
    """SplitMix64."""
    mask = 2**64 - 1
    state = (state + 0x9E3779B97F4A7C15) & mask
    z = state
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return state, ((z ^ (z >> 31)) >> 11) * 2.0**-53


def test_random_numbers_are_those_of_splitmix64(rt):
    (dice,) = rt.spawn(plants.Dice)
    state, expected = 42, 0.0
    for _ in range(10):
        state, x = mixed(state)
        assert 0 <= x < 1
        expected += x
    state, x = mixed(state)
    answer = rt.ask(dice, plants.Ask(n=10), timeout=20)
    assert answer.tolist() == (int(x * 6) + 1, state, expected)


def test_lanes_send_side_by_side(rt):
    (lanes,) = rt.spawn(plants.Lanes)
    rt.send(lanes, plants.Ask(n=100))
    rt.drain()
    answer = rt.ask(lanes, plants.Leave(), timeout=20)
    assert answer.tolist()[:2] == (sum(i * i for i in range(100)), 100)


def test_a_message_to_all_of_a_type(rt):
    dice = rt.spawn(plants.Dice, 3)
    rt.broadcast(plants.Dice, plants.Ask(n=1))
    everyone = sorted(int(one.address) for one in rt.actors() if one.type == "Dice")
    assert sorted(rt.receive(timeout=20).sender for _ in everyone) == everyone
    state = mixed(mixed(42)[0])[0]
    for one in dice:
        assert rt.ask(one, plants.Ask(n=0), timeout=20)["b"] == mixed(state)[0]


def test_its_handlers_compile_for_a_gpu():
    pytest.importorskip("numba.cuda")
    from denizen.handlers.compiled import gpu_parts  # noqa: PLC0415  (it needs Numba)

    program = plants.program()
    parts = gpu_parts(program.plan(), list(program.messages.values()), 90)
    assert len(parts) > 0
    assert all(code for _, code in parts)


@pytest.mark.deep  # the link optimises for half a minute; another's is in test_teams_of_handlers.py
def test_a_cubin_of_it_is_made_without_a_gpu(nvrtc):
    pytest.importorskip("numba.cuda")
    assert plants.program().compile_gpu(90).state_sizes
