// SPDX-License-Identifier: Apache-2.0
// Trees of tasks on CPU workers that steal from each other: every task runs once, and what waits
// for others runs when all have come.
#include "scenario.hpp"

#include <denizen/task/runtime.hpp>

#include <thread>

namespace simulation {
namespace {

using namespace denizen;
using namespace std::chrono_literals;
using task::Counter;
using task::Promise;

// An idle worker that nobody wakes looks again after some milliseconds of virtual time.
nanoseconds patience() { return calm() ? nanoseconds(80ms) : nanoseconds(10s); }

struct Sum {
    uint64_t sum;
    Counter parent;
    DENIZEN_HD void run(auto& ctx) const { ctx.arrive(parent, sum + 1); }
};

struct Answer {
    uint64_t sum;
    Promise<uint64_t> promise;
    DENIZEN_HD void run(auto& ctx) const { ctx.set(promise, sum); }
};

// Has `fan` children and they have one level less; tells how many tasks it and they were.
struct Branch {
    uint32_t levels;
    uint32_t fan;
    Counter parent;
    DENIZEN_HD void run(auto& ctx) const
    {
        if (levels == 0) {
            ctx.arrive(parent, 1);
            return;
        }
        const Counter all = ctx.when(fan, Sum{0, parent});
        for (uint32_t i = 0; i < fan; ++i) {
            const Branch child{levels - 1, fan, all};
            if (i % 2 == 1) {
                ctx.spawn_on((ctx.worker() + i) % ctx.workers(), child); // by mail
            } else {
                ctx.spawn(child);
            }
        }
    }
};

struct Root {
    uint32_t levels;
    uint32_t fan;
    Promise<uint64_t> promise;
    DENIZEN_HD void run(auto& ctx) const
    {
        ctx.spawn(Branch{levels, fan, ctx.when(1, Answer{0, promise})});
    }
};

using Tree = task::Program<Root, Branch, Sum, Answer>;

uint64_t size_of(uint32_t levels, uint32_t fan)
{
    return levels == 0 ? 1 : 1 + fan * size_of(levels - 1, fan);
}

task::Options small()
{
    task::Options o;
    o.device = Device::cpu();
    o.workers = 1 + draw(3);
    o.queue_slots = 64;
    o.arena_bytes = 512 << 10;
    o.counters = 64;
    o.futures = 8;
    o.port_slots = 8;
    o.ingress_slots = 8;
    return o;
}

template <class Body>
void checked(Body&& body)
{
    try {
        body();
    } catch (const Error& e) {
        fail(e.what());
    }
}

void grow(task::Runtime<Tree>& rt, uint32_t trees)
{
    for (uint32_t i = 0; i < trees; ++i) {
        const uint32_t levels = draw(3);
        const uint32_t fan = 1 + draw(3);
        auto [promise, future] = rt.promise<uint64_t>();
        rt.spawn(Root{levels, fan, promise});
        require(future.get(patience()) == size_of(levels, fan), "tasks are missing, or ran twice");
    }
}

// Two host threads hand in trees; wait() returns when nothing runs, nor will.
void tasks()
{
    checked([] {
        task::Runtime<Tree> rt(Device::cpu(), small());
        std::thread other([&] { checked([&] { grow(rt, draw(3)); }); });
        grow(rt, 1 + draw(2));
        other.join();
        rt.wait(patience());
        rt.close();
    });
}

} // namespace

std::vector<Scenario> task_scenarios()
{
    const Faults all{.spurious = true, .stopped = true, .jumps = true};
    return {{"tasks", tasks, all, nullptr, 400'000, 2}};
}

} // namespace simulation
