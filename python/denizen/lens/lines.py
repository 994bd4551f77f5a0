# SPDX-License-Identifier: Apache-2.0
"""A capture as JSON, one line per submission: submission.schema.json is the format."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict
from functools import cache
from importlib.resources import files
from typing import Any

from denizen.files import whole
from denizen.lens.log import NONE, Capture, Submission
from denizen.lens.operation import Decoded
from denizen.lens.places import UNKNOWN, Places
from denizen.lens.pushbuffer import Control, Entry


@cache
def submission_schema() -> dict[str, Any]:
    """The schema of a line, parsed."""
    text = files("denizen.lens").joinpath("submission.schema.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def _entry(e: Entry, aperture: str | None) -> dict[str, Any]:
    found: dict[str, Any] = {"address": e.address if e.words else 0, "bytes": e.bytes}
    if e.control is not None:
        found["control"] = e.control.name if isinstance(e.control, Control) else str(e.control)
    for flag in ("subroutine", "sync", "conditional"):
        if getattr(e, flag):
            found[flag] = True
    if aperture not in {None, UNKNOWN}:
        found["aperture"] = aperture
    return found


def line(
    capture: Capture, submission: Submission, found: Decoded | None, places: Places
) -> dict[str, Any]:
    """One submission as JSON values. ``found``: what it decodes to, None in mode ``count``."""
    bell = submission.doorbell
    call = capture.calls.get(bell.call)
    inside: dict[str, Any] | None = None
    if found is not None:
        inside = {
            "complete": found.recorded,
            "operations": [asdict(operation) for operation in found.operations],
            "methods": dict(found.methods),
            "unknown": dict(found.unknown),
            "problems": found.problems,
        }
    return {
        "schema": 1,
        "pid": capture.header.pid,
        "sequence": bell.sequence,
        "time_ns": bell.time_ns,
        "thread": bell.tid,
        "channel": None if bell.channel == NONE else bell.channel,
        "gpu": None if bell.gpu == NONE else bell.gpu,
        "token": bell.token,
        "api": capture.api(bell.api) if bell.api else None,
        "api_inner": capture.api(bell.api_inner) if bell.api_inner else None,
        "call": bell.call or None,
        "correlation": call.correlation if call else None,
        "bytes": bell.bytes,
        "entries": [_entry(one, aperture) for one, aperture in places.segments(bell)],
        "put": [bell.put_old, bell.put_new],
        "readable": not bell.unreadable,
        "decoded": inside,
    }


def write(
    path: str | os.PathLike[str],
    captures: Iterable[tuple[Capture, Iterable[tuple[Submission, Decoded | None]]]],
) -> None:
    """Write every submission of some captures to ``path``; one that exists is replaced."""
    with whole(path) as part, open(part, "w", encoding="utf-8") as file:
        for capture, submissions in captures:
            places = Places(capture)
            for submission, found in submissions:
                json.dump(line(capture, submission, found, places), file, separators=(",", ":"))
                file.write("\n")
