# SPDX-License-Identifier: Apache-2.0
"""The words of ``denizen run bfs``."""

from __future__ import annotations

import argparse
from pathlib import Path

from denizen.arguments import Commands, add_device, to_write
from denizen.errors import ArgumentError


def add(commands: Commands) -> None:
    bfs = commands.add_parser("bfs", help="search a graph from one vertex")
    bfs.add_argument(
        "file", type=Path, metavar="FILE", help=".gr, .mtx or a list of edges; also .gz, .xz"
    )
    bfs.add_argument("--source", type=int, required=True, metavar="N", help="a vertex, from 0")
    bfs.add_argument(
        "--weights", action="store_true", help="shortest paths over the file's weights"
    )
    bfs.add_argument(
        "--method",
        choices=("auto", "narrow", "wide", "launches", "graph", "serial", "tasks"),
        default="auto",
        help="of the search; auto goes by the graph's shape",
    )
    bfs.add_argument(
        "--undirected", action="store_true", help="each line of a list of edges is two arcs"
    )
    bfs.add_argument(
        "--save", type=to_write, metavar="NPZ", help="write distances and parents there"
    )
    add_device(bfs)
    bfs.set_defaults(run=_run)


def _run(given: argparse.Namespace) -> int:
    from denizen.graph import command as graphs  # noqa: PLC0415

    try:
        return graphs.run(
            given.file,
            given.source,
            given.device,
            weights=given.weights,
            method=given.method,
            undirected=given.undirected,
            save=given.save,
        )
    except FileNotFoundError as error:
        raise ArgumentError(f"{error.filename}: {error.strerror}") from error
