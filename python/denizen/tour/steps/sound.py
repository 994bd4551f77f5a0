# SPDX-License-Identifier: Apache-2.0
"""Sound that comes through two doors, in the simulation and in NumPy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from denizen.tour import draw
from denizen.tour.step import Found, Picture, Place

_SHAPE = (4, 144, 224)
_STEPS = 420
_HERTZ = 560.0
_SOURCE = (2, 72, 30)
_WALL = slice(74, 78)
_DOORS = (slice(44, 56), slice(88, 100))
_SIDES = ("periodic", "absorbing", "absorbing")
_LIMIT = 1e-4  # of the loudest, for single precision


def _cells() -> NDArray[np.uint8]:
    """A wall with two doors."""
    cells = np.zeros(_SHAPE, np.uint8)
    cells[:, :, _WALL] = 2
    for door in _DOORS:
        cells[:, door, _WALL] = 0
    return cells


def _by_numpy(courant: float, dt: float, place: Place) -> NDArray[np.float64]:
    """The field after the steps, in double precision, one array operation after the other."""
    solid = _cells() == 2
    now, before = np.zeros(_SHAPE), np.zeros(_SHAPE)
    loss = np.zeros(_SHAPE)
    beside: list[tuple[int, int, NDArray[np.bool_]]] = []  # axis, direction, where nothing flows
    for axis, side in enumerate(_SIDES):
        for by in (1, -1):
            shut = np.roll(solid, by, axis)
            if side == "absorbing":
                edge: list[slice | int] = [slice(None)] * 3
                edge[axis] = 0 if by == 1 else -1
                shut[tuple(edge)] = True
                loss[tuple(edge)] += courant / 2
            beside.append((axis, by, shut))
    for step in range(_STEPS):
        total = np.zeros(_SHAPE)
        for axis, by, shut in beside:
            total += np.where(shut, 0.0, np.roll(now, by, axis) - now)
        after = (2 * now - (1 - loss) * before + courant**2 * total) / (1 + loss)
        after[solid] = 0.0
        after[_SOURCE] += np.sin(2 * np.pi * _HERTZ * dt * step)
        before, now = now, after
        if step % 20 == 0:
            place.tell(f"step {step} of {_STEPS} in NumPy")
    return now


def run(place: Place) -> Found:
    from denizen import wave  # noqa: PLC0415
    from denizen.apps.wave import movie  # noqa: PLC0415

    place.tell("simulating")
    cells = _cells()
    room = wave.Simulation(_SHAPE, spacing=0.05, boundary=_SIDES, cells=cells, device=place.device)
    room.add_source(wave.Sine(_HERTZ), _SOURCE)
    ran = room.run(_STEPS)
    field = room.pressure
    expected = _by_numpy(room.courant, room.dt, place)
    loudest = float(np.abs(expected).max())
    off = float(np.abs(field - expected).max()) / loudest
    wrong = None
    if not off <= _LIMIT:
        wrong = f"the field is {off:.2g} of its loudest from NumPy's; {_LIMIT:g} is allowed"
    plane = field[_SOURCE[0]]
    picture = movie.picture(
        plane, float(np.percentile(np.abs(plane), 99.5)), cells[_SOURCE[0]] >= 2
    )
    return Found(
        did=f"A tone of {_HERTZ:.0f} Hz in a room of {np.prod(_SHAPE):,} cells passes two "
        "doors in a wall; "
        f"{_STEPS} steps of the wave equation.",
        checked=f"The field equals that of NumPy in double precision to {off:.0e} of its loudest.",
        wrong=wrong,
        device=room.device,
        figures=[
            ("method", ran.method),
            ("rate", f"{ran.rate:,.0f} million cells a second"),
            ("simulated", f"{1e3 * ran.steps * room.dt:.1f} ms"),
        ],
        pictures=[
            Picture(
                draw.image(picture.repeat(2, axis=0).repeat(2, axis=1), "pressure"),
                "The pressure: behind the doors two waves meet. To steer one yourself: "
                "denizen run wave --live.",
            )
        ],
        screen=draw.pixels_in_text(picture),
    )
