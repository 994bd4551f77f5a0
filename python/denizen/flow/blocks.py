# SPDX-License-Identifier: Apache-2.0
"""Blocks for the ends of a graph."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from denizen.errors import ArgumentError
from denizen.flow.block import Block, Tag, checked_tag
from denizen.values import numbers


class ArraySource(Block):
    """Sends the samples of an array of one dimension, with their tags, then finishes.

    ``tags`` are counted from the first sample. Its port is ``out``.
    """

    def __init__(self, name: str, samples: ArrayLike, tags: Iterable[Tag] = ()) -> None:
        super().__init__(name)
        if isinstance(samples, np.ma.MaskedArray):
            raise ArgumentError("samples are a masked array; give all, such as samples.filled(0)")
        samples = numbers("samples", samples)
        if samples.ndim != 1:
            raise ArgumentError(f"samples have the shape {samples.shape}; give one dimension")
        self.out = self.source("out", samples.dtype)
        self._samples = samples
        if not isinstance(tags, Iterable):
            raise ArgumentError(f"tags = {tags!r:.60}; use a list of flow.Tag(sample, key, value)")
        self._tags = sorted((checked_tag(tag) for tag in tags), key=lambda tag: tag.sample)
        if self._tags and self._tags[-1].sample >= len(samples):
            raise ArgumentError(
                f"tag {self._tags[-1].key!r:.60} is at sample {self._tags[-1].sample} of "
                f"{len(samples)}; tags are counted from the first sample, 0"
            )
        self._sent = 0

    def work(self) -> None:
        if self._sent == len(self._samples):
            self.finish()
            return
        room = self.out.array
        n = min(len(room), len(self._samples) - self._sent)
        room[:n] = self._samples[self._sent : self._sent + n]
        while self._tags and self._tags[0].sample < self._sent + n:
            tag = self._tags.pop(0)
            self.out.tag(tag.sample - self._sent, tag.key, tag.value)
        self._sent += n
        self.out.produce(n)


class ArraySink(Block):
    """Keeps what it reads at ``port``: ``samples`` and ``tags``, once the graph has ended."""

    def __init__(self, name: str, dtype: DTypeLike) -> None:
        super().__init__(name)
        self.port = self.input("in", dtype)
        self.tags: list[Tag] = []
        self._parts: list[NDArray[Any]] = []

    def work(self) -> None:
        before = self.port.position
        self.tags += [tag._replace(sample=tag.sample + before) for tag in self.port.tags]
        self._parts.append(self.port.array.copy())
        self.port.consume()

    @property
    def samples(self) -> NDArray[Any]:
        """Everything it has read, in one array."""
        return np.concatenate([np.empty(0, self.port.dtype), *self._parts])
