# SPDX-License-Identifier: Apache-2.0
"""``denizen ab``: run an experiment's file, and draw the records of runs as a page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from denizen import terminal
from denizen.ab import page, record
from denizen.ab.page import cell_name, duration
from denizen.ab.record import Compared, RunRecord
from denizen.files import write_text

HEADER = ("cell", "arm", "verdict", "time", "ratio", "95 % interval", "p (Holm)", "p equivalent")


def run(path: Path, json: Path | None, profile: str | None = None) -> int:
    """Measure, print verdicts and write the record; 1 if any cell is void.

    ``profile``: the tool (nsys, ncu) under which each arm runs once more, after the measurement.
    """
    made = record.run(path, profile)
    if json is not None:
        record.write(made, json)
    show(made)
    return 1 if made.void else 0


def report(paths: Sequence[Path], out: Path) -> int:
    """Draw the records in ``paths`` as one page."""
    text = page.render([record.read(path) for path in paths])
    write_text(out, text)
    terminal.line(f"{out}: {len(paths)} record{'s' if len(paths) > 1 else ''}")
    return 0


def show(made: RunRecord) -> None:
    """Print the verdicts, and why a cell is void, to stdout."""
    rows = []
    for cell in made.cells:
        rows.append(
            (cell_name(cell.params), made.base, "base", duration(cell.base_seconds), *"1---")
        )
        rows += [("", *_cells(arm)) for arm in cell.arms]
    margin = "no margin" if made.margin is None else f"margin {made.margin:.0%}"
    title = (
        f"denizen ab {made.experiment}: {made.processes} processes x {made.blocks} blocks, {margin}"
    )
    terminal.table(title, HEADER, rows, right=(3, 4, 6, 7))
    for cell in made.cells:
        for line in page.profile_lines(cell):
            terminal.line(f"{cell_name(cell.params)}: {line}")
        for reason in cell.void:
            terminal.error(f"{cell_name(cell.params)} is void: {reason}")


def _cells(arm: Compared) -> tuple[str, ...]:
    name = {"control": f"{arm.arm} (control)", "again": "the base again"}.get(arm.role, arm.arm)
    low, high = arm.ci95
    equivalent = "-" if arm.p_equivalent is None else f"{arm.p_equivalent:.2g}"
    return (
        name,
        arm.verdict,
        duration(arm.seconds),
        f"{arm.ratio:.4f}",
        f"{low:.4f} to {high:.4f}",
        f"{arm.p_different:.2g}",
        equivalent,
    )
