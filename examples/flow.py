# SPDX-License-Identifier: Apache-2.0
"""Flow: four buffers go round through two blocks, one in Python, one resident on the device.

    python flow.py [device]

A source that has sent all four waits until one comes back, so what is under way is bounded.
"""

import sys

import numpy as np

from denizen import flow


class Clip(flow.Block):
    """Samples above a limit become the limit."""

    def __init__(self, name: str, limit: float) -> None:
        super().__init__(name)
        self.samples = self.in_place("samples", "f4")
        self.limit = limit

    def work(self) -> None:
        view = self.samples.array  # the buffer itself: nothing is copied
        np.minimum(view, self.limit, out=view)
        self.samples.pass_on()


def main(device: str = "auto") -> None:
    given = np.arange(100_000, dtype="f4") % 1000
    with flow.Flowgraph() as graph:
        source = graph.add(flow.ArraySource("source", given))
        clip = graph.add(Clip("clip", 500))
        line = graph.add(flow.Saxpy("line", 2, 1, executor="resident", device=device))
        sink = graph.add(flow.ArraySink("sink", "f4"))
        graph.circuit("samples", source.out, quanta=4, samples=1024)
        graph.connect(source.out, clip.samples)
        graph.connect(clip.samples, line.samples)
        graph.connect(line.samples, sink.port)
        graph.run(timeout=60)
    print(f"{len(sink.samples):,} samples, the highest {sink.samples.max():.0f}")
    if not np.array_equal(sink.samples, 2 * np.minimum(given, 500) + 1):
        sys.exit("some sample is wrong")


if __name__ == "__main__":
    main(*sys.argv[1:])
