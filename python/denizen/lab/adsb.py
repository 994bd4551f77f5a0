# SPDX-License-Identifier: Apache-2.0
"""Mode S: how many frames are found by their level over the noise.

Beside it stands antirez's dump1090, on the same signals, if the variable DENIZEN_DUMP1090 names
its program (commit efe64db was used; it is not part of this project).
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from denizen.lab.record import LabError, Measured, Scalar
from denizen.radio import Receiver, frames, modulate

_STEP = 3  # dB
_LEVELS = range(6, 30, _STEP)
_SPACING = 640  # samples from one frame to the next: a frame takes 240
_TIMEOUT = 120.0
_BUFFER = 262144  # bytes that dump1090 reads at once


def _rival() -> str | None:
    path = os.environ.get("DENIZEN_DUMP1090")
    if path is not None and not os.access(path, os.X_OK):
        raise LabError(f"DENIZEN_DUMP1090: {path} is no program")
    return path


def _received(signal: NDArray[np.uint8]) -> Counter[str]:
    receiver = Receiver()
    return Counter(m["frame"] for m in receiver.feed(signal) + receiver.finish())


def _dumped(program: str, signal: NDArray[np.uint8], path: Path) -> Counter[str]:
    """The frames that dump1090 finds, by way of file ``path``.

    It leaves out what does not fill its buffer of 256 KiB, so silence is appended.
    """
    silence = np.full(2 * _BUFFER - len(signal) % _BUFFER, 127, dtype=np.uint8)
    np.concatenate([signal, silence]).tofile(path)
    done = subprocess.run(
        [program, "--ifile", str(path), "--raw"],
        stdout=subprocess.PIPE,
        timeout=_TIMEOUT,
        check=True,
        text=True,
    )
    return Counter(line.strip("*;") for line in done.stdout.split())


def _share(found: Counter[str], sent: Counter[str]) -> float:
    return 100 * sum((found & sent).values()) / sum(sent.values())


def _batch(low: int, count: int, seed: int) -> tuple[Counter[str], NDArray[np.uint8]]:
    """DF17 frames, each of an aircraft of its own, ``low`` to 3 dB more over the noise."""
    random = np.random.default_rng((low, seed))
    bursts = []
    for k in range(count):
        icao, payload = int(random.integers(1 << 24)), int(random.integers(1 << 56))
        start = _SPACING * (k + 1) + random.random()
        frame = frames.extended_squitter(icao, payload)
        bursts.append(modulate.random_burst(random, frame, start, random.uniform(low, low + _STEP)))
    signal = modulate.modulate(bursts, _SPACING * (count + 2), seed=seed * len(_LEVELS) + low)
    return Counter(burst.frame for burst in bursts), signal


def detection(_device: str, *, quick: bool) -> list[Measured]:
    """Percent of frames found, by level over the noise in steps of 3 dB; a sample is a batch.

    Carrier, clock, phase and fraction of a sample are random. A frame that was not sent fails it.
    """
    batches, count = (3, 100) if quick else (10, 400)
    rival = _rival()
    out: list[Measured] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "signal.bin"
        for low in _LEVELS:
            params: dict[str, Scalar] = {"db": f"{low} to {low + _STEP}"}
            ours, theirs, right = [], [], True
            for seed in range(batches):
                sent, signal = _batch(low, count, seed)
                found = _received(signal)
                right &= not found - sent
                ours.append(_share(found, sent))
                if rival is not None:
                    theirs.append(_share(_dumped(rival, signal, path), sent))
            base = ("detection, dump1090",) if np.median(theirs or [0]) > 0 else ()
            # A batch is one signal for both: its share is a round.
            n = batches * count
            out.append(
                Measured("detection", params, "%", np.array(ours), n, right, base, rounds=batches)
            )
            if rival is not None:
                name = "detection, dump1090"
                out.append(Measured(name, params, "%", np.array(theirs), n, True, rounds=batches))
    return out
