# SPDX-License-Identifier: Apache-2.0
"""The words of ``denizen lens``, which must not touch those of the program."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from denizen.arguments import Parser, to_write

_VIEWS = ("show", "report", "diff")


def run(words: Sequence[str]) -> int:
    """The command ``denizen lens``: options up to ``--``, then a program; or a view of captures."""
    from denizen.lens import command as lens  # noqa: PLC0415

    if words and words[0] in _VIEWS:
        parser = Parser(prog=f"denizen lens {words[0]}")
        if words[0] == "diff":
            parser.add_argument("a", type=Path, metavar="A")
            parser.add_argument("b", type=Path, metavar="B")
            given = parser.parse_args(words[1:])
            return lens.diff(given.a, given.b)
        parser.add_argument("file", type=Path, metavar="FILE")
        if words[0] == "show":
            return lens.show(parser.parse_args(words[1:]).file)
        parser.add_argument("-o", dest="out", type=to_write, metavar="HTML", help="the page")
        parser.add_argument(
            "--perfetto", type=to_write, metavar="FILE", help="a trace for ui.perfetto.dev instead"
        )
        given = parser.parse_args(words[1:])
        return lens.report(given.file, given.out, given.perfetto)
    if words and words[0] == "attach":
        return _attach(words[1:])
    at = words.index("--") if "--" in words else len(words)
    parser = Parser(
        prog="denizen lens",
        usage="denizen lens [options] -- PROGRAM ...\n"
        "       denizen lens --sleep -- PROGRAM ... | attach PID [options]\n"
        "       denizen lens show FILE | report FILE [-o HTML | --perfetto FILE] | diff A B",
        description="Record what a program makes the CUDA driver submit to the GPU.",
    )
    _add_outputs(parser)
    parser.add_argument(
        "--sleep",
        action="store_true",
        help="record nothing until denizen lens attach: no doorbell traps before, nor after it",
    )
    parser.add_argument(
        "--cupti",
        action="store_true",
        help="name and count calls by CUPTI too, for which the driver submits more",
    )
    parser.add_argument("--force", action="store_true", help="with a driver that is not known too")
    given = parser.parse_args(words[:at])
    if given.sleep:
        others = (given.json, given.perfetto, given.out, given.cupti, given.live)
        if any(others) or given.mode != "count":
            parser.error("--sleep records nothing: give --mode and the files to attach")
        return lens.sleep(words[at + 1 :], force=given.force)
    return lens.run(
        words[at + 1 :],
        mode=given.mode,
        force=given.force,
        cupti=given.cupti,
        live=given.live,
        out=given.out,
        json=given.json,
        trace=given.perfetto,
    )


def _add_outputs(parser: Parser) -> None:
    parser.add_argument(
        "--mode", choices=("count", "full"), default="count", help="full: with the contents"
    )
    parser.add_argument("--json", type=to_write, metavar="FILE", help="one line per submission")
    parser.add_argument("--perfetto", type=to_write, metavar="FILE", help="for ui.perfetto.dev")
    parser.add_argument("-o", dest="out", type=to_write, metavar="FILE", help="keep the log")
    parser.add_argument("--live", action="store_true", help="a table while it runs")


def _attach(words: Sequence[str]) -> int:
    from denizen.lens import command as lens  # noqa: PLC0415

    parser = Parser(
        prog="denizen lens attach",
        description="Record a process that denizen lens --sleep has started, until Ctrl-C.",
    )
    parser.add_argument("pid", type=int, metavar="PID", help="its number")
    parser.add_argument("--seconds", type=float, metavar="S", help="detach after S seconds")
    _add_outputs(parser)
    given = parser.parse_args(words)
    return lens.attach_to(
        given.pid,
        mode=given.mode,
        seconds=given.seconds,
        live=given.live,
        out=given.out,
        json=given.json,
        trace=given.perfetto,
    )
