# SPDX-License-Identifier: Apache-2.0
"""The words of ``denizen run wave``."""

from __future__ import annotations

import argparse
from pathlib import Path

from denizen.arguments import Commands, port, positive, to_write
from denizen.errors import ArgumentError


def add(commands: Commands) -> None:
    wave = commands.add_parser("wave", help="sound in a room of cells, steered while it runs")
    wave.add_argument("--size", default="64", metavar="N|NZxNYxNX", help="cells; 64 if not given")
    wave.add_argument("--steps", type=int, metavar="N", help="500; 2**30 with --live")
    wave.add_argument("--spacing", type=positive, default=0.1, metavar="M", help="of cells")
    wave.add_argument("--speed", type=positive, default=343.0, metavar="M/S", help="of sound")
    wave.add_argument("--dt", type=positive, metavar="S", help="spacing / (2 speed) if not given")
    wave.add_argument("--damping", type=float, default=0.0, metavar="1/S")
    wave.add_argument(
        "--boundary",
        default="absorbing",
        metavar="B[,B,B]",
        help="reflecting, absorbing (if not given) or periodic; or three for z, y and x",
    )
    wave.add_argument(
        "--mask", type=Path, metavar="NPY", help="kinds of cells: 0 normal to 3 obstacle; the size"
    )
    wave.add_argument(
        "--source",
        action="append",
        default=[],
        metavar="S@z,y,x",
        help="impulse, ricker:HZ, sine:HZ or wav:FILE, then *AMPLITUDE if not 1; may be repeated",
    )
    wave.add_argument(
        "--receiver", action="append", default=[], metavar="z,y,x", help="may be repeated"
    )
    wave.add_argument("-o", "--out", type=to_write, metavar="WAV|CSV", help="what receivers heard")
    wave.add_argument("--save", type=to_write, metavar="NPZ", help="write the last field there")
    wave.add_argument("--movie", type=to_write, metavar="GIF|MP4", help="film a slice")
    wave.add_argument(
        "--live",
        type=port,
        nargs="?",
        const=0,
        metavar="PORT",
        help="show and steer a slice on a page of this machine; 0: any port",
    )
    wave.add_argument(
        "--pace",
        type=_pace,
        metavar="N",
        help="with --live: steps a second, 0: all it can; a wave crosses in 2.5 s if not given",
    )
    wave.add_argument("--axis", choices=("z", "y", "x"), default="z", help="across the slice")
    wave.add_argument("--at", type=int, metavar="N", help="where the slice is; the middle")
    wave.add_argument(
        "--method",
        choices=("auto", "threads", "launches", "graph", "tiles", "deep", "pass2", "pass4"),
        default="auto",
        help="auto tries on a GPU what the grid fits",
    )
    wave.add_argument("--double", action="store_true", help="in double precision")
    wave.add_argument(
        "--device",
        default="auto",
        help="auto (a GPU if there is one), cpu, cpu:THREADS, gpu:INDEX; the grid in slabs: "
        "gpu:FIRST-LAST, cpu:SLABSxTHREADS",
    )
    wave.set_defaults(run=_run)


def _pace(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1e6:
        raise argparse.ArgumentTypeError(f'"{text}" is no number of steps a second, 0 to 1e6')
    return value


def _run(given: argparse.Namespace) -> int:
    from denizen.apps.wave import command as wave  # noqa: PLC0415

    words = {name: getattr(given, name) for name in wave.Options.__slots__ if hasattr(given, name)}
    words |= {"sources": tuple(given.source), "receivers": tuple(given.receiver)}
    try:
        return wave.run(wave.Options(**words))
    except FileNotFoundError as error:
        raise ArgumentError(f"{error.filename}: {error.strerror}") from error
