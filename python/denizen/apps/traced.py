# SPDX-License-Identifier: Apache-2.0
"""``--trace FILE``: one option for all programs of ``denizen run``.

The command line has it from add(), and check() refuses it before anything is read. A program that
sends messages runs its stream inside ``with traced(runtime, path):``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from denizen.arguments import Commands
from denizen.errors import ArgumentError
from denizen.trace import require_perfetto

if TYPE_CHECKING:
    from denizen.cluster import Cluster
    from denizen.runtime import Runtime

# By program: what the program consists of where it sends no messages.
_WITHOUT_MESSAGES = {
    "adsb": "it hands samples from block to block",
    "bfs": "its search is one piece of work on the device",
    "fm": "it hands samples from block to block",
    "wave": "it is steps of a grid",
}


def add(apps: Commands) -> None:
    """The option, to the parser of each program."""
    for app in apps.choices.values():
        app.add_argument(
            "--trace",
            type=Path,
            metavar="FILE",
            help="trace the program's messages to a file for ui.perfetto.dev",
        )


def check(given: argparse.Namespace) -> None:
    """Raises ArgumentError if these words make no trace, MissingPackageError without perfetto."""
    if given.command != "run" or given.trace is None:
        return
    name = f"denizen run {given.app}"
    reason = _WITHOUT_MESSAGES.get(given.app)
    if reason is not None:
        raise ArgumentError(f"{name} has no messages to trace: {reason}; leave out --trace")
    if given.app == "procmine" and (not given.stream or given.generate is not None):
        raise ArgumentError(
            f"{name} has messages to trace with --stream alone; add it, or leave out --trace"
        )
    if given.hosts is not None and given.app != "flights":
        raise ArgumentError(
            f"{name} is traced on one host: several hand each other batches, not messages; "
            "leave out --trace, or --hosts"
        )
    folder = given.trace.parent
    if given.trace.is_dir() or not folder.is_dir():
        what = "is a folder" if given.trace.is_dir() else f"cannot be made: {folder} is no folder"
        raise ArgumentError(f"--trace: {given.trace} {what}")
    require_perfetto()


@contextmanager
def traced(runtime: Runtime | Cluster, path: Path | None) -> Iterator[None]:
    """Traces what is sent inside to `path`, if there is one; says on stderr how much that was.

    What the block has sent is handled when it ends, or not in the trace. After an error no file is
    written.
    """
    if path is None:
        yield
        return
    tracer = runtime.trace(path)  # made with trace=True
    tracer.begin()
    try:
        yield
    except BaseException:
        tracer.drop()
        raise
    tracer.end()
    lost = f", {tracer.overwritten:,} were lost" if tracer.overwritten else ""
    print(f"{path}: {tracer.records:,} trace records{lost}", file=sys.stderr)
