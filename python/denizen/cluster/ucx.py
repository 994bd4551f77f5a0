# SPDX-License-Identifier: Apache-2.0
"""UCX, which may carry the bytes between hosts: where it is, and this side of a link over it."""

from __future__ import annotations

import importlib.util
import ipaddress
from pathlib import Path

from denizen import _core
from denizen.errors import MissingPackageError


def find() -> Path | None:
    """The library of the wheel libucx-cu13 or libucx-cu12, if one is installed."""
    found = importlib.util.find_spec("libucx")
    for folder in (found.submodule_search_locations or ()) if found else ():
        if (path := Path(folder) / "lib" / "libucp.so.0").is_file():
            return path
    return None


def check() -> None:
    """MissingPackageError if it is not installed, DeviceError if it does not start."""
    if find() is None:
        raise MissingPackageError("UCX", "libucx-cu13")


def end(address: str) -> _core.UcxEnd:
    """For one link of a host that listens on ``address``."""
    path = find()
    if path is None:
        raise MissingPackageError("UCX", "libucx-cu13")
    try:
        loopback = ipaddress.ip_address(address).is_loopback
    except ValueError:  # a name
        loopback = address == "localhost"
    return _core.UcxEnd.open(str(path), loopback)
