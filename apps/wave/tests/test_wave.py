# SPDX-License-Identifier: Apache-2.0
"""Simulations from Python: NumPy comes to the same field, and physics to the same sound."""

import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import denizen
from denizen import wave

sys.path.insert(0, str(Path(__file__).parent))
from wave_reference import Room

KNOCK = np.array([0.0, 1.0, -0.5, 0.25], np.float32)


def close(a, b, limit=1e-5):
    return np.abs(np.asarray(a, float) - b).max() <= limit * np.abs(b).max()


def masked(shape):
    cells = np.zeros(shape, np.uint8)
    cells[3:9, 4:10, 20:23] = 2
    cells[10:12, :, 40:42] = 3
    cells[:, :3, :] = 1
    return cells


def test_numpy_comes_to_the_same_field(device, methods):
    shape = (16, 16, 64)
    sides = ("absorbing", "reflecting", "periodic")
    for method in methods:
        room = wave.Simulation(
            shape, spacing=0.1, damping=5.0, absorber=300.0, boundary=sides, cells=masked(shape),
            device=device,
        )  # fmt: skip
        same = Room(shape, room.courant, damping=5.0 * room.dt, absorber=300.0 * room.dt,
                    boundary=sides, cells=masked(shape))  # fmt: skip
        assert room.courant == pytest.approx(0.5)
        dt = room.dt

        def ricker(n, dt=dt):
            a = np.pi * 200.0 * (n * dt - 1.5 / 200.0)
            return 2.0 * (1 - 2 * a * a) * np.exp(-a * a)

        samples = wave.Samples(KNOCK, 500.0)
        room.add_source(wave.Ricker(200.0, 2.0), (8, 8, 30))
        room.add_source(wave.Impulse(0.5), (14, 12, 60))
        room.add_source(wave.Sine(150.0, 0.3, 0.25), (0, 15, 0))
        room.add_source(samples, (1, 9, 50))
        same.sources = [
            (ricker, (8, 8, 30)),
            (lambda n: 0.5 * (n == 0), (14, 12, 60)),
            (lambda n, dt=dt: 0.3 * np.sin(2 * np.pi * (150.0 * n * dt + 0.25)), (0, 15, 0)),
            (
                lambda n, dt=dt: np.interp(n * dt * 500, np.arange(4), KNOCK, right=0.0),
                (1, 9, 50),
            ),
        ]
        ear = room.add_receiver((12, 8, 10))
        ran = room.run(100, method)
        same.run(100)
        assert (ran.steps, room.steps) == (100, 100)
        assert ran.method == (room.auto if method == "auto" else method)
        assert ran.seconds > 0 and ran.rate > 0
        assert close(room.pressure, same.now)
        assert close(room.pressure_before, same.before)
        assert room.trace(ear)[-1] == pytest.approx(same.now[12, 8, 10], abs=1e-5)
        assert len(room.trace(ear)) == 100


def test_a_plane_wave_is_where_it_should_be(device, methods):
    """Along one axis the scheme's own dispersion relation gives the exact solution."""
    n, k = 64, 2 * np.pi * 3 / 64
    x = np.arange(n)
    for method in methods:
        room = wave.Simulation((16, 16, n), boundary="periodic", device=device)
        omega = 2 * np.arcsin(room.courant * np.sin(k / 2))  # per step
        shape = (16, 16, 1)
        room.set_pressure(np.tile(np.cos(k * x), shape), np.tile(np.cos(k * x + omega), shape))
        room.run(200, method)
        expected = np.tile(np.cos(k * x - 200 * omega), shape)
        assert np.abs(room.pressure - expected).max() < 1e-4
        # And the wave equation's, as far as the grid resolves it: 0.1 % slow here.
        assert omega / k == pytest.approx(room.courant, rel=5e-3)


def energy(room):
    """The scheme's invariant: kinetic, and the product of the two gradients."""
    now, before = room.pressure.astype(float), room.pressure_before.astype(float)
    total = ((now - before) ** 2).sum() / room.courant**2
    for axis in range(3):
        total += (np.diff(now, axis=axis) * np.diff(before, axis=axis)).sum()
    return total


def test_energy_is_kept_by_rigid_walls_and_lost_by_others(device, methods):
    rng = np.random.default_rng(1)
    start = rng.standard_normal((12, 12, 20))
    for method in methods:
        kept = wave.Simulation((12, 12, 20), dtype="float64", device=device)
        kept.set_pressure(start)
        begin = energy(kept)
        kept.run(200, method)
        assert energy(kept) == pytest.approx(begin, rel=1e-10)
        levels = []
        for boundary, damping in (("absorbing", 0.0), ("reflecting", 30.0)):
            lost = wave.Simulation((12, 12, 20), boundary=boundary, damping=damping, device=device)
            lost.set_pressure(start)
            levels.append([energy(lost)])
            for _ in range(4):
                lost.run(50, method)
                levels[-1].append(energy(lost))
        for fall in levels:
            assert all(b < a for a, b in pairwise(fall))
            assert fall[-1] < 0.25 * fall[0]


def test_absorbing_walls_return_nothing_at_right_angles(device):
    room = wave.Simulation((8, 4, 200), boundary=("periodic", "periodic", "absorbing"),
                           device=device)  # fmt: skip
    x = np.arange(200)
    pulse = np.exp(-(((x - 100) / 8.0) ** 2))
    room.set_pressure(np.tile(pulse, (8, 4, 1)))
    room.run(400)  # 200 cells: it has met the walls and would be back
    assert np.abs(room.pressure).max() < 5e-3


def test_walls_return_with_their_sign(device):
    x = np.arange(200)
    pulse = np.exp(-(((x - 100) / 8.0) ** 2))
    for kind, sign in ((2, 1), (3, -1)):
        cells = np.zeros((8, 4, 200), np.uint8)
        cells[:, :, -2:] = kind
        room = wave.Simulation((8, 4, 200), boundary=("periodic", "periodic", "absorbing"),
                               cells=cells, device=device)  # fmt: skip
        room.set_pressure(np.tile(pulse, (8, 4, 1)))
        room.run(396)  # one half has left; the other went 98 cells, and comes back by 100
        heard = room.pressure[2, 2]
        assert heard[np.abs(heard).argmax()] * sign == pytest.approx(0.5, abs=0.03)
        assert np.abs(heard).argmax() == pytest.approx(98, abs=4)


@pytest.mark.parametrize("method", ["tiles", "deep"])
def test_a_run_of_many_incarnations_comes_to_the_same_bits(device, methods, method):
    if method not in methods:
        pytest.skip("slabs make no tiles")
    heard, fields = [], []
    for breath_us in (None, 20):
        room = wave.Simulation((16, 16, 64), boundary="absorbing", device=device,
                               breath_us=breath_us)  # fmt: skip
        room.add_source(wave.Sine(200.0), at=(8, 8, 31))
        ear = room.add_receiver(at=(7, 9, 33))
        ran = room.run(200, method)
        assert (ran.incarnations > 3) == (breath_us is not None)
        heard.append(room.trace(ear))
        fields.append(room.pressure)
    assert np.array_equal(*heard) and np.array_equal(*fields)


def test_what_is_refused():
    for bad in (
        lambda: wave.Simulation((64, 64)),
        lambda: wave.Simulation((64, 64, 3)),
        lambda: wave.Simulation((8, 8, 8), dtype="int32"),
        lambda: wave.Simulation((8, 8, 8), boundary="soft"),
        lambda: wave.Simulation((8, 8, 8), boundary=("absorbing", "periodic")),
        lambda: wave.Simulation((8, 8, 8), dt=-1.0),
        lambda: wave.Simulation((8, 8, 8), cells=np.zeros((8, 8, 9), int)),
        lambda: wave.Simulation((8, 8, 8), cells=np.full((8, 8, 8), 4)),
        lambda: wave.Simulation((8, 8, 8), device="cpu", breath_us=-1),
        lambda: wave.Simulation((8, 8, 8), device="cpu", breath_us=1_000_001),
        lambda: wave.Simulation((8, 8, 8), device="cpu:3x1"),  # slabs of less than 4 planes
        lambda: wave.Simulation((8, 8, 8), device="cpu:1").run(5, "pass3"),
        lambda: wave.Simulation((8, 8, 8), device="cpu").run(0),
        lambda: wave.Simulation((8, 8, 8), device="cpu").run(5, "fast"),
        lambda: wave.Simulation((8, 8, 8), device="cpu").run(5, "graph"),
        lambda: wave.Simulation((8, 8, 8), device="cpu").add_source(wave.Impulse(), (8, 0, 0)),
        lambda: wave.Simulation((8, 8, 8), device="cpu").add_source("bang", (0, 0, 0)),
        lambda: wave.Simulation((8, 8, 8), device="cpu").add_source(wave.Sine(1e6), (0, 0, 0)),
        lambda: wave.Simulation((8, 8, 8), device="cpu").add_receiver((0, -1, 0)),
        lambda: wave.Simulation((8, 8, 8), device="cpu").set_pressure(np.zeros((8, 8, 9))),
        lambda: wave.Simulation((8, 8, 8), device="cpu").set_pressure(np.full((8, 8, 8), np.nan)),
    ):
        with pytest.raises(denizen.ArgumentError):
            bad()
    with pytest.raises(denizen.ArgumentError, match=r"not stable.*0\.57735"):
        wave.Simulation((8, 8, 8), spacing=0.1, dt=0.1 / 343, device="cpu")


@pytest.mark.usefixtures("unoptimised")
@pytest.mark.parametrize("architecture", [90])
def test_the_kernels_compile_at_run_time(architecture):
    from denizen.compilers import cubin_of  # noqa: PLC0415
    from denizen.wave.simulation import _KERNELS  # noqa: PLC0415

    try:
        cubin = cubin_of(_KERNELS["float32"], "the wave", architecture)
    except denizen.CompileError as error:
        if "libnvrtc" not in str(error):
            raise
        pytest.skip(str(error).splitlines()[0])
    for name in (
        "sweep_f32",
        "tick",
        "small_f32",
        "large_f32",
        "medium_deep_f32",
        "pass2_f32",
        "pass4_f32",
    ):
        assert f"denizen_wave_{name}".encode() in cubin
