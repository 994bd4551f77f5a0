# SPDX-License-Identifier: Apache-2.0
"""The words of ``denizen tune``."""

from __future__ import annotations

import argparse

from denizen.arguments import Commands, add_device


def add(commands: Commands) -> None:
    tune = commands.add_parser("tune", help="find the fastest collectives of this machine, once")
    tune.add_argument("--ranks", type=int, default=2, metavar="N", help="2 (if not given) to 8")
    tune.add_argument("--quick", action="store_true", help="seconds instead of minutes")
    add_device(tune)
    tune.set_defaults(run=_run)


def _run(given: argparse.Namespace) -> int:
    from denizen.group import tuning  # noqa: PLC0415

    return tuning.show(given.ranks, given.device, quick=given.quick)
