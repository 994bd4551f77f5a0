# SPDX-License-Identifier: Apache-2.0
"""Which records are older than the code they measure: by the files that each experiment compiles.

A program's files are its sources in benchmarks/CMakeLists.txt, what they include, and all sources
of the parts (actor, io, ...) that have these headers. Those of cases in Python are their modules of
the lab with what these import, and the C++ that an experiment in Python runs. A change of comments
alone does not count (:mod:`denizen.lab.code_of`).
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from denizen.lab import code_of, record
from denizen.lab.record import EXPERIMENTS, IN_PYTHON, LabError, Record

EXCEPTIONS = "exceptions.json"
_LAB = "python/denizen/lab"
_INCLUDE = re.compile(r'^\s*#\s*include\s*["<]([^">]+)[">]', re.MULTILINE)
_SOURCES = re.compile(r"(?:denizen_program|target_sources)\(bench_(\w+)\s+([^)]*)\)")
_RUN = re.compile(r"\Adenizen(?:\.\w+)+\Z")  # a module that is run by its name
_IMPLEMENTED = (".cpp", ".cu")
# How a program is run, and how figures are computed and shown: not what is measured.
_SHOWN = frozenset({
    "denizen.terminal",
    *(f"denizen.lab.{name}" for name in (
        "age", "code_of", "compare", "curves", "goals", "idle", "limits", "options", "pictures",
        "programs", "record", "schema", "shortfalls", "show", "stats", "summary", "table",
    )),
})  # fmt: skip
# What an experiment in Python runs of C++: where its text begins, and what it calls.
_ACTORS = ("actor/kernel.hpp", "actor/runtime.hpp")
_RUN_BY = {
    "audit": _ACTORS,
    "cluster": (*_ACTORS, "cluster/link.hpp", "cluster/ucx.hpp"),
    "frameworks": _ACTORS,
    "handlers": _ACTORS,
    "infer": ("infer/engine.hpp", "infer/gpu.hpp"),
    "io": (*_ACTORS, "io/service.hpp"),
    "layer": ("group/group.hpp", "group/inside.hpp", "group/norm.hpp"),
    "scale": (*_ACTORS, "cluster/link.hpp", "cluster/ucx.hpp"),
}
# Measured programs start with their optimised code (bench.run), but where a start is timed.
_QUICK_CODE = "python/denizen/quick.py"
_WITH_QUICK_CODE = frozenset({"handlers", "start"})


@dataclass(frozen=True, slots=True)
class Age:
    """A record's file, and of its experiment's files those that changed since it was measured; None
    where the history has no such commit."""

    path: Path
    changed: tuple[str, ...] | None

    @property
    def older(self) -> bool:
        return self.changed is None or bool(self.changed)


def _git(root: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(root), *words], capture_output=True, text=True, timeout=60, check=False
    )
    if done.returncode != 0:
        why = (done.stderr.strip() or "git failed").splitlines()[-1]
        raise LabError(f"{root}: {why}")
    return done.stdout


@cache
def _folders(root: Path) -> list[Path]:
    """Where headers are looked for, and with them what implements them."""
    parts = [root, root / "dsp", root / "infer", root / "lens", *sorted((root / "apps").glob("*"))]
    return [part / inner for part in parts for inner in ("include", "src")] + [root / "benchmarks"]


@cache
def _included(root: Path, path: Path) -> frozenset[Path]:
    found = set()
    for name in _INCLUDE.findall(path.read_text(encoding="utf-8", errors="replace")):
        for folder in (path.parent, *_folders(root)):
            if (folder / name).is_file():
                found.add((folder / name).resolve())
                break
    for folder in _folders(root):
        if folder.name == "include" and path.is_relative_to(folder):
            sources = folder.parent / "src"
            part = sources.joinpath(*path.relative_to(folder / "denizen").parts[:1])
            of = part if part.is_dir() else sources  # a library of one part has no folder for it
            found |= {
                one.resolve()
                for end in _IMPLEMENTED
                for one in of.glob(f"*{end}")
                if not one.name.startswith("bind")  # includes all that Python can call
            }
    return frozenset(found)


def _imported(root: Path, path: Path) -> frozenset[Path]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            names |= {node.module, *(f"{node.module}.{one.name}" for one in node.names)}
        elif isinstance(node, ast.Import):
            names |= {one.name for one in node.names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names |= set(_RUN.findall(node.value))
    found = set()
    for name in names - _SHOWN:
        place = root / "python" / Path(*name.split("."))
        found |= {
            file for file in (place.with_suffix(".py"), place / "__init__.py") if file.is_file()
        }
    return frozenset(found)


def _cases(root: Path) -> dict[str, frozenset[str]]:
    """By experiment, the modules of the lab that have its cases in Python: those in the table of
    cases.py, ``cases`` for its own, and those that it calls for one experiment alone."""
    path = root / _LAB / "cases.py"
    found: dict[str, frozenset[str]] = {}
    if not path.is_file():
        return found
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        told: list[tuple[ast.expr | None, list[ast.expr]]] = []
        match node:
            case ast.AnnAssign(target=ast.Name(id="_CASES"), value=ast.Dict(keys, values)):
                functions = [one.elts for one in values if isinstance(one, ast.Tuple)]
                told = list(zip(keys, functions, strict=True))
            case ast.If(test=ast.Compare(left=ast.Name(id="experiment"), comparators=[name])):
                calls = (one for one in ast.walk(node) if isinstance(one, ast.Call))
                told = [(name, [call.func for call in calls])]
        for key, of in told:
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                found[key.value] = found.get(key.value, frozenset()) | set(map(_module, of))
    return found


def _module(function: ast.expr) -> str:
    """``searches`` of ``searches.bfs``; a name alone is of cases.py itself."""
    match function:
        case ast.Attribute(value=ast.Name(id=module)):
            return module
    return "cases"


def files(root: Path, experiment: str) -> frozenset[str]:
    """The files of ``experiment`` in the checkout ``root``, as paths in it; LabError if none."""
    lab = root / _LAB
    modules = _cases(root).get(experiment, frozenset())
    todo = [lab / f"{name}.py" for name in modules - {"cases"}]
    if experiment in IN_PYTHON:
        todo.append(lab / f"{experiment}.py")
        folders = [folder for folder in _folders(root) if folder.name == "include"]
        for name in _RUN_BY[experiment]:
            todo += [folder / "denizen" / name for folder in folders]
    else:
        text = (root / "benchmarks" / "CMakeLists.txt").read_text(encoding="utf-8")
        for name, sources in _SOURCES.findall(text):
            named = sources.split()
            if name == experiment:
                todo += [root / "benchmarks" / one for one in named if one.endswith(_IMPLEMENTED)]
    todo = [path for path in todo if path.is_file()]
    if not todo:
        raise LabError(f'benchmarks/CMakeLists.txt has no program of experiment "{experiment}"')
    # cases.py imports every experiment's modules: itself alone.
    found: set[Path] = {lab / "cases.py"} if "cases" in modules else set()
    while todo:
        path = todo.pop()
        if path not in found:
            found.add(path)
            reader = _imported if path.suffix == ".py" else _included
            todo += reader(root, path)
    if experiment not in _WITH_QUICK_CODE:
        found.discard(root / _QUICK_CODE)
    return frozenset(path.relative_to(root).as_posix() for path in found)


def _changed_since(root: Path, commit: str) -> frozenset[str] | None:
    """Files of the working tree that are not as in ``commit``; None if it is not in the history."""
    try:
        _git(root, "merge-base", "--is-ancestor", commit, "HEAD")
        return frozenset(_git(root, "diff", "--name-only", commit, "--").splitlines())
    except LabError:
        return None


def _other_code(root: Path, commit: str, file: str) -> bool:
    """Whether ``file`` of the working tree is other code than in ``commit``, or was not there."""
    try:
        before = _git(root, "show", f"{commit}:{file}")
        now = (root / file).read_text(encoding="utf-8")
    except (LabError, OSError, UnicodeDecodeError):
        return True
    return not code_of.same(before, now, Path(file).suffix)


def ages(root: Path, results: Path) -> list[Age]:
    """Each record under ``results`` beside the checkout ``root``, in the order of experiments.

    LabError without the whole history.
    """
    root = root.resolve()
    if _git(root, "rev-parse", "--is-shallow-repository").strip() == "true":
        raise LabError(f"{root}: a shallow clone has no history: git fetch --unshallow")
    changes: dict[str, frozenset[str] | None] = {}
    other_code = cache(_other_code)  # many records are of one commit
    of: dict[str, frozenset[str]] = {}
    made = []
    for one in record.read_all(results):
        commit = one.commit.partition("-")[0]
        if commit not in changes:
            changes[commit] = _changed_since(root, commit)
        if one.experiment not in of:
            of[one.experiment] = files(root, one.experiment)
        changed = changes[commit]
        told = None
        if changed is not None:
            touched = sorted(changed & of[one.experiment])
            told = tuple(file for file in touched if other_code(root, commit, file))
        made.append(Age(_name(one), told))
    return made


def _name(one: Record) -> Path:
    return record.path_in(Path(), one)


def today(root: Path) -> str:
    """The date of the checkout's last commit: what a tree says does not change by waiting."""
    return _git(root, "log", "-1", "--format=%cs").strip()


def exceptions(results: Path) -> dict[str, str]:
    """By experiment, or by experiment and device as ``ring/nvidia-h200``, until when its records
    may be older than their code; LabError if misnamed."""
    path = results / EXCEPTIONS
    try:
        found: dict[str, str] = json.loads(path.read_text(encoding="utf-8"))["until"]
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LabError(f"{path}: {error}; expected an object until of experiments") from error
    for name, until in found.items():
        known = name.partition("/")[0] in EXPERIMENTS
        known = known and ("/" not in name or (results / f"{name}.json").is_file())
        if not known or not re.fullmatch(r"\d{4}-\d{2}-\d{2}", until):
            raise LabError(f'{path}: "{name}": "{until}" is no experiment with its date')
    return found


def excuse(age: Age, allowed: dict[str, str]) -> str | None:
    """Until when the record may be older: its own exception, else its experiment's."""
    return allowed.get(age.path.with_suffix("").as_posix(), allowed.get(age.path.parts[0]))


def complaints(found: Iterable[Age], allowed: dict[str, str], now: str) -> list[str]:
    """A line on each record that is older and may not be, or not any more.

    One whose commit is not in the history never may: nobody can look at what it measured.
    """
    told = []
    for age in found:
        if age.changed is None:
            told.append(f"{age.path}: {why(age)}: measure it again, or remove it")
            continue
        until = excuse(age, allowed)
        if age.older and (until is None or now > until):
            late = "" if until is None else f"; it was allowed to be until {until}"
            told.append(f"{age.path} is older than its code ({why(age)}){late}: measure it again")
    return told


def why(age: Age) -> str:
    """How much of the code has changed, in words."""
    if age.changed is None:
        return "its commit is not in this history"
    if not age.changed:
        return "nothing changed"
    more = f" and {len(age.changed) - 1} more" if len(age.changed) > 1 else ""
    return f"{age.changed[0]}{more} changed"
