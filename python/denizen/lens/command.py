# SPDX-License-Identifier: Apache-2.0
"""``denizen lens``: run a program, or attach to one that runs, and tell what it submitted; show,
report and compare captures."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from denizen import terminal
from denizen.files import whole
from denizen.lens import attach, compare, launch, lines, log, page, perfetto, places, summary, times
from denizen.lens.decode import Decoded
from denizen.lens.log import Capture, LensError, Submission
from denizen.trace import require_perfetto

Decoding = tuple[Capture, list[tuple[Submission, Decoded | None]]]


def run(
    program: Sequence[str],
    *,
    mode: str,
    force: bool,
    cupti: bool,
    live: bool,
    out: Path | None,
    json: Path | None,
    trace: Path | None,
) -> int:
    """Run ``program`` under the lens; its exit status.

    The tables go to stderr, so that the program's stdout stays its own. ``out`` gets the log (of
    the process with most doorbells; those of others lie beside it, named after their processes).
    """
    if not program:
        raise LensError("no program was given: denizen lens [options] -- PROGRAM ...")
    launch.find_program(program[0])
    _check(out, json, trace)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="denizen-lens-")))
        if live:
            from denizen.lens.live import LiveTable  # noqa: PLC0415  (needs Rich)

            with LiveTable(folder) as table:
                status = launch.run(
                    program,
                    folder,
                    mode,
                    force=force,
                    cupti=cupti,
                    watch=table.update,
                    stdout=table.output if sys.stdout.isatty() else None,
                    stderr=table.output if sys.stderr.isatty() else None,
                )
        else:
            status = launch.run(program, folder, mode, force=force, cupti=cupti)
        if not _tell(folder, out=out, json=json, trace=trace):
            terminal.error(f"nothing was recorded: {launch.why_nothing(program[0])}")
    return status


def sleep(program: Sequence[str], *, force: bool) -> int:
    """Become ``program``, which ``denizen lens attach`` can record from then on."""
    if not program:
        raise LensError("no program was given: denizen lens --sleep -- PROGRAM ...")
    attach.sleep(program, force=force)


def attach_to(
    pid: int,
    *,
    mode: str,
    seconds: float | None,
    live: bool,
    out: Path | None,
    json: Path | None,
    trace: Path | None,
) -> int:
    """Record process ``pid``, which runs, for ``seconds`` or until Ctrl-C; then as :func:`run`."""
    _check(out, json, trace)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="denizen-lens-")))
        watch = None
        if live:
            from denizen.lens.live import LiveTable  # noqa: PLC0415  (needs Rich)

            watch = stack.enter_context(LiveTable(folder)).update
        attach.record(pid, folder, mode, seconds=seconds, watch=watch)
        _tell(folder, out=out, json=json, trace=trace)
    return 0


def _check(out: Path | None, json: Path | None, trace: Path | None) -> None:
    """Whether the files can be written: before the program runs, not after."""
    if trace is not None:
        require_perfetto()
    for path in (out, json, trace):
        if path is not None and not path.absolute().parent.is_dir():
            raise LensError(f"{path}: there is no folder {path.parent}")


def _tell(folder: Path, *, out: Path | None, json: Path | None, trace: Path | None) -> bool:
    """Tables of the logs in ``folder``, and the files that were asked for. Whether any is there."""
    found = [_decode(log.read(path)) for path in launch.logs(folder)]
    for capture, submissions in found:
        _show_summary(capture, submissions)
    if found and json is not None:
        lines.write(json, found)
    if found and trace is not None:
        perfetto.write(trace, found)
    if found and out is not None:
        _keep([capture for capture, _ in found], out)
    return bool(found)


def _decode(capture: Capture) -> Decoding:
    return capture, list(summary.decoded(capture))


def _show_summary(capture: Capture, submissions: list[tuple[Submission, Decoded | None]]) -> None:
    made = summary.summarize(capture, submissions)
    for warning in summary.warnings(capture, made):
        terminal.error(warning)
    totals = f"{made.doorbells:,} doorbells, {made.entries:,} entries, {made.bytes:,} bytes"
    if not made.costs:
        print(f"{summary.title(capture)}: no doorbells", file=sys.stderr)
        return
    terminal.table(
        f"{summary.title(capture)}: {totals}",
        summary.HEADER,
        [summary.cells(cost) for cost in made.costs],
        summary.RIGHT,
        file=sys.stderr,
    )
    by_gpu = times.summary(times.taken(capture, submissions))
    for told in (places.summary(capture), by_gpu, summary.overhead(capture)):
        if told:
            print(told, file=sys.stderr)
    if made.unknown:
        most = ", ".join(f"{name} ({count:,})" for name, count in made.unknown.most_common(8))
        print(f"methods that no table has, by class:offset and words: {most}", file=sys.stderr)


def _keep(captures: list[Capture], out: Path) -> None:
    captures = sorted(captures, key=lambda c: -len(c.submissions))
    for i, capture in enumerate(captures):
        # The library's names (program.PID.lens) differ from each other.
        target = out if i == 0 else out.with_name(f"{out.stem}.{Path(capture.path).name}")
        with whole(target) as part:  # it may lie on another file system
            shutil.move(capture.path, part)
        print(f"denizen: {target}: {summary.title(capture)}", file=sys.stderr)


def show(path: Path) -> int:
    """Print every submission of a capture: what it does, and its methods by name or number."""
    capture = log.read(path)
    for warning in summary.warnings(capture):
        terminal.error(warning)
    if told := places.summary(capture):
        print(told)
    for submission, found in summary.decoded(capture):
        bell = submission.doorbell
        print(
            f"#{bell.sequence} {summary.api_of(capture, bell)}: channel "
            f"{'?' if bell.channel == log.NONE else bell.channel}, {bell.entries} entries, "
            f"{bell.bytes:,} bytes"
        )
        if found is None:
            continue
        for operation in found.operations:
            print(f"    {perfetto.describe(operation)}")
        methods = [f"{name} {count}" for name, count in (found.methods + found.unknown).items()]
        if methods:
            print(f"    methods: {', '.join(methods)}")
        for problem in found.problems:
            print(f"    {problem}")
        if not found.recorded:
            print("    (not all of its contents were recorded)")
    return 0


def report(path: Path, out: Path | None, trace: Path | None = None) -> int:
    """Write the page of a capture beside it, or to ``out``; or ``trace``, for ui.perfetto.dev."""
    if trace is not None:
        require_perfetto()
        with terminal.working(f"decoding {path.name}"):
            perfetto.write(trace, [_decode(log.read(path))])
        print(trace)
        return 0
    plain = path.with_suffix("") if path.suffix == ".gz" else path
    target = out or plain.with_suffix(".html")
    with terminal.working(f"decoding {path.name}"):
        page.write(target, log.read(path))
    print(target)
    return 0


def diff(before: Path, after: Path) -> int:
    """Print what calls cost in two captures, function by function."""
    a, b = log.read(before), log.read(after)
    print(f"A: {summary.title(a)}\nB: {summary.title(b)}")
    found = compare.changes(a, b)
    title = f"{sum(not change.same for change in found)} of {len(found)} functions differ"
    terminal.table(title, compare.HEADER, compare.rows(found), compare.RIGHT)
    return 0
