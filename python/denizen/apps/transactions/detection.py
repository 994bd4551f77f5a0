# SPDX-License-Identifier: Apache-2.0
"""What is found of a labelled stream: by the rules, by the model, and by both."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from denizen.apps.transactions.records import MODEL_RULE, Records


@dataclass(frozen=True)
class Found:
    """Of accepted payments."""

    precision: float
    """Of those with an alert, the share that is wanted; NaN where there is none."""
    recall: float
    """Of those that are wanted, the share with an alert; NaN where there is none."""

    def __str__(self) -> str:
        return f"precision {self.precision:.1%}, recall {self.recall:.1%}"


def detection(
    alerts: Records, wanted: NDArray[np.bool_], accepted: NDArray[np.bool_], first: int = 0
) -> dict[str, Found]:
    """By "rules", "model" and "both": a payment is found by what has an alert for it.

    Args:
        alerts: all of the stream, dtype ALERT.
        wanted, accepted: of each record, bool, (n,); suspicious() and ~isnan(take_scores()).
        first: the first record's place in the stream.
    """
    by: dict[str, NDArray[np.bool_]] = {}
    for name, some in (
        ("rules", alerts[alerts["rule"] != MODEL_RULE]),
        ("model", alerts[alerts["rule"] == MODEL_RULE]),
    ):
        by[name] = np.zeros(len(wanted), bool)
        by[name][some["sequence"] - np.uint64(first)] = True
    by["both"] = by["rules"] | by["model"]
    return {
        name: Found(
            _share(there & wanted & accepted, there & accepted),
            _share(there & wanted & accepted, wanted & accepted),
        )
        for name, there in by.items()
    }


def _share(part: NDArray[np.bool_], whole: NDArray[np.bool_]) -> float:
    return float(part.sum() / whole.sum()) if whole.any() else float("nan")
