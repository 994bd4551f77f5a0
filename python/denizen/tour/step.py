# SPDX-License-Identifier: Apache-2.0
"""What a stop of the tour is given, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable


@dataclass(frozen=True, slots=True)
class Place:
    """``device``: as of denizen.Runtime. ``tell``: what is being done now, for who watches."""

    device: str
    tell: Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Picture:
    """``html``: an SVG or an img; ``caption``: one line."""

    html: str
    caption: str


@dataclass(slots=True)
class Found:
    """What a stop did.

    Attributes:
        did: what was done with which input, one or two sentences.
        checked: what agreed with what.
        wrong: the first difference, in a sentence; None if there is none.
        figures: (name, value) for the page's table.
        pictures: for the page.
        screen: lines of a picture for a terminal.
        table: title, header and rows for terminal and page; None if there is none.
        device: where it ran.
    """

    did: str
    checked: str
    wrong: str | None
    device: str
    figures: Sequence[tuple[str, str]] = ()
    pictures: Sequence[Picture] = ()
    screen: Sequence[str] = ()
    table: tuple[str, Sequence[str], Sequence[Sequence[str]]] | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """``name``: for the command line; ``shows``: the parts that it uses; ``ahead``: compiles, for
    a GPU of such a compute capability times ten, what takes its compiler so long that it is done
    while other stops are made.
    """

    name: str
    title: str
    shows: str
    run: Callable[[Place], Found]
    ahead: Callable[[int], object] | None = None


def data(name: str) -> Traversable:
    """A file that comes with the package (data/README.md)."""
    return files("denizen.tour").joinpath("data", name)
