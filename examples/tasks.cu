// SPDX-License-Identifier: Apache-2.0
// Tasks: ways to place n queens that do not attack each other, counted by a tree of tasks. On the
// GPU if there is one and this file was compiled by nvcc, else on CPU threads.
#include <denizen/task/runtime.hpp>

#include <cstdio>
#include <cstring>

namespace {

using denizen::task::Counter;
using denizen::task::Promise;

// Runs when all it waits for has arrived; `sum` is then the sum of what they told.
struct Sum {
    uint64_t sum;
    Counter parent;
    DENIZEN_HD void run(auto& ctx) const { ctx.arrive(parent, sum); }
};

struct Answer {
    uint64_t sum;
    Promise<uint64_t> promise;
    DENIZEN_HD void run(auto& ctx) const { ctx.set(promise, sum); }
};

// A row: in which columns it is attacked, straight and by both diagonals.
struct Row {
    uint32_t columns, left, right, size;
    Counter parent;

    DENIZEN_HD void run(auto& ctx) const
    {
        const uint32_t all = (1u << size) - 1;
        const uint32_t free = all & ~(columns | left | right);
        if (free == 0) {
            ctx.arrive(parent, columns == all ? 1 : 0);
            return;
        }
        uint32_t queens = 0;
        for (uint32_t f = free; f != 0; f &= f - 1) ++queens;
        const Counter rows = ctx.when(queens, Sum{0, parent});
        for (uint32_t f = free; f != 0; f &= f - 1) {
            const uint32_t q = f & ~(f - 1);
            ctx.spawn(Row{columns | q, (left | q) << 1, (right | q) >> 1, size, rows});
        }
    }
};

struct Begin {
    uint32_t size;
    Promise<uint64_t> promise;
    DENIZEN_HD void run(auto& ctx) const
    {
        ctx.spawn(Row{0, 0, 0, size, ctx.when(1, Answer{0, promise})});
    }
};

using Queens = denizen::task::Program<Begin, Row, Sum, Answer>;

int run(denizen::Device device)
{
    denizen::task::Runtime<Queens> rt(device);
    auto [promise, future] = rt.promise<uint64_t>();
    rt.spawn(Begin{9, promise});
    const uint64_t solutions = future.get();
    rt.wait(); // until no task runs nor can run
    rt.close();
    std::printf("9 queens on %s: %llu solutions, %llu tasks\n", rt.device().c_str(),
                static_cast<unsigned long long>(solutions),
                static_cast<unsigned long long>(rt.stats().run));
    return solutions == 352 ? 0 : 1;
}

} // namespace

int main(int argc, char** argv)
{
    const bool cpu = argc > 1 && std::strcmp(argv[1], "cpu") == 0;
    try {
        return run(cpu ? denizen::Device::cpu() : denizen::Device::automatic());
    } catch (const denizen::Error& e) {
        std::fprintf(stderr, "%s\n", e.what());
        return 2;
    }
}
