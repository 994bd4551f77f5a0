# SPDX-License-Identifier: Apache-2.0
"""The words of ``denizen ab``."""

from __future__ import annotations

import argparse
from pathlib import Path

from denizen.arguments import Commands, to_write


def add(commands: Commands) -> None:
    ab = commands.add_parser("ab", help="compare two or more ways of doing the same work")
    views = ab.add_subparsers(dest="view", required=True, metavar="WHAT")
    compare = views.add_parser("run", help="measure an experiment; 1 if any of it is void")
    compare.add_argument("file", type=Path, metavar="FILE.py", help="defines one Experiment")
    compare.add_argument("--json", type=to_write, metavar="FILE", help="write the record there")
    compare.add_argument(
        "--profile",
        choices=("nsys", "ncu"),
        help="afterwards run each arm once under a profiler; the record and the page have it",
    )
    compare.set_defaults(run=_run)
    drawn = views.add_parser("report", help="draw records as one page without other files")
    drawn.add_argument("records", type=Path, nargs="+", metavar="RECORD")
    drawn.add_argument(
        "-o", dest="out", type=to_write, required=True, metavar="HTML", help="the page"
    )
    drawn.set_defaults(run=_report)


def _run(given: argparse.Namespace) -> int:
    from denizen.ab import command  # noqa: PLC0415

    return command.run(given.file, given.json, given.profile)


def _report(given: argparse.Namespace) -> int:
    from denizen.ab import command  # noqa: PLC0415

    return command.report(given.records, given.out)
