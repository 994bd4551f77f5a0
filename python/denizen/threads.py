# SPDX-License-Identifier: Apache-2.0
"""Threads of this package: started, or refused with a reason."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from typing import Any

from denizen.errors import ExhaustedError


def start(target: Callable[..., Any], name: str, args: tuple[Any, ...] = ()) -> threading.Thread:
    """A daemon thread that runs ``target(*args)``. Raises ExhaustedError if there can be none."""
    thread = threading.Thread(target=target, args=args, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        raise ExhaustedError(
            f'cannot start thread "{name}": {os.strerror(errno.EAGAIN)} (see ulimit -u)'
        ) from error
    return thread
