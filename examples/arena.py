# SPDX-License-Identifier: Apache-2.0
"""Arena: handlers allocate and free on the device. Each actor keeps a list that grows and shrinks.

python arena.py [device]
"""

import sys

import numpy as np

import denizen


@denizen.message
class Push:
    value: np.uint32


@denizen.message
class Take:
    pass


@denizen.message
class Taken:
    sum: np.uint64
    count: np.uint32


@denizen.actor
class List:
    first: np.uint64  # the address of a link: that of the next one, and a value

    def on_push(self, m: Push, ctx):
        link = ctx.allocate(2, np.uint64)
        if len(link) == 0:  # no room; rt.arena().failed counts it
            return
        link[0] = self.first
        link[1] = m.value
        self.first = ctx.address(link)

    def on_take(self, m: Take, ctx):
        taken = Taken()
        while self.first != 0:
            link = ctx.array(self.first, 2, np.uint64)
            self.first = link[0]
            taken.sum += link[1]
            taken.count += 1
            ctx.free(link)
        ctx.reply(taken)


def main(device: str = "auto") -> None:
    with denizen.Runtime(List, device, arena_bytes=16 << 20) as rt:
        actors = rt.spawn(List, 100)
        values = Push.zeros(10_000)  # 1 to 100, for each list
        values["value"] = np.arange(10_000) // 100 + 1
        rt.send_many(actors[np.arange(10_000) % 100], values)
        rt.drain()
        grown = rt.arena().live_blocks
        taken = rt.ask_many(actors, "Take", Taken)
        left = rt.arena().live_blocks
        print(f"{grown:,} blocks allocated by 100 lists, {left} after they were taken")
        if (grown, left) != (10_000, 0) or (taken["sum"] != 5050).any():
            sys.exit("some link was lost")


if __name__ == "__main__":
    main(*sys.argv[1:])
