# SPDX-License-Identifier: Apache-2.0
"""The experiment on copies in an all-reduce, as far as a machine without two GPUs goes."""

import subprocess
from collections import Counter
from pathlib import Path

import pytest

from denizen import ab
from denizen.ab import experiment
from denizen.lab import programs
from denizen.lab.record import LabError
from denizen.nvml import Nvml

FILE = Path(__file__).parents[2] / "benchmarks" / "arms" / "allreduce_ab.py"


@pytest.fixture
def arms():
    try:
        return programs.find_program("allreduce_arms")
    except LabError as error:
        pytest.skip(str(error))


def test_the_sweep_has_what_the_question_needs():
    loaded = experiment.load(FILE)
    modes = Counter(params["mode"] for params in loaded.sweep)
    assert modes["resident"] == 17 and modes["alone"] == modes["graph"] == 3
    assert {params["blocks"] for params in loaded.sweep} == {8, 16, 32, 132}
    assert len(loaded.sweep) == len({tuple(params.items()) for params in loaded.sweep})


def test_every_arm_is_a_kernel_of_the_program(arms):
    """The names are those of exported kernels; cuobjdump looks into them where there is one."""
    names = experiment.load(FILE).cell.__globals__
    text = arms.read_bytes()
    assert len(names["ONE_STAGE"]) == 11 and len(names["TWO_STAGES"]) == 10
    for name in {**names["ONE_STAGE"], **names["TWO_STAGES"]}:
        assert name.encode() in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--devices", "0"], "separated by commas"),
        (["--devices", "0,99"], "device 99"),
        (["--nonsense"], "usage:"),
    ],
)
def test_wrong_devices(arms, options, message):
    done = subprocess.run(
        [str(arms), "--limit", *options], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode != 0
    assert message in done.stderr or "GPUs of this machine" in done.stderr


def test_what_it_cannot_do_is_an_error_line(arms):
    served = subprocess.run(
        [str(arms)], input='{"do": "poison", "arm": "pull_bulk"}\nhello\n',
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    first, second = served.stdout.splitlines()
    assert first == '{"error": "params come first"}'
    assert second == '{"error": "no do in hello"}'


@pytest.mark.gpu
@pytest.mark.parametrize("mode", ["resident", "alone", "graph"])
def test_every_arm_adds_right_on_one_gpu(arms, mode, monkeypatch):
    """Two ranks on the same GPU: results are checked, times mean nothing."""
    if Nvml.open(0) is None:
        pytest.skip("no NVIDIA driver")
    monkeypatch.setenv("DENIZEN_DEVICES", "0,0")
    loaded = experiment.load(FILE)
    for size in (1024, 96 * 1024, 1 << 20):
        cell = loaded.make({"mode": mode, "blocks": 8, "bytes": size})
        for arm in cell.arms:
            arm.poison()
            sample = arm.sample(3)
            assert sample.ran == {arm.name: 3} or arm.name == "control_twice"
            assert (arm.result() == cell.reference).all(), arm.name


def test_without_the_program_it_says_where_it_was_looked_for(monkeypatch):
    def nowhere(name):
        raise LabError(f"benchmark program {name} is in none of: /nowhere")

    monkeypatch.setattr(programs, "find_program", nowhere)
    loaded = experiment.load(FILE)
    with pytest.raises(ab.ExperimentError, match="allreduce_arms is in none of: /nowhere; it is"):
        loaded.make(loaded.sweep[0])
