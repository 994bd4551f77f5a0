# SPDX-License-Identifier: Apache-2.0
"""The tables by which automatic calls are decided: measured once per machine, kept in the cache."""

from __future__ import annotations

import json
import os
from pathlib import Path

from denizen import _core
from denizen.cache import cache_folder, open_cache
from denizen.errors import CompileError

Row = tuple[int, str, int]


def path_of(ranks: int, on_gpu: bool, first: int) -> Path:
    """Where the table for so many ranks of such devices is kept."""
    name = _core.gpu_info(first)[0] if on_gpu else f"cpu {os.cpu_count()} cores"
    words = "".join(c if c.isalnum() else "-" for c in name.lower())
    return cache_folder() / f"group-{words}-{ranks}.json"


def load(ranks: int, on_gpu: bool, first: int) -> list[Row]:
    """What is kept; empty (the built-in table) if nothing is, or it cannot be read."""
    path = path_of(ranks, on_gpu, first)
    try:
        if not path.exists():
            return []
        with open_cache() as kept:
            text = kept.read(path.name)
        rows = json.loads(text or b"")["table"]
        return [_row(*row) for row in rows]
    except (OSError, ValueError, KeyError, TypeError, RecursionError, CompileError):
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
    with open_cache() as kept:
        kept.write(path.name, text.encode())
