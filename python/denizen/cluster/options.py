# SPDX-License-Identifier: Apache-2.0
"""The words of ``denizen cluster``."""

from __future__ import annotations

import argparse

from denizen.arguments import Commands


def add(commands: Commands) -> None:
    cluster = commands.add_parser("cluster", help="several hosts, on this machine or where Ray is")
    verbs = cluster.add_subparsers(dest="verb", required=True, metavar="VERB")
    up = verbs.add_parser(
        "up", help="start hosts whose actors send each other messages, and watch them"
    )
    up.add_argument(
        "--hosts",
        type=int,
        metavar="N",
        help="2 or more; if not given 3, or with --ray one on each node",
    )
    up.add_argument(
        "--ray",
        nargs="?",
        const="",
        metavar="ADDRESS",
        help="where Ray places them: the address of its cluster, as ray.init() takes it",
    )
    up.add_argument(
        "--device", default="cpu:1", metavar="DEVICE", help="of each host: cpu:THREADS, gpu:N"
    )
    up.add_argument(
        "--transport",
        choices=("auto", "rings", "tcp", "ucx"),
        help="if not given auto: rings, between machines ucx or tcp",
    )
    up.add_argument(
        "--deadline", type=float, default=2.0, metavar="S", help="silence after which one is lost"
    )
    up.add_argument("--seconds", type=float, metavar="S", help="end by itself; else by Ctrl-C")
    up.add_argument(
        "--metrics", action="store_true", help="each host serves its metrics, for denizen top --all"
    )
    up.set_defaults(run=_up)


def _up(given: argparse.Namespace) -> int:
    from denizen.cluster import command  # noqa: PLC0415

    return command.up(
        given.hosts,
        given.device,
        given.transport,
        given.deadline,
        ray=given.ray,
        seconds=given.seconds,
        metrics=given.metrics,
    )
