# SPDX-License-Identifier: Apache-2.0
"""Tasks from Python: spawning, futures, groups, and what is refused."""

import runpy
import textwrap
import time

import numpy as np
import pytest

import denizen
from denizen import _core, tasks
from denizen.compilers import cubin_of

SOURCE = """
using denizen::task::Counter;
using denizen::task::Promise;

struct Sum {
    uint64_t sum;
    Counter parent;
    void run(auto& ctx) const { ctx.arrive(parent, sum); }
};
struct Fib {
    uint32_t n;
    Counter parent;
    void run(auto& ctx) const
    {
        if (n < 2) { ctx.arrive(parent, n); return; }
        const Counter both = ctx.when(2, Sum{0, parent});
        ctx.spawn(Fib{n - 1, both});
        ctx.spawn(Fib{n - 2, both});
    }
};
struct End {
    uint64_t sum;
    Promise<uint64_t> result;
    void run(auto& ctx) const { ctx.set(result, sum); }
};
struct Begin {
    uint32_t n;
    Promise<uint64_t> result;
    void run(auto& ctx) const { ctx.spawn(Fib{n, ctx.when(1, End{0, result})}); }
};
struct Point { double x, y; uint32_t count[3]; };
struct Double {
    double x;
    int8_t small;
    uint32_t count[3];
    Promise<Point> result;
    void run(auto& ctx) const
    {
        ctx.set(result, Point{2 * x, double(small), {count[0], count[1], count[2]}});
    }
};
struct Idle { void run(auto&) const {} };
struct Borrow { // a block for n numbers, and what the arena has
    uint32_t n;
    Promise<uint64_t> result;
    void run(auto& ctx) const
    {
        auto* const numbers = static_cast<uint64_t*>(ctx.arena().allocate(uint64_t{n} * 8));
        uint64_t sum = 0;
        for (uint32_t i = 0; numbers != nullptr && i < n; ++i) numbers[i] = i;
        for (uint32_t i = 0; numbers != nullptr && i < n; ++i) sum += numbers[i];
        ctx.arena().deallocate(numbers);
        ctx.set(result, numbers == nullptr ? ctx.arena().bytes() : sum);
    }
};
struct Forever { // spawns itself until its group is cancelled
    void run(auto& ctx) const { ctx.spawn(*this); }
};
"""

Begin = tasks.task("Begin", [("n", "u4"), ("result", tasks.PROMISE)])
Borrow = tasks.task("Borrow", [("n", "u4"), ("result", tasks.PROMISE)])
Double = tasks.task(
    "Double", [("x", "f8"), ("small", "i1"), ("count", "u4", 3), ("result", tasks.PROMISE)]
)
Idle = tasks.task("Idle")
POINT = np.dtype([("x", "f8"), ("y", "f8"), ("count", "u4", 3)], align=True)
PROGRAM = tasks.Program(
    SOURCE, tasks=[Begin, Borrow, Double, Idle, "Fib", "Sum", "End", tasks.task("Forever")]
)


@pytest.fixture(params=["cpu:1", "cpu:3", pytest.param("gpu", marks=pytest.mark.gpu)])
def rt(request):
    with tasks.Runtime(PROGRAM, request.param) as runtime:
        yield runtime


def stats_of(rt, tasks_run):
    # A worker tells when it has nothing to do, which may be after wait().
    deadline = time.monotonic() + 10
    while rt.stats().run < tasks_run and time.monotonic() < deadline:
        time.sleep(0.001)
    return rt.stats()


def test_a_tree_and_its_sum(rt):
    result = rt.future("u8")
    rt.spawn(Begin(n=15, result=result))
    assert result.get() == 610
    assert result.ready()
    rt.wait()
    stats = stats_of(rt, 1 + 1973 + 986 + 1)
    assert stats.run == 1 + 1973 + 986 + 1  # Begin, Fib, Sum, End
    assert stats.joins == 987
    assert sum(stats.run_by_worker) == stats.run
    assert stats.refused == 0


def test_tasks_allocate_from_the_arena():
    with tasks.Runtime(PROGRAM, "cpu:2", arena_bytes=2**20) as rt:
        for n, expected in ((1000, 499500), (2**17, (2**17 - 1) * 2**16), (2**18, 2**20)):
            result = rt.future("u8")  # the second is all of it, the last too much
            rt.spawn(Borrow(n=n, result=result))
            assert result.get() == expected


def test_many_at_once(rt):
    futures = [rt.future("u8") for _ in range(12)]
    many = Begin.zeros(12)
    many["n"] = np.arange(12)
    many["result"] = [f.promise for f in futures]
    rt.spawn(many)
    assert [int(f.get()) for f in futures] == [0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89]
    rt.spawn(Idle.zeros(10_000))
    rt.spawn("Idle")
    rt.wait()
    assert stats_of(rt, 10_002).run > 10_001


def test_fields_arrive_as_they_were_given(rt):
    result = rt.future(POINT)
    rt.spawn(Double(x=1.5, small=-7, count=[1, 2, 2**32 - 1], result=result))
    point = result.get()
    assert (point["x"], point["y"]) == (3.0, -7.0)
    np.testing.assert_array_equal(point["count"], [1, 2, 2**32 - 1])


def test_a_group_is_waited_for_and_cancelled(rt):
    with rt.group() as group:
        group.spawn(Idle.zeros(100))
        assert group.wait() == ("", 0)
    with rt.group() as group:
        group.spawn("Forever")
        with pytest.raises(denizen.DeadlineError, match="group"):
            group.wait(0.05)
        group.cancel()
        ended = group.wait()
        assert ended.cancelled == "asked"
        assert ended.dropped >= 1
    with pytest.raises(KeyError), rt.group() as group:  # its block's error, and it is cancelled
        group.spawn("Forever")
        raise KeyError
    rt.wait()


def test_a_group_that_is_late(rt):
    with rt.group(lifetime=0.05) as group:
        group.spawn("Forever")
        assert group.wait().cancelled == "late"


def test_a_future_that_nobody_sets(rt):
    result = rt.future("u8")
    with pytest.raises(denizen.DeadlineError, match="no task has set the result"):
        result.get(0.02)
    assert not result.ready()
    result.close()
    result.close()


@pytest.mark.parametrize("timeout", [None, "1", float("nan")], ids=str)
def test_a_deadline_that_is_none(rt, timeout):
    result = rt.future("u8")
    with rt.group() as group:
        calls = (result.get, group.wait, rt.wait, rt.close, lambda t: rt.spawn("Idle", timeout=t))
        for call in calls:
            with pytest.raises(denizen.ArgumentError, match=r"timeout = .+; use seconds"):
                call(timeout)


def test_futures_are_given_back():
    with tasks.Runtime(PROGRAM, "cpu:1", futures=2) as rt:
        for n in range(20):
            result = rt.future("u8")
            rt.spawn(Begin(n=n % 3, result=result))
            assert result.get() == (0, 1, 1)[n % 3]
            del result
        kept = [rt.future("u8"), rt.future("u8")]
        with pytest.raises(denizen.ExhaustedError, match="all 2 futures"):
            rt.future("u8")
        del kept


def test_the_example_runs(capsys, tmp_path):
    pytest.importorskip("numba")
    lines = tasks.__doc__.split("\n")
    code = [line for line in lines if line.startswith("    ") or not line]  # the rest is prose
    script = tmp_path / "example.py"  # the text of tasks in Python is read there
    script.write_text(textwrap.dedent("\n".join(code)))
    runpy.run_path(str(script))
    assert capsys.readouterr().out == "6765\n"


def test_what_is_refused():
    for bad in (
        lambda: tasks.task("3", []),
        lambda: tasks.task("A", [("class", "u4")]),
        lambda: tasks.task("A", [("x", "object")]),
        lambda: tasks.task("A", [("x", "u4", 12)]),
        lambda: Begin(m=1),
        lambda: tasks.Program("", tasks=[]),
        lambda: tasks.Program("", tasks="Fib"),
        lambda: tasks.Program("", tasks=[Begin, "Begin"]),
        lambda: tasks.Runtime(PROGRAM, "cpu:2x2"),
        lambda: tasks.Runtime(PROGRAM, "cpu:2", workers=3),
        lambda: tasks.Runtime(PROGRAM, "cpu", slots=3),
        lambda: tasks.Runtime(PROGRAM, "cpu", futures=-1),
        lambda: tasks.Runtime(PROGRAM, "cpu", queue_slots=100),
        lambda: tasks.Runtime(PROGRAM, "cpu", arena_bytes=1000),
        lambda: tasks.Runtime(PROGRAM, "cpu", arena_bytes=2**36),
    ):
        with pytest.raises((denizen.ArgumentError, denizen.MessageError)):
            bad()
    with tasks.Runtime(PROGRAM, "cpu:1") as rt:
        other = tasks.task("Begin", [("n", "u8")])
        for wrong in ("Fib", "Nothing", "Begin", np.zeros(3), other(n=1), tasks.task("No")()):
            with pytest.raises(denizen.MessageError):
                rt.spawn(wrong)
        with pytest.raises(denizen.ArgumentError):
            rt.future("V49")
        with pytest.raises(denizen.ArgumentError):
            rt.group(lifetime=-1)
    with pytest.raises(denizen.ClosedError):
        rt.spawn("Idle")


def test_fields_that_differ_do_not_compile():
    for fields in ([("n", "u4")], [("result", tasks.PROMISE), ("n", "u4")]):
        program = tasks.Program(
            SOURCE, tasks=[tasks.task("Begin", fields), "Fib", "Sum", "End"], name="my tasks"
        )
        with pytest.raises(denizen.CompileError, match="other fields in Python than in C"):
            tasks.Runtime(program, "cpu:1")


@pytest.mark.usefixtures("unoptimised")
def test_the_tasks_compile_for_a_gpu():
    try:
        cubin = cubin_of(PROGRAM.text(), "tasks", 90)
    except denizen.CompileError as error:
        if "libnvrtc" not in str(error):
            raise
        pytest.skip(str(error).splitlines()[0])
    assert _core.load_tasks_cubin(cubin, list(PROGRAM.names)) is not None
    with pytest.raises(denizen.CompileError, match="holds no program of tasks"):
        _core.load_tasks_cubin(cubin.replace(b"denizen_tasks_table", b"denizen_tasks_tabel"), [])
