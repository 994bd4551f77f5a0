# SPDX-License-Identifier: Apache-2.0
"""The keys of topics and patterns, byte for byte those of include/denizen/actor/topic.hpp."""

from __future__ import annotations

import hashlib

import numpy as np

MAX_TOPIC = 255  # bytes
MAX_SHORT_TOPIC = 15  # of one that is its own key
_LONG, _PREFIX = 127, 128


def key(name: bytes, prefix: bool) -> bytes:
    """16 bytes: the name and its length, or of more than 15 bytes a digest of it."""
    if len(name) > MAX_SHORT_TOPIC:
        digest = hashlib.blake2s(name, digest_size=14).digest()
        return digest + bytes([len(name), _LONG | (_PREFIX if prefix else 0)])
    return name.ljust(15, b"\0") + bytes([len(name) | (_PREFIX if prefix else 0)])


def topic_words(text: str, pattern: bool) -> list[int] | str:
    """What operations are given of a topic, or what is wrong with it.

    The four words of its key. Behind those of a long topic to publish to its text, 8 bytes each,
    zeros behind it.
    """
    data = text.encode()
    prefix = pattern and data.endswith(b"*")
    name = data[:-1] if prefix else data
    if b"*" in name:
        return "has a * that is not at a pattern's end"
    if len(name) > MAX_TOPIC or (not name and not prefix):
        return f"has {len(name)} bytes; use 1 to {MAX_TOPIC}"
    words = [int(w) for w in np.frombuffer(key(name, prefix), "<u4")]
    if not pattern and len(name) > MAX_SHORT_TOPIC:
        rest = name.ljust(-(-len(name) // 8) * 8, b"\0")
        words += [int(w) for w in np.frombuffer(rest, "<i8")]
    return words


def name_of(words: tuple[int, ...]) -> bytes:
    """The topic of which these are the words."""
    data = np.array(words[:4], "<u4").tobytes()
    if len(words) == 4:
        return data[: data[15]]
    return np.array(words[4:], "<i8").tobytes()[: data[14]]


def matches(pattern: tuple[int, ...], name: bytes) -> bool:
    data = np.array(pattern, "<u4").tobytes()
    if data[15] < _PREFIX:
        return key(name, False) == data
    n = data[14] if data[15] & 127 == _LONG else data[15] & 127
    return n <= len(name) and key(name[:n], True) == data
