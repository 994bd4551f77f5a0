# SPDX-License-Identifier: Apache-2.0
"""What the command line prints: by Rich, or as plain text where Rich is not installed.

A GPU machine without a network has NumPy and not always Rich; the commands must run there too.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal, TextIO

try:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
    )
    from rich.table import Table
    from rich.text import Text
except ImportError:
    HAVE_RICH = False
else:
    HAVE_RICH = True

    class Screen(Console):
        """A console whose reader may go: that is the command's to end, as with plain text."""

        def on_broken_pipe(self) -> None:
            raise  # noqa: PLE0704  (Rich calls this where it has caught it)


# What moves a cursor, changes a title, turns a line's direction or is no character at all.
_UNSHOWN = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))


def plain(text: str) -> str:
    """The text on one line, without what a terminal would obey: that stands as ``\\x1b``."""
    text = " ".join(text.split())
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        one.encode("unicode_escape").decode() if unicodedata.category(one) in _UNSHOWN else one
        for one in text
    )


def counted(number: int, thing: str) -> str:
    """``1 host``, ``2,000 hosts``."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


_listeners: list[list[str]] = []
_line = threading.RLock()  # of stderr, while a line moves there
_moving = False
_CLEAR = "\r\x1b[2K"


@contextmanager
def errors() -> Iterator[list[str]]:
    """What error() prints meanwhile."""
    heard: list[str] = []
    _listeners.append(heard)
    try:
        yield heard
    finally:
        _listeners[:] = [one for one in _listeners if one is not heard]  # an equal one stays


def error(text: str) -> None:
    """One line on stderr, led by the command's name."""
    text = plain(text)
    for heard in _listeners:
        heard.append(text)
    with _line:
        print(f"{_CLEAR if _moving else ''}denizen: {text}", file=sys.stderr)


def line(text: str) -> None:
    """One paragraph on stdout, wrapped between words on a terminal."""
    if HAVE_RICH and sys.stdout.isatty():
        Screen().print(Text(text))
    else:
        print(text)


def table(
    title: str,
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    right: Sequence[int] = (),
    *,
    file: TextIO | None = None,
) -> None:
    """Print a table, on stdout unless ``file`` is given.

    The columns in ``right`` are set to the right, no cell is cut short. A header of empty names is
    not shown.
    """
    out = file or sys.stdout
    if not HAVE_RICH:
        print(title, file=out)
        widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
        for row in [header, *rows] if any(header) else rows:
            cells = (
                text.rjust(width) if i in right else text.ljust(width)
                for i, (text, width) in enumerate(zip(row, widths, strict=True))
            )
            print("  ".join(cells).rstrip(), file=out)
        print(file=out)
        return
    shown = Table(title=Text(title), title_justify="left", show_header=any(header))
    for i, name in enumerate(header):
        # Numbers must not wrap; the words beside them may.
        side: Literal["left", "right"] = "right" if i in right else "left"
        shown.add_column(Text(name), justify=side, no_wrap=i in right, overflow="fold")
    for row in rows:
        shown.add_row(*map(Text, row))
    # Not on a terminal (a file, a pipe) there is no width to fit.
    width = None if out.isatty() else 200
    Screen(file=out, width=width).print(shown)


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """A progress bar over ``total`` steps on stderr, if that is a terminal; without Rich a line.

    Gives ``advance(k)``, to be called after each k steps.
    """
    if not (HAVE_RICH and sys.stderr.isatty()):
        done = 0

        def advance(steps: int) -> None:
            nonlocal done
            done += steps
            tell(f"{done:,} of {total:,} {what}")

        with working(what) as tell:
            yield advance
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(what, total=total)
        yield lambda steps: bar.advance(task, steps)


def coloured(file: TextIO) -> bool:
    """Whether colours are seen there: it is a terminal, and NO_COLOR (no-color.org) is not set."""
    return file.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


_TURN = 0.1  # seconds between two pictures of a spinner
_QUIET = 4.0  # seconds after which a log of plain lines says what goes on
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class _Heard(logging.Handler):
    """Tells what the package logs of compiling, which is what takes the user by surprise, and the
    lab of the parts of an experiment, which take minutes."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__(logging.INFO)
        self._tell = tell

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.startswith(("denizen.compilers", "denizen.lab.")):
            self._tell(record.getMessage())


@contextmanager
def working(what: str, *, lines: bool = False) -> Iterator[Callable[[str], None]]:
    """Says on stderr what is being done while it is: a line that moves, on a terminal where the
    package's log is not shown; elsewhere nothing, or with ``lines`` a line every few seconds.
    Gives ``tell(what)``, for what comes next; it may be called often. Nothing but error() may
    print meanwhile.
    """
    global _moving  # noqa: PLW0603  (there is one stderr)
    now = [what]

    def tell(text: str) -> None:
        now[0] = text

    over = threading.Event()
    logger, heard = logging.getLogger("denizen"), _Heard(tell)
    shown = any(isinstance(one, logging.StreamHandler) for one in logger.handlers)
    moving = sys.stderr.isatty() and os.environ.get("TERM") != "dumb" and not shown
    begin = time.monotonic()

    def move() -> None:
        turn = 0
        while not over.wait(_TURN):  # ends at exit
            spent = time.monotonic() - begin
            text = f"{_SPINNER[turn % len(_SPINNER)]} {plain(now[0])} ({spent:.0f} s)"
            room = (os.get_terminal_size(sys.stderr.fileno()).columns or 80) - 1
            with _line:
                sys.stderr.write(f"{_CLEAR}{text[: max(room, 1)]}")
                sys.stderr.flush()
            turn += 1

    def report() -> None:
        while not over.wait(_QUIET):  # ends at exit
            print(f"  … {plain(now[0])} ({time.monotonic() - begin:.0f} s)", file=sys.stderr)

    if not moving and not lines:
        yield tell
        return
    thread = threading.Thread(target=move if moving else report, daemon=True, name="working")
    thread.start()
    _moving = moving
    logger.addHandler(heard)
    try:
        yield tell
    finally:
        logger.removeHandler(heard)
        over.set()
        thread.join()  # ends: the event is set, and neither loop waits for anything else
        if moving:
            _moving = False
            sys.stderr.write(_CLEAR)
            sys.stderr.flush()
