# SPDX-License-Identifier: Apache-2.0
"""What submissions took on the GPU, by the time stamps of their releases (mode full).

A channel's releases all go to one place, so a log has those that a later doorbell, or the end,
found there: between two of them lie one submission or several.

The compute engine makes the release behind a launch as it issues the launch, once all before it has
ended, and does not wait for the kernel: seen on an H200, where a kernel of 171 us, launched alone,
lies behind its release (tests/lens/test_lens_times.py). So what such a submission does is between
its release and the next. The copy engine makes a release as its copy has ended, and the host engine
one that says so as all has.
"""

from __future__ import annotations

import statistics
from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from denizen.lens.log import Capture, Submission
from denizen.lens.operation import Decoded
from denizen.lens.summary import api_of


class Taken(NamedTuple):
    """From one release to a later one on the same channel.

    ``ns``: by the GPU's clock; ``apis``: of the submissions that the GPU did meanwhile. ``busy``:
    the later release's was rung before the first release was made, so the GPU had work all the
    time; else it may have waited, and ``ns`` is the most that they have taken.
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
    # Channel, address, payload → place, and how many submissions had ended by then.
    releases: dict[tuple[int, int, int], tuple[int, int]] = {}
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
                place = len(times[bell.channel]) - 1
                at_end = operation.engine == "copy" or operation.detail.get("waits_for_idle")
                releases[bell.channel, address, payload] = place, place + bool(at_end)
    made: list[Taken] = []
    # Of each channel: submissions that had ended, GPU's time, doorbell.
    before: dict[int, tuple[int, int, int]] = {}
    for release in capture.releases:
        found_at = releases.get((release.channel, release.address, release.payload))
        if found_at is None:
            continue
        place, ended = found_at
        # The doorbell at which it was read: at the one before it was not yet there.
        seen = bisect_right(times[release.channel], release.time_ns) - 1
        if (last := before.get(release.channel)) is not None and ended > last[0]:
            made.append(
                Taken(
                    release.channel,
                    tuple(apis[release.channel][last[0] : ended]),
                    release.gpu_ns - last[1],
                    place < last[2],
                )
            )
        before[release.channel] = ended, release.gpu_ns, seen
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
