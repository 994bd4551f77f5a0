# SPDX-License-Identifier: Apache-2.0
"""I/O into a flow: an actor reads a file of samples, and blocks on the device make its spectrum.

    python file_flow.py [device]

The actor gets pieces of a buffer to fill, has the host's I/O service read the file into each, and
says when one is filled. The source sends its samples on and gives the piece back: a flow that is
slow makes the actor wait, and the file is read no further.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

import denizen
from denizen import flow, io

SAMPLES, POINTS, TONE = 200 * 1024, 1024, 321


@denizen.message
class Begin:
    file: np.uint32


@denizen.actor
class Reader:
    file: np.uint32

    def on_begin(self, m: Begin):
        self.file = m.file

    def on_free(self, m: flow.Free, ctx):
        read = io.ReadInto(file=self.file, tag=m.number, offset=io.NEXT, buffer=m.buffer)
        read.begin = m.begin
        read.length = m.length
        ctx.send(denizen.HOST, read)

    def on_done(self, m: io.Done, ctx):  # of the reading; no bytes: the file has ended
        ctx.send(denizen.HOST, flow.Filled(number=m.tag, error=m.error, length=m.bytes))


def main(device: str = "auto") -> None:
    rng = np.random.default_rng(1)
    noise = rng.normal(size=(SAMPLES, 2)).astype("f4").view("c8")[:, 0]
    signal = noise + np.exp(2j * np.pi * TONE / POINTS * np.arange(SAMPLES)).astype("c8")
    where = {"executor": "resident", "device": device}
    with tempfile.TemporaryDirectory() as folder:
        signal.tofile(Path(folder) / "signal")
        with denizen.Runtime(Reader, device) as rt, io.Service(rt, folder) as files:
            (reader,) = rt.spawn(Reader)
            rt.send(reader, Begin(files.open("signal")))
            with flow.Flowgraph() as graph:
                source = graph.add(flow.ActorSource("file", rt, reader, "c8"))
                fft = graph.add(flow.Fft("fft", POINTS, **where))
                power = graph.add(flow.MagnitudeSquared("power", **where))
                sink = graph.add(flow.ArraySink("sink", "f4"))
                graph.circuit("signal", source.out, quanta=4, samples=8192)
                graph.circuit("frames", fft.out, quanta=4, samples=8192)
                graph.connect(source.out, fft.port)
                graph.connect(fft.out, power.samples)
                graph.connect(power.samples, sink.port)
                graph.run(timeout=60)
            read, on = files.stats()["bytes_read"], rt.description["device"]
    spectrum = sink.samples.reshape(-1, POINTS).mean(axis=0)
    print(f"{read:,} bytes of a file, its tone in bin {spectrum.argmax()} of {POINTS}, on {on}")
    expected = (np.abs(np.fft.fft(signal.reshape(-1, POINTS))) ** 2).mean(axis=0)
    if not np.allclose(spectrum, expected, rtol=1e-3) or spectrum.argmax() != TONE:
        sys.exit("the spectrum is not NumPy's")


if __name__ == "__main__":
    main(*sys.argv[1:])
