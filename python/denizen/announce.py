# SPDX-License-Identifier: Apache-2.0
"""Where serving processes leave their address, so that ``denizen top`` finds them by itself.

One small file for each served runtime, in a folder that only its user can write: a file of
somebody else's would make ``denizen top`` talk to a stranger.
"""

from __future__ import annotations

import json
import os
import stat
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from denizen.errors import DenizenError


@dataclass(frozen=True, slots=True)
class Announcement:
    """A served runtime: its process, its program's name and the URL it is served at."""

    pid: int
    program: str
    url: str


def folder() -> Path:
    """``$XDG_RUNTIME_DIR/denizen``, else ``/tmp/denizen-UID``; it need not exist."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    return Path(runtime) / "denizen" if runtime else Path(f"/tmp/denizen-{os.getuid()}")


def _own(path: Path) -> None:
    """Refuse a folder that others can write to, or that is another user's or a link."""
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise DenizenError(
            f"{path} is not a folder of this user with mode 0700; remove it, or set "
            "XDG_RUNTIME_DIR to a folder that is yours alone"
        )


def announce(program: str, url: str) -> Path:
    """Leave the address of a runtime of this process; remove the file when it is served no more.

    Raises DenizenError or OSError if there is no safe place for it.
    """
    where = folder()
    where.mkdir(mode=0o700, parents=True, exist_ok=True)
    _own(where)
    port = url.rstrip("/").rpartition(":")[2]
    path = where / f"{os.getpid()}-{port}.json"
    part = path.with_suffix(".part")
    part.write_text(json.dumps(asdict(Announcement(os.getpid(), program, url))), "utf-8")
    part.replace(path)  # in one step: nobody reads half of it
    return path


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # another user's by now
        return False
    return True


def find() -> list[Announcement]:
    """All served runtimes of this user, oldest process first.

    Files of processes that have died without tidying up are removed. Raises DenizenError if the
    folder is not safe.
    """
    where = folder()
    if not where.exists():
        return []
    _own(where)
    found = []
    for path in where.glob("*.json"):
        try:
            one = Announcement(**json.loads(path.read_text("utf-8")))
            pid = int(one.pid)
        except (OSError, TypeError, ValueError, RecursionError):
            continue  # not ours, or gone since
        if _alive(pid):
            found.append(one)
        else:
            with suppress(OSError):
                path.unlink()
    return sorted(found, key=lambda a: (a.pid, a.url))
