# SPDX-License-Identifier: Apache-2.0
"""What handlers and tasks of grain = "block" cannot do: their threads do not go in step."""

from __future__ import annotations

from denizen.errors import CompileError
from denizen.handlers import collectives
from denizen.handlers.rewrite import Rewritten

# By the name of a call: what to write instead.
_INSTEAD = {
    "become": "its threads read one by one which behaviour is in force: use a field, and if",
    "random": "its threads would draw at once: draw in an actor of another grain, and send it on",
    **dict.fromkeys(
        collectives.KINDS,  # a team is a warp or a thread: include/denizen/group/inside.hpp
        'a warp or a thread calls collectives: grain = "warp", or spawn a task that has it',
    ),
}


def check(name: str, new: Rewritten) -> None:
    """Raises CompileError, with the user's file and line, for such a call."""
    for call, line in new.calls.items():
        if call in _INSTEAD:
            what = f'ctx.{call} in {name}, whose grain is "block"; {_INSTEAD[call]}'
            raise CompileError.at(new.path, line, what)
