# SPDX-License-Identifier: Apache-2.0
"""Examples write their handlers in Python; where a page has the same in C++, it comes later."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
OF_CPP = {"cpp.md"}
BESIDE_TEXT = "python-handlers.md"  # has an example of both kinds in one program

TEXT = re.compile(r"\bvoid (?:on|run)\(")
HANDLER = re.compile(r"\bvoid (?:on|run)\(|^@(?:denizen\.(?:actor|task)|tasks\.task)$", re.M)


def blocks(page):
    return re.findall(r"^```(python|cpp)\n(.*?)^```", page.read_text("utf-8"), re.M | re.S)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_begins_with_python(page):
    found = [(language, text) for language, text in blocks(page) if HANDLER.search(text)]
    if found and page.name not in OF_CPP:
        assert found[0][0] == "python", found[0][1]
    texts = [text for language, text in found if language == "python" and TEXT.search(text)]
    assert len(texts) == (page.name == BESIDE_TEXT), texts


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.name)
def test_an_example_is_python(path):
    assert not TEXT.search(path.read_text("utf-8"))
