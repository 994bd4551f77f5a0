# SPDX-License-Identifier: Apache-2.0
"""Reads graphs from files, plain or compressed."""

from __future__ import annotations

import gzip
import io
import lzma
import os
import zlib
from pathlib import Path
from typing import BinaryIO

from denizen import _core, limits
from denizen.errors import ArgumentError, parsing
from denizen.graph.graph import Graph

_PIECE = 1 << 20


def read(path: str | os.PathLike[str], *, format: str = "auto", undirected: bool = False) -> Graph:
    """A graph from a file, decompressed if its name ends with .gz or .xz.

    Args:
        path: the file.
        format: "gr" (9th DIMACS challenge's `p sp`, PACE's `p tw`; vertices from 1), "mtx"
            (MatrixMarket, coordinate, square; integer values are weights), "edges" (lines `u v` or
            `u v weight`, vertices from 0), or "auto": by the name, edges unless it ends with .gr
            or .mtx.
        undirected: adds the twin of each arc that a list of edges names.

    Loops are dropped; of parallel arcs the lightest stays.

    Raises ArgumentError that begins with file and line for anything that is not as the format says:
    a malformed line, an index out of range, an archive that is damaged or ends too early, fewer or
    more edges than the header promises, more vertices or bytes than :mod:`denizen.limits` allows.
    Raises OSError for a file that cannot be opened.
    """
    path = Path(path)
    name = path.with_suffix("") if path.suffix in {".gz", ".xz"} else path
    if format == "auto":
        format = {".gr": "gr", ".mtx": "mtx"}.get(name.suffix, "edges")
    with parsing(path, ArgumentError):
        with limits.opened(path) as file:
            text = _all_of(file, path)
        most = limits.most("vertices")
        return Graph._of(_core.graph_parse(text, str(path), format, undirected, most))


def _all_of(file: BinaryIO, path: Path) -> bytes:
    whole = io.BytesIO()
    try:
        while piece := file.read(_PIECE):  # ends with the file
            whole.write(piece)
    except (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile) as error:
        line = whole.getvalue().count(b"\n") + 1
        what = "ends too early" if isinstance(error, EOFError) else f"is damaged ({error})"
        raise ArgumentError(f"{path}:{line}: the archive {what}; fetch it again") from error
    return whole.getvalue()
