# SPDX-License-Identifier: Apache-2.0
"""What ``denizen run wave`` does: simulate a room, write what was heard, film it, or show it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from denizen import terminal, wave
from denizen.apps.wave import live, movie, words
from denizen.errors import ArgumentError, reading
from denizen.files import write_arrays
from denizen.wave.simulation import Index
from denizen.wave.sources import Source

_FRAMES = 200  # of a film at most
_CROSSING = 2.5  # seconds that a wave takes from side to side of a live picture
_MOST_STEPS = 1 << 30
_FILES = (".wav", ".csv")


@dataclass(frozen=True, slots=True)
class Options:
    """The command's words; None where nothing was said."""

    size: str = "64"
    steps: int | None = None
    spacing: float = 0.1
    speed: float = 343.0
    dt: float | None = None
    damping: float = 0.0
    boundary: str = "absorbing"
    mask: Path | None = None
    sources: tuple[str, ...] = ()
    receivers: tuple[str, ...] = ()
    out: Path | None = None
    save: Path | None = None
    movie: Path | None = None
    live: int | None = None  # port
    pace: float | None = None
    axis: str = "z"
    at: int | None = None
    method: str = "auto"
    device: str = "auto"
    double: bool = False


def run(given: Options) -> int:
    """The whole command; the exit status. Raises ArgumentError for what cannot be used, DataError
    for a file that cannot be opened.
    """
    if given.steps is not None and not 1 <= given.steps <= _MOST_STEPS:
        raise ArgumentError(f"--steps {given.steps}; a run has 1 to 2**30")
    if given.out is not None and given.out.suffix not in _FILES:
        raise ArgumentError(f"{given.out}: what receivers heard is written to .wav or .csv")
    if given.out is not None and not given.receivers:
        raise ArgumentError(f"{given.out}: nobody listens; add --receiver z,y,x")
    if given.movie is not None:
        movie.check(given.movie)
    if given.movie is not None and given.live is not None:
        raise ArgumentError("use --movie or --live, not both")
    with reading(given.mask, "a mask: a .npy file of shape (nz, ny, nx)"):
        cells = None if given.mask is None else wave.read_mask(given.mask)
    shape = words.size(given.size) if cells is None else (
        cells.shape[0], cells.shape[1], cells.shape[2]
    )  # fmt: skip
    with terminal.working("making the room"):
        room = wave.Simulation(
            shape,
            spacing=given.spacing,
            speed=given.speed,
            dt=given.dt,
            damping=given.damping,
            boundary=words.boundary(given.boundary),
            cells=cells,
            dtype="float64" if given.double else "float32",
            device=given.device,
        )
    usual = given.speed / (10 * given.spacing)  # ten cells to a wave
    middle = (shape[0] // 2, shape[1] // 2, shape[2] // 2)
    # What is watched goes on; what is computed has one wave.
    own: Source = wave.Ricker(usual) if given.live is None else wave.Sine(usual)
    sources = [words.source(text) for text in given.sources] or [(own, middle)]
    for source, at in sources:
        room.add_source(source, at)
    ears = [room.add_receiver(words.place(text)) for text in given.receivers]
    axis = "zyx".index(given.axis)
    at_slice = shape[axis] // 2 if given.at is None else given.at
    if not 0 <= at_slice < shape[axis]:
        raise ArgumentError(
            f"--at {at_slice} is outside the {shape[axis]} cells along {given.axis}"
        )
    begin = time.perf_counter()
    if given.live is not None:
        ran = _live(room, given, axis, at_slice, frequency=usual, cells=cells)
    elif given.movie is not None:
        ran = _movie(room, given, live.index_of(axis, at_slice), cells)
    else:
        steps = given.steps or 500
        with terminal.progress("steps", steps) as advance:
            ran = room.run(steps, given.method, progress=advance)
    seconds = time.perf_counter() - begin
    if given.out is not None:
        _write(given.out, room, ears)
    if given.save is not None:
        write_arrays(given.save, pressure=room.pressure, before=room.pressure_before)
    _show(room, ran, seconds)
    return 0


def _live(
    room: wave.Simulation,
    given: Options,
    axis: int,
    at: int,
    *,
    frequency: float,
    cells: np.ndarray | None,
) -> wave.Ran:
    across = max(n for k, n in enumerate(room.shape) if k != axis) / room.courant
    pace = across / _CROSSING if given.pace is None else given.pace
    with room.start(given.steps or _MOST_STEPS, given.method) as run:
        page = live.Live(
            room, run, axis, at,
            frequency=frequency, port=given.live or 0, pace=pace, damping=given.damping,
            cells=cells,
        )  # fmt: skip
        how = f"{pace:,.0f} steps a second" if pace else "as fast as it can"
        print(f"{page.url}: the slice {given.axis} = {at}, {how}; Ctrl-C ends", flush=True)
        try:
            while run.running and not page.ended.wait(0.2):  # ends with the run, or by the page
                pass
        except KeyboardInterrupt:
            print()
        finally:
            page.close()
        return run.stop()


def _movie(
    room: wave.Simulation, given: Options, index: Index, cells: np.ndarray | None
) -> wave.Ran:
    assert given.movie is not None
    steps = given.steps or 500
    every = max(1, -(-steps // _FRAMES))
    slices, seconds, method, tiles, incarnations = [], 0.0, "", "", 0
    with terminal.progress("steps", steps) as advance:
        for first in range(0, steps, every):
            ran = room.run(min(every, steps - first), given.method)
            seconds += ran.seconds
            incarnations += ran.incarnations
            method, tiles = ran.method, ran.tiles
            slices.append(room.pressure[index])
            advance(ran.steps)
    loudest = float(np.percentile(np.abs(np.stack(slices)), 99.9))
    solid = live.solid_of(cells, index)
    with terminal.working(f"writing {given.movie}"):
        movie.write(given.movie, [movie.picture(s, loudest, solid) for s in slices])
    print(f"{given.movie}: {len(slices)} frames, one each {every} steps")
    return wave.Ran(steps, seconds, method, tiles, incarnations, int(np.prod(room.shape)))


def _write(out: Path, room: wave.Simulation, ears: list[int]) -> None:
    traces = [room.trace(ear) for ear in ears]
    if out.suffix == ".csv":
        wave.write_csv(out, traces, room.dt)
        print(f"{out}: {len(traces[0]):,} steps of {len(traces)} receivers")
    else:
        peak = wave.write_wav(out, traces, room.dt)
        print(f"{out}: {len(traces[0]) * room.dt:.4g} s, full scale is a pressure of {peak:.4g}")


def _show(room: wave.Simulation, ran: wave.Ran, seconds: float) -> None:
    field = room.pressure
    rows = [
        ("device", room.device),
        ("method", ran.method + (f", {ran.tiles}" if ran.tiles else "")),
        ("grid", f"{' x '.join(map(str, room.shape))} cells"),
        ("Courant number", f"{room.courant:.4f} (at most 0.5774)"),
        ("steps", f"{ran.steps:,} of {1e6 * room.dt:.4g} us"),
        ("simulated", f"{1e3 * ran.steps * room.dt:.4g} ms"),
        ("pressure", f"{field.min():.4g} to {field.max():.4g}"),
        ("rate", f"{ran.rate:,.0f} Mcells/s"),
        ("time", f"{ran.seconds:.3f} s ({seconds:.3f} s with all around it)"),
    ]
    terminal.table("denizen run wave", ("figure", "value"), rows, right=(1,))
