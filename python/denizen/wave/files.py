# SPDX-License-Identifier: Apache-2.0
"""Files that a simulation reads and writes: masks of cells, recordings, what receivers heard."""

from __future__ import annotations

import os
import struct
import wave
from collections.abc import Iterator, Sequence
from pathlib import Path
from tokenize import TokenError
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from denizen.errors import ArgumentError
from denizen.files import whole
from denizen.wave.sources import Samples


def read_mask(path: str | os.PathLike[str]) -> NDArray[np.uint8]:
    """Kinds of cells from a .npy file: shape (nz, ny, nx), 0 normal to 3 obstacle; or booleans,
    of which True is a reflector.

    Raises ArgumentError for another shape, dtype or value, OSError if it cannot be opened.
    """
    path = Path(path)
    try:
        # Mapped, so that a shape that the file does not hold costs nothing.
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (
        ArithmeticError,
        EOFError,
        LookupError,
        SyntaxError,
        TypeError,
        ValueError,
        TokenError,
        BadZipFile,
    ) as error:  # fmt: skip  (what its header is read by)
        raise ArgumentError(f"{path}: no .npy file of numbers ({error})") from error
    if not isinstance(array, np.ndarray) or array.ndim != 3:
        raise ArgumentError(f"{path}: a mask has three dimensions (nz, ny, nx)")
    if array.size == 0:
        raise ArgumentError(f"{path}: a mask of shape {array.shape} has no cells")
    if array.dtype.kind == "b":
        return np.where(array, 2, 0).astype(np.uint8)
    if array.dtype.kind not in "iu":
        raise ArgumentError(f"{path}: {array.dtype}; integers or booleans are expected")
    if array.min() < 0 or array.max() > 3:
        raise ArgumentError(
            f"{path}: values from {array.min()} to {array.max()}; there are 0 normal, 1 absorber, "
            "2 reflector, 3 obstacle"
        )
    return array.astype(np.uint8)


def read_wav(path: str | os.PathLike[str], amplitude: float = 1.0) -> Samples:
    """A recording: PCM of 8, 16, 24 or 32 bits, full scale is 1; channels are averaged.

    Raises ArgumentError for what is no such file, OSError if it cannot be opened.
    """
    path = Path(path)
    try:
        with wave.open(str(path), "rb") as file:
            channels, width, rate, frames = file.getparams()[:4]
            data = b"".join(_frames(file, frames))
    except (wave.Error, EOFError, RuntimeError, struct.error) as error:
        raise ArgumentError(f"{path}: no WAV file of PCM samples ({error})") from error
    raw = np.frombuffer(data, np.uint8)
    raw = raw[: len(raw) // (width * channels) * width * channels].reshape(-1, width)
    if len(raw) == 0:
        raise ArgumentError(f"{path}: there is not one sample in it")
    if width == 1:
        values = (raw[:, 0].astype(np.float64) - 128) / 128
    else:
        shifted = np.zeros((len(raw), 4), np.uint8)
        shifted[:, 4 - width :] = raw
        values = shifted.view("<i4")[:, 0] / 2.0**31
    mixed = values.reshape(-1, channels).mean(axis=1)
    return Samples(mixed.astype(np.float32), float(rate), amplitude)


def _frames(file: wave.Wave_read, count: int) -> Iterator[bytes]:
    """Those that are there: the header may say more than the file holds."""
    while count > 0 and (piece := file.readframes(min(count, 1 << 16))):  # ends with the file
        yield piece
        count -= 1 << 16


def write_wav(
    path: str | os.PathLike[str], traces: Sequence[NDArray[np.float64]], dt: float
) -> float:
    """Write what receivers heard, a channel for each, with 16 bits; what full scale stands for.

    All are scaled alike, so that the loudest reaches full scale. The rate is that of the steps,
    round(1 / dt); most players want one below 192,000.
    """
    heard = np.stack(list(traces), axis=1)
    peak = float(np.abs(heard).max()) or 1.0
    with whole(path) as part, wave.open(part, "wb") as file:
        file.setparams((heard.shape[1], 2, round(1 / dt), 0, "NONE", ""))
        file.writeframes(np.rint(heard / peak * 32767).astype("<i2").tobytes())
    return peak


def write_csv(
    path: str | os.PathLike[str], traces: Sequence[NDArray[np.float64]], dt: float
) -> None:
    """Write what receivers heard: a line per step with the time in seconds, then each pressure."""
    heard = np.stack(list(traces), axis=1)
    time = (np.arange(len(heard)) + 1) * dt
    header = ",".join(["seconds", *(f"receiver_{i}" for i in range(heard.shape[1]))])
    rows = np.column_stack([time, heard])
    with whole(path) as part:
        np.savetxt(part, rows, "%.9g", delimiter=",", header=header, comments="")
