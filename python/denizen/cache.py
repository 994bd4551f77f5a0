# SPDX-License-Identifier: Apache-2.0
"""What is compiled or measured once and kept: a folder that only this user can write.

Code from there is loaded and run, so whoever can put a file there can run code as this user. The
folder is opened once and checked; files are opened in it by that descriptor, whatever its name
leads to meanwhile, and what is loaded are the bytes that were read.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from denizen.errors import CompileError

_DIGEST = hashlib.sha256().digest_size


def cache_folder() -> Path:
    """Where compiled programs are kept: $DENIZEN_CACHE, else ~/.cache/denizen."""
    explicit = os.environ.get("DENIZEN_CACHE")
    if explicit:
        return Path(explicit)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "denizen"


class Cache:
    """The folder, open."""

    def __init__(self, folder: Path, descriptor: int) -> None:
        self.folder = folder
        self._descriptor = descriptor

    def read(self, name: str) -> bytes | None:
        """The file of this name; None if there is none."""
        # Without waiting: of a FIFO there may never be anybody who writes.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            with open(os.open(name, flags, dir_fd=self._descriptor), "rb") as file:
                return file.read() if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else None
        except OSError:
            return None

    def write(self, name: str, data: bytes) -> None:
        """Puts a file there in one step."""
        part = f"{name}.{os.getpid()}-{os.urandom(4).hex()}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        here = self._descriptor
        try:
            with open(os.open(part, flags, 0o600, dir_fd=here), "wb") as file:
                file.write(data)
            os.replace(part, name, src_dir_fd=here, dst_dir_fd=here)
        except OSError as error:
            with suppress(OSError):
                os.unlink(part, dir_fd=here)
            raise _cannot_keep(self.folder, os.strerror(error.errno or 0)) from error

    def remove(self, name: str) -> None:
        """Takes the file of this name away, if there is one."""
        with suppress(OSError):
            os.unlink(name, dir_fd=self._descriptor)

    # Compiled code ends with the SHA-256 of the rest, which loaders do not mind: what a full disk
    # or a killed process has left behind is compiled again.

    def code(self, name: str) -> bytes | None:
        """The compiled code that was kept under this name; None if there is none, or not all."""
        data = self.read(name)
        if data is None or hashlib.sha256(data[:-_DIGEST]).digest() != data[-_DIGEST:]:
            return None
        return data[:-_DIGEST]

    def keep_code(self, name: str, code: bytes) -> None:
        self.write(name, code + hashlib.sha256(code).digest())


def _cannot_keep(folder: Path, why: str) -> CompileError:
    return CompileError(
        f"compiled programs cannot be kept in {folder}: {why}; set DENIZEN_CACHE to a folder that "
        "is yours and can be written by you alone"
    )


@contextmanager
def open_cache() -> Iterator[Cache]:
    """The cache, made if there is none (mode 0700, its parents too).

    Raises CompileError if it cannot be, or if others could have put something there: the folder is
    a link, another user's, or can be written by its group or by all.
    """
    folder = cache_folder()
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        for missing in reversed([f for f in (folder, *folder.parents) if not f.exists()]):
            with suppress(FileExistsError):
                missing.mkdir(0o700)
        if folder.is_symlink():
            raise _cannot_keep(folder, "it is a symbolic link")
        descriptor = os.open(folder, flags)
    except OSError as error:
        raise _cannot_keep(folder, os.strerror(error.errno or 0)) from error
    try:
        found = os.fstat(descriptor)
        if found.st_uid != os.geteuid():
            raise _cannot_keep(folder, f"it belongs to another user (uid {found.st_uid})")
        if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            mode = stat.S_IMODE(found.st_mode)
            raise _cannot_keep(folder, f"others can write there (mode {mode:04o}; use chmod 700)")
        yield Cache(folder, descriptor)
    finally:
        os.close(descriptor)
