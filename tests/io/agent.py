# SPDX-License-Identifier: Apache-2.0
"""An actor that passes on what the host gives it to the I/O service, and to the host what comes."""

import numpy as np

import denizen
from denizen import io

Line = io.write("Line", 40)
Chunk = io.data("Chunk", 1000)


@denizen.message
class Begin:
    file: np.uint32
    lines: np.uint32


@denizen.message
class Finished:
    done: np.uint32
    failed: np.uint32


@denizen.actor
class Agent:
    left: np.uint32
    done: np.uint32
    failed: np.uint32

    def on_open(self, m: io.Open, ctx):
        ctx.send(denizen.HOST, m)

    def on_read(self, m: io.Read, ctx):
        ctx.send(denizen.HOST, m)

    def on_line(self, m: Line, ctx):
        ctx.send(denizen.HOST, m)

    def on_accept(self, m: io.Accept, ctx):
        ctx.send(denizen.HOST, m)

    def on_close(self, m: io.Close, ctx):
        ctx.send(denizen.HOST, m)

    def on_chunk(self, m: Chunk, ctx):
        ctx.send(denizen.HOST, m)

    def on_begin(self, m: Begin, ctx):
        self.left = m.lines
        for i in range(m.lines):
            line = Line(file=m.file, tag=i, length=4, offset=io.NEXT)
            line.bytes[0] = 48 + i // 100 % 10
            line.bytes[1] = 48 + i // 10 % 10
            line.bytes[2] = 48 + i % 10
            line.bytes[3] = 10
            ctx.send(denizen.HOST, line)

    def on_done(self, m: io.Done, ctx):
        if self.left == 0:
            ctx.send(denizen.HOST, m)
        else:
            self.failed += m.error != io.Error.NONE or m.tag != self.done
            self.done += 1
            if self.done == self.left:
                ctx.send(denizen.HOST, Finished(self.done, self.failed))
                self.left = 0
                self.done = 0
