# SPDX-License-Identifier: Apache-2.0
"""Comments are no code, and nothing else is taken for one."""

from pathlib import Path

import pytest

from denizen.lab import code_of

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ("int a; // one", "int a;    // two"),
        ("int a; /* one\n two */ int b;", "int a; int b;"),
        ("// a\n\nint a;\n", "int a;"),
        ("int a;\t// goes on \\\n here\nint b;", "int a;\nint b;"),
        ("auto n = 1'000'000; // it's", "auto n = 1'000'000;"),
        ("char c = '\"'; // \"", "char c = '\"';"),
        ("    int a;", "int a;"),
    ],
)
def test_comments_and_indents_of_cpp_are_no_code(before, now):
    assert code_of.same(before, now, ".hpp")


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ("int a;", "int b;"),
        ('auto s = "// one";', 'auto s = "// two";'),
        ('auto s = "a  b";', 'auto s = "a b";'),
        ('auto s = R"(// one)";', 'auto s = R"(// two)";'),
        ('auto s = R"x(a)" // one)x";', 'auto s = R"x(a)" // two)x";'),
        ("#define A // x\nint b;", "#define A int b;"),
        ("char c = '\\''; int a; // '", "char c = '\\''; int b; // '"),
        ("auto n = 1'000; auto m = 2'0;", "auto n = 1'000; auto m = 3'0;"),
        ("auto c = u8'a';", "auto c = u8'b';"),
        ("x = a / b; y = c / *d;", "x = a / b; y = c / *e;"),
    ],
)
def test_everything_else_of_cpp_is(before, now):
    assert not code_of.same(before, now, ".cu")


def test_comments_and_descriptions_of_python_are_no_code():
    before = '"""One."""\n# one\ndef f(a):\n    """One."""\n    return a  # one\n'
    now = '"""Two."""\ndef f(a):\n    return (a)\n'
    assert code_of.same(before, now, ".py")
    assert not code_of.same(before, now.replace("return", "print"), ".py")
    assert not code_of.same('TEXT = """// one"""', 'TEXT = """// two"""', ".py")
    assert not code_of.same("def f(:", "def g(:", ".py")


def test_of_another_kind_each_letter_counts():
    assert not code_of.same("# one", "# two", ".toml")
    assert code_of.same("# one", "# one", ".toml")


def test_each_source_of_the_project_is_code_that_is_found():
    """Nothing swallows the rest of a file: what stands last in it is still there."""
    for path in sorted(ROOT.glob("include/denizen/**/*.hpp")):
        text = path.read_text("utf-8")
        assert not code_of.same(text, text + "\nint more_than_before;\n", ".hpp"), path
        assert code_of.same(text, text + "\n// more than before\n", ".hpp"), path
