# SPDX-License-Identifier: Apache-2.0
"""A simulation, and a run of it that takes commands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from denizen import _core
from denizen.compilers import cubin_of
from denizen.device import breath_of, capability, parse_device
from denizen.errors import ArgumentError, ClosedError
from denizen.group import group
from denizen.shown import Shown
from denizen.wave.sources import Samples, Source, words_of

_INCLUDE = "#include <denizen/wave/detail/kernels.hpp>\n"
_KERNELS = {
    "float32": "#define DENIZEN_WAVE_SINGLE\n" + _INCLUDE,
    "float64": "#define DENIZEN_WAVE_TWOFOLD\n" + _INCLUDE,
}
_BOUNDARIES = ("reflecting", "absorbing", "periodic")
_KINDS = ("normal", "absorber", "reflector", "obstacle")
_ACTS = {"source": 0, "cells": 1, "damping": 2, "read": 3, "pause": 4, "resume": 5, "end": 6}
_SEVERAL = 3  # axes
_PIECE = 0.1  # seconds of steps between two looks at Ctrl-C
_PASS = 4  # steps that a pass over the memory may have
_FIRST_ON_CPU, _FIRST_ON_GPU = 10**7, 10**10  # cells times steps before the speed is known

Index = tuple[int | slice, int | slice, int | slice]
Place = tuple[int, int, int]
_Box = tuple[int, int, int, int, int, int]
_NOWHERE: _Box = (0, 0, 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Ran:
    """What a run took.

    Attributes:
        steps: that were done.
        seconds: from the first step to the last: of resident tiles by the clock of the device,
            else by the host's, from the first launch to the end of the last.
        method: that was used.
        tiles: of resident ones, such as "128 tiles of 32 x 8 x 8"; else empty.
        incarnations: of resident tiles: kernels that the run was made of (`breath_us`); else 0.
        cells: of the grid.
    """

    steps: int
    seconds: float
    method: str
    tiles: str
    incarnations: int
    cells: int

    @property
    def rate(self) -> float:
        """Million cells per second."""
        return self.cells * self.steps / max(self.seconds, 1e-12) * 1e-6


class Simulation(Shown):
    """The second-order acoustic wave equation on a regular grid, of all pressures 0 at first.

    Args:
        shape: cells (nz, ny, nx), each from 4 to 8192. Places are given in the same order.
        spacing: metres from cell to cell.
        speed: of sound, m/s.
        dt: seconds per step; spacing / (2 speed) if None. The Courant number speed dt / spacing
            must not exceed 1 / sqrt(3).
        damping: g in p_tt + 2 g p_t = c^2 lap p, per second.
        absorber: the same, on top, in absorber cells.
        boundary: "reflecting" (rigid), "absorbing" (of the impedance of the medium: what comes at
            right angles is not returned) or "periodic"; or three, for z, y and x.
        cells: kinds, shape ``shape``: 0 normal, 1 absorber, 2 reflector (rigid), 3 obstacle (no
            pressure: what returns has the other sign); see read_mask(). None: all are normal.
        dtype: "float32" or "float64".
        device: "auto" (the first GPU, else the CPU), "cpu", "cpu:THREADS", "gpu" or "gpu:N".
            Several GPUs of one host: "gpu:FIRST-LAST", at most 8; the grid is cut along z into
            slabs of at least 4 planes. "cpu:SLABSxTHREADS": groups of CPU threads do the same.
        breath_us: GPU: no kernel of resident tiles lasts longer than that; the next one is queued
            behind it, so that whoever waits for the whole device (torch.cuda.synchronize,
            cudaMalloc, the first launch of a kernel) waits for two of them at most. "auto": 2000 on
            a GPU. None or 0: one kernel for a whole run. On the CPU the option is for tests.

    While a run uses a GPU, the resident programs of this process leave it. Raises ArgumentError,
    DeviceError, CompileError, ExhaustedError (memory).
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        *,
        spacing: float = 0.1,
        speed: float = 343.0,
        dt: float | None = None,
        damping: float = 0.0,
        absorber: float = 500.0,
        boundary: str | tuple[str, str, str] = "reflecting",
        cells: ArrayLike | None = None,
        dtype: DTypeLike = "float32",
        device: str = "auto",
        breath_us: int | Literal["auto"] | None = "auto",
    ) -> None:
        where = parse_device(device)
        if len(shape) != _SEVERAL or not all(4 <= n <= 8192 for n in shape):
            raise ArgumentError(f"shape {shape}; three numbers from 4 to 8192 are expected")
        self._dtype = np.dtype(dtype)
        if self._dtype not in (np.float32, np.float64):
            raise ArgumentError(f"dtype {self._dtype}; float32 and float64 can be simulated")
        if dt is not None and not dt > 0:
            raise ArgumentError(f"dt is {dt} s; it must be above 0")
        sides = (boundary,) * 3 if isinstance(boundary, str) else tuple(boundary)
        if len(sides) != _SEVERAL or any(side not in _BOUNDARIES for side in sides):
            raise ArgumentError(f"boundary {boundary}; use {', '.join(_BOUNDARIES)}, one or three")
        kinds = np.empty(0, np.uint8)
        if cells is not None:
            given = np.asarray(cells)
            if given.shape != tuple(shape) or given.dtype.kind not in "iub":
                raise ArgumentError(
                    f"cells of shape {given.shape} and dtype {given.dtype}; integers of shape "
                    f"{tuple(shape)} are expected"
                )
            if given.min() < 0 or given.max() > 3:
                raise ArgumentError(f"cells go from {given.min()} to {given.max()}; 0 to 3 exist")
            kinds = np.ascontiguousarray(given, np.uint8).ravel()
        cubin = group_cubin = b""
        if where.on_gpu:
            cubin = cubin_of(_KERNELS[self._dtype.name], "the wave", capability(where))
        if where.nodes > 1:
            group_cubin = group._prepare(where, where.nodes)
        self._shape = (int(shape[0]), int(shape[1]), int(shape[2]))
        self._core = _core.WaveSimulation(
            self._shape[::-1], spacing, speed, dt or 0.0, damping, absorber,
            tuple(_BOUNDARIES.index(side) for side in reversed(sides)), kinds,
            self._dtype == np.float64, where.on_gpu, where.first, cubin,
            (where.threads or 0) * where.nodes, where.nodes, group_cubin,
            breath_of(breath_us),
        )  # fmt: skip

    def _facts(self) -> list[tuple[str, str]]:
        return [
            ("cells", " x ".join(map(str, self._shape))),
            ("of", str(self._dtype)),
            ("on", self.device),
        ]

    @property
    def shape(self) -> tuple[int, int, int]:
        """Cells (nz, ny, nx)."""
        return self._shape

    @property
    def dt(self) -> float:
        """Seconds per step."""
        return self._core.dt

    @property
    def courant(self) -> float:
        """The Courant number speed dt / spacing."""
        return self._core.courant

    @property
    def steps(self) -> int:
        """That have been done; while a run is under way, those before it."""
        return self._core.steps

    @property
    def device(self) -> str:
        """Its name."""
        return self._core.device

    @property
    def on_gpu(self) -> bool:
        """Whether it is a GPU."""
        return self._core.on_gpu

    @property
    def auto(self) -> str:
        """The method that "auto" stands for on this device and grid; not during a run."""
        return self._core.chosen

    def add_source(self, source: Source, at: Place) -> None:
        """Add ``source`` to cell ``at`` (z, y, x); it begins with the next step.

        Raises ArgumentError for a place outside or in a solid cell and for a frequency beyond
        1 / (2 dt), ExhaustedError for more than 64.
        """
        self._check_inside("source", at)
        shape, amplitude, frequency, delay, samples = words_of(source, self.dt)
        self._core.add_source(shape, _reversed(at), amplitude, frequency, delay, samples)

    def add_receiver(self, at: Place) -> int:
        """Listen to cell ``at`` (z, y, x) from the next step on; its number for trace()."""
        z, y, x = at
        self._check_inside("receiver", at)
        return self._core.add_receiver(x, y, z)

    def _check_inside(self, what: str, at: Place) -> None:
        """Here and not in C++, which counts the axes the other way round."""
        if not all(0 <= i < n for i, n in zip(at, self.shape, strict=True)):
            grid = " x ".join(map(str, self.shape))
            raise ArgumentError(
                f"a {what} at {', '.join(map(str, at))} (z, y, x) is outside the grid of {grid} "
                "cells"
            )

    def trace(self, receiver: int) -> NDArray[np.float64]:
        """Shape (steps,): the pressure after each step since the receiver was added."""
        return self._core.trace(receiver)

    @property
    def pressure(self) -> NDArray[Any]:
        """Shape ``shape``: a copy of the field now."""
        return self._core.field(False).reshape(self._shape).astype(self._dtype)

    @property
    def pressure_before(self) -> NDArray[Any]:
        """The same, a step earlier."""
        return self._core.field(True).reshape(self._shape).astype(self._dtype)

    def set_pressure(self, now: ArrayLike, before: ArrayLike | None = None) -> None:
        """Set the field, and that of a step earlier (the same if None: a field at rest).

        Solid cells become 0. Raises ArgumentError for another shape or values that are not finite.
        """
        earlier = now if before is None else before
        fields = [np.ascontiguousarray(f, np.float64) for f in (now, earlier)]
        for field in fields:
            if field.shape != self._shape:
                raise ArgumentError(f"a field of shape {field.shape}; {self._shape} is expected")
        self._core.set_fields(fields[0].ravel(), fields[1].ravel())

    def run(
        self,
        steps: int,
        method: str = "auto",
        *,
        progress: Callable[[int], object] | None = None,
    ) -> Ran:
        """Do ``steps`` steps, some tenths of a second of them at a time.

        Ctrl-C ends it between two such pieces, or on CPU threads (method "threads") between two
        passes of at most four steps, and the simulation can go on from there.

        Args:
            steps: 1 to 2**30.
            method: "threads" (CPU), "launches" and "graph" (GPU: a kernel launch per step, and a
                captured graph of them), "tiles" (resident: each block holds a tile, which swaps
                faces with its neighbours), "deep" (the same with shells of two cells, which are
                swapped every second step), "pass2" and "pass4" (two or four steps in each pass
                over the memory), or "auto": the fastest of those that the grid fits, found by
                trying each for some ms at the first run on a GPU; threads on the CPU.
            progress: called after each piece, with its steps.

        Raises ArgumentError for a method that the device does not have or the grid does not fit.
        """
        left = _count(steps)
        done, seconds, incarnations = 0, 0.0, 0
        # Cells and steps of the first piece: 0.1 s where they are fast.
        some = _FIRST_ON_GPU if self.on_gpu else _FIRST_ON_CPU
        piece = max(_PASS, some // int(np.prod(self._shape)))
        while True:
            words = self._core.run(min(piece, left), method)
            left -= words[0]
            done += words[0]
            seconds += words[1]
            incarnations += words[4]
            if progress is not None:
                progress(words[0])
            if left == 0:
                return self._ran((done, seconds, words[2], words[3], incarnations))
            # By the last piece's rate: what else runs on the machine may have begun since.
            rate = words[0] / max(words[1], 1e-9)
            piece = max(_PASS, int(_PIECE * rate) // _PASS * _PASS)

    def start(self, steps: int, method: str = "auto", *, ahead: int = 2) -> Steered:
        """Begin a run of at most ``steps`` steps that takes commands while it is under way.

        ``ahead``: how many steps resident tiles may be behind the block that takes the commands;
        with fewer, a command is felt sooner and the tiles wait for that block more often.
        """
        self._core.start(_count(steps), method, ahead)
        return Steered(self)

    def _ran(self, words: tuple[int, float, str, str, int]) -> Ran:
        return Ran(*words, cells=int(np.prod(self._shape)))


class Steered(Shown):
    """A run that is under way; see Simulation.start(). For ``with``, which ends it.

    Every command is applied between two steps, by the whole grid at the same one, and returns that
    step, counted from the start of the simulation: with the same commands in front of the same
    steps another simulation comes to the same field. From any thread. Raises ArgumentError, and
    ClosedError if the run is over.
    """

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._core = simulation._core
        self._finished = False

    def _facts(self) -> list[tuple[str, str]]:
        return [
            ("cells", " x ".join(map(str, self._simulation.shape))),
            ("is", "running" if self.running else "over"),
        ]

    def __enter__(self) -> Steered:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._finished:
            self.stop()

    @property
    def running(self) -> bool:
        """Whether there are steps to come."""
        return not self._finished and self._core.running

    def add_source(self, source: Source, at: Place) -> int:
        """Add a source, which begins at that step; none of Samples."""
        if isinstance(source, Samples):
            raise ArgumentError("sources of samples are added before a run starts")
        return self._do(_act("source", source=words_of(source, self._simulation.dt), at=at))

    def set_cells(self, index: Index, kind: str) -> int:
        """Make the cells of a box normal, absorber, reflector or obstacle.

        ``index``: as NumPy's, such as ``np.s_[10:12, :, 5]``. What becomes solid loses its
        pressure.
        """
        return self._do(_act("cells", box=self._box(index), kind=kind))

    def move(self, index: Index, to: Index, kind: str = "reflector") -> int:
        """Make the cells of one box normal and those of another ``kind``, in front of one step."""
        return self._do(
            _act("cells", box=self._box(index), kind="normal"),
            _act("cells", box=self._box(to), kind=kind),
        )

    def set_damping(self, damping: float) -> int:
        """Set the damping of the whole medium, per second."""
        return self._do(_act("damping", value=damping * self._simulation.dt))

    def pause(self) -> int:
        """Stand still from that step on."""
        return self._do(_act("pause"))

    def resume(self, until: int | None = None) -> int:
        """Go on; ``until``: and pause again in front of that step, or of the next one at which the
        method looks for commands. A step that has passed: stand still.
        """
        if until is None:
            return self._do(_act("resume"))
        left = until - self._simulation.steps
        if not 0 < left < 1 << 32:
            raise ArgumentError(
                f"until = {until}; the run began at step {self._simulation.steps}, and a later one "
                "is expected"
            )
        return self._do(_act("resume", value=left))

    def read(self, index: Index) -> tuple[int, NDArray[Any]]:
        """The step and the pressure in front of it in a box, as NumPy indexes; the steps go on.

        At most as many cells as the largest face of the grid has (MessageError).
        """
        box = self._box(index)
        step, values = self._core.command([_act("read", box=box)], True, 10.0)
        counts = [box[axis + 3] - box[axis] for axis in (2, 1, 0)]
        shape = [n for n, of in zip(counts, index, strict=True) if isinstance(of, slice)]
        return step, values.reshape(shape).astype(self._simulation._dtype)

    def stop(self) -> Ran:
        """End the run now, if it has not ended by itself; what it took."""
        if self.running:
            with suppress(ClosedError):  # it has just ended
                self._do(_act("end"))
        return self.finish()

    def finish(self) -> Ran:
        """Wait until the steps are done, going on if the run is paused; what it took."""
        self._finished = True
        return self._simulation._ran(self._core.finish())

    def _box(self, index: Index) -> _Box:
        if len(index) != _SEVERAL:
            raise ArgumentError(f"{index}: an index has three parts, for z, y and x")
        low, high = [], []
        for of, n in zip(index, self._simulation.shape, strict=True):
            if isinstance(of, slice):
                begin, end, stride = of.indices(n)
                if stride != 1:
                    raise ArgumentError(f"{index}: boxes have no strides")
            else:
                begin, end = int(of), int(of) + 1
            low.append(begin)
            high.append(end)
        return (*_reversed(low), *_reversed(high))

    def _do(self, *acts: _Words) -> int:
        step, _ = self._core.command(list(acts), False, 10.0)
        return int(step)


_Words = tuple[int, int, _Box, float, int, Place, float, float, float]


def _act(
    name: str,
    *,
    box: _Box = _NOWHERE,
    kind: str = "normal",
    value: float = 0.0,
    source: tuple[int, float, float, float, Any] = (0, 0.0, 0.0, 0.0, None),
    at: Place = (0, 0, 0),
) -> _Words:
    if kind not in _KINDS:
        raise ArgumentError(f'kind "{kind}" is none of {", ".join(_KINDS)}')
    shape, amplitude, frequency, delay, _ = source
    place = _reversed(at)
    return _ACTS[name], _KINDS.index(kind), box, value, shape, place, amplitude, frequency, delay


def _reversed(at: Sequence[int]) -> Place:
    z, y, x = (int(i) for i in at)
    return x, y, z


def _count(steps: int) -> int:
    if not 1 <= steps <= 2**30:
        raise ArgumentError(f"{steps} steps; a run has 1 to 2**30")
    return int(steps)
