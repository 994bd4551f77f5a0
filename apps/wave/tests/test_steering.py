# SPDX-License-Identifier: Apache-2.0
"""Runs that are steered from Python, and NumPy given the same commands at the same steps."""

import sys
import time
from pathlib import Path

import numpy as np
import pytest

import denizen
from denizen import wave

sys.path.insert(0, str(Path(__file__).parent))
from wave_reference import Room

SHAPE = (16, 16, 64)


def test_the_same_commands_at_the_same_steps(device, methods):
    for method in methods:
        steered(device, method)


def steered(device, method):
    room = wave.Simulation(SHAPE, boundary="absorbing", device=device)
    same = Room(SHAPE, room.courant, boundary=("absorbing",) * 3)
    dt = room.dt
    room.add_source(wave.Sine(120.0), (8, 8, 20))
    same.sources.append((lambda n, dt=dt: np.sin(2 * np.pi * 120.0 * n * dt), (8, 8, 20)))
    ear = room.add_receiver((4, 4, 50))
    wall, block = np.s_[2:12, 3:12, 31:33], np.s_[7:9, 2, 40:]
    with room.start(1 << 20, method) as run:
        steps = [run.set_cells(wall, "reflector"), run.move(wall, block, "obstacle")]
        steps.append(run.add_source(wave.Impulse(3.0), (3, 3, 3)))
        steps.append(run.set_damping(10.0))
        looked, seen = run.read(np.s_[8, :, 4:60])
        paused = run.pause()
        assert run.running and run.resume() == paused
        ran = run.stop()
        assert not run.running
    assert steps == sorted(steps) and steps[-1] <= looked <= paused <= ran.steps < 1 << 20
    assert seen.shape == (16, 56) and seen.dtype == np.float32

    acts = [
        lambda: same.fill(wall, 2),
        lambda: (same.fill(wall, 0), same.fill(block, 3)),
        lambda: same.sources.append((lambda n: 3.0 * (n == steps[2]), (3, 3, 3))),
        lambda: setattr(same, "damping", 10.0 * dt),
    ]
    for step, act in zip(steps, acts, strict=True):
        same.run(step - same.step)
        act()
    same.run(looked - same.step)
    scale = max(np.abs(same.now).max(), 1e-6)
    assert np.abs(seen - same.now[8, :, 4:60]).max() < 2e-5 * scale
    same.run(ran.steps - same.step)
    scale = np.abs(same.now).max()
    assert np.abs(room.pressure - same.now).max() < 2e-5 * scale
    assert len(room.trace(ear)) == room.steps == ran.steps


def test_a_run_that_is_told_how_far_to_go(device, methods):
    for method in methods:
        room = wave.Simulation(SHAPE, boundary="absorbing", device=device)
        same = Room(SHAPE, room.courant, boundary=("absorbing",) * 3)
        dt = room.dt
        room.add_source(wave.Sine(120.0), (8, 8, 20))
        same.sources.append((lambda n, dt=dt: np.sin(2 * np.pi * 120.0 * n * dt), (8, 8, 20)))
        room.run(3)
        with room.start(1 << 20, method) as run:
            at = run.pause()
            for _ in range(4):
                wanted = at + 8
                run.resume(wanted)
                deadline = time.monotonic() + 20
                while at < wanted and time.monotonic() < deadline:
                    at, _cell = run.read(np.s_[8, 8, 20])
                assert wanted <= at < wanted + 16  # a method looks for commands every few steps
                time.sleep(0.01)
                assert run.read(np.s_[8, 8, 20])[0] == at  # and there it stands
            step, seen = run.read(np.s_[8, :, :])
            run.resume(at)  # has passed: it stays
            time.sleep(0.01)
            assert run.read(np.s_[8, 8, 20])[0] == at
            for bad in (0, 3, 3 + (1 << 32)):
                with pytest.raises(denizen.ArgumentError, match="until"):
                    run.resume(bad)
        assert room.steps >= at
        same.run(step)
        scale = max(np.abs(same.now).max(), 1e-6)
        assert np.abs(seen - same.now[8]).max() < 2e-5 * scale


def test_a_run_that_stands_at_its_step_can_be_finished(device):
    room = wave.Simulation(SHAPE, device=device)
    with room.start(1000) as run:
        run.resume(run.pause() + 4)
        assert run.finish().steps == 1000


def test_a_command_that_comes_too_late_and_what_is_refused(device):
    room = wave.Simulation(SHAPE, device=device)
    with room.start(5) as run:
        deadline = time.monotonic() + 30
        while run.running and time.monotonic() < deadline:
            time.sleep(0.001)
        with pytest.raises(denizen.ClosedError, match="over"):
            run.pause()
    assert room.steps == 5
    with room.start(1 << 20) as run:
        for bad in (
            lambda: run.set_cells(np.s_[0:4, 0:4], "reflector"),
            lambda: run.set_cells(np.s_[0:4, 0:4, 0:4:2], "reflector"),
            lambda: run.set_cells(np.s_[0:4, 4:4, 0:4], "reflector"),
            lambda: run.set_cells(np.s_[0:4, 0:4, 0:4], "wood"),
            lambda: run.set_damping(-1.0),
            lambda: run.add_source(wave.Impulse(), (16, 0, 0)),
            lambda: run.add_source(wave.Samples(np.ones(3, np.float32), 100.0), (0, 0, 0)),
        ):
            with pytest.raises(denizen.ArgumentError):
                bad()
        with pytest.raises(denizen.DenizenError, match="largest face"):
            run.read(np.s_[:, :, :])
    with pytest.raises(denizen.ClosedError):
        run.pause()
