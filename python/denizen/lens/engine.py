# SPDX-License-Identifier: Apache-2.0
"""An engine as a channel's stream has set it: what is bound to a subchannel, and the last value of
each method."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

from denizen.lens.classes import METHODS_END, EngineClass, engine_class, engine_of

Action = Callable[["Engine", int], None]


class Engine:
    """What is bound to one subchannel, and the methods' last values."""

    def __init__(self, actions: Mapping[str, Action], table: EngineClass) -> None:
        self.table = table
        self.name = engine_of(table.number)
        self.values: dict[int, int] = {}
        # By the word a method is at: what it is called (None: not known), and what it does.
        self.slots: list[tuple[str | None, Action | None]] = [
            (name, actions.get(name) if name else None) for name in method_names(table.number)
        ]

    def get(self, name: str) -> int:
        """The last value of a method, 0 if none was seen."""
        return self.values.get(self.table[name].offset, 0)

    def field(self, name: str, field_name: str) -> int:
        return self.table[name].fields[field_name].of(self.get(name))

    def word(self, name: str, field_name: str) -> int | str:
        """A field by the name of its value."""
        return self.table[name].decoded(self.get(name))[field_name]

    def address(self, upper: str, lower: str) -> int:
        """Two methods' values as one, of the upper only the bits of its field."""
        bits = next(iter(self.table[upper].fields.values()), None)
        top = self.get(upper)
        return (bits.of(top) if bits else top) << 32 | self.get(lower)


@cache
def method_names(number: int) -> list[str | None]:
    """The names of class ``number``'s methods by their words; None where there is none."""
    table = engine_class(number)
    assert table is not None
    found = [table.at(offset) for offset in range(0, METHODS_END, 4)]
    return [None if item is None else item[0].name for item in found]
