# SPDX-License-Identifier: Apache-2.0
"""Collectives that handlers in Python of all ranks, and tasks that these spawn, call together."""

import numpy as np
import pytest
from ranks import GATHER, GRAINS, SCATTER, SEND, SUM, SWAP, arrays, called, wanted

import denizen
from denizen import _core, group
from denizen.compilers import find_nvrtc
from denizen.device import parse_device


@denizen.message
class Job:
    rank: denizen.BUFFER
    x: denizen.BUFFER
    out: denizen.BUFFER
    kind: np.uint32
    root: np.uint32
    by_task: np.bool_


@denizen.message
class Done:
    good: np.uint32


def member(name, element, grain):
    """An actor whose arrays have elements of one type; and a task that it spawns."""

    def run(self, ctx):
        x = ctx.data(self.x, element)
        out = ctx.data(self.out, element)
        ctx.reply(Done(called(ctx, self.kind, self.rank, x, out, self.root)))

    fields = {
        "rank": denizen.BUFFER, "x": denizen.BUFFER, "out": denizen.BUFFER,
        "kind": np.uint32, "root": np.uint32,
    }  # fmt: skip
    body = {"__annotations__": fields, "run": run, "grain": grain, "__module__": __name__}
    share = denizen.task(type(f"{name}Share", (), body))

    def on_job(self, m: Job, ctx):
        if m.by_task:
            ctx.spawn(share(m.rank, m.x, m.out, m.kind, m.root))
        else:
            x = ctx.data(m.x, element)
            out = ctx.data(m.out, element)
            ctx.reply(Done(called(ctx, m.kind, m.rank, x, out, m.root)))

    def on_done(self, m: Done, ctx):  # of the task
        ctx.send(denizen.HOST, m)

    body = {"on_job": on_job, "on_done": on_done, "grain": grain, "__module__": __name__}
    return denizen.actor(type(name, (), body))


NAMES = ("Singles", "Doubles", "Words", "Longs", "Bytes")
TYPES = {t: member(name, t, GRAINS[t]) for t, name in zip(GRAINS, NAMES, strict=True)}

# What the program's library has of each message and type is another function than _core's.
TEXT = "struct Text { void on(const Job&, auto& ctx) { ctx.reply(Done{2}); } };"


def program(*, mixed=False):
    actors = [*TYPES.values()]
    if mixed:
        return denizen.Program(TEXT, actors=["Text", *actors])
    return denizen.Program(actors=actors)


# A rank is a node of its own: a worker that waits in a task handles no messages, and tasks are run
# by any worker of their node.
PLACES = [
    "handlers on cpu:3x1",
    "mixed on cpu:3x1",
    pytest.param("handlers on gpu:0-1", marks=pytest.mark.gpu),
    pytest.param("mixed on gpu:0-1", marks=pytest.mark.gpu),
]


@pytest.fixture(scope="module", params=PLACES)
def running(request):
    kind, _, where = request.param.partition(" on ")
    device = parse_device(where)
    if device.on_gpu and _core.gpu_count() < device.nodes:
        pytest.skip(f"fewer than {device.nodes} GPUs")
    ranks = group.local(device.nodes, "gpu" if device.on_gpu else "cpu")
    with denizen.Runtime(program(mixed=kind == "mixed"), where) as rt:
        yield rt, ranks


def one_each(rt, actor, ranks):
    """An actor on the node of each rank."""
    return [rt.spawn(actor, node=r)[0] for r in range(ranks)]


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
@pytest.mark.parametrize("by_task", [False, True], ids=["handlers", "tasks"])
def test_every_collective_gives_what_numpy_does(running, element, n, by_task):
    rt, ranks = running
    actors = one_each(rt, TYPES[element], len(ranks))
    known = [g.buffer(rt) for g in ranks]
    for kind in range(8):
        x, size = arrays(kind, element, n, len(ranks))
        given = [put(rt, a) for a in x]
        out = [put(rt, np.full(size, 77, element)) for _ in ranks]
        same = {"kind": kind, "root": 1, "by_task": by_task}
        jobs = [{"rank": known[r], "x": given[r], "out": out[r], **same} for r in range(len(ranks))]
        assert together(rt, actors, jobs) == [1] * len(ranks)
        for r in range(len(ranks)):
            np.testing.assert_array_equal(out[r].numpy(), wanted(kind, x, r, 1))


@pytest.mark.parametrize("by_task", [False, True], ids=["handlers", "tasks"])
def test_what_does_not_fit_is_refused_on_the_spot(running, by_task):
    rt, ranks = running
    (actor,) = rt.spawn(TYPES[np.float64])
    rank = ranks[0].buffer(rt)
    eleven, nine = (put(rt, np.zeros(n)) for n in (11, 9))
    job = {"rank": rank, "x": eleven, "out": eleven, "kind": SUM, "root": 0, "by_task": by_task}
    for wrong in (
        {"out": nine},
        {"rank": nine},
        {"kind": SEND, "root": len(ranks)},
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


@denizen.message
class Step:
    rank: denizen.BUFFER
    x: denizen.BUFFER


@denizen.message
class Total:
    total: np.float64


@denizen.task
class Reduce:
    rank: denizen.BUFFER
    x: denizen.BUFFER

    def run(self, ctx):
        x = ctx.data(self.x, np.float64)
        total = 0.0
        if ctx.all_reduce(self.rank, x, x):
            for value in x:
                total += value
        ctx.reply(Total(total))


@denizen.message
class Go:
    pass


@denizen.actor
class Keeper:
    rank: np.uint64
    x: np.uint64

    def on_step(self, m: Step, ctx):
        self.rank, self.x = m.rank, m.x
        ctx.keep(m.rank)
        ctx.keep(m.x)
        ctx.reply(Total(0))

    def on_go(self, m: Go, ctx):
        ctx.spawn(Reduce(self.rank, self.x))

    def on_total(self, m: Total, ctx):
        ctx.release(self.rank)
        ctx.release(self.x)
        ctx.send(denizen.HOST, m)


def test_a_handler_keeps_what_its_task_works_on():
    ranks = group.local(2, "cpu")
    with denizen.Runtime(Keeper, "cpu:2x1", buffers=4) as rt:  # as many as there are at a time
        for n in (1, 50):
            actors = one_each(rt, Keeper, 2)
            for r, actor in enumerate(actors):
                with ranks[r].buffer(rt) as rank, put(rt, np.full(n, r + 1.0)) as x:
                    rt.ask(actor, Step(rank=rank, x=x))
            with pytest.raises(denizen.ExhaustedError):  # the host has none of them any more
                rt.buffer(n)
            for actor in actors:
                rt.send(actor, Go())
            assert [rt.receive(timeout=60).message["total"] for _ in ranks] == [3 * n] * 2


def test_another_place_than_the_programs_is_refused(running):
    rt, ranks = running
    if rt.description["on_gpu"]:
        (other, *_) = group.local(1, "cpu")
        with pytest.raises(denizen.ArgumentError, match="ranks are CPU threads and the program"):
            other.buffer(rt)
    else:
        known = ranks[0].buffer(rt)
        assert known.kind == "external"


@pytest.mark.parametrize("by_task", [False, True], ids=["handlers", "tasks"])
def test_the_interpreter_says_what_to_use(by_task):
    with denizen.Runtime(program(), "python") as rt:
        (actor,) = rt.spawn(TYPES[np.float64])
        with pytest.raises(denizen.DenizenError, match='device="python" has no buffers'):
            rt.ask(actor, Job(rank=1, x=2, out=3, kind=SUM, root=0, by_task=by_task))


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
