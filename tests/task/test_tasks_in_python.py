# SPDX-License-Identifier: Apache-2.0
"""Tasks in Python do the same in the interpreter, on CPU threads and on a GPU."""

import math

import numpy as np
import pytest

import denizen
from denizen import _core, tasks
from denizen.compilers import find_nvrtc

EVERYWHERE = ["python", "cpu:1", "cpu:2", pytest.param("gpu", marks=pytest.mark.gpu)]


@tasks.task
class Sum:
    sum: np.uint64
    parent: tasks.COUNTER

    def run(self, ctx):
        ctx.arrive(self.parent, self.sum)


@tasks.task
class Fib:
    n: np.uint32
    parent: tasks.COUNTER

    def run(self, ctx):
        if self.n < 2:
            ctx.arrive(self.parent, self.n)
            return
        both = ctx.when(2, Sum(0, self.parent))
        ctx.spawn(Fib(self.n - 1, both))
        ctx.spawn(Fib(self.n - 2, both))


@tasks.task
class End:
    sum: np.uint64
    result: tasks.PROMISE

    def run(self, ctx):
        ctx.set(self.result, self.sum)


@tasks.task
class BeginFib:
    n: np.uint32
    result: tasks.PROMISE

    def run(self, ctx):
        ctx.spawn(Fib(self.n, ctx.when(1, End(0, self.result))))


def wave(x):
    return math.sqrt(x) + 0.5


@tasks.task
class Mix:
    """Fields of many types, with defaults; a function; a float as a result."""

    SCALE = 4
    a: np.int8 = -3
    b: np.uint16 = 65535
    c: np.float32 = 0.25
    small: (np.int16, 3)
    flag: np.bool_ = True
    result: tasks.PROMISE

    def run(self, ctx):
        sum = 0
        for i in range(len(self.small)):
            sum += self.small[i]
        ctx.set(self.result, wave(16 * self.SCALE) + self.a + self.b + self.c + sum + self.flag)


@tasks.task
class Spread:
    """Has squares written by tasks of a lower priority, and by one that goes to a worker."""

    priority = "high"
    n: np.uint32
    result: tasks.PROMISE

    def run(self, ctx):
        block = ctx.allocate(self.n, np.uint64)
        all = ctx.when(self.n, Collect(ctx.address(block), self.n, self.result))
        for i in range(self.n):
            if i % 2 == 0:
                ctx.spawn(Square(ctx.address(block), i, all))
            else:
                ctx.spawn_on(i, Square(ctx.address(block), i, all))


@tasks.task
class Square:
    priority = "low"
    at: np.uint64
    i: np.uint32
    all: tasks.COUNTER

    def run(self, ctx):
        squares = ctx.array(self.at, self.i + 1, np.uint64)
        squares[self.i] = self.i * self.i
        ctx.arrive(self.all)


@tasks.task
class Collect:
    at: np.uint64
    n: np.uint32
    result: tasks.PROMISE

    def run(self, ctx):
        squares = ctx.array(self.at, self.n, np.uint64)
        sum = np.uint64(0)
        for i in range(len(squares)):
            sum += squares[i]
        ctx.free(squares)
        ctx.set(self.result, sum)


@tasks.task
class Endless:
    def run(self, ctx):
        if not ctx.cancelled():
            ctx.spawn(Endless())


@tasks.task
class Chain:
    """Cancels its group after so many."""

    left: np.uint32

    def run(self, ctx):
        if self.left == 0:
            ctx.cancel()
        ctx.spawn(Chain(self.left - 1))


def program():
    return tasks.Program(tasks=[BeginFib, Mix, Spread, Endless, Chain], name="python tasks")


@pytest.fixture(scope="module", params=EVERYWHERE)
def rt(request):
    try:
        with tasks.Runtime(program(), request.param) as runtime:
            yield runtime
    except denizen.MissingPackageError as error:
        pytest.skip(str(error))


def test_tasks_that_are_made_need_no_name():
    names = ("BeginFib", "Mix", "Spread", "Endless", "Chain", "Fib", "End", "Collect", "Square")
    assert program().names == (*names, "Sum")


def test_a_tree_with_continuations(rt):
    for n, expected in ((1, 1), (2, 1), (16, 987)):
        result = rt.future("u8")
        rt.spawn(BeginFib(n, result))
        assert result.get(20) == expected
    rt.wait()


def test_fields_defaults_constants_functions(rt):
    result = rt.future("f8")
    rt.spawn(Mix(small=(5, -6, 7), result=result))
    assert result.get(20) == 8.5 - 3 + 65535 + 0.25 + 6 + 1
    other = rt.future("f8")
    rt.spawn(Mix(100, flag=False, c=-1.5, result=other))
    assert other.get(20) == 8.5 + 100 + 65535 - 1.5


def test_a_block_of_the_arena_is_worked_on_by_many(rt):
    for n in (1, 40, 1000):
        result = rt.future("u8")
        rt.spawn(Spread(n, result))
        assert result.get(20) == sum(i * i for i in range(n))
    rt.wait()


def test_an_array_of_tasks_in_a_group(rt):
    many = BeginFib.zeros(20)
    results = [rt.future("u8") for _ in many]
    for task, result in zip(many, results, strict=True):
        answer, sequence = result.promise
        task["n"], task["result"] = 10, answer | sequence << 32
    with rt.group() as group:
        group.spawn(many)
        assert group.wait(20) == ("", 0)
    assert [int(r.get(20)) for r in results] == [55] * 20


def test_a_group_ends_when_a_task_cancels_it(rt):
    with rt.group() as group:
        group.spawn(Chain(50))
        ended = group.wait(20)
    assert ended.cancelled == "asked"
    assert ended.dropped >= 1


def test_a_group_is_late(rt):
    with rt.group(lifetime=0.05) as group:
        group.spawn("Endless")
        assert group.wait(20).cancelled == "late"


@pytest.fixture
def nvrtc():
    pytest.importorskip("numba.cuda")
    find_nvrtc()
    try:
        return _core.nvrtc_version()
    except denizen.CompileError as error:
        pytest.skip(str(error).splitlines()[0])


@pytest.mark.deep  # a block's is below
def test_a_cubin_of_it_is_made_without_a_gpu(nvrtc):
    assert program().compile_gpu(90)


@tasks.task
class Warp:
    """All lanes of a warp run it; on the CPU one thread."""

    grain = "warp"
    n: np.uint32
    result: tasks.PROMISE

    def run(self, ctx):
        block = ctx.array(0, 0, np.uint32)
        count = len(block)
        i = ctx.lane
        while i < self.n:
            count += 1
            i += ctx.lanes
        ctx.sync()
        if ctx.lane == 0:
            ctx.set(self.result, count * ctx.lanes)


@pytest.mark.parametrize("where", EVERYWHERE)
def test_a_task_of_a_warp(where):
    try:
        rt = tasks.Runtime(Warp, where)
    except denizen.MissingPackageError as error:
        pytest.skip(str(error))
    with rt:
        result = rt.future("u8")
        rt.spawn(Warp(320, result))
        assert result.get(20) == 320


@tasks.task
class Block:
    """All threads of a block run it; on the CPU one thread."""

    grain = "block"
    n: np.uint32
    result: tasks.PROMISE

    def run(self, ctx):
        mine = 0.0
        i = ctx.lane
        while i < self.n:
            mine += i
            i += ctx.lanes
        all = ctx.reduce(mine, "add")
        place = ctx.scan(1, "add")  # 1 to the number of threads
        if ctx.reduce(place, "greatest") != ctx.lanes or ctx.reduce(ctx.lane, "least") != 0:
            all = -1.0
        if ctx.lane == 0:
            ctx.set(self.result, all)


@pytest.mark.parametrize("where", EVERYWHERE)
def test_a_task_of_a_block_sums_together(where):
    try:
        rt = tasks.Runtime(Block, where)
    except denizen.MissingPackageError as error:
        pytest.skip(str(error))
    with rt:
        result = rt.future("f8")
        rt.spawn(Block(10_000, result))
        assert result.get(20) == 10_000 * 9_999 / 2


@pytest.mark.usefixtures("unoptimised")
def test_a_cubin_of_a_blocks_task(nvrtc):
    assert tasks.Program(tasks=[Block]).compile_gpu(90)


@pytest.mark.deep
def test_a_cubin_of_a_warps_task(nvrtc):
    assert tasks.Program(tasks=[Warp]).compile_gpu(90)


def refused(body):
    """The text of a task with this body."""
    return (
        "import numpy as np\nimport denizen\nfrom denizen import tasks\n"
        "@denizen.message\nclass Tick: pass\n"
        "@tasks.task\nclass Work:\n    n: np.uint32\n    result: tasks.PROMISE\n"
        f"    def run(self, ctx):\n        {body}\n"
    )


REFUSED = [
    ("self.n = 5", "a task's fields stay as they are; use a local, or a new task"),
    ("return 5", r"return with a value; ctx.set\(...\) answers"),
    ("ctx.reply(5)", r"ctx.reply\(\); what it calls .* or of ctx: spawn, spawn_on, when"),
    ("ctx.join(5)", r"ctx.join\(\); use ctx.when\(n, task\)"),
    ("ctx.spawn(Tick())", "cannot be made here; a task of a program of tasks makes tasks only"),
    ("ctx.when(2)", "ctx.when takes a number of arrivals and the task"),
    ("x = ctx.worker()", r"ctx.worker is a value: write it without \(\)"),
]
COMPILED = [
    ("x = ctx.self", "ctx has no self; it has worker, workers, lane, lanes, spawn"),
    ("ctx.spawn(self)", r"a task is needed here, as Work\(...\), not the record or state"),
]


@pytest.mark.parametrize(("body", "text"), [*REFUSED, *COMPILED], ids=lambda x: x[:20])
def test_refused_at_its_line(load, body, text):
    pytest.importorskip("numba")
    with pytest.raises(denizen.CompileError, match=text) as caught:
        tasks.Program(tasks=[load(refused(body)).Work]).compile_cpu()
    assert ".py:11: " in str(caught.value)


def test_classes_that_are_no_tasks():
    with pytest.raises(denizen.ArgumentError, match=r"task Idle has no method run\(self, ctx\)"):

        @tasks.task
        class Idle:
            n: np.uint32

    with pytest.raises(denizen.ArgumentError, match="sum is float32; what arrives is summed up"):

        @tasks.task
        class Float:
            sum: np.float32

            def run(self, ctx): ...

    with pytest.raises(denizen.ArgumentError, match="grain = 'lane'; use one of \"thread\""):

        @tasks.task
        class Grain:
            grain = "lane"

            def run(self, ctx): ...

    with pytest.raises(denizen.MessageError, match="48 bytes, the limit is 44"):

        @tasks.task
        class Large:
            words: (np.uint64, 6)

            def run(self, ctx): ...

    with pytest.raises(denizen.ArgumentError, match="tasks in Python and in C\\+\\+ text"):
        tasks.Program("struct A {};", tasks=[Sum, "A"])
