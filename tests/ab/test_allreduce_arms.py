# SPDX-License-Identifier: Apache-2.0
"""The experiment on copies in an all-reduce, as far as a machine without two GPUs goes."""

import re
import subprocess
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

from denizen import ab
from denizen.ab import experiment, record
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


SIZES = FILE.with_name("copy_sizes_ab.py")


def test_sizes_go_by_powers_of_two_in_every_mode():
    sweep = experiment.load(SIZES).sweep
    kib = [256 << power for power in range(7)]
    assert kib[-1] == 16 * 1024
    for mode in ("resident", "alone", "graph"):
        assert [p["bytes"] // 1024 for p in sweep if p["mode"] == mode] == kib


def test_early_launches_are_arms_beside_their_kernels(monkeypatch):
    """With a program that is not there: which arms a cell asks for, and what must prove them."""
    loaded = experiment.load(SIZES)
    inside = loaded.cell.__globals__["ARMS"]["cell"].__globals__
    monkeypatch.setitem(inside, "program", lambda: "/program")
    monkeypatch.setitem(inside, "link", lambda: (400e9, lambda: 0.0))
    made = ab.Program(["cat"], {}).arm
    monkeypatch.setitem(inside, "served", lambda params: SimpleNamespace(arm=made))
    for mode, early in ("alone", 3), ("graph", 0):
        cell = loaded.make({"mode": mode, "blocks": 132, "bytes": 1 << 20})
        names = [arm.name for arm in cell.arms]
        assert sum(name.endswith("+pdl") for name in names) == early
        assert len(names) == 9 + early
        for arm in cell.arms:
            assert (arm.kernel is None) == arm.name.endswith("+pdl")
            assert arm.counted and arm.moved is not None


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


RECORDS = Path(__file__).parents[2] / "benchmarks" / "results" / "ab"
COLUMNS = [
    "pull_load1", "pull_load2", "pull_async2", "pull_async3", "pull_async4", "pull_bulk",
    "push_store", "push_bulk", "packets_once", "push2_store",
]  # fmt: skip
COLUMNS_BY_SIZE = [
    "pull_load1", "pull_async2", "pull_async4", "pull_bulk", "push_store", "push_bulk",
    "push2_store", "pull_load4+pdl", "pull_bulk+pdl", "push_store+pdl",
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "key", "pattern", "columns", "many"),
    [
        ("allreduce", "blocks", r"\d+", COLUMNS, 10),
        ("copies_by_size", "mode", "resident|alone|graph", COLUMNS_BY_SIZE, 12),
    ],
)
def test_the_answer_is_the_records(name, key, pattern, columns, many):
    """Each line of a table in docs/ab.md says what the committed record says; nothing is void."""
    made = record.read(RECORDS / name / "nvidia-h200.json")
    assert not made.void and made.base == "pull_load4"
    cells = {(str(c.params[key]), c.params["bytes"]): c for c in made.cells
             if key == "mode" or c.params["mode"] == "resident"}  # fmt: skip
    text = (Path(__file__).parents[2] / "docs" / "ab.md").read_text()
    line = rf"^\| ({pattern}), (\d+) (KiB|MiB) \| ([\d.]+) µs \| (.*) \|$"
    lines = re.findall(line, text, re.MULTILINE)
    assert len(lines) == many
    for which, number, unit, base, rest in lines:
        cell = cells[which, int(number) << (10 if unit == "KiB" else 20)]
        arms = {arm.arm: arm for arm in cell.arms if arm.role != "again"}
        us = cell.base_seconds * 1e6
        assert f"{us:.{0 if us >= 100 else 1}f}" == base
        for column, said in zip(columns, rest.split(" | "), strict=True):
            arm = arms.get(column)
            how = {"faster": "**{}**", "equivalent": "= {}", "undecided": "({})", "slower": "{}"}
            assert said.strip() == (
                "" if arm is None else how[arm.verdict].format(f"{arm.ratio:.2f}")
            )
