# SPDX-License-Identifier: Apache-2.0
"""What docs/python-handlers.md and the README's first example print is what they say."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def blocks(page):
    return re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)


def said(text):
    """The comments behind lines that print, and behind the one that sends to the talker."""
    return re.findall(r"^ +(?:print\(r.*?|rt\.send\(talker.*?)  # (.+)$", text, re.MULTILINE)


def test_the_page_about_handlers(run_python):
    pytest.importorskip("numba")
    text = "\n".join(blocks("docs/python-handlers.md"))
    expected = said(text)
    counted = ["4", "328350"]  # of behaviours and tasks
    mixed = "42"
    assert expected == ["5", "(3.0, 1.5)", "3.1", *counted, mixed, "tick 3 of Talker(heard=1)"]
    assert run_python(text).splitlines() == expected


def test_the_first_example_of_the_readme(run_python):
    pytest.importorskip("numba")
    text = blocks("README.md")[0]
    assert said(text) == ["10"]
    assert run_python(text).splitlines() == ["10"]


def test_the_page_about_tasks(run_python):
    pytest.importorskip("numba")
    text = blocks("docs/tasks.md")[0]
    printed = re.findall(r"^ +print\(.*\)  # (.+)$", text, re.MULTILINE)
    assert printed == ["6765", "Ended(cancelled='', dropped=0)"]
    assert run_python(text).splitlines() == printed


def test_the_page_about_flow_has_kinds_in_python(run_python):
    pytest.importorskip("numba")
    kinds = [b for b in blocks("docs/flow.md") if "@flow.kind" in b]
    assert len(kinds) == 2
    for text in kinds:
        printed = re.findall(r"^print\(.*\)  # (.+)$", text, re.MULTILINE)
        assert run_python(text).splitlines() == printed
