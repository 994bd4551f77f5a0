# SPDX-License-Identifier: Apache-2.0
"""Frameworks under the lens: 4 threads, 4 streams each, with forks and programs executed beside.

DENIZEN_SOAK_SECONDS says how long each framework is kept busy: 5 if it is not set.
"""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import denizen
from denizen import _core
from denizen.lens import log

pytestmark = pytest.mark.skipif(_core.gpu_count() == 0, reason=denizen.gpu_problem() or "no GPU")
SECONDS = float(os.environ.get("DENIZEN_SOAK_SECONDS", "5"))


@pytest.mark.parametrize("framework", ["torch", "cupy", "triton", "jax"])
def test_nothing_is_lost_and_nothing_hangs(framework, tmp_path):
    if importlib.util.find_spec(framework) is None:
        pytest.skip(f"{framework} is not installed")
    kept = tmp_path / "kept.lens"
    soak = [sys.executable, str(Path(__file__).with_name("soak.py")), framework, str(SECONDS)]
    done = subprocess.run(
        [sys.executable, "-m", "denizen", "lens", "-o", str(kept), "--", *soak],
        capture_output=True, text=True, timeout=SECONDS + 120, check=False,
        env={**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["right"]
    end = log.read(kept).end
    assert end is not None, "the log ends in the middle"
    assert end.doorbells > 0
    assert end.entries >= said["launched"], "each launch is an entry of its own"
    assert (end.lost_records, end.lost_doorbells) == (0, 0)
    assert (end.unknown_tokens, end.unknown_instructions) == (0, 0)
