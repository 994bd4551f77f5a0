# SPDX-License-Identifier: Apache-2.0
"""The C++ reference: each public header without bodies, private members and what is in detail/.

Doxygen is no package of PyPI, and Debian's would be one more of the system; tree-sitter's grammar
of C++ is a wheel of 0.3 MB, and the headers' comments are plain prose, not Doxygen's dialect.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import tree_sitter_cpp
from tree_sitter import Language, Node, Parser

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = {
    **{
        part: f"include/denizen/{part}"
        for part in (
            "base",
            "wire",
            "memory",
            "device",
            "actor",
            "cluster",
            "io",
            "task",
            "flow",
            "group",
        )
    },
    "dsp": "dsp/include/denizen/dsp",
    "infer": "infer/include/denizen/infer",
    **{
        part: f"apps/{part}/include/denizen/{part}"
        for part in ("graph", "procmine", "radio", "transactions", "wave")
    },
}
# They stand before declarations, where the grammar knows nothing of macros.
MACROS = re.compile(
    r"^#.*$|(\b(?:DENIZEN_[A-Z_]+|__device__|__host__|__global__)\b)(?!\s*\()", re.MULTILINE
)
TYPES = {"class_specifier", "struct_specifier", "enum_specifier", "union_specifier"}
THROUGH = {
    "preproc_ifdef",
    "preproc_if",
    "preproc_else",
    "linkage_specification",
    "declaration_list",
}
PARSER = Parser(Language(tree_sitter_cpp.language()))


def page(part: str) -> str:
    """The Markdown of a part."""
    folder = ROOT / FOLDERS[part]
    body = [f"# C++: {part}\n", _about(folder)]
    headers = sorted(path for path in folder.rglob("*.hpp") if "detail" not in path.parts)
    for path in headers:
        body += _header(path, folder)
    return "\n".join(body)


def _about(folder: Path) -> str:
    include = folder.as_posix().partition("include/")[2]
    users = "What is in `detail/` is not for users."
    return f"Public headers of `<{include}/…>`, without bodies. {users}\n"


def _header(path: Path, folder: Path) -> Iterator[str]:
    text = path.read_text("utf-8")
    # Offsets stay: what is shown is cut out of the text as it is.
    quiet = MACROS.sub(lambda found: " " * len(found[0]) if found[1] else found[0], text)
    source = quiet.encode()
    root = PARSER.parse(source).root_node
    name = path.as_posix().partition("include/")[2]
    yield f"## {name.removeprefix('denizen/')} {{ #{_anchor(name)} }}\n"
    yield f"`#include <{name}>`\n"
    comment = re.match(r"// SPDX[^\n]*\n((?://[^\n]*\n)+)", text)
    if comment:
        yield _prose(comment[1].splitlines()) + "\n"
    for shown, code, above in _items(root, source):
        if shown:
            yield f"### {shown} {{ #{_anchor(name, shown)} }}\n"
        if above:
            yield _prose(above) + "\n"
        yield f"```cpp\n{code}\n```\n"


def _anchor(*parts: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", "-".join(parts).lower()).strip("-")


def _prose(lines: list[str]) -> str:
    """Comment lines as Markdown: indented ones are code."""
    out: list[str] = []
    for line in (re.sub(r"^\s*// ?", "", line.rstrip()) for line in lines):
        code = line.startswith("  ") and line.strip() != ""
        fenced = bool(out) and out[-1].startswith("    ")
        if code and not fenced and out and out[-1]:
            out.append("")
        if not code and fenced and line:
            out.append("")
        out.append("    " + line.strip("\n") if code else _escaped(line))
    return "\n".join(out)


def _escaped(line: str) -> str:
    parts = re.split(r"(`[^`]*`)", line)
    for k in range(0, len(parts), 2):
        parts[k] = re.sub(r"([<*_\[\]|])", r"\\\1", parts[k])
    return "".join(parts)


def _items(node: Node, source: bytes) -> Iterator[tuple[str, str, list[str]]]:
    """(name, code, comment lines above) of what a scope declares."""
    above: list[Node] = []
    for child in node.named_children:
        if child.type == "comment":
            if above and child.start_point.row > above[-1].end_point.row + 1:
                above = []
            above.append(child)
            continue
        near = above and child.start_point.row <= above[-1].end_point.row + 1
        lines = [_text(one, source) for one in above] if near else []
        above = []
        if child.type == "namespace_definition":
            name = child.child_by_field_name("name")
            body = child.child_by_field_name("body")
            if name is None or body is None or _text(name, source).split("::")[-1] == "detail":
                continue
            yield from _items(body, source)
        elif child.type in THROUGH:
            yield from _items(child, source)
        else:
            code = _declaration(child, source)
            if code and lines and lines[0].startswith("// SPDX"):
                lines = []
            if code:
                yield _name(child, source), code, lines


def _text(node: Node, source: bytes) -> str:
    return source[node.start_byte : node.end_byte].decode()


def _inner(node: Node) -> Node:
    """Of a template, what is one."""
    while node.type == "template_declaration":
        node = node.named_children[-1]
    return node


def _name(node: Node, source: bytes) -> str:
    node = _inner(node)
    if node.type in ("alias_declaration", "concept_definition", *TYPES):
        name = node.child_by_field_name("name")
        return "" if name is None else _text(name, source)
    declarator = node.child_by_field_name("declarator")
    while declarator is not None and declarator.child_by_field_name("declarator") is not None:
        declarator = declarator.child_by_field_name("declarator")
    return "" if declarator is None else " ".join(_text(declarator, source).split())


def _declaration(node: Node, source: bytes) -> str:
    """The code of a declaration that users may see; empty if they may not."""
    inner = _inner(node)
    if inner.type in ("declaration", "field_declaration"):
        kind = inner.child_by_field_name("type")
        if kind is not None and kind.type in TYPES and kind.child_by_field_name("body"):
            return _type(node, kind, source)
        if (
            kind is not None
            and kind.type in TYPES
            and inner.child_by_field_name("declarator") is None
        ):
            return ""  # a forward declaration
        return _cut(_text(node, source), node)
    if inner.type in TYPES:
        return _type(node, inner, source) if inner.child_by_field_name("body") else ""
    if inner.type == "function_definition":
        body = inner.child_by_field_name("body") or next(
            (one for one in inner.children if one.type in ("try_statement",)), None
        )
        end = body.start_byte if body is not None else inner.end_byte
        head = source[node.start_byte : end].decode()
        for (
            one
        ) in inner.children:  # what a constructor initialises is none of the reader's business
            if one.type == "field_initializer_list":
                head = source[node.start_byte : one.start_byte].decode()
        return _cut(head.rstrip() + ";", node)
    if inner.type in ("alias_declaration", "concept_definition"):
        return _cut(_text(node, source), node)
    return ""


def _cut(text: str, node: Node) -> str:
    """In as few lines as it fits; ``node``: it begins there."""
    text = text.replace(";;", ";")
    flat = " ".join(text.split())
    flat = re.sub(r"\( ", "(", flat)
    if len(flat) <= 100:
        return flat
    head = re.match(r"(template <.*?> )(?=\S)", flat)
    if head and len(flat) - len(head[1]) <= 100:
        return head[1].rstrip() + "\n" + flat[len(head[1]) :]
    whole = " " * node.start_point.column + text
    return textwrap.dedent("\n".join(line.rstrip() for line in whole.splitlines() if line.strip()))


def _type(outer: Node, node: Node, source: bytes) -> str:
    body = node.child_by_field_name("body")
    assert body is not None
    head = " ".join(source[outer.start_byte : body.start_byte].decode().split())
    if node.type == "enum_specifier":
        return f"{head}\n{textwrap.dedent(_text(body, source))};"
    lines: list[str] = []
    public = node.type != "class_specifier"
    held: list[Node] = []
    row = -1  # where the last member ended
    for child in body.named_children:
        if child.type == "access_specifier":
            public = _text(child, source).strip().rstrip(":") == "public"
            held = []
            continue
        if child.type == "comment":
            same = lines and held == [] and child.start_point.row == row
            if same and public:
                lines[-1] += "  " + _text(child, source)
                continue
            if held and child.start_point.row > held[-1].end_point.row + 1:
                held = []
            held.append(child)
            continue
        members = [one for one in child.named_children] if child.type in THROUGH else [child]
        for member in members:
            code = _declaration(member, source) if public else ""
            if not code:
                held = []
                continue
            if held and lines:
                lines.append("")
            lines += [f"    {_text(one, source).strip()}" for one in held]
            held = []
            lines += textwrap.indent(code, "    ").splitlines()
            row = member.end_point.row
    inside = "\n".join(lines)
    return f"{head} {{\n{inside}\n}};" if inside else f"{head};"
