# SPDX-License-Identifier: Apache-2.0
"""Whether the symbols, tests and records that docs/coverage.md names are there.

As a program it prints those that are not.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/coverage.md"
RESULTS = ROOT / "benchmarks/results"

HEADER = ["capability", "symbol", "test", "record", "open"]
NO_RECORD = "no record"
_CODE = re.compile(r"`([^`]+)`")
_MACROS = r"(?:TYPED_)?TEST(?:_[FP])?"


def rows(text: str) -> Iterator[list[str]]:
    """The cells of each capability."""
    inside = False
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("| ").split("|")] if line[:1] == "|" else []
        if cells[: len(HEADER)] == HEADER:
            inside = True
        elif not line.startswith("|"):
            inside = False
        elif inside and set(line) - set("| -:"):
            cells = [cell.strip() for cell in line.strip()[1:-1].split("|")]
            yield cells


def problems(text: str) -> Iterator[str]:
    """Each name that leads to nothing, with its capability."""
    for cells in rows(text):
        if len(cells) != len(HEADER):
            yield f"{cells[0]}: {len(cells)} cells; {', '.join(HEADER)} are expected"
            continue
        capability, symbol, test, record, still_open = cells
        told = [*_symbols(symbol), *_tests(test), *_records(record)]
        if not still_open and (not symbol or not test):
            told.append("without a symbol or a test something is open: say what")
        yield from (f"{capability}: {problem}" for problem in told)


def _symbols(cell: str) -> Iterator[str]:
    for named in _CODE.findall(cell):
        path, _, name = named.rpartition(": ")
        if path:
            if not re.search(rf"\b{re.escape(name)}\b", _text(path)):
                yield f"{path} has no {name}"
        elif not (_command if named.startswith("denizen ") else _attribute)(named):
            yield f"there is no {named}"


def _attribute(name: str) -> bool:
    """Of a module of the package."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for part in parts[end:]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


@cache
def _command(name: str) -> bool:
    """Whether the command knows these words."""
    from denizen.cli import main  # noqa: PLC0415

    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        try:
            return main([*name.split()[1:], "--help"]) == 0
        except SystemExit as end:
            return end.code in (0, None)


def _tests(cell: str) -> Iterator[str]:
    for named in _CODE.findall(cell):
        path, _, name = named.partition(": ")
        suite, _, case = name.partition(".")
        if not name:  # a model or a script is its own test
            pattern = ""
        elif path.endswith(".py"):
            pattern = rf"^(?:async )?def {re.escape(name)}\("
        else:
            pattern = rf"^{_MACROS}\({re.escape(suite)}, *{re.escape(case)}\)"
        if not _text(path) or not re.search(pattern, _text(path), re.MULTILINE):
            yield f"there is no test {named}"


def _records(cell: str) -> Iterator[str]:
    if cell == NO_RECORD:
        return
    named = _CODE.findall(cell)
    if not named:
        yield f'the record is "{cell}"; `experiment: case` or {NO_RECORD} is expected'
    for name in named:
        experiment, _, case = name.partition(": ")
        if case not in _cases(experiment):
            yield f"no record of {experiment} has a case {case}"


@cache
def _cases(experiment: str) -> frozenset[str]:
    files = sorted((RESULTS / experiment).glob("*.json"))
    records = [json.loads(file.read_text("utf-8")) for file in files]
    return frozenset(row["case"] for record in records for row in record.get("rows", ()))


@cache
def _text(path: str) -> str:
    file = ROOT / path
    return file.read_text("utf-8") if file.is_file() else ""


if __name__ == "__main__":
    found = list(problems(PAGE.read_text("utf-8")))
    print("\n".join(found) or f"{PAGE.name}: all names are there")
    sys.exit(bool(found))
