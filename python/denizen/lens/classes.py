# SPDX-License-Identifier: Apache-2.0
"""Methods and fields of NVIDIA's engine classes: the tables in classes/, read when first used.

A class is what an engine understands: compute (0xcbc0 on Hopper), copy (0xc8b5), host (0xc86f, the
channel itself). Its methods are 32-bit words written to byte offsets. The tables are facts of the
headers NVIDIA publishes; tools/lens-classes makes them and says of which.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib.resources import files

_FIELD = re.compile(r"(\w+)\[(\d+)(?::(\d+))?\](?:\+(\d+))?(?:=(.+))?$")
HOST_METHODS_END = 0x100  # methods below are the channel's own, on every subchannel
METHODS_END = 0x4000


@dataclass(frozen=True, slots=True)
class Bits:
    """A field: bits ``low`` to ``high`` of a word, or of a QMD's words in a row.

    ``step``: bits from one element to the next where it is an array.
    """

    low: int
    high: int
    step: int = 0
    values: dict[int, str] = field(default_factory=dict)

    def of(self, word: int) -> int:
        return word >> self.low & ((1 << (self.high - self.low + 1)) - 1)


@dataclass(frozen=True, slots=True, eq=False)
class Method:
    """A method: its byte offset, its name, its fields (none: one number of 32 bits)."""

    offset: int
    step: int
    name: str
    fields: dict[str, Bits]

    def decoded(self, value: int) -> dict[str, int | str]:
        """The fields of ``value``, by the name of their value where it has one."""
        return _decoded(self, value)


@lru_cache(maxsize=4096)  # a driver writes the same few values again and again
def _decoded(method: Method, value: int) -> dict[str, int | str]:
    found: dict[str, int | str] = {}
    for name, bits in method.fields.items():
        number = bits.of(value)
        found[name] = bits.values.get(number, number)
    return found


class EngineClass:
    """The methods of one class. ``number`` is the one a channel is bound to by SET_OBJECT."""

    def __init__(self, number: int, title: str, methods: list[Method]) -> None:
        self.number, self.title = number, title
        self._methods = {method.offset: method for method in methods}
        self._offsets = sorted(self._methods)
        self._by_name = {method.name: method for method in methods}

    @property
    def methods(self) -> list[Method]:
        """All of them, by their offsets."""
        return [self._methods[offset] for offset in self._offsets]

    def at(self, offset: int) -> tuple[Method, int] | None:
        """The method at byte ``offset`` and the index in it; None where the table has none.

        An array reaches to the next method that does not lie between its own elements.
        """
        if (exact := self._methods.get(offset)) is not None:
            return exact, 0
        i = bisect_right(self._offsets, offset) - 1
        while i >= 0:  # ends: past a method that is no array, or the first
            method = self._methods[self._offsets[i]]
            if not method.step:
                return None
            index, odd = divmod(offset - method.offset, method.step)
            if not odd:
                return method, index
            if method.step == 4:
                return None
            i -= 1
        return None

    def name(self, offset: int) -> str:
        """The method's name, or its offset in hexadecimal where it is not known."""
        if (found := self.at(offset)) is None:
            return f"{offset:#06x}"
        method, index = found
        return f"{method.name}[{index}]" if method.step else method.name

    def __getitem__(self, name: str) -> Method:
        return self._by_name[name]

    def __contains__(self, name: str) -> bool:
        return name in self._by_name


def _bits(text: str) -> tuple[str, Bits]:
    found = _FIELD.match(text)
    if found is None:
        raise ValueError(f"{text!r} is no field")
    name, high, low, step, values = found.groups()
    named: dict[int, str] = {}
    for item in values.split(",") if values else ():
        word, _, number = item.rpartition(":")
        named.setdefault(int(number), word)  # aliases: the first is the plain one
    return name, Bits(int(low or high), int(high), int(step or 0), named)


def _lines(name: str) -> tuple[str, list[str]]:
    text = (
        files("denizen.lens")
        .joinpath("classes")
        .joinpath(f"{name}.txt")
        .read_text(encoding="utf-8")
    )
    first, *rest = text.splitlines()
    return first.lstrip("# ").split(":", maxsplit=1)[0], rest


def _read(number: int) -> EngineClass:
    title, lines = _lines(f"{number:x}")
    methods = []
    for line in lines:
        place, name, *fields = line.split()
        offset, _, step = place.partition("+")
        methods.append(Method(int(offset, 16), int(step or 0), name, dict(map(_bits, fields))))
    return EngineClass(number, title, methods)


HOSTS = (0xC56F, 0xC86F)
COMPUTES = (0xC6C0, 0xC7C0, 0xCBC0)
COPIES = (0xC6B5, 0xC7B5, 0xC8B5)


@cache
def engine_class(number: int) -> EngineClass | None:
    """The class ``number``; None if there is no table of it."""
    return _read(number) if number in (*HOSTS, *COMPUTES, *COPIES) else None


@cache
def host_class(number: int) -> EngineClass:
    """The host methods of a channel of class ``number``: Hopper's for one that has no table."""
    return _read(number if number in HOSTS else HOSTS[-1])


@cache
def qmd_layout(major: int, minor: int) -> dict[str, Bits] | None:
    """The fields of a QMD (a launch's description) of that version; None if not published here."""
    version = {(2, 4): "v02_04", (3, 0): "v03_00", (4, 0): "v04_00"}.get((major, minor))
    return None if version is None else dict(map(_bits, _lines(f"qmd{version}")[1]))


def engine_of(number: int) -> str:
    """``compute``, ``copy``, ``host``, or the class in hexadecimal: by the last two digits.

    NVIDIA numbers the classes of one engine alike over the generations.
    """
    return {0xC0: "compute", 0xB5: "copy", 0x6F: "host", 0x97: "3d", 0x40: "inline"}.get(
        number & 0xFF, f"{number:04x}"
    )
