# SPDX-License-Identifier: Apache-2.0
"""How much a file may make of itself: limits on what readers expand, hold or believe.

A kilobyte can say that it is four gigabytes. Readers ask here before they take a file's word, and
raise TooLargeError with what was met, the limit, and how to allow more: an environment variable, or
in a program ``with limits.allowed(decompressed=1 << 40): ...``.

| limit | of | by default |
|---|---|---|
| ``DENIZEN_MAX_DECOMPRESSED`` | bytes out of one .gz, .xz or .zip | half of this process's memory |
| ``DENIZEN_MAX_TOKEN`` | bytes of one line, XML tag or attribute | 16 MiB |
| ``DENIZEN_MAX_DEPTH`` | XML elements within one another | 1,000 |
| ``DENIZEN_MAX_VERTICES`` | vertices of a graph's file | one for each 32 bytes of memory |
"""

from __future__ import annotations

import gzip
import io
import lzma
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import BinaryIO, TextIO, cast

from denizen.errors import ArgumentError, TooLargeError

_given: ContextVar[dict[str, int] | None] = ContextVar("_given", default=None)


def memory() -> int:
    """Bytes that this process may have: the machine's, or what a limit or its cgroup leaves."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA):
        soft, _ = resource.getrlimit(kind)
        if soft != resource.RLIM_INFINITY:
            found.append(soft)
    for path in ("memory.max", "memory/memory.limit_in_bytes"):  # of either version
        with suppress(OSError, ValueError):  # "max", or there is none
            found.append(int(Path("/sys/fs/cgroup", path).read_text("ascii")))
    return min(found)


_DEFAULTS: dict[str, Callable[[], int]] = {
    "decompressed": lambda: memory() // 2,
    "token": lambda: 1 << 24,
    "depth": lambda: 1000,
    "vertices": lambda: min(memory() // 32, (1 << 31) - 1),
}


def most(name: str) -> int:
    """The limit of that name. Raises ArgumentError if its variable is no number."""
    given = (_given.get() or {}).get(name)
    if given is not None:
        return given
    text = os.environ.get(_variable(name))
    if text is None:
        return _DEFAULTS[name]()
    if not (text.isascii() and text.isdecimal() and 0 < len(text) <= 18):
        raise ArgumentError(f'{_variable(name)} is "{text}"; give a whole number')
    return int(text)


def _variable(name: str) -> str:
    return f"DENIZEN_MAX_{name.upper()}"


@contextmanager
def allowed(**limits: int) -> Iterator[None]:
    """Other limits for what is read within; their names are ``decompressed``, ``token``, ..."""
    for name in limits.keys() - _DEFAULTS.keys():
        raise ArgumentError(f'no limit is named "{name}"; there are {", ".join(_DEFAULTS)}')
    before = _given.set({**(_given.get() or {}), **limits})
    try:
        yield
    finally:
        _given.reset(before)


def too_large(name: str, limit: int, what: str) -> TooLargeError:
    """The error; ``what`` begins with the file and says what there is too much of."""
    return TooLargeError(
        f"{what} over the limit of {limit:,}; if that is meant, allow more by {_variable(name)}"
    )


class _Counted(io.RawIOBase):
    """What ``file`` decompresses to, up to the limit."""

    def __init__(self, file: BinaryIO, name: object) -> None:
        self._file, self._name = file, name
        self._most = most("decompressed")
        self._left = self._most

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        count = cast("io.BufferedReader", self._file).readinto(cast("bytearray", buffer))
        self._left -= count
        if self._left < 0:
            raise too_large("decompressed", self._most, f"{self._name}: decompresses to bytes")
        return count

    def close(self) -> None:
        self._file.close()
        super().close()


def bounded(file: BinaryIO, name: object) -> BinaryIO:
    """``file``, which decompresses, up to the limit; closing it closes ``file``."""
    return cast("BinaryIO", io.BufferedReader(_Counted(file, name), 1 << 18))


def opened(path: Path) -> BinaryIO:
    """A file, decompressed within the limit if its name ends with .gz or .xz."""
    if path.suffix == ".gz":
        return bounded(cast("BinaryIO", gzip.GzipFile(path)), path)
    if path.suffix == ".xz":
        return bounded(cast("BinaryIO", lzma.LZMAFile(path)), path)
    return path.open("rb")


def lines(file: TextIO, name: object) -> Iterator[str]:
    """The lines of a text, none of which is longer than the limit of a token."""
    longest = most("token")
    number = 0
    while line := file.readline(longest + 1):  # ends with the file
        number += 1
        if len(line) > longest:
            raise too_large("token", longest, f"{name}: line {number} has characters")
        yield line
