# SPDX-License-Identifier: Apache-2.0
"""Tasks in Python: in how many ways n queens stand on a board without attacking each other.

    python nqueens.py [device]

Place puts a queen into the next row, wherever there is room, by a task for each way. Sum is
the continuation of these and adds up what they have found.
"""

import sys

import numpy as np

from denizen import tasks

KNOWN = {1: 1, 2: 0, 3: 0, 4: 2, 5: 10, 6: 4, 7: 40, 8: 92, 9: 352, 10: 724, 11: 2680, 12: 14200}


@tasks.task
class Sum:
    sum: np.uint64  # of the values that have arrived
    parent: tasks.COUNTER

    def run(self, ctx):
        ctx.arrive(self.parent, self.sum)


@tasks.task
class Place:
    free: np.uint32  # columns without a queen, of the whole board
    left: np.uint32  # columns of the next row that are attacked along one diagonal
    right: np.uint32  # along the other
    parent: tasks.COUNTER

    def run(self, ctx):
        if self.free == 0:
            ctx.arrive(self.parent, 1)
            return
        room = self.free & ~(self.left | self.right)
        ways = 0
        rest = room
        while rest != 0:
            rest &= rest - 1
            ways += 1
        if ways == 0:
            ctx.arrive(self.parent, 0)
            return
        all = ctx.when(ways, Sum(0, self.parent))
        while room != 0:
            queen = room & -room
            room ^= queen
            ctx.spawn(
                Place(self.free ^ queen, (self.left | queen) << 1, (self.right | queen) >> 1, all)
            )


@tasks.task
class End:
    sum: np.uint64
    result: tasks.PROMISE

    def run(self, ctx):
        ctx.set(self.result, self.sum)


@tasks.task
class Begin:
    n: np.uint32
    result: tasks.PROMISE

    def run(self, ctx):
        ctx.spawn(Place((1 << self.n) - 1, 0, 0, ctx.when(1, End(0, self.result))))


def main(device: str = "auto", n: int = 8) -> None:
    with tasks.Runtime(Begin, device) as rt:
        result = rt.future("u8")
        rt.spawn(Begin(n, result))
        found = int(result.get(60))
        rt.wait()
        print(f"{n} queens stand in {found} ways, found by {rt.stats().run:,} tasks")
    if found != KNOWN[n]:
        sys.exit(f"{n} queens stand in {KNOWN[n]} ways")


if __name__ == "__main__":
    main(*sys.argv[1:2], *map(int, sys.argv[2:]))
