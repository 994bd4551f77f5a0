# SPDX-License-Identifier: Apache-2.0
"""A record on the terminal."""

from __future__ import annotations

from denizen import terminal
from denizen.lab import table
from denizen.lab.record import Record


def show(record: Record) -> None:
    """Print the record's source, rows, goals and notes to stdout."""
    terminal.line(table.source(record))
    # The percentiles and counts are in the record; a terminal is narrower than a page.
    header = ("case", "unit", "median", "95 % interval", "p99", "compared")
    rows = [
        (case, unit, median, interval, p99, compared)
        for case, unit, median, interval, p99, _, _, _, compared in map(table.cells, record.rows)
    ]
    terminal.table(f"denizen bench {record.experiment}", header, rows, right=(2, 3, 4))
    if record.goals:
        terminal.table("goals", table.GOALS_HEADER, table.goal_rows(record), (2, 3))
    for note in table.notes(record):
        terminal.line(note)
