# SPDX-License-Identifier: Apache-2.0
"""tools/rivals says what it cannot do in one line, and fetches only what it is asked for."""

import shutil
import subprocess
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parents[2] / "tools" / "rivals"


@pytest.fixture
def copy(tmp_path):
    """The tool in a tree of its own."""
    path = tmp_path / "tools" / "rivals"
    path.parent.mkdir()
    path.write_bytes(TOOL.read_bytes())
    path.chmod(0o755)
    return path


def run(tool, *words, source):
    """With ``source`` in place of where its rivals are from."""
    return subprocess.run(
        [tool, *words],
        env={
            "PATH": "/usr/bin:/bin",
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": f"url.{source}/.insteadOf",
            "GIT_CONFIG_VALUE_0": "https://github.com/",
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_name_that_is_none_is_refused_before_anything_is_fetched(copy, tmp_path):
    done = run(copy, "gallatin", "gunrock", source=tmp_path)
    assert done.returncode == 1
    assert done.stderr == 'tools/rivals: "gunrock" is none of dump1090, gallatin, vllm\n'
    assert not (tmp_path / "build").exists()


def test_a_source_that_is_not_there_is_named(copy, tmp_path):
    done = run(copy, "gallatin", source=tmp_path / "none")
    assert done.returncode == 1
    assert done.stderr.endswith(
        "tools/rivals: gallatin: https://github.com/saltsystemslab/gallatin cannot be cloned\n"
    )


def repository(path):
    """With one commit; the beginning of a call of git in it."""
    path.mkdir(parents=True)
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@t", "-C", path]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "other"], check=True)
    return git


def test_another_history_is_named(copy, tmp_path):
    repository(tmp_path / "saltsystemslab" / "gallatin")
    done = run(copy, "gallatin", source=tmp_path)
    assert done.returncode == 1
    assert "tools/rivals: gallatin: commit 1aa70ad is not in " in done.stderr
    assert done.stdout == ""


def test_a_release_is_fetched_and_cmake_is_told(copy, tmp_path):
    git = repository(tmp_path / "vllm-project" / "vllm")
    done = run(copy, "vllm", source=tmp_path)
    assert done.stderr.endswith("/vllm-project/vllm cannot be cloned\n")  # it has no such release
    subprocess.run([*git, "tag", "v0.33.0"], check=True)
    for _ in range(2):  # the second has it
        done = run(copy, "vllm", source=tmp_path)
        assert done.returncode == 0, done.stderr
        assert done.stdout == f"cmake -DDENIZEN_VLLM={tmp_path}/build/rivals/vllm\n"
    assert (tmp_path / "build" / "rivals" / "vllm" / ".git").is_dir()


def test_cmake_refuses_a_folder_that_is_not_vllms(tmp_path):
    cmake = shutil.which("cmake") or pytest.skip("no cmake")
    text = (TOOL.parents[1] / "benchmarks" / "CMakeLists.txt").read_text()
    begin = text.index("set(DENIZEN_VLLM ")
    end = text.index("denizen_program(bench_procmine")
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.25)\nproject(t LANGUAGES NONE)\n" + text[begin:end]
    )

    def configure(folder):
        return subprocess.run(
            [cmake, "-S", tmp_path, "-B", tmp_path / "build", f"-DDENIZEN_VLLM={folder}"],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

    refused = configure(tmp_path)
    assert refused.returncode == 1
    told = " ".join(refused.stderr.split())
    assert "has no csrc/custom_all_reduce.cuh; `tools/rivals vllm` fetches a checkout" in told
    header = tmp_path / "csrc" / "custom_all_reduce.cuh"
    header.parent.mkdir()
    header.touch()
    assert configure(tmp_path).returncode == 0  # and builds nothing without CUDA
    assert configure("").returncode == 0
