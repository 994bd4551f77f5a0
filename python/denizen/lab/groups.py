# SPDX-License-Identifier: Apache-2.0
"""What the program ``bench_group`` needs beside it: NCCL, with its multicast switched off."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

from denizen.group import forbid_multicast


def find_nccl() -> Path | None:
    """The library in the wheel that PyTorch uses, if it is installed."""
    try:
        found = importlib.util.find_spec("nvidia.nccl")
    except ModuleNotFoundError:  # nothing of nvidia's at all
        return None
    for folder in (found.submodule_search_locations or ()) if found else ():
        if (path := Path(folder) / "lib" / "libnccl.so.2").is_file():
            return path
    return None


def prepare() -> None:
    """Tell the program where NCCL is (unless DENIZEN_NCCL does), and forbid multicast objects."""
    forbid_multicast()
    if "DENIZEN_NCCL" not in os.environ and (path := find_nccl()):
        os.environ["DENIZEN_NCCL"] = str(path)
