// SPDX-License-Identifier: Apache-2.0
// Tasks whose kernel ends and begins anew all the time: every task is run once, whatever the
// workers are at when a breath ends, and whoever waits for the whole device gets its turn. On the
// CPU the option changes nothing.
#include "tasks.hpp"

#include <denizen/device/residents.hpp>

#include <atomic>
#include <thread>

namespace {

using namespace denizen;
using namespace denizen::test;
using task::Grain;

struct Leaf {
    uint64_t* count;
    DENIZEN_HD void run(auto&) const { fetch_add<Scope::gpu>(count, uint64_t{1}); }
};

// Spawns two of itself, down to 2^depth leaves.
struct Fork {
    uint64_t* count;
    uint32_t depth;
    DENIZEN_HD void run(auto& ctx) const
    {
        if (depth == 0) {
            ctx.spawn(Leaf{count});
        } else {
            ctx.spawn(Fork{count, depth - 1});
            ctx.spawn(Fork{count, depth - 1});
        }
    }
};

// Of a warp or a block: every lane spawns a leaf, and a few times itself.
template <Grain G>
struct Wide {
    uint64_t* count;
    uint32_t left;
    static constexpr auto grain = G;
    DENIZEN_HD void run(auto& ctx) const
    {
        ctx.sync();
        ctx.spawn_by_lane(Leaf{count});
        if (left != 0) {
            ctx.spawn(Wide<G>{count, left - 1}); // once
        }
    }
};

// Until the host says so.
struct Long {
    uint64_t* stop;
    DENIZEN_HD void run(auto&) const
    {
        while (load<Scope::system>(stop) == 0) { // ends by the test
        }
    }
};

using Breathing = task::Program<Leaf, Fork, Wide<Grain::warp>, Wide<Grain::block>, Long>;

class TaskBreath : public TasksAtEveryPlace {
protected:
    static task::Options options()
    {
        task::Options o = TasksAtEveryPlace::options();
        o.breath = std::chrono::microseconds(300);
        return o;
    }
    // Until the kernel has handed over `n` times, or once on the CPU.
    template <class Round>
    static void until_handed_over(task::Runtime<Breathing>& rt, uint64_t n, Round&& round)
    {
        const bool seen = eventually(
            [&] {
                round();
                return !on_gpu() || rt.stats().handovers.count >= n;
            },
            60s);
        const Handovers h = rt.stats().handovers;
        EXPECT_TRUE(seen) << h.count << " hand-overs in " << h.attempts << " attempts";
    }
};
DENIZEN_TASKS_AT_EVERY_PLACE(TaskBreath);

TEST_P(TaskBreath, EveryTaskIsRunOnce)
{
    const uint32_t depth = on_gpu() ? 16 : 8;
    Array<uint64_t> count(on_gpu(), 1);
    task::Runtime<Breathing> rt(device(), options());
    uint64_t expected = 0;
    until_handed_over(rt, 20, [&] {
        rt.spawn(Fork{count.data(), depth});
        rt.wait();
        expected += uint64_t{1} << depth;
        ASSERT_EQ(count[0], expected);
    });
    EXPECT_EQ(rt.stats().incarnations > 20, on_gpu());
    EXPECT_EQ(rt.stats().launches, 1u);
    rt.close();
}

TEST_P(TaskBreath, TasksOfWarpsAndBlocksAreRunOnce)
{
    constexpr uint32_t again = 4;
    Array<uint64_t> count(on_gpu(), 2);
    task::Runtime<Breathing> rt(device(), options());
    until_handed_over(rt, 5, [&] {
        const uint64_t before = count[0];
        for (uint32_t i = 0; i < 4; ++i) {
            rt.spawn(Wide<Grain::warp>{&count[0], again});
            rt.spawn(Wide<Grain::block>{&count[0], again});
        }
        rt.wait();
        // Of a block as many as it has lanes, the same in each round.
        const uint64_t added = count[0] - before;
        count[1] = count[1] == 0 ? added : count[1];
        ASSERT_EQ(added, count[1]);
        ASSERT_GE(added, 4u * (again + 1) * (on_gpu() ? 64 : 2));
    });
    rt.close();
}

// While one worker is in a long task, the others go on.
TEST_P(TaskBreath, ALongTaskKeepsNobodyElse)
{
    constexpr uint32_t rounds = 200;
    Array<uint64_t> stop(on_gpu(), 1);
    Array<uint64_t> count(on_gpu(), 1);
    task::Options o = options();
    o.workers = 2;
    task::Runtime<Breathing> rt(device(), o);
    auto slow = rt.group();
    slow.spawn(Long{stop.data()});
    for (uint32_t i = 0; i < rounds; ++i) {
        auto quick = rt.group();
        quick.spawn(Leaf{count.data()});
        quick.wait();
    }
    store<Scope::system>(stop.data(), uint64_t{1});
    slow.wait();
    EXPECT_EQ(count[0], rounds);
    rt.close();
}

TEST_P(TaskBreath, ThatIsTooLongIsRefused)
{
    task::Options o = options();
    o.breath = std::chrono::microseconds(1'000'001);
    expect_error(Errc::bad_argument,
                 "breath = 1000001 us; use 1 to 1,000,000, or 0 for one kernel for ever",
                 [&] { task::Runtime<Breathing> rt(device(), o); });
}

#if defined(__CUDACC__)

TEST(TaskBreathOnGpu, WhoWaitsForTheDeviceGetsItsTurn)
{
    if (!gpu_present()) {
        GTEST_SKIP() << "no GPU";
    }
    Array<uint64_t> count(true, 1);
    task::Runtime<Breathing> rt(Device::gpu());
    std::atomic<bool> stop{false};
    std::atomic<uint64_t> expected{0};
    std::thread spawner([&] {
        while (!stop) { // ends below
            rt.spawn(Fork{count.data(), 14});
            rt.wait();
            expected += uint64_t{1} << 14;
        }
    });
    // Ends as the spawner has begun: its thread may come late.
    for (int i = 0; i < 10 || (expected == 0 && i < 10'000); ++i) {
        void* p = nullptr;
        EXPECT_EQ(cudaMalloc(&p, 1 << 20), cudaSuccess);
        EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
        EXPECT_EQ(cudaFree(p), cudaSuccess);
    }
    stop = true;
    spawner.join();
    EXPECT_EQ(count[0], expected.load());
    EXPECT_GT(expected.load(), 0u);
    rt.close();
}

#endif

} // namespace
