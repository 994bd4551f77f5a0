# SPDX-License-Identifier: Apache-2.0
"""Where a program runs: without a folder to be in, with few files that it may open, in a locale of
another text than UTF-8, beside a package that cannot be imported. One line says what is wrong.
"""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import os, resource, sys
import numpy as np
import denizen

@denizen.message
class Tick:
    n: np.uint32

@denizen.actor
class Counter:
    sum: np.uint32

    def on_tick(self, m: Tick, ctx):
        self.sum += m.n
        ctx.reply(Tick(self.sum))

@denizen.actor
class Wrong:
    sum: np.uint32

    def on_tick(self, m: Tick):
        self.sum = m.nothing

def few_files(more):
    free = os.open("/dev/null", os.O_RDONLY)
    os.close(free)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free + more, most))

def told(call):
    try:
        call()
    except denizen.DenizenError as error:
        print(type(error).__name__, error)
"""


def test_a_mistake_is_told_where_there_is_no_folder(run_python, tmp_path):
    pytest.importorskip("numba")
    gone = tmp_path / "gone"
    gone.mkdir()
    text = f"""
os.chdir({str(gone)!r})
os.rmdir({str(gone)!r})
told(lambda: denizen.Runtime(Wrong, "cpu:1"))
"""
    assert "script.py:23: the message Tick has no field nothing; it has n" in run_python(
        PROGRAM + text
    )


TEXT = "struct One { void on(const Tick&, auto&) {} };"


def test_a_compiler_that_cannot_be_started(run_python, empty_cache):
    text = f"""
from denizen import compilers  # what it imports when it is used needs files, too
import shutil, subprocess, tempfile
program = denizen.Program({TEXT!r}, actors=["One"], messages=[Tick])
few_files(1)
told(lambda: denizen.Runtime(program, "cpu:1"))
"""
    assert "CompileError cannot start " in (said := run_python(PROGRAM + text))
    assert "Too many open files (see ulimit -n)" in said


def test_a_host_that_cannot_be_started(run_python):
    text = """
with denizen.Cluster(Counter, ["cpu:1"] * 2) as cluster:  # all that is imported has been
    cluster.spawn(Counter)
few_files(1)
told(lambda: denizen.Cluster(Counter, ["cpu:1"] * 2))
"""
    pytest.importorskip("numba")
    said = run_python(PROGRAM + text)
    assert "ExhaustedError cannot start host 1: Too many open files (see ulimit -n)" in said


def test_a_package_that_cannot_be_imported_is_not_missing(tmp_path):
    (tmp_path / "numba.py").write_text('raise ImportError("Numba needs NumPy 2.4 or less")')
    (tmp_path / "program.py").write_text(
        PROGRAM + 'told(lambda: denizen.Runtime(Counter, "cpu:1"))\n'
    )
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, str(tmp_path / "program.py")],
        env={**os.environ, "PYTHONPATH": path, "DENIZEN_CACHE": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    wanted = "MissingPackageError Numba, which compiles handlers in Python, cannot be imported: "
    assert f"{wanted}Numba needs NumPy 2.4 or less; see pip install" in done.stdout


def test_a_snapshot_in_a_folder_whose_name_the_locale_has_not(tmp_path):
    folder = tmp_path / "f\u00f6lder"
    folder.mkdir()
    text = """
os.chdir(sys.argv[1])
name = os.path.join(os.getcwd(), "kept")  # with the bytes of UTF-8 one by one
assert ascii(name) != name
with denizen.Runtime(Counter, "cpu:1") as rt:
    (counter,) = rt.spawn(Counter)
    rt.ask(counter, Tick(5), timeout=20)
    rt.save(name)
assert os.path.exists(name)
with denizen.Runtime(Counter, "cpu:1", restore=name) as rt:
    print(rt.ask(counter, Tick(1), timeout=20)["n"])
"""
    pytest.importorskip("numba")
    script = tmp_path / "script.py"
    script.write_text(PROGRAM + text)
    ascii_alone = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    path = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        [sys.executable, str(script), str(folder)],
        env={**os.environ, **ascii_alone, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "6\n", done.stderr
