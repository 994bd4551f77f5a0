# SPDX-License-Identifier: Apache-2.0
"""Attaches to a process that runs, and detaches.

The process was started by ``denizen lens --sleep``: the preload library in it follows the driver's
objects and traps nothing until somebody speaks to it at its socket (lens/attach.hpp).
"""

from __future__ import annotations

import os
import select
import signal
import socket
import stat
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn

from denizen.lens import launch
from denizen.lens.log import LensError

_PERIOD = 0.25  # seconds between two looks at the logs
_LONGEST = 95  # bytes of the folder's path
_PATIENCE = 10.0  # seconds for an answer


def sockets() -> Path:
    """The folder of the sockets, one for each process that sleeps, named by its number.

    LensError if somebody else could write there.
    """
    folder = Path(os.environ.get(launch.SOCKETS) or f"/tmp/denizen-lens-{os.getuid()}")
    if len(os.fsencode(folder)) > _LONGEST:
        raise LensError(
            f"{folder} in {launch.SOCKETS} is longer than {_LONGEST} bytes: a socket's limit"
        )
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        raise LensError(f"{folder}: {error.strerror}") from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise LensError(
            f"{folder} must be a folder of your own with mode 700: remove it, or name another in "
            f"{launch.SOCKETS}"
        )
    return folder


def sleep(program: Sequence[str], *, force: bool) -> NoReturn:
    """Become ``program``, with the lens asleep in it: its process has this one's number."""
    path = launch.find_program(program[0])
    changed = {
        "LD_PRELOAD": launch.preloaded(),
        launch.FOLDER: "",
        launch.SOCKETS: str(sockets()),
        **({"DENIZEN_LENS_FORCE": "1"} if force else {}),
    }
    print(f"denizen: process {os.getpid()}: denizen lens attach {os.getpid()}", file=sys.stderr)
    sys.stderr.flush()
    try:
        os.execve(path, list(program), {**os.environ, **changed})
    except OSError as error:
        raise LensError(f'program "{program[0]}" cannot be started: {error.strerror}') from error


def waiting() -> list[int]:
    """The processes that can be attached to. The socket of one that was killed stays behind."""
    named = (int(path.name) for path in sockets().iterdir() if path.name.isdecimal())
    return sorted(pid for pid in named if Path(f"/proc/{pid}").exists())


class Attachment:
    """A process that is being recorded, until :meth:`detach`. LensError if it cannot be.

    Args:
        pid: its number.
        folder: where its log goes; the process itself writes it there.
        mode: ``count`` or ``full``.
    """

    def __init__(self, pid: int, folder: Path, mode: str) -> None:
        self.pid = pid
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(_PATIENCE)
        try:
            self._socket.connect(str(sockets() / str(pid)))
            self._socket.sendall(f"attach {mode} {folder}\n".encode())
            told = self._line()
        except TimeoutError as error:
            self._socket.close()
            raise LensError(
                f"process {pid} has not answered in {_PATIENCE:g} s; is it stopped?"
            ) from error
        except OSError as error:
            self._socket.close()
            raise LensError(_why_not(pid)) from error
        word, _, rest = told.partition(" ")
        if word != "attached":
            self._socket.close()
            why = rest if word == "error" else "it has ended"
            raise LensError(f"process {pid} cannot be attached to: {why}")

    def _line(self) -> str:
        found = b""
        while not found.endswith(b"\n"):  # ends: the line's end, that of the process, or a timeout
            if not (byte := self._socket.recv(1)):
                break
            found += byte
        return found.decode(errors="replace").rstrip("\n")

    def wait(self, seconds: float) -> bool:
        """Whether the process is still there after ``seconds``."""
        return not select.select([self._socket], [], [], seconds)[0]

    def detach(self) -> None:
        """Stop recording; the log is whole then, as where the process has ended by itself."""
        try:
            self._socket.sendall(b"detach\n")
            self._line()
        except OSError:
            pass  # it has ended, and its log with it
        finally:
            self._socket.close()


def record(
    pid: int,
    folder: Path,
    mode: str,
    *,
    seconds: float | None = None,
    watch: Callable[[], None] | None = None,
) -> None:
    """Record process ``pid`` for ``seconds``, until Ctrl-C, or to its end.

    Its log is in ``folder`` then. ``watch`` is called a few times a second meanwhile.
    """
    over = False

    def stop(_number: int, _frame: FrameType | None) -> None:
        nonlocal over
        over = True

    before = signal.signal(signal.SIGINT, stop)
    try:
        attachment = Attachment(pid, folder, mode)
        end = None if seconds is None else time.monotonic() + seconds
        while not over:  # ends: Ctrl-C, the time, or the process
            left = _PERIOD if end is None else min(_PERIOD, end - time.monotonic())
            if left <= 0 or not attachment.wait(left):
                break
            if watch is not None:
                watch()
        attachment.detach()
    finally:
        signal.signal(signal.SIGINT, before)


def _why_not(pid: int) -> str:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return f"there is no process {pid}"
    except PermissionError:
        return f"process {pid} is another user's"
    others = ", ".join(map(str, waiting()))
    return (
        f"process {pid} has no sleeping lens, or has opened no NVIDIA device yet: start it as "
        f"denizen lens --sleep -- PROGRAM (those that can be attached to: {others or 'none'})"
    )
