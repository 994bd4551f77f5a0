# SPDX-License-Identifier: Apache-2.0
"""Tasks: small structs that run once, on a GPU or on CPU threads, and may spawn others.

    import numpy as np
    from denizen import tasks

    @tasks.task
    class Sum:
        sum: np.uint64                                    # of the values that arrived
        parent: tasks.COUNTER
        def run(self, ctx): ctx.arrive(self.parent, self.sum)

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
        def run(self, ctx): ctx.set(self.result, self.sum)

    @tasks.task
    class Begin:
        n: np.uint32
        result: tasks.PROMISE
        def run(self, ctx): ctx.spawn(Fib(self.n, ctx.when(1, End(0, self.result))))

    with tasks.Runtime(Begin) as rt:
        result = rt.future("u8")
        rt.spawn(Begin(20, result))
        print(result.get())

What tasks are, and what their context has: docs/tasks.md.
"""

from denizen.task_type import COUNTER, PROMISE, TaskType, task
from denizen.tasks.program import Program
from denizen.tasks.runtime import Ended, Future, Group, Runtime, Stats

__all__ = [
    "COUNTER",
    "PROMISE",
    "Ended",
    "Future",
    "Group",
    "Program",
    "Runtime",
    "Stats",
    "TaskType",
    "task",
]
