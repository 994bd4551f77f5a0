# SPDX-License-Identifier: Apache-2.0
"""The records of a folder as one page that stands by itself: what `denizen bench all` leaves for
people. It says what docs/figures.md says, by the same tables, of these records alone."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from denizen import style
from denizen.lab import table
from denizen.lab.record import Record

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>denizen: what was measured</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
@sheet@
main { max-width: 1180px; margin: 0 auto; padding: 24px 16px 60px; }
h2 { margin-top: 36px; } h3 { font-size: 17px; margin-top: 30px; }
img { max-width: 100%; height: auto; vertical-align: top; margin: 4px; }
td:first-child { min-width: 11em; overflow-wrap: anywhere; }
th.right, td.right { text-align: right; } summary { cursor: pointer; margin: 8px 0; }
p, ul { max-width: 80ch; }
</style></head><body><main>
<h1>What was measured</h1>
@body@
</main></body></html>
"""
_INLINE = (
    (re.compile(r"&lt;br&gt;"), "<br>"),
    (re.compile(r"`([^`]+)`"), r"<code>\1</code>"),
    (re.compile(r"\*\*([^*]+)\*\*"), r"<b>\1</b>"),
    (re.compile(r"\[([^\]]+)\]\([^)]*\)"), r"\1"),  # to files that do not go with the page
)
_IMAGE = re.compile(r"!\[([^\]]*)\]\([^)]*?([^/)]+)\.svg\)")


def _words(text: str, pictures: Mapping[str, str]) -> str:
    def drawn(found: re.Match[str]) -> str:
        data = base64.b64encode(pictures[found[2]].encode()).decode()
        return f'<img alt="{escape(found[1])}" src="data:image/svg+xml;base64,{data}">'

    parts, at = [], 0
    for found in _IMAGE.finditer(text):
        parts += [_plain(text[at : found.start()]), drawn(found)]
        at = found.end()
    return "".join([*parts, _plain(text[at:])])


def _plain(text: str) -> str:
    text = escape(text, quote=False)
    for pattern, put in _INLINE:
        text = pattern.sub(put, text)
    return text


def _cells(line: str) -> list[str]:
    parts = re.split(r"(?<!\\)\|", line.strip().strip("|"))
    return [part.strip().replace("\\|", "|") for part in parts]


def _grid(lines: Sequence[str], pictures: Mapping[str, str]) -> str:
    right = [cell.endswith(":") for cell in _cells(lines[1])]

    def row(line: str, kind: str) -> str:
        told = zip(_cells(line), right, strict=True)
        cells = (
            f"<{kind}{' class=right' if aside else ''}>{_words(cell, pictures)}</{kind}>"
            for cell, aside in told
        )
        return f"<tr>{''.join(cells)}</tr>"

    body = "".join(row(line, "td") for line in lines[2:])
    return f'<div class="wide"><table>{row(lines[0], "th")}{body}</table></div>'


def html(markdown: str, pictures: Mapping[str, str]) -> str:
    """What :mod:`denizen.lab.table` writes, as HTML: headings, paragraphs, lists, tables, folds and
    pictures by their names. Of other Markdown it knows nothing."""
    made = []
    for block in markdown.split("\n\n"):
        lines = [line for line in block.splitlines() if not line.startswith("<!--")]
        if not lines:
            continue
        if lines[0].startswith("|"):
            made.append(_grid(lines, pictures))
        elif found := re.fullmatch(r"(#+) (.*)", lines[0]):
            level = len(found[1])
            made.append(f"<h{level}>{_words(found[2], pictures)}</h{level}>")
        elif lines[0].startswith(("<details>", "</details>")):
            made += lines
        elif lines[0].startswith("- "):
            items = "".join(f"<li>{_words(line[2:], pictures)}</li>" for line in lines)
            made.append(f"<ul>{items}</ul>")
        else:
            made.append("<p>" + "<br>".join(_words(line, pictures) for line in lines) + "</p>")
    return "\n".join(made)


def page(records: Sequence[Record]) -> str:
    """The whole page, as the text of an HTML file."""
    drawn = {path.stem: text for path, text in table.pictures(Path("page"), records).items()}
    body = html(table.figures(records), drawn)
    return style.fill(_PAGE, {"sheet": style.sheet(), "body": body})
