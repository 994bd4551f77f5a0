# SPDX-License-Identifier: Apache-2.0
"""The tour as one HTML page that needs nothing from a network."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib import metadata
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from denizen import machine, style
from denizen.files import write_text

if TYPE_CHECKING:
    from denizen.tour.command import Stop
    from denizen.tour.step import Found


def write(path: Path, stops: Sequence[Stop], about: machine.Machine, seconds: float) -> None:
    """Write the page to ``path``; a file that exists is replaced."""
    write_text(path, render(stops, about, seconds))


def render(stops: Sequence[Stop], about: machine.Machine, seconds: float) -> str:
    """The page's HTML."""
    passed = sum(stop.found is not None and not stop.wrong for stop in stops)
    failed = sum(bool(stop.wrong) for stop in stops)
    facts = [
        ("device", about.device),
        *([("driver", about.driver)] if about.driver else []),
        *([("host", about.cpu)] if about.driver else []),
        ("denizen", metadata.version("denizen")),
        ("made", machine.utc_now()[:10]),
        ("in", f"{seconds:.0f} s"),
    ]
    parts = {
        "style": style.sheet(),
        "verdict": f"{passed} of {len(stops)} stops passed their checks",
        "state": "bad" if failed else "good" if passed == len(stops) else "some",
        "facts": "".join(f"<div><dt>{a}</dt><dd>{escape(b)}</dd></div>" for a, b in facts),
        "contents": "".join(
            f'<li><a href="#{stop.step.name}">{escape(stop.step.title)}</a> {_mark(stop)}</li>'
            for stop in stops
        ),
        "stops": "\n".join(_section(i, stop) for i, stop in enumerate(stops, 1)),
    }
    text = files("denizen.tour").joinpath("page.html").read_text(encoding="utf-8")
    return style.fill(text, parts)


def _mark(stop: Stop) -> str:
    if stop.lacks:
        return '<span class="badge some">not made</span>'
    if stop.wrong:
        return '<span class="badge bad">failed</span>'
    return '<span class="badge good">checked</span>'


def _section(number: int, stop: Stop) -> str:
    body = [
        f'<section id="{stop.step.name}"><h2><span class="number">{number}</span> '
        f"{escape(stop.step.title)} {_mark(stop)}</h2>"
        f'<p class="dim">{escape(stop.step.shows)} · {stop.seconds:.1f} s'
        + (f" · {escape(stop.found.device)}" if stop.found else "")
        + "</p>"
    ]
    if stop.lacks:
        body.append(f"<p>{escape(stop.lacks)}</p>")
    elif stop.found is None:
        body.append(f'<p class="check bad">{escape(stop.broke)}</p>')
    else:
        body += _found(stop.found)
    return "".join(body) + "</section>"


def _found(found: Found) -> list[str]:
    kind, text = ("bad", found.wrong) if found.wrong else ("good", found.checked)
    body = [f"<p>{escape(found.did)}</p>", f'<p class="check {kind}">{escape(text)}</p>']
    for picture in found.pictures:
        body.append(
            f"<figure>{picture.html}<figcaption>{escape(picture.caption)}</figcaption></figure>"
        )
    if found.figures:
        cells = "".join(
            f"<tr><th>{escape(a)}</th><td>{escape(b)}</td></tr>" for a, b in found.figures
        )
        body.append(f'<div class="wide"><table class="facts"><tbody>{cells}</tbody></table></div>')
    if found.table is not None:
        title, header, rows = found.table
        head = "".join(f"<th>{escape(name)}</th>" for name in header)
        lines = "".join(
            f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows
        )
        body.append(
            f"<h3>{escape(title)}</h3>"
            f'<div class="wide"><table><thead><tr>{head}</tr></thead>'
            f"<tbody>{lines}</tbody></table></div>"
        )
    return body
