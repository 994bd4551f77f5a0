# SPDX-License-Identifier: Apache-2.0
"""The words of ``denizen tour``."""

from __future__ import annotations

import argparse
from pathlib import Path

from denizen.arguments import Commands, add_device, to_write


def add(commands: Commands) -> None:
    tour = commands.add_parser("tour", help="every part once, checked, and a page to send around")
    tour.add_argument(
        "-o",
        "--out",
        type=to_write,
        default=Path("tour.html"),
        metavar="HTML",
        help="the page; tour.html if not given",
    )
    tour.add_argument(
        "--only", action="append", default=[], metavar="STOP", help="one stop; may be repeated"
    )
    tour.add_argument("--list", action="store_true", help="name the stops")
    add_device(tour)
    tour.set_defaults(run=_run)


def _run(given: argparse.Namespace) -> int:
    from denizen.tour import command  # noqa: PLC0415

    if given.list:
        return command.show_list()
    return command.run(given.device, given.out, given.only)
