# SPDX-License-Identifier: Apache-2.0
"""The table that is on the terminal while a program runs under the lens (Rich)."""

from __future__ import annotations

import fcntl
import os
import pty
import sys
import termios
import threading
from pathlib import Path

from denizen import threads
from denizen.errors import ExhaustedError, MissingPackageError
from denizen.lens import launch, summary
from denizen.lens.record import Doorbell

try:
    from rich.console import Console
    from rich.live import Live
    from rich.table import Table
    from rich.text import Text
except ImportError as error:
    raise MissingPackageError("rich") from error

_ROWS = 12


class LiveTable:
    """Follows the logs in a folder. A context manager; call :meth:`update` now and then.

    It is drawn on stderr and taken away at the end, where the program's own table follows.
    """

    def __init__(self, folder: Path, console: Console | None = None) -> None:
        self._folder = folder
        self._console = console or Console(stderr=True)
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._master, self._slave = pty.openpty()
        self._relay: threading.Thread | None = None
        self._tails: dict[Path, launch.Tail] = {}
        self._costs: dict[Path, summary.Costs] = {}

    def __enter__(self) -> LiveTable:
        if self._console.is_terminal:  # the program finds the same width as without the table
            size = fcntl.ioctl(sys.stderr.fileno(), termios.TIOCGWINSZ, bytes(8))
            fcntl.ioctl(self._slave, termios.TIOCSWINSZ, size)
        self._live.start()
        try:
            self._relay = threads.start(self._show_output, "lens output")
        except ExhaustedError:
            self._live.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._slave)
        # Ends with the last process that has the other end open; one left behind is not waited for.
        if self._relay is not None:
            self._relay.join(timeout=1.0)
        self._live.stop()

    @property
    def output(self) -> int:
        """A terminal for the program's stdout and stderr; its lines are shown above the table."""
        return self._slave

    def _show_output(self) -> None:
        pending = b""
        while True:  # ends: the other end is closed
            try:
                data = os.read(self._master, 1 << 16)
            except OSError:
                data = b""
            *whole, pending = (pending + data).split(b"\n")
            if not data and pending:
                whole.append(pending)
            for line in whole:
                self._console.print(Text.from_ansi(line.decode(errors="replace").rstrip("\r")))
            if not data:
                return

    def update(self) -> None:
        """Read what is new, draw it."""
        for path in launch.logs(self._folder):
            tail = self._tails.setdefault(path, launch.Tail(path))
            records = tail.read()
            if tail.capture is None:
                continue
            costs = self._costs.setdefault(path, summary.Costs(tail.capture))
            for record in records:
                if isinstance(record, Doorbell):
                    costs.add(record)
        self._live.update(self.render(), refresh=True)

    def render(self) -> Table:
        """The dearest APIs of all processes so far."""
        rows = sorted(
            (cost for costs in self._costs.values() for cost in costs.rows()),
            key=lambda cost: -cost.bytes,
        )
        total = sum(cost.doorbells for cost in rows), sum(cost.bytes for cost in rows)
        table = Table(
            title=Text(f"denizen lens: {total[0]:,} doorbells, {total[1]:,} bytes"),
            title_justify="left",
        )
        for i, name in enumerate(summary.HEADER):
            right = i in summary.RIGHT
            table.add_column(Text(name), justify="right" if right else "left", no_wrap=right)
        for cost in rows[:_ROWS]:
            table.add_row(*map(Text, summary.cells(cost)))
        if len(rows) > _ROWS:
            table.add_row(Text(f"and {len(rows) - _ROWS} more"))
        return table
