// SPDX-License-Identifier: Apache-2.0
// Tasks of a warp and of a block, and what happens where there is no room: the deques spill, the
// spawner is told when the spill region is full, and nothing is lost.
#include "tasks.hpp"

namespace {

using namespace denizen;
using namespace denizen::test;
using task::Counter;
using task::Grain;
using task::Priority;

struct Leaf {
    uint64_t* count;
    DENIZEN_HD void run(auto&) const { fetch_add<Scope::system>(count, uint64_t{1}); }
};

// Every lane writes its own word, reads its neighbour's behind a barrier, and spawns a leaf.
template <Grain G>
struct Wide {
    uint64_t* count;
    uint32_t* wrong;
    uint32_t* lanes; // how many ran it, all told
    uint32_t* words; // one for each lane
    static constexpr auto grain = G;
    static constexpr auto priority = G == Grain::block ? Priority::high : Priority::normal;
    DENIZEN_HD void run(auto& ctx) const
    {
        const uint32_t i = ctx.lane();
        const uint32_t n = ctx.lanes();
        store<Scope::gpu>(&words[i], i + 1);
        ctx.sync();
        if (load<Scope::gpu>(&words[(i + 1) % n]) != (i + 1) % n + 1) {
            fetch_add<Scope::system>(wrong, 1u);
        }
        ctx.sync();
        store<Scope::gpu>(&words[i], 0u);
        fetch_add<Scope::system>(lanes, 1u);
        ctx.spawn_by_lane(Leaf{count});
        ctx.spawn(Leaf{count}); // once
    }
};

// Spawns `n` leaves and tells how many were taken.
struct Flood {
    uint64_t* count;
    uint64_t* taken;
    uint64_t* refused;
    uint32_t n;
    DENIZEN_HD void run(auto& ctx) const
    {
        for (uint32_t i = 0; i < n; ++i) {
            const Errc e = ctx.spawn(Leaf{count});
            fetch_add<Scope::system>(e == Errc::ok ? taken : refused, uint64_t{1});
        }
    }
};

// Fills the deque and the spill region, then lets continuations become runnable.
struct Strand {
    uint64_t* count;
    uint64_t* taken;
    uint32_t n;
    DENIZEN_HD void run(auto& ctx) const
    {
        Counter waiting[8];
        for (Counter& w : waiting) {
            w = ctx.when(1, Leaf{count});
        }
        for (uint32_t i = 0; i < n; ++i) {
            if (ctx.spawn(Leaf{count}) == Errc::ok) {
                fetch_add<Scope::system>(taken, uint64_t{1});
            }
        }
        for (const Counter& w : waiting) {
            ctx.arrive(w);
        }
    }
};

using Grains = task::Program<Leaf, Wide<Grain::warp>, Wide<Grain::block>, Flood, Strand>;

class TaskGrains : public TasksAtEveryPlace {};
DENIZEN_TASKS_AT_EVERY_PLACE(TaskGrains);

TEST_P(TaskGrains, OfWarpsAndBlocks)
{
    constexpr uint32_t each = 20;
    constexpr uint32_t words = 1024; // lanes of a block at most
    Array<uint64_t> count(on_gpu(), 1);
    Array<uint32_t> wrong(on_gpu(), 3);
    Array<uint32_t> scratch(on_gpu(), size_t{2} * each * words);
    task::Runtime<Grains> rt(device(), options());
    for (uint32_t i = 0; i < each; ++i) {
        uint32_t* mine = scratch.data() + size_t{2} * i * words;
        rt.spawn(Wide<Grain::warp>{count.data(), &wrong[0], &wrong[1], mine});
        rt.spawn(Wide<Grain::block>{count.data(), &wrong[0], &wrong[2], mine + words});
    }
    rt.wait();
    EXPECT_EQ(wrong[0], 0u);
    EXPECT_EQ(wrong[1], each * (on_gpu() ? 32 : 1));
    EXPECT_EQ(wrong[2] % each, 0u);
    EXPECT_GE(wrong[2], each * (on_gpu() ? 32 : 1));
    EXPECT_EQ(count[0], wrong[1] + wrong[2] + 2 * each);
}

TEST_P(TaskGrains, Spill)
{
    Array<uint64_t> count(on_gpu(), 3);
    task::Options o = options();
    o.queue_slots = 64;
    task::Runtime<Grains> rt(device(), o);
    rt.spawn(Flood{&count[0], &count[1], &count[2], 10'000});
    rt.wait();
    rt.close();
    EXPECT_EQ(count[0], 10'000u);
    EXPECT_EQ(count[1], 10'000u);
    EXPECT_EQ(count[2], 0u);
    EXPECT_GE(rt.stats().spilled, 9'000u);
}

TEST_P(TaskGrains, TheSpawnerIsTold)
{
    Array<uint64_t> count(on_gpu(), 3);
    task::Options o = options();
    o.queue_slots = 64;
    o.spill_tasks = 96; // three crates, one of which brings the flood
    task::Runtime<Grains> rt(device(), o);
    for (uint32_t i = 0; i < 20; ++i) {
        const uint64_t before = count[0];
        count[1] = count[2] = 0;
        rt.spawn(Flood{&count[0], &count[1], &count[2], 5'000});
        rt.wait();
        EXPECT_EQ(count[1] + count[2], 5'000u);
        EXPECT_EQ(count[0] - before, count[1]) << "of those that were taken";
        EXPECT_GE(count[1], 32u);
        if (rt.workers() == 1) {
            EXPECT_EQ(count[2], 5'000u - 32 - 96);
        }
    }
    EXPECT_TRUE(rt.workers() != 1 || rt.stats().refused != 0);
}

TEST_P(TaskGrains, ContinuationsAreNotLost)
{
    Array<uint64_t> count(on_gpu(), 2);
    task::Options o = options();
    o.queue_slots = 64;
    o.spill_tasks = 32;
    task::Runtime<Grains> rt(device(), o);
    for (uint32_t i = 0; i < 50; ++i) {
        const uint64_t before = count[0];
        count[1] = 0;
        rt.spawn(Strand{&count[0], &count[1], 1'000});
        rt.wait();
        ASSERT_EQ(count[0] - before, count[1] + 8) << i;
    }
}

} // namespace
