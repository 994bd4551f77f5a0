# SPDX-License-Identifier: Apache-2.0
"""How tests of clusters wait."""

import time


def until(done, seconds=60.0):
    """Waits until done() is true; fails after so many seconds."""
    end = time.monotonic() + seconds
    while not done():  # ends by done() or the deadline
        assert time.monotonic() < end, f"{done} is not true after {seconds} s"
        time.sleep(0.005)
