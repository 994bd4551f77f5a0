# SPDX-License-Identifier: Apache-2.0
"""A thousand counters that live in a resident program, on the GPU if there is one.

    python counter.py [device]

Without a device: the first GPU, else CPU threads; `cpu:2` is two CPU threads, `gpu:0` a GPU.
"""

import sys

import numpy as np

import denizen


@denizen.message
class Tick:
    n: np.uint32


@denizen.message
class Ask:
    pass


@denizen.message
class Total:
    sum: np.uint64
    ticks: np.uint32


@denizen.actor
class Counter:
    sum: np.uint64
    ticks: np.uint32

    def on_tick(self, m: Tick):
        self.sum += m.n
        self.ticks += 1

    def on_ask(self, m: Ask, ctx):
        ctx.reply(Total(self.sum, self.ticks))


def main(device: str = "auto") -> None:
    with denizen.Runtime(Counter, device) as rt:
        counters = rt.spawn(Counter, 1000)

        rt.send(counters[7], Tick(n=5))  # one message
        rt.send(counters[7], "Tick", n=6)  # the same by name
        print("counter 7:", rt.ask(counters[7], "Ask", timeout=10))

        ticks = Tick.zeros(1_000_000)  # a million, from one array
        ticks["n"] = np.arange(1_000_000) % 10
        rt.send_many(counters[np.arange(1_000_000) % 1000], ticks)

        totals = rt.ask_many(counters, "Ask", Total)
        expected = int(ticks["n"].sum(dtype=np.uint64)) + 11
        print(f"{totals['ticks'].sum():,} ticks on {rt.description['device']},", end=" ")
        print(f"sum {totals['sum'].sum():,}, expected {expected:,}")
        if totals["sum"].sum() != expected:
            sys.exit("wrong sum")


if __name__ == "__main__":
    main(*sys.argv[1:])
