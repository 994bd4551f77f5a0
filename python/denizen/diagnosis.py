# SPDX-License-Identifier: Apache-2.0
"""What compilers say about program text, with the user's lines first.

A mistake in a handler is found where a template is instantiated, and the compilers tell that at
length: GCC before the mistake, NVRTC and Clang behind it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_GCC = re.compile(r"(?P<file>.+?):(?P<line>\d+):(?P<column>\d+): (?:fatal )?error: (?P<what>.*)")
_NVRTC = re.compile(r"(?P<file>.+?)\((?P<line>\d+)\): (?:catastrophic )?error: (?P<what>.*)")
_NO_MEMBER = (
    re.compile(
        r"""['\u2018"](?:const )?(?:struct |class )?(?P<type>\w+)['\u2019"] has no member """
    ),
    re.compile(r"""no member named '\w+' in '(?:const )?(?P<type>\w+)'"""),
)
_MOST = 8  # mistakes shown before the compiler's own words


@dataclass(frozen=True)
class _Mistake:
    line: int
    column: int | None  # from 0
    what: str


def explain(log: str, text: str, name: str) -> str:
    """The user's lines that a compiler objects to, each with what it says; empty if there are none.

    Args:
        log: what the compiler said.
        text: what it compiled, where `#line 1 "name"` begins the user's part.
        name: of the user's part, as in that directive.
    """
    shown = re.sub(r"\s", " ", name)
    escaped = shown.replace("\\", "\\\\").replace('"', '\\"')
    directive = f'#line 1 "{escaped}"\n'
    begin = text.find(directive)
    if begin < 0:
        return ""
    source = text[begin + len(directive) :].partition("\n#line ")[0].split("\n")
    mistakes = dict.fromkeys(_mistakes(log.splitlines(), shown, source))
    parts = []
    for mistake in list(mistakes)[:_MOST]:
        place = f"{shown}:{mistake.line}" if mistake.line > 0 else shown
        part = f"{place}: {mistake.what}{_members(mistake.what, text)}"
        if 0 < mistake.line <= len(source):
            line = source[mistake.line - 1].replace("\t", " ")
            indent = len(line) - len(line.lstrip())
            part += f"\n    {line.strip()}"
            if mistake.column is not None and mistake.column >= indent:
                part += f"\n    {' ' * (mistake.column - indent)}^"
        parts.append(part)
    return "\n".join(parts)


def _members(what: str, text: str) -> str:
    """If a struct has no such member: which it has, as far as one reads them line by line."""
    for pattern in _NO_MEMBER:
        if (found := pattern.search(what)) is None:
            continue
        struct = re.search(
            rf"^struct {found['type']} {{\n(.*?)^}};", text, re.MULTILINE | re.DOTALL
        )
        members = re.findall(
            r"^    ([\w:]+) (\w+)([][\d]*);", struct[1] if struct else "", re.MULTILINE
        )
        if members:
            known = ", ".join(f"{kind} {name}{shape}" for kind, name, shape in members)
            return f"; {found['type']} has {known}"
    return ""


def _mistakes(lines: list[str], name: str, source: list[str]) -> list[_Mistake]:
    found = []
    heads = [i for i, line in enumerate(lines) if _GCC.match(line) or _NVRTC.match(line)]
    for k, at in enumerate(heads):
        head = _GCC.match(lines[at]) or _NVRTC.match(lines[at])
        assert head is not None
        number: int | None = int(head["line"])
        column = None
        if head["file"] == name:
            if "column" in head.groupdict():
                column = int(head["column"]) - 1
            else:
                column = _under_caret(lines[at + 1 : at + 3], source, int(head["line"]))
        elif head["file"] == f"end of {name}":  # where the actors and messages are listed
            number = 0
        else:
            before = lines[heads[k - 1] + 1 if k > 0 else 0 : at]
            behind = lines[at + 1 : heads[k + 1] if k + 1 < len(heads) else len(lines)]
            number = _caller(before, behind, name)
        if number is not None:
            found.append(_Mistake(number, column, head["what"]))
    return found


def _caller(before: list[str], behind: list[str], name: str) -> int | None:
    """The user's line that made a template of denizen's fail."""
    own = re.escape(name)
    for pattern, where in (
        (rf"{own}:(\d+):\d+:\s+required from", before),
        (rf"{own}:(\d+):\d+: note: in instantiation", behind),
        (rf".* at line (\d+) of {own}$", behind),
    ):
        for line in where:
            match = re.match(pattern, line)
            if match:
                return int(match[1])
    return None


def _under_caret(below: list[str], source: list[str], number: int) -> int | None:
    """NVRTC shows the line with another indent, and a caret below it."""
    if len(below) < 2 or below[1].strip() != "^" or not 0 < number <= len(source):
        return None
    line = source[number - 1]
    shown_at = len(below[0]) - len(below[0].lstrip())
    return below[1].index("^") - shown_at + len(line) - len(line.lstrip())
