# SPDX-License-Identifier: Apache-2.0
"""The tables by which automatic calls are decided: measured once per machine, kept in the cache."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from denizen import _core
from denizen.cache import cache_folder, open_cache
from denizen.errors import CompileError

Row = tuple[int, str, int]
#: Of all_reduce, or of each collective by its name.
Tables = Sequence[Row] | Mapping[str, Sequence[Row]]
#: A row and its collective, as the extension module has them.
Named = tuple[int, str, int, str]
MAIN = "all_reduce"


def path_of(ranks: int, on_gpu: bool, first: int) -> Path:
    """Where the table for so many ranks of such devices is kept."""
    name = _core.gpu_info(first)[0] if on_gpu else f"cpu {os.cpu_count()} cores"
    words = "".join(c if c.isalnum() else "-" for c in name.lower())
    return cache_folder() / f"group-{words}-{ranks}.json"


def named(given: Tables) -> list[Named]:
    """The rows of all collectives one behind the other."""
    by_name = given if isinstance(given, Mapping) else {MAIN: given}
    return [(*row, name) for name, rows in by_name.items() for row in rows]


def by_collective(rows: Sequence[Named]) -> dict[str, list[Row]]:
    """The reverse."""
    found: dict[str, list[Row]] = {}
    for up_to, algorithm, channels, name in rows:
        found.setdefault(name, []).append((up_to, algorithm, channels))
    return found


def load(ranks: int, on_gpu: bool, first: int) -> Tables:
    """What is kept; empty (the built-in table) if nothing is, or it cannot be read."""
    path = path_of(ranks, on_gpu, first)
    try:
        if not path.exists():
            return []
        with open_cache() as kept:
            text = kept.read(path.name)
        kept_tables = json.loads(text or b"")["tables"]
        return {str(name): [_row(*row) for row in rows] for name, rows in kept_tables.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, CompileError):
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
