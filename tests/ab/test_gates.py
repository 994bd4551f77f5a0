# SPDX-License-Identifier: Apache-2.0
"""Each gate by itself, at its edges."""

import numpy as np
import pytest

from denizen.ab import gates


def test_ran():
    assert gates.ran("a", "x", {"x": 5}, 5).status == gates.PASSED
    assert gates.ran("a", "x", {"x": 5, "y": 0}, 5).status == gates.PASSED
    assert gates.ran("a", "x", {"x": 4}, 5).detail == "4 of 5 operations counted"
    assert gates.ran("a", "x", {}, 5).status == gates.FAILED
    assert gates.ran("a", "x", {"x": 5, "y": 1}, 5).detail == '"y" ran instead of "x"'


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i4"])
def test_result_is_the_reference_rounded(dtype):
    reference = np.arange(10, dtype=np.float64).reshape(2, 5)
    right = reference.astype(dtype)
    assert gates.result("a", right, reference, "before").status == gates.PASSED
    right[1, 2] += 1
    assert (
        "before: 1 of 10 wrong, element 7 is 8"
        in gates.result("a", right, reference, "before").detail
    )


def test_result_is_rounded_once():
    reference = np.array([1 / 3])
    third = np.ones(1, "f4") / np.float32(3)
    assert gates.result("a", third, reference, "").status == gates.PASSED
    assert gates.result("a", np.array([1 / 3], "f2"), reference, "").status == gates.PASSED
    neighbour = np.nextafter(np.array([1 / 3], "f4"), np.float32(1))
    assert gates.result("a", neighbour, reference, "").status == gates.FAILED
    # Just over the middle of two neighbours in f2, at the middle once it has been rounded to f4.
    over = np.array([1 + 2.0**-11 + 2.0**-40])
    once, twice = over.astype("f2"), over.astype("f4").astype("f2")
    assert once != twice
    assert gates.result("a", once, over, "").status == gates.PASSED
    assert gates.result("a", twice, over, "").status == gates.FAILED


def test_result_of_another_shape_or_poisoned():
    assert "shape (3,), expected (4,)" in gates.result("a", np.zeros(3), np.zeros(4), "").detail
    assert gates.result("a", [np.nan], [0.0], "").status == gates.FAILED
    assert gates.result("a", [np.nan], [np.nan], "").status == gates.FAILED


@pytest.mark.parametrize(
    ("counted", "status"),
    [(1100, "passed"), (1101, "failed"), (900, "passed"), (899, "failed"), (0, "failed")],
)
def test_bytes(counted, status):
    assert gates.bytes_moved("a", counted, 1000).status == status


def test_share():
    assert gates.share("a", 34.5e9, 345e9).status == gates.PASSED
    broken = gates.share("a", 3.634e9, 345e9)
    assert broken.status == gates.FAILED
    assert broken.detail == "transport broken: 3.634 GB/s, 1.1% of the limit"
