# SPDX-License-Identifier: Apache-2.0
"""The examples run as they are and check their own results."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import denizen

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"


def run(command, timeout=300):
    result = subprocess.run(
        [str(c) for c in command], capture_output=True, text=True, timeout=timeout, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_counter(run_python, device):
    out = run_python((EXAMPLES / "counter.py").read_text(), device)
    assert "counter 7: (11, 2)" in out
    assert "1,000,002 ticks" in out
    assert "sum 4,500,011, expected 4,500,011" in out


def test_stream(run_python, device):
    out = run_python((EXAMPLES / "stream.py").read_text(), device)
    assert "200,000 readings" in out
    assert "all counts agree with NumPy" in out


@pytest.fixture(scope="session")
def installed():
    """Where find_package(denizen) finds the tree inside the Python package."""
    root = denizen.get_include().parent
    if not list(root.glob("lib*/cmake/denizen/denizen-config.cmake")):
        pytest.skip(f"{root} is no installed tree")
    if shutil.which("cmake") is None:
        pytest.skip("cmake is not installed")
    return root


def build_counter(installed, folder, *options):
    run(["cmake", "-S", EXAMPLES, "-B", folder, f"-DCMAKE_PREFIX_PATH={installed}", *options])
    run(["cmake", "--build", folder])
    return folder / "counter"


def test_counter_in_cpp(installed, tmp_path):
    counter = build_counter(installed, tmp_path, "-DCMAKE_CUDA_COMPILER=")
    out = run([counter, "cpu"])
    assert "counter 7: 5" in out
    assert "1000000 ticks on CPU, sum 4500005, expected 4500005" in out
    assert "9 queens on CPU: 352 solutions" in run([tmp_path / "tasks", "cpu"])


def test_counter_in_cuda(installed, tmp_path):
    found = subprocess.run(
        [sys.executable, ROOT / "tools" / "nvcc.py"], capture_output=True, text=True, check=False
    )
    if found.returncode != 0:
        pytest.skip(found.stderr.strip())
    nvcc = Path(found.stdout.strip())
    libraries = nvcc.parents[1] / "lib"  # where PyPI's wheels have them
    architecture = os.environ.get("CUDAARCHS", "90-real")
    counter = build_counter(
        installed,
        tmp_path,
        f"-DCMAKE_CUDA_COMPILER={nvcc}",
        f"-DCMAKE_CUDA_FLAGS=-L{libraries}",
        f"-DCMAKE_CUDA_ARCHITECTURES={architecture}",
    )
    assert "on CPU, sum 4500005" in run([counter, "cpu"])
    on_gpu = denizen.gpu_problem() == ""
    out = run([counter])
    assert "sum 4500005, expected 4500005" in out
    assert ("on CPU" in out) != on_gpu
