#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the nvcc that builds denizen: an installed one of at least 12.9, else the one that the
pinned PyPI wheels put into this Python environment. `--installed` looks for the first kind only."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

OLDEST = (12, 9)


def version(nvcc: str) -> tuple[int, int]:
    text = subprocess.run([nvcc, "--version"], check=False, capture_output=True, text=True).stdout
    found = re.search(r"release (\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def installed() -> str | None:
    homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    names = [os.environ.get("CUDACXX"), "nvcc", *(f"{home}/bin/nvcc" for home in homes if home)]
    paths = [shutil.which(name) for name in names if name]
    return next((path for path in paths if path and version(path) >= OLDEST), None)


def wheel() -> str | None:
    package = importlib.util.find_spec("nvidia")
    roots = package.submodule_search_locations if package else None
    paths = [Path(root, "cu13/bin/nvcc") for root in roots or []]
    return next((str(path) for path in paths if path.exists()), None)


if __name__ == "__main__":
    nvcc = installed() or (None if "--installed" in sys.argv else wheel())
    if not nvcc:
        sys.exit(
            "denizen: no nvcc of version 12.9 or newer in CUDACXX, PATH, CUDA_HOME or"
            " /usr/local/cuda, and no compiler wheels in this Python environment. Install CUDA, or"
            " run `pip install --group cuda` in the source folder, or build the CPU half alone with"
            " -DDENIZEN_CUDA=OFF."
        )
    print(nvcc)
