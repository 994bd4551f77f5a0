# SPDX-License-Identifier: Apache-2.0
"""The owner of an arena, from Python."""

import ctypes

import pytest

import denizen


def test_blocks_are_counted_and_reset():
    arena = denizen.Arena(1 << 20, "cpu")
    assert arena.stats() == (1 << 20, 1 << 20, 0, 0, 0, 0, 0)
    small = arena.allocate(100)
    large = arena.allocate(100_000)
    assert small is not None and large is not None and small != large
    ctypes.memset(small, 7, 100)
    ctypes.memset(large, 8, 100_000)
    assert ctypes.string_at(small, 100) == b"\7" * 100
    stats = arena.stats()
    assert (stats.live_blocks, stats.live_bytes) == (2, 128 + 4 * 32768)
    assert arena.allocate(1 << 20) is None
    arena.deallocate(small)
    arena.deallocate(small)
    stats = arena.stats()
    assert (stats.live_blocks, stats.failed, stats.refused) == (1, 1, 1)
    arena.reset()
    assert arena.stats() == (1 << 20, 1 << 20, 0, 0, 0, 0, 0)


def test_a_guarded_arena_tells_who_misused_it():
    arena = denizen.Arena(1 << 20, "cpu", guarded=True)
    kept = arena.allocate(10, tag=4)
    over = arena.allocate(20, tag=5)
    assert kept is not None and over is not None
    ctypes.memset(over, 1, 21)
    arena.deallocate(over)
    arena.deallocate(kept + 16)
    assert arena.faults() == [
        (denizen.FaultKind.OVERRUN, 5, over),
        (denizen.FaultKind.FOREIGN, 0, kept + 16),
    ]
    assert arena.leaks() == [(4, 1, 10)]


def test_what_cannot_be_made_is_an_error():
    with pytest.raises(denizen.ArgumentError, match="524288"):
        denizen.Arena(1000, "cpu")
    with pytest.raises(denizen.ArgumentError, match="one device"):
        denizen.Arena(1 << 20, "cpu:2x1")
    with pytest.raises(denizen.ArgumentError, match="not guarded"):
        denizen.Arena(1 << 20, "cpu").leaks()
    with pytest.raises(denizen.ArgumentError):
        denizen.Arena(-1, "cpu")


def test_the_reference_is_an_address():
    arena = denizen.Arena(1 << 20, "cpu")
    assert arena.ref != 0 and arena.ref == arena.ref
