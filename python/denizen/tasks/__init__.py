# SPDX-License-Identifier: Apache-2.0
"""Tasks: small structs that run once, on a GPU or on CPU threads, and may spawn others.

    from denizen import tasks

    Begin = tasks.task("Begin", [("n", "u4"), ("result", tasks.PROMISE)])

    counting = tasks.Program(
        '''
        struct Sum {
            uint64_t sum;                                  // of the values that arrived
            denizen::task::Counter parent;
            void run(auto& ctx) const { ctx.arrive(parent, sum); }
        };
        struct Fib {
            uint32_t n;
            denizen::task::Counter parent;
            void run(auto& ctx) const
            {
                if (n < 2) { ctx.arrive(parent, n); return; }
                const auto both = ctx.when(2, Sum{0, parent});
                ctx.spawn(Fib{n - 1, both});
                ctx.spawn(Fib{n - 2, both});
            }
        };
        struct End {
            uint64_t sum;
            denizen::task::Promise<uint64_t> result;
            void run(auto& ctx) const { ctx.set(result, sum); }
        };
        struct Begin {
            uint32_t n;
            denizen::task::Promise<uint64_t> result;
            void run(auto& ctx) const { ctx.spawn(Fib{n, ctx.when(1, End{0, result})}); }
        };
        ''',
        tasks=[Begin, "Fib", "Sum", "End"],
    )

    with tasks.Runtime(counting) as rt:
        result = rt.future("u8")
        rt.spawn(Begin(n=20, result=result))
        print(result.get())

What tasks are, and what their context has: docs/tasks.md.
"""

from denizen.tasks.program import PROMISE, Program, TaskType, task
from denizen.tasks.runtime import Ended, Future, Group, Runtime, Stats

__all__ = [
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
