// SPDX-License-Identifier: Apache-2.0
// Trees of tasks on CPU workers that steal from each other: every task runs once, and what waits
// for others runs when all have come. And those that actors spawn: a drain waits for them.
#include "scenario.hpp"

#include <denizen/actor/runtime.hpp>
#include <denizen/actor/telemetry.hpp>
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

// ---- tasks that actors spawn

struct Dig {
    uint32_t depth;
};
struct Stone {};
struct Look {};
struct Heap {
    uint32_t stones;
};

struct Hole {
    uint32_t depth;
    DENIZEN_HD void run(auto& ctx) const
    {
        if (depth == 0) {
            ctx.send(ctx.asker(), Stone{});
            return;
        }
        for (uint32_t i = 0; i < 2; ++i) {
            if (!ctx.spawn(Hole{depth - 1})) { // as many stones without the tasks
                for (uint32_t n = 1u << (depth - 1); n != 0; --n) {
                    ctx.send(ctx.asker(), Stone{});
                }
            }
        }
    }
};

struct Digger {
    uint32_t stones = 0;
    DENIZEN_HD void on(const Dig& m, auto& ctx) { Hole{m.depth}.run(ctx); }
    DENIZEN_HD void on(const Stone&, auto&) { ++stones; }
    DENIZEN_HD void on(const Look&, auto& ctx) { ctx.reply(Heap{stones}); }
};

using Digging = Program<Actors<Digger>, Messages<Dig, Stone, Look, Heap>, Tasks<Hole>>;

// drain() returns when no message is under way, no task waits and none runs.
void tasks_of_actors()
{
    checked([] {
        Options o;
        o.workers = 1 + draw(3);
        o.task_slots = 2u << draw(3);
        o.host_ring_slots = o.inbox_slots = o.local_slots = o.near_slots = o.urgent_slots = 8;
        o.egress_slots = o.dead_letter_slots = 8;
        o.outbox_slots = 64;
        o.stash_slots = o.watch_slots = o.timer_slots = 8;
        o.asks = 4;
        o.max_actors = 64;
        o.state_bytes = 4096;
        o.subscriptions = 4;
        o.buffers = 4;
        Runtime<Digging> rt(Device::cpu(), o);
        const auto diggers = rt.spawn<Digger>(1 + draw(2), patience());
        std::vector<uint32_t> expected(diggers.size());
        for (uint32_t i = 1 + draw(3); i != 0; --i) {
            const uint32_t who = draw(static_cast<uint32_t>(diggers.size()));
            const uint32_t depth = draw(4);
            rt.send(diggers[who], Dig{depth}, patience());
            expected[who] += 1u << depth;
            if (draw(2) == 0) {
                rt.drain(patience());
                require(rt.ask<Heap>(diggers[who], Look{}, patience()).stones == expected[who],
                        "drain() has not waited for a task, or one was lost");
            }
        }
        rt.drain(patience());
        const uint64_t run = rt.telemetry().tasks;
        rt.send(diggers[0], Dig{1}, patience());
        expected[0] += 2;
        rt.drain(patience());
        require(rt.telemetry().tasks == run + 2, "a queue without tasks has no room for two");
        for (size_t who = 0; who < diggers.size(); ++who) {
            require(rt.ask<Heap>(diggers[who], Look{}, patience()).stones == expected[who],
                    "tasks are missing, or ran twice");
        }
        rt.close();
    });
}

} // namespace

std::vector<Scenario> task_scenarios()
{
    const Faults all{.spurious = true, .stopped = true, .jumps = true};
    return {{"tasks", tasks, all, nullptr, 400'000, 2},
            {"tasks_of_actors", tasks_of_actors, all, nullptr, 400'000, 2}};
}

} // namespace simulation
