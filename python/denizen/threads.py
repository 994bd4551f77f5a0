# SPDX-License-Identifier: Apache-2.0
"""Threads of this package: started, or refused with a reason."""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar

from denizen.errors import ExhaustedError

T = TypeVar("T")


def start(
    target: Callable[..., Any], name: str, args: tuple[Any, ...] = (), *, daemon: bool = True
) -> threading.Thread:
    """A thread that runs ``target(*args)``. Raises ExhaustedError if there can be none."""
    thread = threading.Thread(target=target, args=args, name=name, daemon=daemon)
    try:
        thread.start()
    except RuntimeError as error:
        raise ExhaustedError(
            f'cannot start thread "{name}": {os.strerror(errno.EAGAIN)} (see ulimit -u)'
        ) from error
    return thread


def uninterrupted(work: Callable[[], T], name: str) -> T:
    """What ``work()`` gives, of which Ctrl-C ends the wait and not the work.

    For libraries that are left unusable by an exception at an arbitrary place (half imported, half
    registered), or that lose it in a callback of C. Python runs handlers of signals in its main
    thread alone, so there the work is another thread's; it is not a daemon, since the interpreter
    may not end under it. While a module is imported the work is done here, since it may ask for
    that module, which another thread would wait for: then Ctrl-C comes when the work is done.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    if _importing():
        return _before_ctrl_c(work)
    done = threading.Event()
    made: list[T] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            made.append(work())
        except BaseException as error:  # raised where the work is waited for
            failed.append(error)
        finally:
            done.set()

    start(run, name, daemon=False)
    done.wait()
    if failed:
        raise failed.pop()
    return made.pop()


def _importing() -> bool:
    """Whether this thread is within an import, whose lock it holds."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False


def _before_ctrl_c(work: Callable[[], T]) -> T:
    own = signal.getsignal(signal.SIGINT)
    if not callable(own):  # it raises nothing
        return work()
    came: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda *given: came.append(given))
    try:
        return work()
    finally:
        signal.signal(signal.SIGINT, own)
        if came:
            own(*came[0])
