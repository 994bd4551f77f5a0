# SPDX-License-Identifier: Apache-2.0
"""The part of the experiment ``driver`` that submits streams of its own: copies by the inline and
the copy engine without the driver, timed by the engines' own timestamps.

After Table 2 of the paper "Revealing NVIDIA Closed-Source Driver Command Streams for CPU-GPU
Runtime Behavior Insight". The program has a process of its own, under the lens, and a deadline.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from denizen import machine, terminal
from denizen.lab import driver, programs
from denizen.lab.record import LabError, Measured, Scalar
from denizen.lens.log import LensError

_DEADLINE = 120.0
_WHOLE = {"copy, by events": "event time", "copy, until done": "API time"}


def raw(device: str, *, quick: bool, beside: Sequence[Measured]) -> list[Measured]:
    """The engines' own copies on a GPU, and what follows from them; nothing without a GPU.

    What keeps them from being measured is told on stderr: the other rows do not need them.
    """
    index = machine.gpu_index(device)
    if index is None or not any(one.case == "copy" for one in beside):
        return []
    command = [str(programs.find("driver")), "--device", device, *(["--quick"] if quick else [])]
    try:
        with tempfile.TemporaryDirectory(prefix="denizen-driver-") as name:
            text = driver.output([*command, "--raw"], Path(name), "count", _DEADLINE)
        _, copies = programs.parse(text, "bench_driver --raw")
    except (LabError, LensError) as error:
        terminal.error(f"driver: no copies without the driver: {error}")
        return []
    return [*copies, *derived(copies, beside)]


def derived(copies: Sequence[Measured], beside: Sequence[Measured]) -> list[Measured]:
    """From the raw ``copies``: how long an engine takes for its smallest copy, the most bytes a
    second it reaches; and with the same copies through the API (``beside``, from pinned memory),
    how much of their time is not the engine's: of that between two events, as a profiler has it,
    and of that on the host from the call until the copy is known to be done."""
    made: list[Measured] = []
    kinds: dict[tuple[Scalar, Scalar], list[Measured]] = {}
    for copy in copies:
        kinds.setdefault((copy.params["direction"], copy.params["engine"]), []).append(copy)
    for (direction, engine), same in kinds.items():
        params: dict[str, Scalar] = {"direction": direction, "engine": engine}
        same.sort(key=_size)
        speeds = [_size(copy) / np.median(copy.samples) * 1e-3 for copy in same]
        best = int(np.argmax(speeds))
        for name, copy, unit, samples in (
            ("raw copy, start", same[0], "us", same[0].samples),
            ("raw copy, most", same[best], "GB/s", _size(same[best]) / same[best].samples * 1e-3),
        ):
            made.append(
                Measured(
                    name, {**params, "bytes": _size(copy)}, unit, samples, copy.n, copy.verified
                )
            )
    for call in beside:
        if call.case not in _WHOLE or call.params.get("memory") != "pinned" or call.arm:
            continue
        for copy in copies:
            if all(copy.params[key] == call.params.get(key) for key in ("direction", "bytes")):
                whole = float(np.median(call.samples))
                made.append(
                    Measured("raw copy, not the engine's", {**copy.params, "of": _WHOLE[call.case]},
                             "share", 1 - copy.samples / whole, copy.n,
                             copy.verified and call.verified)
                )  # fmt: skip
    return made


def _size(copy: Measured) -> int:
    return int(copy.params["bytes"])
