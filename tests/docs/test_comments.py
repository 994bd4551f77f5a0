# SPDX-License-Identifier: Apache-2.0
"""A file that a comment sends its reader to is there."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = re.compile(r"\.(hpp|cpp|cuh|cu|pml)$")
NAMED = re.compile(r"(?<![\w<.])((?:[\w-]+/)*[\w-]+\.(?:hpp|cpp|cuh|pml))\b")


def test_files_named_in_comments_exist():
    listed = subprocess.check_output(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, text=True
    )
    files = [name for name in listed.splitlines() if (ROOT / name).is_file()]
    ends = {"/" + end for name in files for end in _ends(name)}
    missing = []
    for name in filter(SOURCE.search, files):
        text = (ROOT / name).read_text(encoding="utf-8")
        comments = re.findall(r"/\*.*?\*/|//[^\n]*", text, flags=re.S)
        for comment in comments:
            missing += [f"{name}: {m}" for m in NAMED.findall(comment) if "/" + m not in ends]
    assert not missing


def _ends(name):
    """A path, and what is left of it without its first folders."""
    parts = name.split("/")
    return ["/".join(parts[i:]) for i in range(len(parts))]
