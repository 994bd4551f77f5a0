// SPDX-License-Identifier: Apache-2.0
// Fork-join trees: the continuation of each node gets the sum of its children, and the root's sets
// what the host waits for.
#include "fibonacci.hpp"
#include "tasks.hpp"

namespace {

using namespace denizen;
using namespace denizen::test;
using task::Counter;
using task::Promise;

struct Finish {
    uint64_t sum;
    Promise<uint64_t> promise;
    DENIZEN_HD void run(auto& ctx) const { ctx.set(promise, sum); }
};

// One row of a board: bit masks of the columns and diagonals that are attacked.
struct Queens {
    uint32_t columns;
    uint32_t left;
    uint32_t right;
    uint32_t size;
    Counter parent;
    DENIZEN_HD void run(auto& ctx) const
    {
        const uint32_t all = (1u << size) - 1;
        uint32_t free = all & ~(columns | left | right);
        if (columns == all || free == 0) {
            ctx.arrive(parent, columns == all ? 1 : 0);
            return;
        }
        uint32_t children = 0;
        for (uint32_t f = free; f != 0; f &= f - 1) {
            ++children;
        }
        const Counter rows = ctx.when(children, Sum{0, parent});
        for (; free != 0; free &= free - 1) {
            const uint32_t queen = free & ~(free - 1);
            ctx.spawn(
                Queens{columns | queen, (left | queen) << 1, (right | queen) >> 1, size, rows});
        }
    }
};

struct Begin {
    uint32_t n;
    uint32_t queens;
    Promise<uint64_t> promise;
    DENIZEN_HD void run(auto& ctx) const
    {
        const Counter root = ctx.when(1, Finish{0, promise});
        if (queens != 0) {
            ctx.spawn(Queens{0, 0, 0, n, root});
        } else {
            ctx.spawn(Fib{n, root});
        }
    }
};

using Trees = task::Program<Begin, Finish, Sum, Fib, Queens>;

class TaskTrees : public TasksAtEveryPlace {};
DENIZEN_TASKS_AT_EVERY_PLACE(TaskTrees);

uint64_t result(task::Runtime<Trees>& rt, uint32_t n, bool queens)
{
    auto [promise, future] = rt.promise<uint64_t>();
    rt.spawn(Begin{n, queens ? 1u : 0u, promise});
    return future.get(60s);
}

TEST_P(TaskTrees, Fibonacci)
{
    task::Runtime<Trees> rt(device(), options());
    EXPECT_EQ(result(rt, 0, false), 0u);
    EXPECT_EQ(result(rt, 1, false), 1u);
    EXPECT_EQ(result(rt, 10, false), 55u);
    const uint32_t n = scaled(1) == 1 && scaled(100) == 100 ? 24 : 17;
    EXPECT_EQ(result(rt, n, false), n == 24 ? 46368u : 1597u);
    rt.wait();
    rt.close();
}

TEST_P(TaskTrees, Queens)
{
    task::Runtime<Trees> rt(device(), options());
    const uint64_t solutions[] = {1, 1, 0, 0, 2, 10, 4, 40, 92, 352, 724};
    const uint32_t most = scaled(100) == 100 ? 9 : 6;
    for (uint32_t n = 1; n <= most; ++n) {
        EXPECT_EQ(result(rt, n, true), solutions[n]) << n;
    }
    rt.wait();
}

// Counters are taken and given back: far more are used than there are.
TEST_P(TaskTrees, CountersAreUsedAgain)
{
    task::Options o = options();
    o.counters = 1u << 16;
    task::Runtime<Trees> rt(device(), o);
    for (uint32_t i = 0; i < scaled(80); ++i) {
        ASSERT_EQ(result(rt, 15, false), 610u) << i; // 986 counters each
    }
    rt.wait();
    EXPECT_EQ(rt.stats().refused, 0u);
}

// A queue of the least size: the rest goes by way of the shelves, and the sums are the same.
TEST_P(TaskTrees, SmallQueues)
{
    task::Options o = options();
    o.queue_slots = 64;
    task::Runtime<Trees> rt(device(), o);
    EXPECT_EQ(result(rt, 7, true), 40u);
    EXPECT_EQ(result(rt, 14, false), 377u);
    rt.wait();
}

TEST_P(TaskTrees, ManyAtOnce)
{
    task::Runtime<Trees> rt(device(), options());
    std::vector<task::Awaited<uint64_t>> all;
    for (uint32_t i = 0; i < scaled(200); ++i) {
        all.push_back(rt.promise<uint64_t>());
        rt.spawn(Begin{i % 12, 0, all.back().promise});
    }
    const uint64_t fib[] = {0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89};
    for (uint32_t i = 0; i < all.size(); ++i) {
        EXPECT_EQ(all[i].future.get(60s), fib[i % 12]) << i;
    }
    rt.wait();
}

} // namespace
