# SPDX-License-Identifier: Apache-2.0
"""Collectives that handlers in Python of all ranks call together."""

import numpy as np
import pytest

import denizen
from denizen import _core, group
from denizen.compilers import find_nvrtc

RANKS = 3


@denizen.message
class Job:
    rank: denizen.BUFFER
    x: denizen.BUFFER
    out: denizen.BUFFER
    kind: np.uint32
    root: np.uint32


@denizen.message
class Done:
    good: np.uint32


SUM, LEAST, GREATEST, MEAN, SCATTER, GATHER, SEND, SWAP = range(8)


def member(name, element, **attributes):
    """An actor whose arrays have elements of one type."""

    def on_job(self, m: Job, ctx):
        x = ctx.data(m.x, element)
        out = ctx.data(m.out, element)
        good = False
        if m.kind == SUM:
            good = ctx.all_reduce(m.rank, x, out)
        elif m.kind == LEAST:
            good = ctx.all_reduce(m.rank, x, out, "min")
        elif m.kind == GREATEST:
            good = ctx.all_reduce(m.rank, x, out, "max")
        elif m.kind == MEAN:
            good = ctx.all_reduce(m.rank, x, out, "avg")
        elif m.kind == SCATTER:
            good = ctx.reduce_scatter(m.rank, x, out, "sum")
        elif m.kind == GATHER:
            good = ctx.all_gather(m.rank, x, out)
        elif m.kind == SEND:
            good = ctx.broadcast(m.rank, x, out, m.root)
        elif m.kind == SWAP:
            good = ctx.all_to_all(m.rank, x, out)
        if good:
            good = ctx.barrier(m.rank)
        ctx.reply(Done(good))

    body = {"on_job": on_job, "__module__": __name__, **attributes}
    return denizen.actor(type(name, (), body))


TYPES = {
    np.float32: member("Singles", np.float32, grain="warp"),
    np.float64: member("Doubles", np.float64),
    np.int32: member("Words", np.int32, grain="warp"),
    np.int64: member("Longs", np.int64),
    np.uint8: member("Bytes", np.uint8),
}

# What the program's library has of each message and type is another function than _core's.
TEXT = "struct Text { void on(const Job&, auto& ctx) { ctx.reply(Done{2}); } };"


def program(*, mixed=False):
    actors = [*TYPES.values()]
    if mixed:
        return denizen.Program(TEXT, actors=["Text", *actors])
    return denizen.Program(actors=actors)


def wanted(kind, x, rank, root):
    """What each rank's `out` is, of all ranks' arrays."""
    parts = np.stack(x)
    mine = np.array_split(parts, RANKS, axis=1)[rank]
    with np.errstate(over="ignore"):
        return {
            SUM: parts.sum(0, dtype=parts.dtype),
            LEAST: parts.min(0),
            GREATEST: parts.max(0),
            MEAN: (parts.sum(0, dtype=parts.dtype) / RANKS).astype(parts.dtype),
            SCATTER: mine.sum(0, dtype=parts.dtype),
            GATHER: parts.ravel(),
            SEND: parts[root],
            SWAP: mine.ravel(),
        }[kind]


def arrays(kind, element, n):
    """Small whole numbers, whose sums and means are exact, and how long the result is."""
    rng = np.random.default_rng(kind)
    x = [RANKS * rng.integers(0, 20, n * RANKS).astype(element) for _ in range(RANKS)]
    size = {GATHER: n * RANKS * RANKS, SCATTER: n}.get(kind, n * RANKS)
    return x, size


def device_of(where):
    return "gpu" if where == "gpu" else "cpu"


PLACES = [
    "handlers on cpu:3",
    "mixed on cpu:3",
    pytest.param("handlers on gpu", marks=pytest.mark.gpu),
    pytest.param("mixed on gpu", marks=pytest.mark.gpu),
]


@pytest.fixture(scope="module", params=PLACES)
def running(request):
    kind, _, where = request.param.partition(" on ")
    ranks = group.local(RANKS, device_of(where))
    with denizen.Runtime(program(mixed=kind == "mixed"), where) as rt:
        yield rt, ranks


def put(rt, values):
    """A buffer that the host reaches."""
    made = rt.buffer(len(values), values.dtype, kind="pinned")
    made.numpy()[:] = values
    return made


def together(rt, actors, jobs):
    """The outcomes of handlers that wait for each other."""
    for actor, job in zip(actors, jobs, strict=True):
        rt.send(actor, Job(**job))
    return [int(rt.receive(timeout=60).message["good"]) for _ in actors]


@pytest.mark.parametrize("element", TYPES, ids=lambda t: t.__name__)
@pytest.mark.parametrize("n", [1, 700])
def test_every_collective_gives_what_numpy_does(running, element, n):
    rt, ranks = running
    actors = rt.spawn(TYPES[element], RANKS)
    known = [g.buffer(rt) for g in ranks]
    for kind in range(8):
        x, size = arrays(kind, element, n)
        given = [put(rt, a) for a in x]
        out = [put(rt, np.full(size, 77, element)) for _ in ranks]
        jobs = [
            {"rank": known[r], "x": given[r], "out": out[r], "kind": kind, "root": 1}
            for r in range(RANKS)
        ]
        assert together(rt, actors, jobs) == [1] * RANKS
        for r in range(RANKS):
            np.testing.assert_array_equal(out[r].numpy(), wanted(kind, x, r, 1))


def test_what_does_not_fit_is_refused_on_the_spot(running):
    rt, ranks = running
    (actor,) = rt.spawn(TYPES[np.float64])
    rank = ranks[0].buffer(rt)
    ten, nine = (put(rt, np.zeros(n)) for n in (10, 9))
    job = {"rank": rank, "x": ten, "out": ten, "kind": SUM, "root": 0}
    for wrong in (
        {"out": nine},
        {"rank": nine},
        {"kind": SEND, "root": RANKS},
        {"kind": SWAP},
        {"kind": GATHER},
        {"kind": SCATTER},
    ):
        assert together(rt, [actor], [{**job, **wrong}]) == [0]
    ranks[0].check()


def test_a_rank_that_does_not_come_is_an_error_of_the_group():
    ranks = group.local(2, "cpu", timeout=0.2)
    with denizen.Runtime(program(), "cpu:2") as rt:
        (actor,) = rt.spawn(TYPES[np.float64])
        x = put(rt, np.zeros(4))
        job = {"rank": ranks[0].buffer(rt), "x": x, "out": x, "kind": SUM, "root": 0}
        assert together(rt, [actor], [job]) == [0]
        with pytest.raises(denizen.DeadError, match="rank 1"):
            ranks[0].check()


def test_another_place_than_the_programs_is_refused(running):
    rt, ranks = running
    if rt.description["on_gpu"]:
        (other, *_) = group.local(1, "cpu")
        with pytest.raises(denizen.ArgumentError, match="ranks are CPU threads and the program"):
            other.buffer(rt)
    else:
        known = ranks[0].buffer(rt)
        assert known.kind == "host"


def test_the_interpreter_says_what_to_use():
    with denizen.Runtime(program(), "python") as rt:
        (actor,) = rt.spawn(TYPES[np.float64])
        with pytest.raises(denizen.DenizenError, match='device="python" has no buffers'):
            rt.ask(actor, Job(rank=1, x=2, out=3, kind=SUM, root=0))


@pytest.mark.usefixtures("unoptimised")
@pytest.mark.parametrize("mixed", [False, pytest.param(True, marks=pytest.mark.deep)])
def test_a_cubin_of_it_is_made_without_a_gpu(mixed):
    find_nvrtc()
    try:
        _core.nvrtc_version()
    except denizen.DenizenError as error:
        pytest.skip(str(error))
    assert program(mixed=mixed).compile_gpu(90)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ('ctx.all_reduce(m.rank, x, x, "median")', '"sum", "min", "max" or "avg"'),
        ("ctx.all_reduce(m.rank, x)", "all_reduce takes a rank, two arrays"),
        ("ctx.broadcast(m)", r"ctx.publish\(topic, message\) sends a message to many"),
        ("ctx.barrier()", r"ctx.barrier takes a rank: ctx.barrier\(m.rank\)"),
        ("ctx.all_gather(m.rank, x, wide)", "one type of elements is needed here"),
        ("ctx.all_gather(m.rank, small, small)", "or uint8, not an array of int16"),
        ("ctx.all_gather(m.rank, m.root, x)", "arrays of ctx.data, ctx.allocate or ctx.array"),
    ],
)
def test_a_wrong_call_is_told_at_its_line(call, said, tmp_path, monkeypatch):
    text = f"""
import denizen, numpy as np
from test_ranks_in_handlers import Job

@denizen.actor
class Wrong:
    def on_job(self, m: Job, ctx):
        x = ctx.data(m.x, np.float32)
        small = ctx.data(m.x, np.int16)
        wide = ctx.data(m.x, np.float64)
        {call}
"""
    (tmp_path / "wrong_rank.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(__import__("sys").modules, "wrong_rank", raising=False)
    import wrong_rank  # noqa: PLC0415

    with pytest.raises(denizen.CompileError, match=said) as caught:
        denizen.Program(actors=[wrong_rank.Wrong]).compile_cpu()
    assert "wrong_rank.py:11:" in str(caught.value)
