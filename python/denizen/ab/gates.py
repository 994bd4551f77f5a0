# SPDX-License-Identifier: Apache-2.0
"""Gates: what must hold for a cell's times to mean anything. One that fails makes the cell void.

Each would have stopped an experiment that compared a kernel with itself over a broken link.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from denizen.ab.analysis import ALPHA, ALPHA_AGAIN, Comparison

PASSED, FAILED = "passed", "failed"

# How far counted bytes may be from predicted ones. Counters include protocol and are coarse.
BYTES_WITHIN = 0.10
# Below this share of its own limit a transport is broken, and comparing over it is idle.
LEAST_SHARE = 0.10


@dataclass(frozen=True, slots=True)
class Gate:
    """One check of one arm: ``gate`` is ran, result, bytes, share, code, control or again."""

    gate: str
    arm: str
    status: str
    detail: str


def _gate(gate: str, arm: str, passed: bool, detail: str) -> Gate:
    return Gate(gate, arm, PASSED if passed else FAILED, detail)


def ran(arm: str, marker: str, counted: Mapping[str, int], operations: int) -> Gate:
    """The arm's own marker counted every operation, and nobody else's counted any."""
    others = sorted(name for name, n in counted.items() if name != marker and n)
    own = counted.get(marker, 0)
    if others:
        return _gate("ran", arm, False, f'"{others[0]}" ran instead of "{marker}"')
    return _gate("ran", arm, own == operations, f"{own:,} of {operations:,} operations counted")


def result(arm: str, found: ArrayLike, reference: ArrayLike, when: str) -> Gate:
    """The result is the float64 reference rounded to the result's dtype, everywhere."""
    have, want = np.asarray(found), np.asarray(reference, dtype=np.float64)
    if have.shape != want.shape:
        text = f"{when}: shape {have.shape}, expected {want.shape}"
        return _gate("result", arm, False, text)
    with np.errstate(over="ignore"):
        wrong = have != want.astype(have.dtype)  # NaN is wrong: it differs from everything
    count = int(np.count_nonzero(wrong))
    if count:
        at = int(np.flatnonzero(wrong)[0])
        text = f"{when}: {count:,} of {have.size:,} wrong, element {at} is {have.flat[at]}, "
        return _gate("result", arm, False, text + f"expected {want.flat[at]}")
    return _gate("result", arm, True, f"{when}: {have.size:,} elements exact")


def bytes_moved(arm: str, counted: float, predicted: float) -> Gate:
    """Counted bytes are within a tenth of the predicted ones."""
    off = counted - predicted
    text = f"{counted:.4g} B counted, {predicted:.4g} B predicted ({off / predicted:+.1%})"
    return _gate("bytes", arm, abs(off) <= BYTES_WITHIN * predicted, text)


def no_counter(arm: str, predicted: float) -> Gate:
    """The arm's bytes have to be counted, and nothing counts them."""
    text = f"{predicted:.4g} B predicted and no counter: that they were moved is not known"
    return _gate("bytes", arm, False, text)


def share(arm: str, bytes_per_second: float, limit: float) -> Gate:
    """The transport reaches at least a tenth of its measured limit."""
    part = bytes_per_second / limit
    text = f"{bytes_per_second / 1e9:.4g} GB/s, {part:.1%} of the limit"
    broken = part < LEAST_SHARE
    return _gate("share", arm, not broken, f"transport broken: {text}" if broken else text)


def control(arm: str, found: Comparison) -> Gate:
    """The planted difference was found, in its direction."""
    seen = found.p_different < ALPHA and found.ci95[0] > 1
    text = f"ratio {found.ratio:.4g}, p {found.p_different:.2g}"
    return _gate(
        "control", arm, seen, text if seen else f"the planted difference was missed: {text}"
    )


def again(arm: str, found: Comparison, p: float) -> Gate:
    """The base, measured once more as if it were another arm, does not differ from itself.

    ``p`` is of the blocks alone: one code over one set of buffers has no luck of a process.
    """
    biased = p < ALPHA_AGAIN
    reach = max(abs(math.log(edge)) for edge in found.ci95)
    text = f"differs from itself by up to {math.expm1(reach):.2%}, p {p:.2g}"
    return _gate("again", arm, not biased, f"the design is biased: {text}" if biased else text)
