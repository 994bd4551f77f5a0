# SPDX-License-Identifier: Apache-2.0
"""Group: ranks that sum their arrays together, by calls and by messages to a resident group.

    python group.py

All ranks are in this process, on CPU threads. With group.join() each is a process of its own, and
with device="gpu:N" their arrays are tensors on GPUs.
"""

import sys
import threading

import numpy as np

from denizen import group

RANKS, NUMBERS = 3, 100_000
results: dict[int, tuple[np.ndarray, np.ndarray]] = {}


def rank(g: group.Group) -> None:
    mine = np.arange(NUMBERS, dtype="f4") * (g.rank + 1)
    total = np.empty_like(mine)
    g.all_reduce(mine, "sum", out=total)

    highest = mine.copy()
    with g.resident() as r:  # workers that stay: a call is a message
        r.all_reduce(highest, "max")  # in place
        r.wait()
    results[g.rank] = total, highest


def main() -> None:
    threads = [threading.Thread(target=rank, args=[g]) for g in group.local(RANKS, "cpu")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    numbers = np.arange(NUMBERS, dtype="f4")
    right = [
        np.array_equal(total, numbers * 6) and np.array_equal(highest, numbers * 3)
        for total, highest in results.values()
    ]
    print(f"{sum(right)} of {RANKS} ranks have the right sum and maximum of {NUMBERS:,} numbers")
    if right != [True] * RANKS:
        sys.exit("some rank has another result")


if __name__ == "__main__":
    main()
