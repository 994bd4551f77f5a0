# SPDX-License-Identifier: Apache-2.0
"""Two captures side by side: two drivers, or two versions of a program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from denizen.lens import summary
from denizen.lens.log import Capture
from denizen.lens.summary import Cost


@dataclass(frozen=True, slots=True)
class Change:
    """One API function in both captures; None where a capture has no doorbell of it."""

    api: str
    before: Cost | None
    after: Cost | None

    @property
    def bytes_ratio(self) -> float | None:
        """Bytes per call, after / before."""
        if self.before is None or self.after is None or not self.before.bytes_per_call:
            return None
        return self.after.bytes_per_call / self.before.bytes_per_call

    @property
    def same(self) -> bool:
        """Whether calls cost the same bytes and doorbells in both, on average."""
        return (
            self.before is not None
            and self.after is not None
            and self.before.bytes_per_call == self.after.bytes_per_call
            and self.before.doorbells_per_call == self.after.doorbells_per_call
        )


def changes(before: Capture, after: Capture) -> list[Change]:
    """Every function of either capture; those with the largest difference in bytes first."""
    a = {cost.api: cost for cost in summary.summarize(before).costs}
    b = {cost.api: cost for cost in summary.summarize(after).costs}

    def difference(api: str) -> int:
        return abs((a[api].bytes if api in a else 0) - (b[api].bytes if api in b else 0))

    names = sorted(a.keys() | b.keys(), key=lambda api: (-difference(api), api))
    return [Change(api, a.get(api), b.get(api)) for api in names]


HEADER = ("API", "calls A", "calls B", "doorbells / call", "bytes / call A", "B", "B / A")
RIGHT = (1, 2, 3, 4, 5, 6)


def rows(found: Sequence[Change]) -> list[tuple[str, ...]]:
    """The table under HEADER."""
    return [_row(change) for change in found]


def _row(change: Change) -> tuple[str, ...]:
    a, b = change.before, change.after
    bells = " → ".join(f"{cost.doorbells_per_call:.3g}" if cost else "-" for cost in (a, b))
    ratio = change.bytes_ratio
    return (
        change.api,
        f"{a.per_call:,}" if a else "-",
        f"{b.per_call:,}" if b else "-",
        bells,
        f"{a.bytes_per_call:,.0f}" if a else "-",
        f"{b.bytes_per_call:,.0f}" if b else "-",
        "=" if change.same else f"{ratio:.3f}" if ratio is not None else "-",
    )
