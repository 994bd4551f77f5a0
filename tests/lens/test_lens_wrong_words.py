# SPDX-License-Identifier: Apache-2.0
"""Wrong words to the GPU are the matter of the process that sent them, and of nobody else: it gets
an error, or its copy never ends."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from denizen.lens import launch

NOT_READY = 600  # CUDA_ERROR_NOT_READY: not at its end, and no error

pytestmark = pytest.mark.gpu


def send(kind, folder):
    """What a child process with a deadline saw of words of that kind."""
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("wrong_words.py")), kind],
        capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, **launch.environment(folder, "count")},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("kind", ["unmapped", "method", "cut"])
def test_wrong_words_end_one_process_and_the_gpu_goes_on(kind, tmp_path):
    assert send("right", tmp_path) == {"sent": True, "status": 0, "right": True}
    said = send(kind, tmp_path)
    assert said["sent"] and not said["right"]
    assert said["status"] != 0 and (said["status"] == NOT_READY) == (kind == "cut")
    assert send("right", tmp_path) == {"sent": True, "status": 0, "right": True}
