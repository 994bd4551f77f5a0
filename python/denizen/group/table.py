# SPDX-License-Identifier: Apache-2.0
"""The tables by which automatic calls are decided: measured once per machine, kept in the cache."""

from __future__ import annotations

import json
import os
from pathlib import Path

from denizen import _core
from denizen.program import cache_folder

Row = tuple[int, str, int]


def path_of(ranks: int, on_gpu: bool, first: int) -> Path:
    """Where the table for so many ranks of such devices is kept."""
    name = _core.gpu_info(first)[0] if on_gpu else f"cpu {os.cpu_count()} cores"
    words = "".join(c if c.isalnum() else "-" for c in name.lower())
    return cache_folder() / f"group-{words}-{ranks}.json"


def load(ranks: int, on_gpu: bool, first: int) -> list[Row]:
    """What is kept; empty (the built-in table) if nothing is, or it cannot be read."""
    try:
        rows = json.loads(path_of(ranks, on_gpu, first).read_text(encoding="utf-8"))["table"]
        return [_row(*row) for row in rows]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return []


def _row(up_to: int, algorithm: str, channels: int) -> Row:
    # The extension module takes these types and ranges, and no others.
    if type(up_to) is not int or not 0 <= up_to < 1 << 64:
        raise ValueError("no size")
    if type(channels) is not int or not 0 <= channels < 1 << 32:
        raise ValueError("no number of channels")
    if not isinstance(algorithm, str):
        raise TypeError("no algorithm's name")
    return up_to, algorithm, channels


def save(path: Path, text: str) -> None:
    """Write at once or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".{os.getpid()}")
    part.write_text(text, encoding="utf-8")
    part.replace(path)
