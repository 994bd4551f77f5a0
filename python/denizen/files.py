# SPDX-License-Identifier: Apache-2.0
"""Files that are left for others: written whole, or not at all.

    with whole(path) as part:
        np.savetxt(part, rows)

`part` lies beside `path` and takes its place when the block ends. After an error (a full disk, an
interrupt) nothing is there, or what was there before, and an OSError names `path`. A device, a FIFO
or a socket is written to as it is.
"""

from __future__ import annotations

import errno
import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

Path = str | os.PathLike[str]


class Part:
    """A file on its way to its place. `path`: where to write it until then."""

    def __init__(self, place: Path) -> None:
        self._name = os.fspath(place)
        self._place: str | None = None  # of what is written elsewhere first
        self.path = self._name
        self._make()

    def _make(self) -> None:
        try:
            there = os.stat(self._name)
        except FileNotFoundError:
            there = None
        if there is not None:
            if not stat.S_ISREG(there.st_mode) or self._name.startswith(("/dev/", "/proc/")):
                return
            if not os.access(self._name, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), self._name)
        place = os.path.realpath(self._name)  # a link stays one
        folder, base = os.path.split(place)
        part = os.path.join(folder, f".{os.urandom(4).hex()}.{base[-100:]}")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            with _told_of(self._name, part):
                handle = os.open(part, flags, 0o666)
        except PermissionError:
            if there is None:
                raise
            return  # the file may be written, and its folder not
        if there is not None:
            with suppress(OSError):
                os.fchown(handle, there.st_uid, there.st_gid)
            with suppress(OSError):
                os.fchmod(handle, stat.S_IMODE(there.st_mode))
        os.close(handle)
        self._place, self.path = place, part

    def commit(self) -> None:
        """What has been written, and closed, takes its place."""
        if self._place is not None:
            with _told_of(self._name, self.path):
                os.replace(self.path, self._place)
            self._place = None

    def discard(self) -> None:
        """What has been written is gone."""
        if self._place is not None:
            with suppress(OSError):
                os.unlink(self.path)
            self._place = None


@contextmanager
def _told_of(name: str, *parts: str) -> Iterator[None]:
    """An OSError that names no file, or one of the parts, names `name`."""
    try:
        yield
    except OSError as error:
        if error.filename is not None and error.filename not in parts:
            raise
        why = error.strerror or str(error)
        raise OSError(error.errno or errno.EIO, why, name) from error


class WholeFile:
    """An open binary file that takes its place when it is closed."""

    def __init__(self, path: Path) -> None:
        self._part = Part(path)
        self._file = open(self._part.path, "wb")  # noqa: SIM115  (closed by close())
        self.write, self.seek, self.flush = self._file.write, self._file.seek, self._file.flush

    def close(self) -> None:
        self._file.close()
        self._part.commit()

    def discard(self) -> None:
        """Closes it, and nothing is left of it."""
        try:
            self._file.close()
        finally:
            self._part.discard()


@contextmanager
def whole(path: Path) -> Iterator[str]:
    """Where to write, by its name, what is to be found whole at `path`, or not at all."""
    part = Part(path)
    try:
        with _told_of(os.fspath(path), part.path):
            yield part.path
        part.commit()
    except BaseException:
        part.discard()
        raise


def write_text(path: Path, text: str) -> None:
    """A text in UTF-8 as a file, whole or not at all."""
    with whole(path) as part, open(part, "w", encoding="utf-8") as file:
        file.write(text)


def write_arrays(path: Path, **arrays: Any) -> None:
    """Arrays by name as a compressed .npz file, whole or not at all; .npz is appended."""
    name = os.fspath(path)
    special = os.path.exists(name) and not os.path.isfile(name)
    if not name.endswith(".npz") and not special:
        name += ".npz"
    with whole(name) as part, open(part, "wb") as file:
        if special:  # which cannot go back, as a .npz does
            there = io.BytesIO()
            np.savez_compressed(there, **arrays)
            file.write(there.getvalue())
        else:
            np.savez_compressed(file, **arrays)
