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

Scale = denizen.message(
    "Scale", [("data", denizen.BUFFER), ("first", "u4"), ("count", "u4"), ("by", "f4")]
)
Done = denizen.message("Done", [("first", "u4")])

program = denizen.Program(
    """
    struct Scaler {
        void on(const Scale& m, auto& ctx) {
            auto data = ctx.template data<float>(m.data);
            for (uint32_t i = 0; i < m.count; ++i) data[m.first + i] *= m.by;
            ctx.send(denizen::host, Done{m.first});
        }
    };
    """,
    actors=["Scaler"],
    messages=[Scale, Done],
    name="scaler",
)


def main(device: str = "auto") -> None:
    with denizen.Runtime(program, device) as rt:
        scalers = rt.spawn("Scaler", ACTORS)
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
