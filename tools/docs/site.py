# SPDX-License-Identifier: Apache-2.0
"""What MkDocs does besides (mkdocs.yml): the reference's pages, the home page's numbers, and pages
for what the docs link to outside their folder: no link is dead, and no network is needed."""

from __future__ import annotations

import ast
import posixpath
import re
import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.plugins import get_plugin_logger
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

sys.path.insert(0, str(Path(__file__).parent))
import cpp
import home

log = get_plugin_logger("denizen")
ROOT = Path(__file__).resolve().parents[2]
PYTHON = {
    "denizen": ("denizen", "Programs of actors, messages, buffers, errors."),
    "io": ("denizen.io", ""),
    "tasks": ("denizen.tasks", ""),
    "flow": ("denizen.flow", ""),
    "dsp": ("denizen.dsp", ""),
    "infer": ("denizen.infer", ""),
    "group": ("denizen.group", ""),
    "graph": ("denizen.graph", ""),
    "procmine": ("denizen.procmine", ""),
    "radio": ("denizen.radio", ""),
    "iq": ("denizen.iq", ""),
    "transactions": ("denizen.apps.transactions", ""),
    "wave": ("denizen.wave", ""),
    "lens": ("denizen.lens", ""),
    "ab": ("denizen.ab", ""),
}
# Of the package itself, what a newcomer needs first; the rest of its names follow.
FIRST = (
    "message",
    "MessageType",
    "Program",
    "Runtime",
    "Received",
    "Buffer",
    "Arena",
    "DenizenError",
)
LINK = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?((?: \"[^\"]*\")?\))")
LANGUAGES = {
    ".py": "python", ".hpp": "cpp", ".cpp": "cpp", ".cu": "cpp", ".cuh": "cpp", ".sh": "bash",
    ".json": "json", ".toml": "toml", ".yml": "yaml", ".txt": "text",
}  # fmt: skip
WHOLE = {".json", ".gz", ".svg", ".png"}  # copied as they are


def _names() -> list[str]:
    """The package's public names, FIRST first."""
    tree = ast.parse((ROOT / "python/denizen/__init__.py").read_text("utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            every = ast.literal_eval(node.value)
            return [*FIRST, *(name for name in every if name not in FIRST)]
    raise PluginError("python/denizen/__init__.py has no __all__")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for name, (module, about) in PYTHON.items():
        text = (
            f"# Python: {module}\n\n{about}\n\n::: {module}\n    options:\n      heading_level: 2\n"
        )
        text += "      show_root_heading: false\n      show_root_toc_entry: false\n"
        if name == "denizen":
            text += "      members:\n" + "".join(f"        - {one}\n" for one in _names())
            # For the reader of sources a module of the same name hides a function.
            for one in _names():
                if (ROOT / f"python/denizen/{one}.py").exists():
                    text += f"\n::: denizen.{one}.{one}\n    options:\n      heading_level: 2\n"
        files.append(File.generated(config, f"reference/python/{name}.md", content=text))
    for part in cpp.FOLDERS:
        files.append(File.generated(config, f"reference/cpp/{part}.md", content=cpp.page(part)))
    wanted = [
        (Path(file.abs_src_path).read_text("utf-8"), "docs")
        for file in files.documentation_pages()
        if file.abs_src_path and Path(file.abs_src_path).is_relative_to(ROOT / "docs")
    ]
    seen: set[str] = set()
    wanted.append(
        (" ".join(f"[r](../{home.RESULTS}/{row.record}.json)" for row in _rows()), "docs")
    )
    while wanted:  # ends: each file of the repository is taken once
        text, folder = wanted.pop()
        for _, target, _, _ in LINK.findall(text):
            path = posixpath.normpath(posixpath.join(folder, target))
            if "://" in target or path.startswith("docs/") or path in seen:
                continue
            seen.add(path)
            for file, more in _source(path, config):
                if files.get_file_from_path(file.src_uri) is None:
                    files.append(file)
                if more is not None:
                    wanted.append(more)
    return files


def _rows() -> list[home.Row]:
    return [home.MESSAGES, home.INSIDE, *(row for _, row in home.WAYS)]


def _is_prose(uri: str) -> bool:
    """Whether the page was written by hand: figures.md is made of records, all of it."""
    return uri != "figures.md" and not uri.startswith(("reference/", "source/"))


def _uri(path: str) -> str:
    """Where a file of the repository is in the site."""
    if (ROOT / path).is_dir():
        return f"source/{path}/index.md"
    suffix = posixpath.splitext(path)[1]
    if suffix in WHOLE:
        return f"source/{path}"
    return f"source/{path}" if suffix == ".md" else f"source/{path}.md"


def _source(path: str, config: MkDocsConfig) -> list[tuple[File, tuple[str, str] | None]]:
    """The site's file for one of the repository, and the text whose links are to be followed."""
    real = ROOT / path
    if not real.is_relative_to(ROOT) or not real.exists():
        return []  # a dead link: MkDocs says so
    if real.is_dir():
        names = sorted(one.name + "/" * one.is_dir() for one in real.iterdir())
        listed = "\n".join(
            f"- `{name}`" for name in names if not name.startswith((".", "__pycache"))
        )
        return [(_page(config, path, f"# {path}\n\n{listed}\n"), None)]
    if real.suffix in WHOLE:
        return [(File.generated(config, _uri(path), abs_src_path=str(real)), None)]
    text = real.read_text("utf-8")
    if real.suffix == ".md":
        return [(_page(config, path, text), (text, posixpath.dirname(path)))]
    language = LANGUAGES.get(
        real.suffix, "python" if text.startswith("#!/usr/bin/env python") else "text"
    )
    fence = "`" * 6
    return [(_page(config, path, f"# {path}\n\n{fence}{language}\n{text}{fence}\n"), None)]


def _page(config: MkDocsConfig, path: str, text: str) -> File:
    return File.generated(config, _uri(path), content=f"---\nsearch:\n  exclude: true\n---\n{text}")


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    uri = page.file.src_uri
    for wrong in (
        *home.misquoted(markdown, f"docs/{uri}"),
        *(home.unsupported(markdown, f"docs/{uri}") if _is_prose(uri) else ()),
    ):
        log.warning(wrong)  # which --strict takes for an error
    if uri == "index.md":
        for mark, made in (
            ("<!-- numbers -->", home.numbers()),
            ("<!-- picture -->", home.picture()),
        ):
            if mark not in markdown:
                raise PluginError(f"docs/index.md: {mark} is gone")
            markdown = markdown.replace(mark, made)
    markdown = markdown.replace("<details>", '<details markdown="1">')  # tables within them
    generated = uri.startswith("reference/")
    if generated or (uri.startswith("source/") and not uri.endswith(".md")):
        return markdown
    # The folder of the repository that the page's links start from.
    inside = uri.startswith("source/")
    folder = (
        posixpath.dirname(uri.removeprefix("source/"))
        if inside
        else posixpath.dirname(f"docs/{uri}")
    )

    def turned(found: re.Match[str]) -> str:
        before, target, anchor, after = found.groups()
        if "://" in target or target.startswith("mailto:"):
            return found[0]
        path = posixpath.normpath(posixpath.join(folder, target))
        if path.startswith("docs/"):
            to = path.removeprefix("docs/")
        elif (ROOT / path).exists():
            to, anchor = _uri(path), ""
        else:
            return found[0]
        return (
            f"{before}{posixpath.relpath(to, posixpath.dirname(uri) or '.')}{anchor or ''}{after}"
        )

    return LINK.sub(turned, markdown)
