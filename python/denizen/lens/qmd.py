# SPDX-License-Identifier: Apache-2.0
"""A launch's description as the compute engine reads it: queue meta data (QMD).

384 bytes since Hopper (version 4), 256 before. Layouts: class headers of open-gpu-doc.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from denizen.lens import classes

_VERSION_WORD = 576 // 32  # minor version in bits 579:576, major in 583:580, in all layouts
WORDS = {4: 96}
_WORDS_BEFORE = 64


def words(version_word: int) -> int:
    """How long a QMD with that word 18 is, in 32-bit words."""
    return WORDS.get(version_word >> 4 & 0xF, _WORDS_BEFORE)


class Qmd:
    """The fields of one, by the headers' names; of an array its first element.

    Raises ValueError where the words are too few, or their version has no published layout.
    """

    def __init__(self, data: NDArray[np.uint32]) -> None:
        if len(data) <= _VERSION_WORD:
            raise ValueError(f"a QMD of {len(data)} words has no version")
        version = int(data[_VERSION_WORD])
        self.major, self.minor = version >> 4 & 0xF, version & 0xF
        layout = classes.qmd_layout(self.major, self.minor)
        if layout is None or len(data) < words(version):
            raise ValueError(f"{len(data)} words are no QMD of version {self.major}.{self.minor}")
        self._layout = layout
        whole = np.ascontiguousarray(data[: words(version)], "<u4").tobytes()
        self._bits = int.from_bytes(whole, "little")

    def __getitem__(self, name: str) -> int:
        return self._layout[name].of(self._bits)

    def word(self, name: str) -> str:
        """A field by the name of its value, as a number where it has none."""
        return self._layout[name].values.get(self[name], str(self[name]))


def launch(data: NDArray[np.uint32]) -> dict[str, int | str | bool | list[int]] | None:
    """What a launch is in the words of CUDA: grid, block, cluster, registers, shared memory, code.

    ``type`` (Hopper): GRID_CTA, one with CGA of a launch with clusters, GRID_NULL of one that runs
    nothing and that others wait for. ``program``: virtual address of the kernel's code.
    ``constants``: that of constant buffer 0 (the parameters are in it), with its size. None where
    :class:`Qmd` refuses the words.
    """
    try:
        f = Qmd(data)
    except ValueError:
        return None
    hopper = f.major == 4
    grid = ("GRID_WIDTH", "GRID_HEIGHT", "GRID_DEPTH")
    if not hopper:
        grid = ("CTA_RASTER_WIDTH", "CTA_RASTER_HEIGHT", "CTA_RASTER_DEPTH")
    lower, upper, shift = (
        ("CONSTANT_BUFFER_ADDR_LOWER_SHIFTED6", "CONSTANT_BUFFER_ADDR_UPPER_SHIFTED6", 6)
        if hopper
        else ("CONSTANT_BUFFER_ADDR_LOWER", "CONSTANT_BUFFER_ADDR_UPPER", 0)
    )
    found: dict[str, int | str | bool | list[int]] = {
        "qmd": f"{f.major}.{f.minor}",
        "grid": [f[name] for name in grid],
        "block": [f[f"CTA_THREAD_DIMENSION{i}"] for i in range(3)],
        "registers": f["REGISTER_COUNT" if hopper else "REGISTER_COUNT_V"],
        "shared_bytes": f["SHARED_MEMORY_SIZE"],
        "program": f["PROGRAM_ADDRESS_LOWER"] | f["PROGRAM_ADDRESS_UPPER"] << 32,
    }
    if hopper:
        found["type"] = kind = f.word("QMD_TYPE")
        if "CGA" in kind:
            # The grid is then in clusters; one of all its blocks (GPU_CGA) is a cooperative launch.
            scope = "GPC_CGA" if "GPC_CGA" in kind else "GPU_CGA"
            cluster = [f[f"{scope}_{axis}"] for axis in ("WIDTH", "HEIGHT", "DEPTH")]
            found["grid"] = [f[name] * side for name, side in zip(grid, cluster, strict=True)]
            found["cluster"] = cluster
    if f["CONSTANT_BUFFER_VALID"]:
        found["constants"] = (f[lower] | f[upper] << 32) << shift
        found["constant_bytes"] = f["CONSTANT_BUFFER_SIZE_SHIFTED4"] << 4
    return found
