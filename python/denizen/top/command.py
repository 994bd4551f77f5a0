# SPDX-License-Identifier: Apache-2.0
"""``denizen top``: finds a served program, reads it twice a second, and shows it until one ends."""

from __future__ import annotations

import json
import os
import select
import sys
import termios
import time
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPException
from urllib.parse import urlsplit

from denizen import announce, serving
from denizen.errors import ArgumentError, DenizenError, MissingPackageError
from denizen.terminal import plain
from denizen.top.hosts import render_all
from denizen.top.screen import Snapshot, render

try:
    from rich.console import Console, Group
    from rich.live import Live
    from rich.text import Text
except ImportError as error:
    raise MissingPackageError("rich") from error

_PERIOD = 0.5  # seconds between two readings
_PATIENCE = 5.0  # seconds for one
_MOST = 1 << 25  # bytes of one; 10,000 workers take four million
_SHOWN = 200  # characters of what a stranger says
_PLAIN_WIDTH = 120


class _EndedError(DenizenError):
    """Nobody answers at the URL (any more)."""


def read(url: str) -> Snapshot:
    """One reading. Straight to the address, whatever proxy the environment names.

    What comes from there is not believed: see :mod:`denizen.top.checked`.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname if parts.scheme == "http" else None, parts.port or 80
    except ValueError:  # a port that is none, half a bracket
        host = None
    if not host:
        raise DenizenError(f'url "{url}"; use the one that serve_metrics() returned, http://...')
    try:
        status, body = serving.get(host, port, "/telemetry.json", most=_MOST, seconds=_PATIENCE)
    except (OSError, HTTPException, UnicodeError) as error:
        raise _EndedError(f"nothing answers at {url} ({plain(str(error))})") from error
    if status == 503:
        said = plain(body[:_SHOWN].decode(errors="replace").strip())
        raise _EndedError(f"{url}: {said}")
    try:
        return Snapshot.from_json(json.loads(body))
    except (ArgumentError, RecursionError, ValueError) as error:
        why = plain(str(error))[:_SHOWN]
        raise DenizenError(f"{url} serves no denizen telemetry (HTTP {status}): {why}") from error


def find(pid: int | None) -> str:
    """The URL of the one served program there is (of process ``pid``, if given)."""
    found = [a for a in announce.find() if pid is None or a.pid == pid]
    if len(found) == 1:
        return found[0].url
    if found:
        each = "; ".join(f"pid {a.pid}, {plain(a.program)}: {plain(a.url)}" for a in found)
        way = "--pid or --url" if len({a.pid for a in found}) > 1 else "--url"
        raise DenizenError(f"{len(found)} programs are served, choose one with {way}: {each}")
    whose = "" if pid is None else f" by process {pid}"
    raise DenizenError(
        f"no program is served{whose} (as {announce.folder()} tells); serve one with "
        "Runtime.serve_metrics() or denizen run flights --metrics PORT, or give --url"
    )


@contextmanager
def _keys() -> Iterator[int | None]:
    """Keys as they are pressed, not as lines; gives stdin's descriptor, None without a terminal."""
    if not sys.stdin.isatty():
        yield None
        return
    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)
    tty.setcbreak(fd)
    try:
        yield fd
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)


def _quit_pressed(fd: int | None, seconds: float) -> bool:
    """Wait for a key, at most so long; whether it was one that ends the display."""
    if fd is None:
        time.sleep(seconds)
        return False
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:  # ends: the time
        if not select.select([fd], [], [], left)[0]:
            return False
        key = os.read(fd, 64)
        if not key or b"q" in key or b"Q" in key:  # none: the terminal is gone
            return True
    return False


def _plain_width() -> int:
    """$COLUMNS, if it is a width; shutil passes over what is none, too."""
    given = os.environ.get("COLUMNS", "")
    width = int(given) if given.isascii() and given.isdecimal() and len(given) < 7 else 0
    return width or _PLAIN_WIDTH


def once(url: str) -> int:
    """Print one screen as plain text; its rates are those of half a second."""
    before = read(url)
    time.sleep(_PERIOD)
    try:
        now = read(url)
    except _EndedError:
        now = before
    width = _plain_width()
    console = Console(width=width, color_system=None, force_terminal=False, highlight=False)
    console.print(render(now, before, width, None))
    return 0


def live(url: str, console: Console) -> int:
    """Show it until q is pressed or the program ends."""
    now, before = read(url), None
    ended = ""
    with _keys() as fd, Live(console=console, screen=True, auto_refresh=False) as shown:
        while True:  # ends by a key, Ctrl-C, or with the program
            width, height = console.size
            foot = Text("q quits" if now.telemetry.observed else "q quits; not observed: no times")
            foot.stylize("dim")
            shown.update(Group(render(now, before, width, height - 1), foot), refresh=True)
            if _quit_pressed(fd, _PERIOD):
                break
            try:
                now, before = read(url), now
            except _EndedError:
                ended = now.program
                break
    if ended:
        console.print(Text(f"{ended} has ended"))
    return 0


def read_all(urls: Sequence[str]) -> dict[str, Snapshot | str]:
    """By URL; why nothing was read there, where nobody answers any more."""
    found: dict[str, Snapshot | str] = {}
    for url in urls:
        try:
            found[url] = read(url)
        except _EndedError as error:
            found[url] = str(error)
    return found


def run_all(*, plain: bool) -> int:
    """``--all``: who is served at the start, until q is pressed or all have ended."""
    urls = [a.url for a in announce.find()]
    if not urls:
        find(None)  # says that there is none, and what to do
    console = Console()
    before = read_all(urls)
    if plain or not console.is_terminal or console.is_dumb_terminal:
        time.sleep(_PERIOD)
        width = _plain_width()
        text = Console(width=width, color_system=None, force_terminal=False, highlight=False)
        text.print(render_all(read_all(urls), before, width))
        return 0
    with _keys() as fd, Live(console=console, screen=True, auto_refresh=False) as shown:
        while True:  # ends by a key, Ctrl-C, or with the last program
            if _quit_pressed(fd, _PERIOD):
                return 0
            now = read_all(urls)
            shown.update(render_all(now, before, console.size[0]), refresh=True)
            if all(isinstance(one, str) for one in now.values()):
                return 0
            before = now


def run(url: str | None, pid: int | None, *, plain: bool) -> int:
    """The whole command; its exit status."""
    url = url or find(pid)
    console = Console()
    if plain or not console.is_terminal or console.is_dumb_terminal:
        return once(url)
    return live(url, console)
