# SPDX-License-Identifier: Apache-2.0
"""The words of ``denizen run procmine``."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from denizen import terminal
from denizen.apps.hosts import add_hosts
from denizen.arguments import Commands, add_device, to_write
from denizen.errors import ArgumentError, ExhaustedError, MissingPackageError
from denizen.procmine import Thresholds
from denizen.procmine.times import parser as time_parser
from denizen.procmine.times import zone_of

_UNITS = {"s": 1, "min": 60, "h": 3600, "d": 86_400}


def _span(text: str) -> int:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(s|min|h|d)", text)
    if found is None:
        raise argparse.ArgumentTypeError(f'"{text}" is no duration; use one such as 90s, 2h, 3.5d')
    return round(float(found[1]) * _UNITS[found[2]] * 1_000_000)


def _pair(text: str) -> tuple[str, str]:
    key, found, value = text.partition("=")
    if not found or not key:
        raise argparse.ArgumentTypeError(f'"{text}" is no KEY=VALUE')
    return key, value


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f'"{text}" is no share, 0 to 1')
    return value


def add(commands: Commands) -> None:
    parser = commands.add_parser("procmine", help="process mining: what happens in a log of events")
    parser.add_argument("file", type=Path, metavar="LOG", help=".xes, .csv (also .gz), .parquet")
    parser.add_argument("--json", action="store_true", help="everything as JSON, and no tables")
    parser.add_argument("--html", type=to_write, metavar="FILE", help="write a report: one page")
    parser.add_argument("--variants", type=int, default=10, metavar="N", help="in the table")
    parser.add_argument(
        "--stream",
        action="store_true",
        help="send the events in order of the file through an actor for each case",
    )
    parser.add_argument(
        "--late", type=_span, default=0, metavar="SPAN", help="with --stream: lateness to wait for"
    )
    parser.add_argument(
        "--edges", type=int, metavar="N", help="with --stream: room for so many edges (8 KB each)"
    )
    parser.add_argument(
        "--generate", type=int, metavar="N", help="write a made log of about N events to LOG (CSV)"
    )
    parser.add_argument("--seed", type=int, default=1, help="with --generate")
    _reading(parser.add_argument_group("reading"))
    _cases(parser.add_argument_group("only these cases"))
    _patterns(parser.add_argument_group("patterns"))
    agree = parser.add_argument_group("conformance")
    agree.add_argument(
        "--reference", type=Path, metavar="FILE", help="a log, or a graph as JSON, to compare with"
    )
    agree.add_argument(
        "--save-reference",
        type=to_write,
        metavar="JSON",
        help="write this log's graph as a reference",
    )
    agree.add_argument(
        "--least", type=int, default=1, metavar="N", help="a reference's edges occur N times"
    )
    add_hosts(parser, "cases spread over them")
    add_device(parser)
    parser.set_defaults(run=run)


def _reading(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--on-error",
        choices=("stop", "count"),
        default="count",
        help="at XML that is broken, events without case, activity or time, negative durations",
    )
    group.add_argument("--case", metavar="KEY", help="what names the case")
    group.add_argument(
        "--activity", action="append", metavar="KEY", help="the activity; twice: joined by +"
    )
    group.add_argument("--time", metavar="KEY", help="when it happened, or ended")
    group.add_argument("--start", metavar="KEY", help="when it began")
    group.add_argument(
        "--executions", action="store_true", help="one event for each start and complete event"
    )
    group.add_argument("--zone", default="UTC", help="of times without an offset: Europe/Berlin")


def _cases(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--from", dest="begin", metavar="TIME", help="ISO 8601")
    group.add_argument("--to", dest="end", metavar="TIME", help="this moment is outside")
    group.add_argument(
        "--window",
        choices=("within", "touching", "starting", "ending"),
        default="within",
        help="which of a case's events must be from --from to --to",
    )
    for name in ("contains", "without", "starts-with", "ends-with"):
        group.add_argument(
            f"--{name}", action="append", default=[], metavar="ACTIVITY", help="may be repeated"
        )
    group.add_argument("--longer", type=_span, metavar="SPAN", help="such as 90s, 15min, 2h, 3.5d")
    group.add_argument("--shorter", type=_span, metavar="SPAN")
    group.add_argument(
        "--where", type=_pair, action="append", default=[], metavar="KEY=VALUE",
        help="an attribute of the case or of one of its events",
    )  # fmt: skip


def _patterns(group: argparse._ArgumentGroup) -> None:
    usual = Thresholds()
    for name, value, what in (
        ("rework", usual.rework, "share of an activity's cases that do it again"),
        ("loop", usual.loop, "share of cases that repeat a block at once"),
        ("bottleneck", usual.bottleneck, "share of all steps' time that one edge takes"),
    ):
        group.add_argument(f"--{name}", type=_share, default=value, metavar="SHARE", help=what)
    group.add_argument("--loop-length", type=int, default=usual.loop_length, metavar="N")
    group.add_argument(
        "--slow", type=float, default=usual.slow, help="a bottleneck's median / the usual one"
    )
    group.add_argument(
        "--long-running",
        type=float,
        default=usual.long_running,
        metavar="K",
        help="interquartile ranges above the third quartile",
    )
    group.add_argument("--evidence", type=int, default=usual.evidence, metavar="N")


def run(given: argparse.Namespace) -> int:
    """The command; its exit status."""
    from denizen.apps.procmine import command  # noqa: PLC0415  (most commands do not need it)

    try:
        if given.generate is not None:
            return command.generate(given.file, given.generate, given.seed)
        parse = time_parser(zone_of(given.zone))

        def moment(text: str | None) -> int | None:
            try:
                return None if text is None else parse(text)
            except ValueError as error:
                raise ArgumentError(str(error)) from error

        thresholds = Thresholds(
            rework=given.rework,
            loop=given.loop,
            loop_length=given.loop_length,
            bottleneck=given.bottleneck,
            slow=given.slow,
            long_running=given.long_running,
            evidence=given.evidence,
        )
        reading = {
            "on_error": given.on_error,
            "case": given.case,
            "activity": tuple(given.activity or ()),
            "time": given.time,
            "start": given.start,
            "zone": given.zone,
        }
        cases = {
            "begin": moment(given.begin),
            "end": moment(given.end),
            "window": given.window,
            "contains": given.contains,
            "without": given.without,
            "starts_with": given.starts_with,
            "ends_with": given.ends_with,
            "least": given.longer,
            "most": given.shorter,
            "where": dict(given.where),
        }
        return command.run(
            given.file,
            given.device,
            reading=reading,
            cases=cases,
            thresholds=thresholds,
            as_json=given.json,
            html=given.html,
            variants=given.variants,
            reference=given.reference,
            save_reference=given.save_reference,
            least=given.least,
            executions=given.executions,
            stream=given.late if given.stream else None,
            edges=given.edges,
            hosts=given.hosts,
            transport=given.transport,
            trace=given.trace,
        )
    except (ArgumentError, ExhaustedError, MissingPackageError) as error:
        terminal.error(str(error))
        return 2
