# SPDX-License-Identifier: Apache-2.0
"""One program on two CUDA runtimes, 12.x and 13.x, and one driver: what each makes it submit.

DENIZEN_CUDARTS names the two libraries, with a colon between them.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from denizen import cli
from denizen.lens import compare, log

PROGRAM = Path(__file__).with_name("runtime_calls.py")
RUNTIMES = os.environ.get("DENIZEN_CUDARTS", "").split(":")


@pytest.mark.gpu
@pytest.mark.skipif(len(RUNTIMES) != 2, reason="DENIZEN_CUDARTS does not name two runtimes")
def test_two_runtimes_on_one_driver(tmp_path, capfd):
    captures = []
    for number, runtime in enumerate(RUNTIMES):
        kept = tmp_path / f"{number}.lens"
        words = ["lens", "--mode", "full", "-o", str(kept), "--"]
        assert cli.main([*words, sys.executable, str(PROGRAM), runtime]) == 0
        captures.append(log.read(kept))
    told = capfd.readouterr().out
    assert "runtime 12" in told and "runtime 13" in told
    assert captures[0].header.driver == captures[1].header.driver
    found = {change.api: change for change in compare.changes(*captures)}
    graphs = [change for api, change in found.items() if "GraphLaunch" in api]
    assert graphs and all(change.before and change.after for change in graphs)
    assert cli.main(["lens", "diff", *(capture.path for capture in captures)]) == 0


def test_what_is_no_runtime_is_told():
    done = subprocess.run(
        [sys.executable, str(PROGRAM), "/none/libcudart.so.13"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 1 and "/none/libcudart.so.13 is no CUDA runtime" in done.stderr
