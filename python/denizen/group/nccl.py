# SPDX-License-Identifier: Apache-2.0
"""NCCL, the engine between hosts and the rival on one: where it is; its multicast is off."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

from denizen.errors import ArgumentError

_SWITCHES = {
    "NCCL_NVLS_ENABLE": "0",
    "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1",
    "NVSHMEM_DISABLE_NVLS": "1",
}


def forbid_multicast() -> None:
    """Make sure that NCCL, PyTorch and NVSHMEM in this process make no multicast objects.

    Called by everything here that uses a GPU, before it does. Sets the libraries' switches in the
    environment. ArgumentError if one of them is on: turn it off before the process starts.
    """
    for name, off in _SWITCHES.items():
        if os.environ.setdefault(name, off) != off:
            raise ArgumentError(
                f"{name} is {os.environ[name]}: multicast objects must not be made beside a group; "
                f"start the process with {name}={off}"
            )


def find() -> Path | None:
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
    """Tell this process and its children where NCCL is (unless DENIZEN_NCCL does); no multicast."""
    forbid_multicast()
    if "DENIZEN_NCCL" not in os.environ and (path := find()):
        os.environ["DENIZEN_NCCL"] = str(path)
