# SPDX-License-Identifier: Apache-2.0
"""What submissions took on the GPU, by the time stamps of the releases that end them (mode full).

A channel's releases all go to one place, so a log has those that a later doorbell, or the end,
found there: between two of them lie one submission or several.
"""

from __future__ import annotations

import statistics
from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from denizen.lens.decode import Decoded
from denizen.lens.log import Capture, Submission
from denizen.lens.summary import api_of


class Taken(NamedTuple):
    """From one release to a later one on the same channel.

    ``ns``: by the GPU's clock; ``apis``: of the submissions between, the last of which made the
    later release. ``busy``: all of them were rung before the first release was made, so the GPU had
    work all the time; else it may have waited, and ``ns`` is the most that they have taken.
    """

    channel: int
    apis: tuple[str, ...]
    ns: int
    busy: bool


def taken(
    capture: Capture, submissions: Iterable[tuple[Submission, Decoded | None]]
) -> list[Taken]:
    """All that the log tells of; ``submissions`` as :func:`denizen.lens.summary.decoded` gave."""
    times: dict[int, list[int]] = {}
    apis: dict[int, list[str]] = {}
    releases: dict[tuple[int, int, int], int] = {}  # channel, address, payload → place
    for submission, found in submissions:
        bell = submission.doorbell
        times.setdefault(bell.channel, []).append(bell.time_ns)
        apis.setdefault(bell.channel, []).append(api_of(capture, bell))
        for operation in found.operations if found else ():
            address, payload = (operation.detail.get(name) for name in ("address", "payload"))
            if (
                operation.kind == "release"
                and isinstance(address, int)
                and isinstance(payload, int)
            ):
                releases[bell.channel, address, payload] = len(times[bell.channel]) - 1
    made: list[Taken] = []
    before: dict[int, tuple[int, int, int]] = {}  # of each channel: place, GPU's time, doorbell
    for release in capture.releases:
        place = releases.get((release.channel, release.address, release.payload))
        if place is None:
            continue
        # The doorbell at which it was read: at the one before it was not yet there.
        seen = bisect_right(times[release.channel], release.time_ns) - 1
        if (last := before.get(release.channel)) is not None and place > last[0]:
            made.append(
                Taken(
                    release.channel,
                    tuple(apis[release.channel][last[0] + 1 : place + 1]),
                    release.gpu_ns - last[1],
                    place < last[2],
                )
            )
        before[release.channel] = place, release.gpu_ns, seen
    return made


def summary(found: Iterable[Taken]) -> str:
    """In a line, by function: the median of a submission; "" where nothing is known."""
    busy: dict[str, list[float]] = {}
    most: dict[str, list[float]] = {}
    for one in found:
        if len(set(one.apis)) == 1:
            per = one.ns / len(one.apis) * 1e-3
            (busy if one.busy else most).setdefault(one.apis[0], []).append(per)
    parts = []
    for api in sorted(busy.keys() | most.keys()):
        told = [
            f"{how}{statistics.median(one[api]):.2f} us ({len(one[api]):,})"
            for how, one in (("", busy), ("at most ", most))
            if api in one
        ]
        parts.append(f"{api} {', '.join(told)}")
    return f"GPU time between releases: {'; '.join(parts)}" if parts else ""
