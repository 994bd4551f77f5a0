# SPDX-License-Identifier: Apache-2.0
"""Tasks: a number of Fibonacci, by a tree of small structs that spawn each other and run once.

    python tasks.py [device]

Fib spawns two more; Sum is their continuation and runs when both have arrived.
"""

import sys

import numpy as np

from denizen import tasks


@tasks.task
class Sum:
    sum: np.uint64  # of the values that have arrived
    parent: tasks.COUNTER

    def run(self, ctx):
        ctx.arrive(self.parent, self.sum)


@tasks.task
class Fib:
    n: np.uint32
    parent: tasks.COUNTER

    def run(self, ctx):
        if self.n < 2:
            ctx.arrive(self.parent, self.n)
            return
        both = ctx.when(2, Sum(0, self.parent))
        ctx.spawn(Fib(self.n - 1, both))
        ctx.spawn(Fib(self.n - 2, both))


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
        ctx.spawn(Fib(self.n, ctx.when(1, End(0, self.result))))


def main(device: str = "auto") -> None:
    with tasks.Runtime(Begin, device) as rt:
        result = rt.future("u8")
        rt.spawn(Begin(n=20, result=result))
        found = int(result.get())
        rt.wait()  # until no task runs nor can run
        print(f"fib(20) = {found}, by {rt.stats().run:,} tasks")
        if found != 6765:
            sys.exit("fib(20) is 6765")


if __name__ == "__main__":
    main(*sys.argv[1:])
