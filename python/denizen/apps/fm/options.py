# SPDX-License-Identifier: Apache-2.0
"""The words of ``denizen run fm``."""

from __future__ import annotations

import argparse

from denizen.arguments import Commands, positive, to_write
from denizen.errors import ArgumentError
from denizen.iq.options import SOURCES, rate


def add(commands: Commands) -> None:
    fm = commands.add_parser("fm", help="audio of a broadcast FM station, in stereo")
    fm.add_argument("file", metavar="FILE", help=f"I/Q: {SOURCES}")
    fm.add_argument("-o", "--out", type=to_write, metavar="WAV", help="where the audio goes")
    fm.add_argument("--rate", type=rate, metavar="HZ", help="samples a second, such as 2.4e6")
    fm.add_argument("--format", choices=("u8", "i16", "f32"), help="of I and of Q; u8 if not given")
    fm.add_argument(
        "--de-emphasis",
        type=int,
        choices=(50, 75, 0),
        default=50,
        metavar="US",
        help="microseconds: 50, 75 (the Americas, South Korea), 0 (none)",
    )
    fm.add_argument(
        "--generate", action="store_true", help="write a made signal to FILE instead of reading"
    )
    fm.add_argument("--seconds", type=positive, default=5.0, help="with --generate")
    fm.set_defaults(run=_run)


def _run(given: argparse.Namespace) -> int:
    from denizen.apps.fm import command as fm  # noqa: PLC0415

    emphasis = given.de_emphasis * 1e-6
    if given.generate:
        return fm.generate(
            given.file,
            rate=given.rate or 240_000,
            form=given.format or "u8",
            seconds=given.seconds,
            emphasis=emphasis,
        )
    if given.out is None:
        raise ArgumentError("give the file for the audio: -o WAV")
    return fm.run(given.file, given.out, rate=given.rate, form=given.format, de_emphasis=emphasis)
