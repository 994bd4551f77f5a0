# SPDX-License-Identifier: Apache-2.0
"""Buffers: messages that refer to a million numbers instead of carrying them.

    python buffers.py [device]

Eight actors work on parts of one array, in memory that the host and the actors both reach. Nothing
is copied.
"""

import sys

import numpy as np

import denizen

NUMBERS, ACTORS = 1_000_000, 8


@denizen.message
class Scale:
    data: denizen.BUFFER
    first: np.uint32
    count: np.uint32
    by: np.float32


@denizen.message
class Done:
    first: np.uint32


@denizen.actor
class Scaler:
    def on_scale(self, m: Scale, ctx):
        data = ctx.data(m.data, np.float32)
        for i in range(m.first, m.first + m.count):
            data[i] *= m.by
        ctx.send(denizen.HOST, Done(m.first))


def main(device: str = "auto") -> None:
    with denizen.Runtime(Scaler, device) as rt:
        scalers = rt.spawn(Scaler, ACTORS)
        with rt.buffer(NUMBERS, "f4", "pinned") as buffer:
            x = buffer.numpy()  # the buffer's own memory
            x[:] = np.arange(NUMBERS)
            part = NUMBERS // ACTORS
            for i, scaler in enumerate(scalers):
                rt.send(scaler, Scale(data=buffer, first=i * part, count=part, by=0.5))
            for _ in scalers:
                rt.receive(timeout=60)
            right = np.array_equal(x, np.arange(NUMBERS, dtype="f4") * np.float32(0.5))
        print(f"{ACTORS} actors halved {NUMBERS:,} numbers on {rt.description['device']}")
        if not right:
            sys.exit("some number is wrong")


if __name__ == "__main__":
    main(*sys.argv[1:])
