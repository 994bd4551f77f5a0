# SPDX-License-Identifier: Apache-2.0
"""The text of a function that is to be compiled, read once and kept with the function.

Read when a handler is decorated, else when a program is made of it: its file may change afterwards.
Kept with it, so that it goes where the function is sent: a notebook's cell is no file that another
process could read.
"""

from __future__ import annotations

import hashlib
import inspect
import marshal
from types import FunctionType

_KEPT = "_denizen_text"


def text_of(function: FunctionType) -> tuple[list[str], int]:
    """Its lines, and the number of the first one. OSError if they are not to be found."""
    code = function.__code__
    # functools.wraps() copies what another one keeps, and %autoreload puts new code into the old.
    of = hashlib.sha256(marshal.dumps(code, 2)).digest()
    kept = vars(function).get(_KEPT)
    if kept is None or kept[0] != of:
        # inspect takes a function with __wrapped__ for the one that was decorated.
        bare = FunctionType(code, function.__globals__, closure=function.__closure__)
        kept = vars(function)[_KEPT] = of, inspect.getsourcelines(bare)
    lines, first = kept[1]
    return lines, first


def keep_text(function: FunctionType) -> None:
    """Has it kept from now on, if it is to be found."""
    try:
        text_of(function)
    except (OSError, TypeError):
        return
