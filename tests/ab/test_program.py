# SPDX-License-Identifier: Apache-2.0
"""Arms in another program: the protocol, and what happens when the program misbehaves."""

import sys
import time
from pathlib import Path

import numpy as np
import pytest

from denizen import ab

COMMAND = [sys.executable, str(Path(__file__).parent / "arms_program.py")]


def program(how="well", **more):
    return ab.Program([*COMMAND, how], {"bytes": 64}, **more)


def test_samples_results_and_bytes():
    served = program()
    arm = served.arm("bulk", bytes=64, counts_bytes=True)
    sample = arm.sample(10)
    assert (sample.seconds, sample.ran) == (1e-6, {"bulk": 10})
    assert list(sample.spans) == [ab.Span("copy", 0.0, 1e-6)]
    assert arm.moved() == 640
    arm.sample(1)
    assert arm.moved() == 704
    assert arm.result().tolist() == [1, 2, 3, 4]
    arm.poison()
    assert np.isnan(arm.result()).all()
    assert arm.result().dtype == np.float32
    assert served.arm("plain").moved is None
    served.close()


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("ends", "asked for sample of x, ended with 3"),
        ("babbles", "answered no JSON: b'hello'"),
        ("error", "no such arm"),
        ("half", "no sample of x"),
    ],
)
def test_programs_that_misbehave(how, message):
    served = program(how)
    with pytest.raises(ab.ExperimentError, match=message):
        served.arm("x").sample(1)
    served.close()


def test_a_silent_program_is_killed():
    served = program("silent")
    began = time.monotonic()
    with pytest.raises(ab.ExperimentError, match=r"was silent for 0\.2 s: killed"):
        served._deadline = 0.2
        served.arm("x").sample(1)
    assert time.monotonic() - began < 20
    with pytest.raises(ab.ExperimentError, match="had ended"):
        served.arm("x").sample(1)
    served.close()


def test_a_program_that_cannot_be_started():
    with pytest.raises(ab.ExperimentError, match="cannot be started"):
        ab.Program(["/no/such/program"], {})
