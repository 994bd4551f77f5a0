# SPDX-License-Identifier: Apache-2.0
"""The words of ``denizen bench``."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from denizen import terminal
from denizen.arguments import Commands, add_device
from denizen.errors import DenizenError
from denizen.files import Part
from denizen.lab import record
from denizen.lab.record import EXPERIMENTS, GPUS, LabError, Record


def add(commands: Commands) -> None:
    measure = commands.add_parser("bench", help="measure, write records, make tables")
    experiments = measure.add_subparsers(dest="experiment", required=True, metavar="EXPERIMENT")
    for name, heading in EXPERIMENTS.items():
        one = experiments.add_parser(name, help=_about(heading))
        one.add_argument("--json", type=Path, metavar="FILE", help="write the record there")
        one.add_argument("--quick", action="store_true", help="seconds instead of minutes")
        add_device(one)
        one.set_defaults(run=_one)
    every = experiments.add_parser("all", help="all experiments")
    every.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="DIR",
        help="for <experiment>/<device>.json, and report.html of all that are there",
    )
    every.add_argument("--quick", action="store_true", help="seconds instead of minutes")
    every.add_argument(
        "--idle", action="store_true", help="refuse to begin while others are at work here"
    )
    add_device(every)
    every.set_defaults(run=_all)
    tables = experiments.add_parser("table", help="put the figures of the records into a page")
    tables.add_argument("--results", type=Path, default=Path("benchmarks/results"), metavar="DIR")
    tables.add_argument("--page", type=Path, default=Path("docs/figures.md"), metavar="FILE")
    tables.add_argument("--check", action="store_true", help="change nothing; 1 if out of date")
    tables.set_defaults(run=_table)
    pages = experiments.add_parser("report", help="the records of a folder as one page")
    pages.add_argument("--results", type=Path, default=Path("benchmarks/results"), metavar="DIR")
    pages.add_argument("-o", dest="page", type=Path, required=True, metavar="FILE")
    pages.set_defaults(run=_report)
    two = experiments.add_parser("compare", help="what differs between records of one experiment")
    two.add_argument("before", type=Path, metavar="BEFORE", help="a record, or a folder of them")
    two.add_argument("now", type=Path, metavar="NOW", help="likewise")
    two.set_defaults(run=_compare)
    old = experiments.add_parser("older", help="records that are older than the code they measure")
    old.add_argument("--results", type=Path, default=Path("benchmarks/results"), metavar="DIR")
    old.set_defaults(run=_older)


def _about(heading: str) -> str:
    """What stands behind the name in the heading of an experiment's tables."""
    what = heading.partition(": ")[2] or heading
    return what[0].lower() + what[1:]


def _one(given: argparse.Namespace) -> int:
    from denizen.lab import bench, show  # noqa: PLC0415

    if given.json is not None:
        _need_place(given.json)
    with terminal.working(f"measuring {given.experiment}"):
        result = bench.run(given.experiment, given.device, quick=given.quick)
    show.show(result)
    kept = given.json is None or _keep(result, given.json)
    if not result.verified:
        terminal.error(f"{given.experiment}: the work was not verified")
    return 0 if kept and result.verified else 1


def _need_place(path: Path) -> None:
    """LabError or OSError, before minutes are spent, where no file can be made."""
    if path.is_dir():
        raise LabError(f"{path}: is a folder; expected a file to write the record to")
    path.parent.mkdir(parents=True, exist_ok=True)
    Part(path).discard()


def _keep(result: Record, path: Path) -> bool:
    """Whether the record could be written to ``path``. If not (a full disk) it is not lost: it lies
    in the system's folder for temporary files, and the error says where."""
    gone = _gone(result, path)
    try:
        record.write(result, path)
    except OSError as error:
        terminal.error(f"{path}: {error.strerror or error}")
        spare = Path(tempfile.mkdtemp(prefix="denizen-bench-")) / f"{result.experiment}.json"
        record.write(result, spare)
        terminal.error(f"{result.experiment}: the record is in {spare}")
        return False
    if gone:
        terminal.error(f"{path}: the record before had what this one has not: {gone}")
    return True


def _gone(result: Record, path: Path) -> str:
    """Rows that the record in ``path`` has and ``result`` has not, in words: a rival that is not
    installed, a graph that was not there."""
    from denizen.lab import compare  # noqa: PLC0415

    try:
        return compare.in_words(compare.compared(record.read(path), result).gone)
    except LabError:  # none is there, or of another experiment
        return ""


def _all(given: argparse.Namespace) -> int:
    from denizen.lab import idle  # noqa: PLC0415

    out: Path = given.out
    _need_place(out / "report.html")
    if given.idle:
        idle.need()
    left = list(EXPERIMENTS)
    status = 0
    try:
        while left:  # ends: each turn takes one
            status |= _measured(left[0], given)
            del left[0]
    except (KeyboardInterrupt, SystemExit):
        terminal.error(f"stopped: without a record of this run are {', '.join(left)}")
        raise
    finally:
        if out.is_dir() and (records := record.read_all(out)):
            _write_report(out / "report.html", records)
    return status


def _measured(experiment: str, given: argparse.Namespace) -> int:
    """Measures, shows and keeps one of all; 1 if there is no record of it."""
    from denizen import _core  # noqa: PLC0415
    from denizen.lab import bench, show  # noqa: PLC0415

    here = 0 if given.device.startswith("cpu") else _core.gpu_count()
    if (needed := GPUS.get(experiment, 0)) > here:
        terminal.line(f"{experiment}: needs {needed} GPUs; here are {here}")
        return 0
    try:
        with terminal.working(f"measuring {experiment}"):
            result = bench.run(experiment, given.device, quick=given.quick)
    except (LabError, DenizenError) as error:
        terminal.error(f"{experiment}: {error}")
        return 1
    show.show(result)
    terminal.line(f"{experiment}: {result.environment['seconds']} s")
    if not result.verified:  # a record with wrong results must not replace a good one
        terminal.error(f"{experiment}: the work was not verified, no record was written")
        return 1
    return 0 if _keep(result, record.path_in(given.out, result)) else 1


def _report(given: argparse.Namespace) -> int:
    _need_folder(given.results)
    records = record.read_all(given.results)
    if not records:
        raise LabError(f"{given.results}: no records; `denizen bench all --out` makes them")
    _write_report(given.page, records)
    return 0


def _write_report(path: Path, records: list[Record]) -> None:
    from denizen.files import write_text  # noqa: PLC0415
    from denizen.lab import report  # noqa: PLC0415

    write_text(path, report.page(records))
    terminal.line(f"{path}: {terminal.counted(len(records), 'record')}")


def _table(given: argparse.Namespace) -> int:
    from denizen.lab import table  # noqa: PLC0415

    results: Path = given.results
    page: Path = given.page
    _need_folder(results)
    records = record.read_all(results)
    if given.check:
        if not table.current(page, records):
            terminal.error(f"{page} is out of date: run denizen bench table")
            return 1
        return 0
    with terminal.working(f"drawing {len(records)} records"):
        changed = table.update(page, records)
    print(f"{page}: {'written' if changed else 'up to date'}, {len(records)} records")
    return 0


def _need_folder(results: Path) -> None:
    if not results.is_dir():
        raise LabError(f"{results}: no such folder; expected <experiment>/<device>.json in it")


def _compare(given: argparse.Namespace) -> int:
    from denizen.lab import compare  # noqa: PLC0415

    for before, now in compare.pairs(given.before, given.now):
        compare.show(before, now)
    return 0


def _older(given: argparse.Namespace) -> int:
    from denizen import machine  # noqa: PLC0415
    from denizen.lab import age  # noqa: PLC0415

    results: Path = given.results
    root = machine.checkout()
    if root is None:
        raise LabError("the project's checkout is not here: run this in it")
    _need_folder(results)
    with terminal.working("asking git when each was taken"):
        found = age.ages(root, results)
    allowed = age.exceptions(results)
    rows = [
        (one.path.as_posix(), age.why(one), age.excuse(one, allowed) or "-")
        for one in found
        if one.older
    ]
    terminal.table("records older than their code", ("record", "why", "allowed until"), rows, ())
    told = age.complaints(found, allowed, age.today(root))
    for line in told:
        terminal.error(line)
    print(f"{len(rows)} of {len(found)} records are older than the code they measure")
    return 1 if told else 0
