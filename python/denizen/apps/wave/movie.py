# SPDX-License-Identifier: Apache-2.0
"""A film of a slice: GIF by Pillow, MP4 by the program ffmpeg where it is installed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from denizen.errors import ArgumentError, MissingPackageError
from denizen.files import whole

_SMALLEST = 256  # pixels of the longer side
FRAMES_A_SECOND = 25

# Blue, white, red, of equal lightness on both sides; grey for solid cells.
_STOPS = np.array([[33, 60, 140], [110, 150, 215], [250, 250, 250], [225, 130, 95], [150, 30, 35]])
_SOLID = np.array([70, 70, 70], np.uint8)


def picture(
    values: NDArray[Any], loudest: float, solid: NDArray[np.bool_] | None = None
) -> NDArray[np.uint8]:
    """Shape (height, width, 3): ``values`` from -loudest (blue) to loudest (red)."""
    level = np.clip(np.asarray(values, np.float64) / (loudest or 1.0), -1, 1)
    at = np.sign(level) * np.sqrt(np.abs(level)) * 2 + 2  # what is quiet is to be seen, too
    channels = [np.interp(at, np.arange(5), _STOPS[:, i]) for i in range(3)]
    image = np.rint(np.stack(channels, axis=-1)).astype(np.uint8)
    if solid is not None:
        image[solid] = _SOLID
    scale = max(1, round(_SMALLEST / max(image.shape[:2])))
    large: NDArray[np.uint8] = image.repeat(scale, axis=0).repeat(scale, axis=1)
    return large


def check(path: Path) -> None:
    """Raise ArgumentError or MissingPackageError if ``path`` could not be written as a film."""
    if path.suffix == ".gif":
        _pillow()
    elif path.suffix == ".mp4":
        if shutil.which("ffmpeg") is None:
            raise ArgumentError(f"{path}: the program ffmpeg is not installed; write a .gif")
    else:
        raise ArgumentError(f"{path}: a film is a .gif, or a .mp4 where ffmpeg is installed")


def write(path: Path, frames: list[NDArray[np.uint8]]) -> None:
    """Write ``frames``, all of one shape (height, width, 3), at 25 a second."""
    with whole(path) as part:
        if path.suffix == ".mp4":
            _mp4(path, part, frames)
        else:
            _gif(part, frames)


def _gif(part: str, frames: list[NDArray[np.uint8]]) -> None:
    image = _pillow()
    images = [image.fromarray(frame).quantize(64) for frame in frames]
    images[0].save(
        part, save_all=True, append_images=images[1:], duration=1000 // FRAMES_A_SECOND, loop=0
    )


def _pillow() -> Any:
    try:
        from PIL import Image  # noqa: PLC0415
    except ImportError as error:
        raise MissingPackageError("Pillow") from error
    return Image


def _mp4(path: Path, part: str, frames: list[NDArray[np.uint8]]) -> None:
    height, width = frames[0].shape[:2]
    command = [
        "ffmpeg", "-loglevel", "error", "-y", "-f", "rawvideo", "-pix_fmt", "rgb24",
        "-s", f"{width}x{height}", "-r", str(FRAMES_A_SECOND), "-i", "-",
        "-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2", "-pix_fmt", "yuv420p", part,
    ]  # fmt: skip
    data = b"".join(frame.tobytes() for frame in frames)
    done = subprocess.run(command, input=data, capture_output=True, check=False)
    if done.returncode != 0:
        raise ArgumentError(f"{path}: ffmpeg says {done.stderr.decode(errors='replace').strip()}")
