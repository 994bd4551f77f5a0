# SPDX-License-Identifier: Apache-2.0
"""Types that are made once, by a decorator: of actors, messages, tasks and flow kinds.

What patches a class in place would set a method where nothing looks for one, and leave the type as
it was without a word: IPython's %autoreload does, and loads the module anew where that fails.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any


class Fixed:
    """A base: once `_made` is set, an object gets no attributes beside those that it has."""

    _made = False

    if not TYPE_CHECKING:

        def __setattr__(self, name: str, value: Any) -> None:
            if self._made and name not in vars(self):
                raise AttributeError(
                    f"{self!r} has no {name} and gets none; decorate a new class with it"
                )
            object.__setattr__(self, name, value)
