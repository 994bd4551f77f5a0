# SPDX-License-Identifier: Apache-2.0
"""Collectives that tasks in Python of all ranks call together, each rank's in a program of its own.
Those of tasks that actors spawn are in test_ranks_in_handlers.py."""

import contextlib
from dataclasses import dataclass

import numpy as np
import pytest
from ranks import GATHER, GRAINS, RANKS, SCATTER, SEND, SUM, SWAP, arrays, called, wanted

import denizen
from denizen import _core, group, tasks
from denizen.compilers import find_nvrtc

FLOATS, DOUBLES, WORDS, LONGS, BYTES = range(5)
COLUMNS = 8


@tasks.task
class Series:
    """Calls one behind the other, each a row of numbers; first it lets the others wait."""

    grain = "warp"
    rank: np.uint64
    rows: np.uint64
    count: np.uint32
    result: tasks.PROMISE

    def run(self, ctx):
        rows = ctx.array(self.rows, COLUMNS * self.count, np.uint64)
        good = 0
        for i in range(self.count):
            at = COLUMNS * i
            late = 0
            for _ in range(rows[at]):
                late += ctx.cancelled()
            element, kind, root = rows[at + 1], rows[at + 2], rows[at + 3]
            x, n, out, size = rows[at + 4], rows[at + 5], rows[at + 6], rows[at + 7]
            if element == FLOATS:
                f4, g4 = ctx.array(x, n, np.float32), ctx.array(out, size, np.float32)
                good += called(ctx, kind, self.rank, f4, g4, root)
            elif element == DOUBLES:
                f8, g8 = ctx.array(x, n, np.float64), ctx.array(out, size, np.float64)
                good += called(ctx, kind, self.rank, f8, g8, root)
            elif element == WORDS:
                i4, j4 = ctx.array(x, n, np.int32), ctx.array(out, size, np.int32)
                good += called(ctx, kind, self.rank, i4, j4, root)
            elif element == LONGS:
                i8, j8 = ctx.array(x, n, np.int64), ctx.array(out, size, np.int64)
                good += called(ctx, kind, self.rank, i8, j8, root)
            else:
                u1, v1 = ctx.array(x, n, np.uint8), ctx.array(out, size, np.uint8)
                good += called(ctx, kind, self.rank, u1, v1, root)
        if ctx.lane == 0:
            ctx.set(self.result, good)


@dataclass
class Call:
    kind: int
    element: type
    n: int = 4
    root: int = 0


@contextlib.contextmanager
def programs(ranks, task, device="cpu:1", **how):
    """Ranks on CPU threads or GPUs, and a running program of each."""
    if device == "gpu" and _core.gpu_count() < ranks:
        pytest.skip(f"fewer than {ranks} GPUs")
    groups = group.local(ranks, device.partition(":")[0], **how)
    with contextlib.ExitStack() as stack:
        rts = []
        for g in groups:
            where = f"gpu:{g.rank}" if device == "gpu" else device
            rts.append(stack.enter_context(tasks.Runtime(task, where)))
        yield groups, rts


def check(groups, rts, calls, rng=None):
    """All ranks make these calls; with `rng`, each begins when it will and is late now and then."""
    ranks = len(groups)
    rows = np.zeros((ranks, len(calls), COLUMNS), np.uint64)
    given, outs = [], []
    for i, c in enumerate(calls):
        x, size = arrays(c.kind, c.element, c.n, ranks, i)
        out = [np.full(size, 77, c.element) for _ in groups]
        given.append(x)
        outs.append(out)
        for r in range(ranks):
            late = 0 if rng is None else rng.choice([0, 0, 100, 20_000])
            how = late, [*GRAINS].index(c.element), c.kind, c.root
            rows[r, i] = *how, x[r].ctypes.data, x[r].size, out[r].ctypes.data, out[r].size
    results = [rt.future("u8") for rt in rts]
    for r in range(ranks) if rng is None else rng.permutation(ranks):
        rank = groups[r].address(rts[r])
        rts[r].spawn(Series(rank, rows[r].ctypes.data, len(calls), results[r]))
    assert [int(result.get(60)) for result in results] == [len(calls)] * ranks
    for c, x, out in zip(calls, given, outs, strict=True):
        for r in range(ranks):
            np.testing.assert_array_equal(out[r], wanted(c.kind, x, r, c.root), str(c))


@pytest.fixture(scope="module")
def running():
    with programs(RANKS, Series) as both:
        yield both


@pytest.mark.parametrize("element", GRAINS, ids=lambda t: t.__name__)
@pytest.mark.parametrize("n", [1, 700])
def test_every_collective_gives_what_numpy_does(running, element, n):
    check(*running, [Call(kind, element, n, root=1) for kind in range(8)])


@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_ranks_that_let_each_other_wait(ranks):
    """Types, kinds, roots and sizes in turn, and another rank is late each time."""
    rng = np.random.default_rng(ranks)
    elements = [*GRAINS]
    calls = [
        Call(
            kind=int(rng.integers(8)),
            element=elements[rng.integers(len(elements))],
            n=int(rng.choice([0, 1, 7, 300])),
            root=int(rng.integers(ranks)),
        )
        for _ in range(40)
    ]
    with programs(ranks, Series) as (groups, rts):
        check(groups, rts, calls, rng)


@tasks.task
class Filled:
    """What it reduces lies in the arena, on a GPU in that GPU's memory."""

    rank: np.uint64
    factor: np.uint32
    n: np.uint32
    result: tasks.PROMISE

    def run(self, ctx):
        x = ctx.allocate(self.n, np.float32)
        for i in range(len(x)):
            x[i] = self.factor * i
        total = 0.0
        if ctx.all_reduce(self.rank, x, x):
            for value in x:
                total += value
        ctx.free(x)
        ctx.set(self.result, total)


@pytest.mark.parametrize("device", ["cpu:1", pytest.param("gpu", marks=pytest.mark.gpu)])
def test_a_block_of_the_arena(device):
    with programs(2, Filled, device) as (groups, rts):
        for n in (1, 100):
            results = [rt.future("f8") for rt in rts]
            for r, rt in enumerate(rts):
                rt.spawn(Filled(groups[r].address(rt), r + 1, n, results[r]))
            assert [float(f.get(60)) for f in results] == [3 * n * (n - 1) / 2] * 2


@tasks.task
class Root:
    """A tree whose leaves reduce, each with those of its number in the other ranks' trees."""

    ranks: np.uint64  # of a group for each leaf: their addresses
    x: np.uint64
    n: np.uint32
    leaves: np.uint32
    result: tasks.PROMISE

    def run(self, ctx):
        ranks = ctx.array(self.ranks, self.leaves, np.uint64)
        all = ctx.when(self.leaves, Sum(0, self.result))
        for i in range(self.leaves):
            # Each waits for others: on a worker of its own, which nobody takes it from.
            ctx.spawn_on(i, Leaf(ranks[i], self.x + 8 * self.n * i, self.n, all))


@tasks.task
class Leaf:
    rank: np.uint64
    x: np.uint64
    n: np.uint32
    all: tasks.COUNTER

    def run(self, ctx):
        x = ctx.array(self.x, self.n, np.int64)
        out = ctx.allocate(self.n, np.int64)
        sum = 0
        if ctx.all_reduce(self.rank, x, out, "max"):
            for i in range(len(out)):
                sum += out[i]
        ctx.free(out)
        ctx.arrive(self.all, sum)


@tasks.task
class Sum:
    sum: np.uint64
    result: tasks.PROMISE

    def run(self, ctx):
        ctx.set(self.result, self.sum)


def test_a_tree_whose_leaves_reduce():
    leaves, ranks, n = 3, 2, 50
    with programs(ranks, Root, f"cpu:{leaves}") as (_, rts):
        for seed in range(10):
            groups = [group.local(ranks, "cpu") for _ in range(leaves)]
            x = np.random.default_rng(seed).integers(0, 1000, (ranks, leaves, n))
            of = [np.array([g[r].address(rts[r]) for g in groups], np.uint64) for r in range(ranks)]
            results = [rt.future("u8") for rt in rts]
            for r, rt in enumerate(rts):
                rt.spawn(Root(of[r].ctypes.data, x[r].ctypes.data, n, leaves, results[r]))
            assert [int(f.get(60)) for f in results] == [x.max(0).sum()] * ranks


def lone(groups, rts, call, **wrong):
    """What comes of a call of rank 0 alone."""
    (x, *_), size = arrays(call.kind, call.element, call.n, len(groups))
    rank = wrong.get("rank", groups[0].address(rts[0]))
    how = {"n": len(x), "size": size, "root": call.root, **wrong}
    out = np.zeros(size, call.element)
    kind = 0, [*GRAINS].index(call.element), call.kind, how["root"]
    row = np.array([*kind, x.ctypes.data, how["n"], out.ctypes.data, how["size"]], np.uint64)
    result = rts[0].future("u8")
    rts[0].spawn(Series(rank, row.ctypes.data, 1, result))
    return int(result.get(60))


def test_what_does_not_fit_is_refused_on_the_spot(running):
    groups, rts = running
    other, own = np.zeros(100), groups[0].address(rts[0])
    for kind, wrong in (
        (SUM, {"size": 9}),
        (SUM, {"rank": 0}),
        (SUM, {"rank": other.ctypes.data}),
        (SUM, {"rank": own + 1}),
        (SUM, {"rank": own + 8}),
        (SEND, {"root": RANKS}),
        (SWAP, {"n": 10, "size": 10}),
        (GATHER, {"size": 9}),
        (SCATTER, {"n": 9}),
    ):
        assert lone(groups, rts, Call(kind, np.float64), **wrong) == 0
    groups[0].check()


def test_a_rank_that_does_not_come_is_an_error_of_the_group():
    with programs(2, Series, timeout=0.2) as (groups, rts):
        assert lone(groups, rts, Call(SUM, np.float64)) == 0
        with pytest.raises(denizen.DeadError, match=r"rank 0 waited 0.2 s for rank 1"):
            groups[0].check()


@denizen.message
class Tick:
    pass


@denizen.actor
class Idle:
    def on_tick(self, m: Tick):
        pass


def test_another_place_than_the_programs_is_refused(running):
    groups, rts = running
    with pytest.raises(denizen.ArgumentError, match=r"give its tasks Group.address\(runtime\)"):
        groups[0].buffer(rts[0])
    with (
        denizen.Runtime(Idle, "python") as rt,
        pytest.raises(denizen.ArgumentError, match=r"takes Group.buffer\(runtime\)"),
    ):
        groups[0].address(rt)
    with (
        tasks.Runtime(Series, "python") as rt,
        pytest.raises(denizen.ArgumentError, match='device="python" has no other ranks'),
    ):
        groups[0].address(rt)


@tasks.task
class Lonely:
    rank: np.uint64

    def run(self, ctx):
        ctx.barrier(self.rank)


def test_the_interpreter_says_what_to_use():
    with tasks.Runtime(Lonely, "python") as rt:
        rt.spawn(Lonely(0))
        with pytest.raises(denizen.ArgumentError, match=r'no other ranks.*; use device="cpu"'):
            rt.wait()


@tasks.task
class Total:
    grain = "warp"
    rank: np.uint64
    x: np.uint64
    n: np.uint32
    result: tasks.PROMISE

    def run(self, ctx):
        x = ctx.array(self.x, self.n, np.float32)
        good = ctx.all_reduce(self.rank, x, x)
        if ctx.lane == 0:
            ctx.set(self.result, good)


@pytest.mark.usefixtures("unoptimised")
def test_a_cubin_of_it_is_made_without_a_gpu():
    """Of a warp's task and a thread's."""
    find_nvrtc()
    try:
        _core.nvrtc_version()
    except denizen.DenizenError as error:
        pytest.skip(str(error))
    assert tasks.Program(tasks=[Total, Filled]).compile_gpu(90)


def barriers(ctx, rank):
    return ctx.barrier(rank)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ('ctx.all_reduce(self.rank, x, x, "median")', r'"avg": ctx.all_reduce\(self.rank, x, out'),
        ("ctx.all_reduce(self.rank, x)", "all_reduce takes a rank, two arrays"),
        (
            "ctx.broadcast(self.rank, x, x)",
            r"ctx.broadcast\(self.rank, x, out, 0\)",
        ),
        ("ctx.barrier()", r"ctx.barrier takes a rank: ctx.barrier\(self.rank\)"),
        ("ctx.all_gather(self.rank, x, wide)", "one type of elements is needed here"),
        ("ctx.all_gather(self.rank, small, small)", "or uint8, not an array of int16"),
        ("ctx.all_gather(self.rank, self.n, x)", "arrays of ctx.allocate or ctx.array are needed"),
        ("ctx.data(self.rank, np.float32)", r"use ctx.array\(self.x, 100, np.float32\)"),
        ("ctx.all_gather(1.5, x, x)", "a whole number is needed here, not a float"),
    ],
)
def test_a_wrong_call_is_told_at_its_line(call, said, load):
    told(load, "warp", call, said)


@pytest.mark.parametrize("call", ["ctx.barrier(self.rank)", "barriers(ctx, self.rank)"])
def test_a_blocks_task_is_told_to_be_a_warps(call, load):
    told(load, "block", call, 'ctx.barrier in Wrong, whose grain is "block"; .* grain = "warp"')


def told(load, grain, call, said):
    text = f"""
import numpy as np
from denizen import tasks
from test_ranks_in_tasks import barriers

@tasks.task
class Wrong:
    grain = "{grain}"
    rank: np.uint64
    n: np.uint32

    def run(self, ctx):
        x = ctx.array(self.rank, self.n, np.float32)
        small = ctx.array(self.rank, self.n, np.int16)
        wide = ctx.array(self.rank, self.n, np.float64)
        {call}
"""
    with pytest.raises(denizen.CompileError, match=said) as caught:
        tasks.Program(tasks=[load(text).Wrong]).compile_cpu()
    assert ".py:16:" in str(caught.value)
