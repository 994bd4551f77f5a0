# SPDX-License-Identifier: Apache-2.0
"""Typed errors. Each message names the thing, the limit and the way out."""

from __future__ import annotations

import errno
import linecache
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class DenizenError(RuntimeError):
    """Base of everything this package raises on purpose."""


class RingFullError(DenizenError):
    """A ring had no room until the deadline."""


class ClosedError(DenizenError):
    """The runtime has been closed."""


class MessageError(DenizenError, ValueError):
    """A message of the wrong size or type, or an actor without a handler for it."""


class NoActorError(DenizenError, LookupError):
    """The address names no live actor."""


class DeadError(DenizenError):
    """The other side is gone: the program died on its device."""


class DeadlineError(DenizenError, TimeoutError):
    """The deadline has passed."""


class HostLostError(DenizenError, ConnectionError):
    """A host of the cluster is gone, or was silent for longer than the deadline."""


class StuckError(DenizenError, TimeoutError):
    """A handler does not return; the message names its worker, actor, message and seconds."""


class ExhaustedError(DenizenError):
    """A fixed resource (actors, state memory, reply cells, an outbox) is used up."""


class ArgumentError(DenizenError, ValueError):
    """A value outside its range."""


class NoFitError(ArgumentError):
    """So many workers do not fit on the device, by the registers that the code needs."""


class TooLargeError(ArgumentError):
    """A file says or holds more than a limit; the message says which, and how to allow more."""


class DeviceError(DenizenError):
    """No GPU, no driver, or an error that the CUDA driver reported."""


class StaleBufferError(DenizenError, BufferError):
    """The buffer has been closed, or is another runtime's."""


class CompileError(DenizenError):
    """Program text that does not compile; the message shows the compiler's, with your lines."""

    @classmethod
    def at(cls, path: str, line: int, what: str, column: int | None = None) -> CompileError:
        """With the line as it stands in the file, and a caret below it.

        Args:
            column: from 0; None: no caret.
        """
        text = linecache.getline(path, line).rstrip().replace("\t", " ")
        shown = text.lstrip()
        told = f"{path}:{line}: {what}"
        if shown:
            told += f"\n    {shown}"
            if column is not None and column >= len(text) - len(shown):
                told += f"\n    {' ' * (column - len(text) + len(shown))}^"
        return cls(told)


class OnlyTheCall:
    """A context: a CompileError that leaves it shows the call, not how the compiler came there."""

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, CompileError):
            error.__traceback__ = None


class MissingPackageError(DenizenError, ImportError):
    """An optional package is not installed, or fails to be imported; the message says how to
    install it, or what it says."""

    def __init__(self, package: str, install: str = "") -> None:
        way_out = f"pip install {install or package.lower()}"
        why = sys.exception()  # of an import that has failed, if this is raised there
        known = isinstance(why, ModuleNotFoundError | MissingPackageError)
        if isinstance(why, ImportError) and not known:
            reason = (str(why).strip() or "no reason given").splitlines()[0]
            super().__init__(f"{package} cannot be imported: {reason}; see {way_out}")
        else:
            super().__init__(f"{package} is not installed: {way_out}")


class FailedError(DenizenError):
    """The actor has failed; restart or resume it first."""


class SnapshotError(DenizenError, ValueError):
    """A snapshot that is truncated, altered, or of another program; the message says which."""


class DataError(Exception):
    """Data that cannot be used. The message is one line: file, row where there is one, reason."""


def unreadable(name: object, error: OSError, expected: str) -> DataError:
    """Why a file cannot be read, and what should have been there."""
    why = os.strerror(error.errno) if error.errno else error
    return DataError(f"{name}: {why}; expected {expected}")


@contextmanager
def parsing(name: object, kind: Callable[[str], Exception] = DataError) -> Iterator[None]:
    """What Python raises of its own while it reads file ``name``, as one line that names it.

    Too little memory is a TooLargeError, all else a ``kind``.
    """
    try:
        yield
    except MemoryError as error:
        raise TooLargeError(
            f"{name}: there is not enough memory for what it holds or says; give this process more"
        ) from error
    except RecursionError as error:
        raise kind(f"{name}: nested too deep to be read") from error
    except UnicodeError as error:
        reason = error.reason if isinstance(error, UnicodeDecodeError) else error
        raise kind(f"{name}: not UTF-8 text: {reason}") from error


@contextmanager
def starting(what: str, kind: Callable[[str], Exception] = DataError) -> Iterator[None]:
    """A process, `what`, that cannot be started is a ``kind``, in one line."""
    try:
        yield
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        limit = {errno.EMFILE: " (see ulimit -n)", errno.EAGAIN: " (see ulimit -u)"}
        hint = limit.get(error.errno or 0, "")
        raise kind(f"cannot start {what}: {why}{hint}") from error


@contextmanager
def reading(name: object, expected: str) -> Iterator[None]:
    """For what a command reads: parsing(), and a file that cannot be opened is unreadable()."""
    try:
        with parsing(name):
            yield
    except OSError as error:
        raise unreadable(name, error, expected) from error


# By denizen::Errc (include/denizen/base/error.hpp).
_BY_CODE: dict[int, type[DenizenError]] = {
    1: RingFullError,
    3: ClosedError,
    4: MessageError,
    5: MessageError,
    6: NoActorError,
    7: DeadError,
    8: DeadlineError,
    9: StuckError,
    10: ExhaustedError,
    11: ArgumentError,
    12: DeviceError,
    13: DeviceError,
    14: CompileError,
    15: FailedError,
    16: StaleBufferError,
    17: SnapshotError,
    18: HostLostError,
    19: NoFitError,
}


def from_code(code: int, text: str) -> DenizenError:
    """The exception for a C++ error; called by the extension module."""
    return _BY_CODE.get(code, DenizenError)(text)
