# SPDX-License-Identifier: Apache-2.0
"""What docs/honesty.md names as done is there."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PLACES = (ROOT, ROOT / "python", ROOT / "python" / "denizen")


def missing(text):
    """Files and tests that ``text`` names and the tree has not."""
    tests = "".join(path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    names = re.findall(r"`([^`\s]+)`", text)
    return [
        name
        for name in names
        if ("/" in name and not any((place / name).is_file() for place in PLACES))
        or (re.fullmatch(r"test_\w+", name) and f"def {name}(" not in tests)
    ]


def test_each_file_and_test_that_it_names_exists():
    text = (ROOT / "docs" / "honesty.md").read_text("utf-8")
    assert missing(text) == []
    assert text.count("`tests/") > 5
    assert missing("`lab/nothing.py`, `test_nothing`") == ["lab/nothing.py", "test_nothing"]
