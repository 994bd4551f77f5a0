# SPDX-License-Identifier: Apache-2.0
"""I/O from handlers: an actor reads a file piece by piece and streams it into other actors.

    python file_stream.py [device]

The reader asks for four pieces at a time and for the next one when one has come, so that the file
is read while the counters work. A counter counts the bytes of its kind in the pieces it gets.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

import denizen
from denizen import io

COUNTERS, PIECE, AHEAD, SIZE = 4, 1024, 4, 300_000

Piece = io.data("Piece", PIECE)


@denizen.message
class Begin:
    file: np.uint32
    counters: (denizen.ADDRESS, COUNTERS)


@denizen.message
class Work:
    length: np.uint32
    bytes: (np.uint8, PIECE)


@denizen.message
class Finished:
    bytes: np.uint64


@denizen.message
class Ask:
    pass


@denizen.message
class Counts:
    of: (np.uint64, 256)


@denizen.actor
class Reader:
    file: np.uint32
    next: np.uint32
    open: np.uint32
    total: np.uint64
    counters: (denizen.ADDRESS, COUNTERS)

    def on_begin(self, m: Begin, ctx):
        self.file = m.file
        for i in range(COUNTERS):
            self.counters[i] = m.counters[i]
        self.open = AHEAD
        for _ in range(AHEAD):
            ctx.send(denizen.HOST, io.Read(file=m.file, length=PIECE, offset=io.NEXT))

    def on_piece(self, m: Piece, ctx):
        if m.length == 0 or m.error != io.Error.NONE:  # the end
            self.open -= 1
            if self.open == 0:
                ctx.send(denizen.HOST, io.Close(file=self.file))
            return
        work = Work(length=m.length)
        for i in range(m.length):
            work.bytes[i] = m.bytes[i]
        ctx.send(self.counters[self.next % COUNTERS], work)
        self.next += 1
        self.total += m.length
        ctx.send(denizen.HOST, io.Read(file=self.file, length=PIECE, offset=io.NEXT))

    def on_done(self, m: io.Done, ctx):  # of the close
        ctx.send(denizen.HOST, Finished(self.total))


@denizen.actor
class Counter:
    of: (np.uint64, 256)

    def on_work(self, m: Work):
        for i in range(m.length):
            self.of[m.bytes[i]] += 1

    def on_ask(self, m: Ask, ctx):
        out = Counts()
        for i in range(256):
            out.of[i] = self.of[i]
        ctx.reply(out)


def main(device: str = "auto") -> None:
    content = np.random.default_rng(1).binomial(255, 0.4, SIZE).astype(np.uint8)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "data").write_bytes(content.tobytes())
        with denizen.Runtime([Reader, Counter], device) as rt, io.Service(rt, folder) as files:
            (reader,) = rt.spawn(Reader)
            counters = rt.spawn(Counter, COUNTERS)
            rt.send(reader, Begin(files.open("data"), counters))
            total = rt.receive(timeout=60).message["bytes"]
            rt.drain()
            counts = rt.ask_many(counters, Ask(), Counts)["of"]
            where = rt.description["device"]
    print(f"{total:,} bytes went from a file through {COUNTERS} actors on {where}")
    if not np.array_equal(counts.sum(axis=0), np.bincount(content, minlength=256)):
        sys.exit("some byte was counted wrongly")
    if not counts.any(axis=1).all():
        sys.exit("some counter got nothing")


if __name__ == "__main__":
    main(*sys.argv[1:])
