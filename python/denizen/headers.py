# SPDX-License-Identifier: Apache-2.0
"""The headers of the user's own that a program's text includes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path


def own_headers(text: str, flags: Sequence[str]) -> list[Path]:
    """The files that `text` includes, and those they include, in the folders of `-I` flags."""
    folders = [
        Path(m[1]) for m in (re.fullmatch(r"(?:-I|--include-path=)(.+)", f) for f in flags) if m
    ]
    folders += [Path(f) for before, f in pairwise(flags) if before == "-I"]
    found: dict[Path, None] = {}
    texts = [(text, folders)]
    while texts and folders:  # ends: each file is read once
        here, where = texts.pop()
        for name in re.findall(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', here, re.MULTILINE):
            path = next((f / name for f in where if (f / name).is_file()), None)
            if path is not None and path not in found:
                found[path] = None
                texts.append((path.read_text("utf-8", "replace"), [path.parent, *folders]))
    return list(found)
