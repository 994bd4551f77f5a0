# SPDX-License-Identifier: Apache-2.0
"""ctx.reduce and ctx.scan in handlers and their tasks mean the same wherever they run."""

import numpy as np
import pytest
from backends import HANDLERS, begin

import denizen
from denizen import _core
from denizen.compilers import find_nvrtc

LANES = 32  # of a warp
THREADS = 96  # of a block, as its actor asks for; the task that it spawns says nothing

Value = denizen.message("Value", [("whole", "i8"), ("word", "u8"), ("real", "f8")])
Ranks = denizen.message(
    "Ranks",
    [
        ("lanes", "u4"),
        ("even", "i8"),
        ("sum", "i8"), ("words", "u8"), ("real", "f8"),
        ("least", "i8"), ("greatest", "u8"), ("last", "f8"),
        ("whole_scan", "i8", (LANES,)), ("word_scan", "u8", (LANES,)),
        ("real_scan", "f8", (LANES,)), ("low_scan", "i8", (LANES,)), ("high_scan", "u8", (LANES,)),
    ],
)  # fmt: skip
Found = denizen.message("Found", [("sum", "i8"), ("lanes", "u4")])
Begin = denizen.message("Begin", [("n", "u4")])
Ask = denizen.message("Ask")


@denizen.actor
class Alone:
    def on_value(self, m: Value, ctx):
        i = ctx.lane
        whole = m.whole - 3 * i * (i & 1)
        word = m.word + i
        real = m.real * (i + 1)
        out = Ranks(
            ctx.lanes,
            ctx.reduce(i % 2 == 0, "add"),
            ctx.reduce(whole, "add"),
            ctx.reduce(word, "add"),
            ctx.reduce(real, "add"),
            ctx.reduce(whole, "least"),
            ctx.reduce(word, "greatest"),
            ctx.reduce(real, "greatest"),
        )
        out.whole_scan[i] = ctx.scan(whole, "add")
        out.word_scan[i] = ctx.scan(word, "add")
        out.real_scan[i] = ctx.scan(real, "add")
        out.low_scan[i] = ctx.scan(whole, "least")
        out.high_scan[i] = ctx.scan(word, "greatest")
        ctx.reply(out)


@denizen.task
class Count:
    """All lanes of a warp: numbers that three divides."""

    grain = "warp"
    n: np.uint32

    def run(self, ctx):
        mine = 0
        i = ctx.lane
        while i < self.n:
            mine += i % 3 == 0
            i += ctx.lanes
        all = ctx.reduce(mine, "add")
        ctx.reply(Found(all, ctx.lanes))


@denizen.actor
class Crew:
    grain = "warp"
    whole_scan: (np.int64, LANES)
    word_scan: (np.uint64, LANES)
    real_scan: (np.float64, LANES)
    low_scan: (np.int64, LANES)
    high_scan: (np.uint64, LANES)
    sum: np.int64
    lanes: np.uint32

    def on_value(self, m: Value, ctx):
        i = ctx.lane
        whole = m.whole - 3 * i * (i & 1)
        word = m.word + i
        real = m.real * (i + 1)
        self.whole_scan[i] = ctx.scan(whole, "add")
        self.word_scan[i] = ctx.scan(word, "add")
        self.real_scan[i] = ctx.scan(real, "add")
        self.low_scan[i] = ctx.scan(whole, "least")
        self.high_scan[i] = ctx.scan(word, "greatest")
        out = Ranks(
            ctx.lanes,
            ctx.reduce(i % 2 == 0, "add"),
            ctx.reduce(whole, "add"),
            ctx.reduce(word, "add"),
            ctx.reduce(real, "add"),
            ctx.reduce(whole, "least"),
            ctx.reduce(word, "greatest"),
            ctx.reduce(real, "greatest"),
        )
        ctx.sync()
        for k in range(LANES):
            out.whole_scan[k] = self.whole_scan[k]
            out.word_scan[k] = self.word_scan[k]
            out.real_scan[k] = self.real_scan[k]
            out.low_scan[k] = self.low_scan[k]
            out.high_scan[k] = self.high_scan[k]
        ctx.reply(out)

    def on_begin(self, m: Begin, ctx):
        ctx.spawn(Count(m.n))

    def on_found(self, m: Found, ctx):
        if ctx.lane == 0:
            self.sum += m.sum
            self.lanes = m.lanes

    def on_ask(self, m: Ask, ctx):
        ctx.reply(Found(self.sum, self.lanes))


@pytest.fixture(scope="module", params=HANDLERS)
def rt(request):
    with begin(denizen.Program(actors=[Alone, Crew]), request.param) as runtime:
        yield runtime


Table = denizen.message("Table", [("factor", "i8")])
Scans = denizen.message("Scans", [("first", "i8", (THREADS,)), ("real", "f8", (THREADS,))])
Sums = denizen.message("Sums", [("lanes", "u4"), ("sum", "i8"), ("least", "f8"), ("same", "u4")])
Told = denizen.message("Told", [("rank", "u4")])


@denizen.task
class Tell:
    """All threads of a block: each tells its number."""

    grain = "block"
    step: np.uint32

    def run(self, ctx):
        ctx.send_each(ctx.sender, Told(ctx.lane), ctx.lane % self.step == 0)


@denizen.actor
class Block:
    grain = "block"
    block_threads = THREADS
    table: (np.int64, THREADS)
    first: (np.int64, THREADS)
    real: (np.float64, THREADS)
    told: np.uint64
    calls: np.uint32

    def on_table(self, m: Table, ctx):
        i = ctx.lane
        self.table[i] = m.factor * i
        ctx.sync()
        left = self.table[(i + 1) % ctx.lanes]  # what another thread has written
        self.first[i] = ctx.scan(left, "add")
        self.real[i] = ctx.scan(0.5 * i, "greatest")
        sum = ctx.reduce(left, "add")
        least = ctx.reduce(-0.25 * i, "least")
        room = ctx.spawn(Tell(3))
        same = ctx.reduce(room, "least") == ctx.reduce(room, "greatest")
        ctx.reply(Sums(ctx.lanes, sum, least, same))

    def on_ask(self, m: Ask, ctx):
        out = Scans()
        for k in range(THREADS):
            out.first[k] = self.first[k]
            out.real[k] = self.real[k]
        ctx.reply(out)

    def on_told(self, m: Told, ctx):
        if ctx.lane == 0:
            self.told += m.rank
            self.calls += 1

    def on_begin(self, m: Begin, ctx):
        ctx.reply(Found(self.told, self.calls))


@pytest.fixture(scope="module", params=HANDLERS)
def blocks(request):
    with begin(denizen.Program(actors=[Block, Alone]), request.param) as runtime:
        yield runtime


def test_the_threads_of_a_block_work_together(blocks):
    n = THREADS if blocks.description["on_gpu"] else 1
    assert blocks.description["worker_threads"] == n
    i = np.arange(n)
    for block in blocks.spawn(Block, 5):
        out = blocks.ask(block, Table(7), timeout=20)
        left = 7 * ((i + 1) % n)
        assert (out["lanes"], out["sum"], out["same"]) == (n, left.sum(), 1)
        assert out["least"] == -0.25 * (n - 1)
        scans = blocks.ask(block, Ask(), timeout=20)
        np.testing.assert_array_equal(scans["first"][:n], np.cumsum(left))
        np.testing.assert_array_equal(scans["real"][:n], 0.5 * i)
        blocks.drain(timeout=60)
        told = blocks.ask(block, Begin(0), timeout=20)
        assert (told["sum"], told["lanes"]) == (i[::3].sum(), len(i[::3]))


@pytest.mark.parametrize("actor", [Alone, Crew])
def test_every_type_and_way(rt, actor):
    (a,) = rt.spawn(actor)
    given = {"whole": -(2**62) - 5, "word": 2**64 - 3, "real": -0.5}
    out = rt.ask(a, Value(**given), timeout=20)
    n = int(out["lanes"])
    assert n == (LANES if actor is Crew and rt.description["on_gpu"] else 1)
    i = np.arange(n)
    with np.errstate(over="ignore"):
        whole = np.full(n, given["whole"], "i8") - 3 * i * (i & 1)
        word = np.full(n, given["word"], "u8") + i.astype("u8")
        assert out["sum"] == whole.sum(dtype="i8")
        assert out["words"] == word.sum(dtype="u8")
        np.testing.assert_array_equal(out["whole_scan"][:n], np.cumsum(whole, dtype="i8"))
        np.testing.assert_array_equal(out["word_scan"][:n], np.cumsum(word, dtype="u8"))
    real = given["real"] * (i + 1)
    assert out["even"] == (n + 1) // 2
    assert out["real"] == real.sum()
    assert (out["least"], out["greatest"], out["last"]) == (whole.min(), word.max(), real.max())
    np.testing.assert_array_equal(out["real_scan"][:n], np.cumsum(real))
    np.testing.assert_array_equal(out["low_scan"][:n], np.minimum.accumulate(whole))
    np.testing.assert_array_equal(out["high_scan"][:n], np.maximum.accumulate(word))


def test_a_task_of_a_warp_counts_together(rt):
    (a,) = rt.spawn(Crew)
    for n in (0, 1, 100, 1000):
        rt.send(a, Begin(n))
    rt.drain(timeout=60)
    out = rt.ask(a, Ask(), timeout=20)
    assert out["sum"] == sum((n + 2) // 3 for n in (0, 1, 100, 1000))
    assert out["lanes"] == (LANES if rt.description["on_gpu"] else 1)


@pytest.mark.usefixtures("unoptimised")
def test_a_cubin_of_it_is_made_without_a_gpu():
    find_nvrtc()
    try:
        _core.nvrtc_version()
    except denizen.DenizenError as error:
        pytest.skip(str(error))
    assert denizen.Program(actors=[Alone, Crew]).compile_gpu(90)
    assert denizen.Program(actors=[Block, Alone]).compile_gpu(90)


def test_what_a_blocks_threads_cannot_do_is_refused():
    @denizen.actor
    class Lots:
        grain = "block"
        random: np.uint64 = 1

        def on_ask(self, m: Ask, ctx):
            ctx.reply(Begin(int(ctx.random() * 6)))

    line = Lots.on_ask.__code__.co_firstlineno + 1
    with pytest.raises(
        denizen.CompileError, match=rf'.py:{line}: ctx.random in Lots, whose grain is "block"; its'
    ):
        denizen.Program(actors=[Lots])

    @denizen.actor
    class Door:
        grain = "block"

        def on_ask(self, m: Ask, ctx):
            ctx.become(self.Open)

        class Open:
            def on_ask(self, m: Ask, ctx):
                ctx.reply(Begin(1))

    with pytest.raises(denizen.CompileError, match=r"ctx.become in Door.*use a field, and if"):
        denizen.Program(actors=[Door])

    @denizen.actor
    class Ranked:
        grain = "block"

        def on_value(self, m: Value, ctx):
            ctx.barrier(m.word)

    with pytest.raises(denizen.CompileError, match=r"ctx.barrier in Ranked.*collectives"):
        denizen.Program(actors=[Ranked])


def test_another_way_to_combine_is_refused():
    @denizen.actor
    class Odd:
        def on_value(self, m: Value, ctx):
            ctx.reply(Found(ctx.reduce(m.whole, "median"), 0))

    with pytest.raises(denizen.CompileError, match='a number and "add", "least" or "greatest"'):
        denizen.Program(actors=[Odd])
