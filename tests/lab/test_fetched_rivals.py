# SPDX-License-Identifier: Apache-2.0
"""tools/rivals says what it cannot do in one line, and fetches only what it is asked for."""

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
    assert done.stderr == 'tools/rivals: "gunrock" is none of dump1090, gallatin\n'
    assert not (tmp_path / "build").exists()


def test_a_source_that_is_not_there_is_named(copy, tmp_path):
    done = run(copy, "gallatin", source=tmp_path / "none")
    assert done.returncode == 1
    assert done.stderr.endswith(
        "tools/rivals: gallatin: https://github.com/saltsystemslab/gallatin cannot be cloned\n"
    )


def test_another_history_is_named(copy, tmp_path):
    source = tmp_path / "saltsystemslab" / "gallatin"
    source.mkdir(parents=True)
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@t", "-C", source]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "other"], check=True)
    done = run(copy, "gallatin", source=tmp_path)
    assert done.returncode == 1
    assert "tools/rivals: gallatin: commit 1aa70ad is not in " in done.stderr
    assert done.stdout == ""
