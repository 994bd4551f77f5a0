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

from denizen.lens import launch, log

pytestmark = pytest.mark.gpu
SECONDS = float(os.environ.get("DENIZEN_SOAK_SECONDS", "5"))


def under_the_command(soak, tmp_path):
    """By ``denizen lens``, which reads the log too; what the program printed, and its log."""
    kept = tmp_path / "kept.lens"
    command = [sys.executable, "-m", "denizen", "lens", "-o", str(kept), "--", *soak]
    return run(command, {}), kept


def with_contents(soak, tmp_path):
    """In mode ``full``. Not by the command: it would decode for minutes what is written here."""
    printed = run(soak, launch.environment(tmp_path, "full"))
    return printed, max(launch.logs(tmp_path), key=lambda path: path.stat().st_size)


def run(command, variables):
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=SECONDS + 120, check=False,
        env={**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false", **variables},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.gpu
@pytest.mark.parametrize("under", [under_the_command, with_contents])
@pytest.mark.parametrize("framework", ["torch", "cupy", "triton", "jax"])
def test_nothing_is_lost_and_nothing_hangs(framework, under, tmp_path):
    if importlib.util.find_spec(framework) is None:
        pytest.skip(f"{framework} is not installed")
    soak = [sys.executable, str(Path(__file__).with_name("soak.py")), framework, str(SECONDS)]
    printed, kept = under(soak, tmp_path)
    said = json.loads(printed.splitlines()[-1])
    assert said["right"] and said["launched"] > 0
    capture = log.read(kept)
    end = capture.end
    assert end is not None, "the log ends in the middle"
    assert len(capture.submissions) == end.doorbells
    assert all(
        segment is not None and len(segment) == entry >> 42 & 0x1FFFFF
        for submission in capture.submissions
        for entry, segment in zip(
            submission.doorbell.entry.tolist(), submission.segments, strict=False
        )
        if entry >> 42 & 0x1FFFFF
    ), "contents are missing"
    assert end.entries >= said["launched"], "each launch is an entry of its own"
    assert (end.lost_records, end.lost_doorbells) == (0, 0)
    assert (end.unknown_tokens, end.unknown_instructions) == (0, 0)
