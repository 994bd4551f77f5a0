# SPDX-License-Identifier: Apache-2.0
"""``denizen check``: whether the programs of a file compile for the CPU and for GPUs.

NVRTC needs no GPU, so a machine without one can tell whether a program will run on one.
"""

from __future__ import annotations

import argparse
import re
import runpy
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path

from denizen import tasks, terminal
from denizen.actor import ActorType
from denizen.arguments import Commands
from denizen.errors import CompileError, DataError
from denizen.program import Program

AnyProgram = Program | tasks.Program


def add(commands: Commands) -> None:
    to = commands.add_parser(
        "check", help="compile a file's programs for CPU and GPU; needs no GPU"
    )
    to.add_argument(
        "file",
        type=Path,
        help="Python that makes programs or actors at its top level",
    )
    to.add_argument(
        "--arch",
        type=architecture,
        action="append",
        metavar="N",
        help="a GPU's compute capability times ten: 80, 90 (default), 100; may be given repeatedly",
    )
    to.set_defaults(run=lambda given: check(given.file, given.arch or [90]))


def architecture(text: str) -> int:
    match = re.fullmatch(r"(?:sm_)?(\d{2,3})", text)
    if match is None:
        raise argparse.ArgumentTypeError(f'"{text}" is no architecture; use 80, 90, 100')
    return int(match[1])


def check(file: Path, architectures: Iterable[int]) -> int:
    """Print one line for each program and target; 0 if all compile, else 1."""
    if not file.is_file():
        raise DataError(f"{file}: no such file; expected Python with programs or actors")
    programs = _programs(file)
    if programs is None:
        return 1
    if not programs:
        raise DataError(
            f"{file}: no denizen.Program or actor at its top level; make it there, outside "
            'functions and outside `if __name__ == "__main__"`'
        )
    failed = 0
    for name, program in programs.items():
        failed += not _compiles(f"{name}, CPU", program.compile_cpu)
        for arch in architectures:
            failed += not _compiles(f"{name}, GPU sm_{arch}", lambda: program.compile_gpu(arch))  # noqa: B023
    return 1 if failed else 0


def _compiles(what: str, build: Callable[[], object]) -> bool:
    begin = time.perf_counter()
    try:
        with terminal.working(what):
            build()
    except CompileError as error:
        print(f"{what}: does not compile", flush=True)
        print(f"denizen: {error}", file=sys.stderr, flush=True)
        return False
    print(f"{what}: compiles ({time.perf_counter() - begin:.1f} s)", flush=True)
    return True


def _programs(file: Path) -> dict[str, AnyProgram] | None:
    """By the name of their variables; None if the file itself fails, which is then printed."""
    path = str(file.resolve().parent)
    sys.path.insert(0, path)
    try:
        names = runpy.run_path(str(file), run_name="denizen_check")
    except Exception as error:
        below = error.__traceback__
        while below is not None and below.tb_frame.f_code.co_filename != str(file):
            below = below.tb_next  # ends at the file's own frame, or behind the last one
        if below is None and not isinstance(error, SyntaxError):  # which names the line itself
            below = error.__traceback__
        traceback.print_exception(type(error), error, below)
        return None
    finally:
        sys.path.remove(path)
    found: dict[str, AnyProgram] = {}
    for name, value in names.items():
        if isinstance(value, AnyProgram) and value not in found.values():
            found[name] = value
    # Actors in Python that the file gives to denizen.Runtime() as they are.
    taken = [one for p in found.values() if isinstance(p, Program) for one in p.in_python]
    loose = dict.fromkeys(v for v in names.values() if isinstance(v, ActorType) and v not in taken)
    if loose:
        name = " and ".join(actor.name for actor in loose)
        found[name] = Program(actors=list(loose), name=name)
    return found
