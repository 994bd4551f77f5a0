# SPDX-License-Identifier: Apache-2.0
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import sample

import denizen
from denizen import _core
from denizen.compilers import find_nvrtc

DEVICES = ["cpu:1", "cpu:2", pytest.param("gpu", marks=pytest.mark.gpu)]


@pytest.fixture(scope="session", autouse=True)
def cubins(cache):
    """Those of $DENIZEN_TEST_CUBINS are in the cache: of handlers in Python, compiled by
    tests/actor/compile_handlers.py on a machine that has Numba.
    """
    for cubin in Path(os.environ.get("DENIZEN_TEST_CUBINS", "/nonexistent")).glob("*.cubin"):
        shutil.copy(cubin, cache)


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DENIZEN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param


@pytest.fixture
def rt(device):
    """The sample program, running."""
    with denizen.Runtime(sample.program(), device) as runtime:
        yield runtime


@pytest.fixture(scope="session")
def nvrtc():
    find_nvrtc()
    try:
        return _core.nvrtc_version()
    except denizen.CompileError as error:
        pytest.skip(str(error).splitlines()[0])


@pytest.fixture
def run_python(tmp_path):
    """Runs Python text in a process of its own; returns what it printed."""

    def run(text, *arguments, timeout=120, status=0):
        script = tmp_path / "script.py"
        script.write_text(text)
        result = subprocess.run(
            [sys.executable, str(script), *arguments],
            capture_output=True,
            text=True,
            timeout=timeout,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            check=False,
        )
        assert result.returncode == status, result.stderr
        return result.stdout + result.stderr

    return run
