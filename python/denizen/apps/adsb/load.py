# SPDX-License-Identifier: Apache-2.0
"""What ``denizen run adsb`` decodes: a source of I/Q, brought to the receiver's rate and level."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from denizen import dsp, iq
from denizen.errors import ArgumentError
from denizen.radio import SAMPLE_RATE

__all__ = ["Signal", "opened", "signal"]

Signal = bytes | NDArray[np.complex64]
_LEVELLED = 65536  # samples from which the level is told
_QUIET = 2 / 127.5  # the median magnitude that a quiet signal is raised to
_LOUD = 0.999  # share of the samples that must be within full scale


def opened(name: str, form: str | None, rate: int | None) -> iq.Source:
    """The source, see iq.open(). Raises ArgumentError for a rate that is too low."""
    source = iq.open(name, form=form, rate=rate, expected="I/Q at 2 Msps")
    if source.rate is not None and source.rate < SAMPLE_RATE:
        found = source.rate
        source.close()
        raise ArgumentError(
            f"{name}: {found:,} samples a second; Mode S needs at least {SAMPLE_RATE:,.0f}"
        )
    return source


def signal(source: iq.Source) -> Iterator[Signal]:
    """Pieces for Receiver.feed(): bytes as they are, other formats and rates as complex samples.

    A rate over 2 Msps is brought down to it. The others' level is set once, by the first 33 ms: a
    quiet signal is raised, since floats and 16-bit samples often use little of their range, and a
    loud one lowered. Raises DataError as the source does.
    """
    faster = source.rate is not None and source.rate != SAMPLE_RATE
    if source.form.key == "u8" and not faster:
        yield from source.pieces()
        return
    assert source.rate is not None or not faster
    blocks = source.blocks()
    if faster:
        to_rate = dsp.resampler(source.rate or 0, round(SAMPLE_RATE), attenuation=60)
        blocks = map(to_rate, blocks)
    yield from _levelled(blocks)


def _levelled(blocks: Iterator[NDArray[np.complex64]]) -> Iterator[NDArray[np.complex64]]:
    first: list[NDArray[np.complex64]] = []
    held = 0
    gain: float | None = None
    try:
        for block in blocks:
            if gain is not None:
                yield block * gain
                continue
            first.append(block)
            held += len(block)
            if held >= _LEVELLED:
                head = np.concatenate(first)
                gain = _gain(head[:_LEVELLED])
                yield head * gain
    except iq.DataError:  # what came before it counts
        if gain is None and held:
            head = np.concatenate(first)
            gain = _gain(head)
            yield head * gain
        raise
    if gain is None and held:
        head = np.concatenate(first)
        yield head * _gain(head)


def _gain(samples: NDArray[np.complex64]) -> float:
    magnitudes = np.abs(samples)
    median = float(np.median(magnitudes))
    loud = float(np.quantile(magnitudes, _LOUD))
    if loud > 1:
        return 1 / loud
    return _QUIET / median if 0 < median < _QUIET else 1.0
