// SPDX-License-Identifier: Apache-2.0
// A tree of tasks by its definition: Fib{n} spawns its two children and a sum that waits for both.
#pragma once

#include <denizen/task/context.hpp>

namespace denizen::test {

struct Sum {
    uint64_t sum;
    task::Counter parent;
    DENIZEN_HD void run(auto& ctx) const { ctx.arrive(parent, sum); }
};

struct Fib {
    uint32_t n;
    task::Counter parent;
    DENIZEN_HD void run(auto& ctx) const
    {
        if (n < 2) {
            ctx.arrive(parent, n);
            return;
        }
        const task::Counter both = ctx.when(2, Sum{0, parent});
        ctx.spawn(Fib{n - 1, both});
        ctx.spawn(Fib{n - 2, both});
    }
};

} // namespace denizen::test
