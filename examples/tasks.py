# SPDX-License-Identifier: Apache-2.0
"""Tasks: a number of Fibonacci, by a tree of small structs that spawn each other and run once.

    python tasks.py [device]

Fib spawns two more; Sum is their continuation and runs when both have arrived.
"""

import sys

from denizen import tasks

Begin = tasks.task("Begin", [("n", "u4"), ("result", tasks.PROMISE)])

fibonacci = tasks.Program(
    """
    using denizen::task::Counter;
    using denizen::task::Promise;

    struct Sum {
        uint64_t sum;  // of the values that arrived
        Counter parent;
        void run(auto& ctx) const { ctx.arrive(parent, sum); }
    };
    struct Fib {
        uint32_t n;
        Counter parent;
        void run(auto& ctx) const {
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
    """,
    tasks=[Begin, "Fib", "Sum", "End"],
)


def main(device: str = "auto") -> None:
    with tasks.Runtime(fibonacci, device) as rt:
        result = rt.future("u8")
        rt.spawn(Begin(n=20, result=result))
        found = int(result.get())
        rt.wait()  # until no task runs nor can run
        print(f"fib(20) = {found}, by {rt.stats().run:,} tasks")
        if found != 6765:
            sys.exit("fib(20) is 6765")


if __name__ == "__main__":
    main(*sys.argv[1:])
