# SPDX-License-Identifier: Apache-2.0
"""Which records are older than their code; and that those of this project may be."""

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

from denizen import machine
from denizen.lab import age, bench, record
from denizen.lab.record import LabError, Measured

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"


def git(root, *words):
    command = ["git", "-c", "user.name=t", "-c", "user.email=t@t", *words]
    return subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A checkout with one program, what it includes, what implements that, and its record."""
    for name, text in {
        "benchmarks/CMakeLists.txt": "denizen_program(bench_ring bench_ring.cu\n    more.cpp)\n",
        "benchmarks/bench_ring.cu": '#include "common.hpp"\n#include <denizen/wire/ring.hpp>\n',
        "benchmarks/more.cpp": "",
        "benchmarks/common.hpp": "#include <vector>\n",
        "include/denizen/wire/ring.hpp": "",
        "src/wire/ring.cpp": '#include "wire/deep.hpp"\n',
        "src/wire/deep.hpp": "",
        "src/wire/beside.cpp": "",
        "src/other/apart.cpp": "",
        "dsp/include/denizen/dsp/fft.hpp": "",
        "dsp/src/fft.cpp": "",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    monkeypatch.setattr(machine, "commit", lambda: git(tmp_path, "rev-parse", "HEAD").strip())
    here = machine.Machine(device="Test GPU", driver="1", cuda="13", cpu="CPU")
    case = Measured("case", {}, "us", np.ones(9), 9, True)
    made = bench.build_record("ring", {}, [case], None, here, quick=False)
    record.write(made, tmp_path / "benchmarks" / "results" / "ring" / "test-gpu.json")
    return tmp_path


def test_files_are_what_a_program_compiles(project):
    assert age.files(project, "ring") == {
        "benchmarks/bench_ring.cu", "benchmarks/more.cpp", "benchmarks/common.hpp",
        "include/denizen/wire/ring.hpp", "src/wire/ring.cpp", "src/wire/deep.hpp",
        "src/wire/beside.cpp",
    }  # fmt: skip
    (project / "benchmarks" / "more.cpp").write_text("#include <denizen/dsp/fft.hpp>\n")
    age._included.cache_clear()
    dsp = {"dsp/include/denizen/dsp/fft.hpp", "dsp/src/fft.cpp"}
    assert {file for file in age.files(project, "ring") if file.startswith("dsp")} == dsp
    with pytest.raises(LabError, match='no program of experiment "wave"'):
        age.files(project, "wave")


def test_modules_of_cases_in_python_count_with_what_they_import(project):
    lab = project / "python" / "denizen" / "lab"
    lab.mkdir(parents=True)
    (lab / "cases.py").write_text(
        "from denizen.lab import asks, counts, others\n"
        '_CASES: dict = {"ring": (asks.many,), "wave": (others.all, own)}\n'
        'if experiment == "ring":\n    counts.measure(1)\n'
    )
    (lab / "asks.py").write_text("from denizen.deep import one\n")
    for name in ("counts.py", "others.py", "../deep.py"):
        (lab / name).write_text("")
    in_python = {file for file in age.files(project, "ring") if file.endswith(".py")}
    assert in_python == {
        "python/denizen/lab/asks.py", "python/denizen/lab/counts.py", "python/denizen/deep.py",
    }  # fmt: skip
    (project / "benchmarks" / "CMakeLists.txt").write_text("denizen_program(bench_wave more.cpp)\n")
    assert age.files(project, "wave") == {
        "benchmarks/more.cpp", "python/denizen/lab/others.py", "python/denizen/lab/cases.py",
    }  # fmt: skip


def test_what_counts_for_experiments_of_this_project():
    quick = "python/denizen/quick.py"
    assert quick in age.files(ROOT, "handlers")
    assert "python/denizen/runtime.py" in age.files(ROOT, "io")
    assert quick not in age.files(ROOT, "io")
    # What is printed meanwhile is not measured.
    assert "python/denizen/terminal.py" not in age.files(ROOT, "flow")
    assert "python/denizen/lab/searches.py" in age.files(ROOT, "bfs")
    assert "python/denizen/lab/observers.py" in age.files(ROOT, "driver")
    # What an experiment in Python runs of C++, sources of other names included.
    assert "include/denizen/actor/detail/outgoing.hpp" in age.files(ROOT, "handlers")
    assert "src/io/uring.cpp" in age.files(ROOT, "io")
    assert "apps/graph/src/search.cpp" in age.files(ROOT, "bfs")
    # Run as `python -m denizen.apps.transactions.benchmark`.
    assert "python/denizen/apps/transactions/fit.py" in age.files(ROOT, "transactions")


@pytest.mark.parametrize("changed", ["src/wire/deep.hpp", "benchmarks/more.cpp"])
@pytest.mark.parametrize("committed", [False, True])
def test_a_change_of_them_makes_a_record_older(project, changed, committed):
    results = project / "benchmarks" / "results"
    (project / "src" / "other" / "apart.cpp").write_text("int not_compiled;\n")
    assert [one.older for one in age.ages(project, results)] == [False]
    (project / changed).write_text("// new\n")
    assert [one.older for one in age.ages(project, results)] == [False]
    (project / changed).write_text("int fresh; // new\n")
    if committed:
        git(project, "commit", "-aqm", "second")
    (one,) = age.ages(project, results)
    assert one.changed == (changed,)
    (told,) = age.complaints([one], {}, "2026-01-02")
    assert told.startswith(f"ring/test-gpu.json is older than its code ({changed} changed)")
    assert age.complaints([one], {"ring": "2026-01-02"}, "2026-01-02") == []
    (told,) = age.complaints([one], {"ring": "2026-01-01"}, "2026-01-02")
    assert "it was allowed to be until 2026-01-01" in told
    # One record's own exception counts before its experiment's.
    both = {"ring": "2026-01-01", "ring/test-gpu": "2026-01-02"}
    assert age.complaints([one], both, "2026-01-02") == []
    assert age.complaints([one], {"ring/other-gpu": "2026-01-02"}, "2026-01-02") != []


def test_a_commit_that_is_not_in_the_history_is_older(project):
    path = project / "benchmarks" / "results" / "ring" / "test-gpu.json"
    value = json.loads(path.read_text())
    value["commit"] = "f" * 40
    path.write_text(json.dumps(value))
    (one,) = age.ages(project, project / "benchmarks" / "results")
    assert one.older
    assert age.why(one) == "its commit is not in this history"
    (told,) = age.complaints([one], {"ring": "2999-01-01"}, "2026-01-02")
    assert told == (
        "ring/test-gpu.json: its commit is not in this history: measure it again, or remove it"
    )


def test_exceptions_are_experiments_with_a_date(tmp_path):
    assert age.exceptions(tmp_path) == {}
    (tmp_path / age.EXCEPTIONS).write_text('{"until": {"rings": "2026-01-01"}}')
    with pytest.raises(LabError, match='"rings": "2026-01-01" is no experiment with its date'):
        age.exceptions(tmp_path)
    (tmp_path / age.EXCEPTIONS).write_text('{"until": {"ring/no-gpu": "2026-01-01"}}')
    with pytest.raises(LabError, match='"ring/no-gpu": "2026-01-01" is no experiment'):
        age.exceptions(tmp_path)


@pytest.mark.parametrize("experiment", record.EXPERIMENTS)
def test_each_experiment_has_files(experiment):
    assert len(age.files(ROOT, experiment)) > 1


def test_records_are_as_new_as_their_code_or_may_be_older():
    try:
        found = age.ages(ROOT, RESULTS)
    except LabError as error:
        pytest.skip(str(error))  # an archive, or a clone without its history
    assert age.complaints(found, age.exceptions(RESULTS), age.today(ROOT)) == []
