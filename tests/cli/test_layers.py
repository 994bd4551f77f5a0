# SPDX-License-Identifier: Apache-2.0
"""tools/layers names an arrow that points upward, in C++ and in Python, and no other."""

import subprocess
import sys
from pathlib import Path

import pytest

LAYERS = Path(__file__).resolve().parents[2] / "tools" / "layers"
RING = "include/denizen/wire/ring.hpp"
ACTOR = "include/denizen/actor/address.hpp"
DEVICE = "python/denizen/device.py"
RUNTIME = "python/denizen/runtime.py"


def layers(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    return subprocess.run(
        [sys.executable, str(LAYERS)], cwd=folder, capture_output=True, text=True, check=False
    )


def test_arrows_downward_are_fine(tmp_path):
    files = {RING: "", ACTOR: "#include <denizen/wire/ring.hpp>\n"}
    files |= {DEVICE: "", RUNTIME: "from denizen.device import gpu_problem\n"}
    done = layers(tmp_path, files)
    assert (done.returncode, done.stderr) == (0, "")
    assert "2 C++ and 2 Python files, every arrow points downward" in done.stdout


@pytest.mark.parametrize(
    ("files", "error"),
    [
        (
            {ACTOR: "", RING: "#include <denizen/actor/address.hpp>\n"},
            f"{RING}: wire uses actor, which is above it\n",
        ),
        (
            {"src/task/runtime.hpp": "", "src/actor/spawn.cpp": '#include "task/runtime.hpp"\n'},
            "src/actor/spawn.cpp: actor uses task, which is above it\n",
        ),
        (
            {
                "apps/wave/include/denizen/wave/wall.hpp": "",
                "apps/radio/src/scan.cpp": "#include <denizen/wave/wall.hpp>\n",
            },
            "apps/radio/src/scan.cpp: radio uses wave, which is above it\n",
        ),
        (
            {RUNTIME: "", DEVICE: "def late():\n    from denizen.runtime import Runtime\n"},
            f"{DEVICE}: device imports runtime, which is not below it\n",
        ),
        (
            {RING: "#include <denizen/wire/none.hpp>\n"},
            f"layers: {RING} includes <denizen/wire/none.hpp>, which is not there\n",
        ),
    ],
)
def test_an_arrow_upward_is_named(tmp_path, files, error):
    done = layers(tmp_path, files)
    assert (done.returncode, done.stderr) == (1, error)
