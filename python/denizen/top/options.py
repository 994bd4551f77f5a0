# SPDX-License-Identifier: Apache-2.0
"""The words of ``denizen top``."""

from __future__ import annotations

import argparse

from denizen.arguments import Commands


def add(commands: Commands) -> None:
    top = commands.add_parser("top", help="show a program that serves its metrics, live")
    which = top.add_mutually_exclusive_group()
    which.add_argument("--url", help="what serve_metrics() returned")
    which.add_argument("--pid", type=int, help="the process that serves it, if there are several")
    which.add_argument(
        "--all", action="store_true", help="a line for each: all hosts of a cluster, for instance"
    )
    top.add_argument("--once", action="store_true", help="print one reading and leave")
    top.set_defaults(run=_run)


def _run(given: argparse.Namespace) -> int:
    from denizen.top import command  # noqa: PLC0415  (needs Rich)

    if given.all:
        return command.run_all(plain=given.once)
    return command.run(given.url, given.pid, plain=given.once)
