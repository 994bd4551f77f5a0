// SPDX-License-Identifier: Apache-2.0
// Tasks of a warp and of a block, and what happens where there is no room: the deques spill into
// the arena, which tasks allocate from too, the spawner is told when that is full, and nothing is
// lost.
#include "tasks.hpp"

namespace {

using namespace denizen;
using namespace denizen::test;
using task::Counter;
using task::Grain;
using task::Priority;

struct Leaf {
    uint64_t* count;
    DENIZEN_HD void run(auto&) const { fetch_add<Scope::gpu>(count, uint64_t{1}); }
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
            fetch_add<Scope::gpu>(wrong, 1u);
        }
        ctx.sync();
        store<Scope::gpu>(&words[i], 0u);
        fetch_add<Scope::gpu>(lanes, 1u);
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
            fetch_add<Scope::gpu>(e == Errc::ok ? taken : refused, uint64_t{1});
        }
    }
};

// Fills the deque and the arena, then lets continuations become runnable.
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
                fetch_add<Scope::gpu>(taken, uint64_t{1});
            }
        }
        for (const Counter& w : waiting) {
            ctx.arrive(w);
        }
    }
};

// A tree whose every task allocates what it hands on: a block of the parent's, which the child
// checks, word for word, and gives back. Blocks grow with the depth, so that crates lie among them.
struct Heir {
    uint32_t* block; // depth words, each the seed plus its index
    uint64_t* count; // tasks that ran, blocks that could not be had, words that were wrong
    uint32_t seed;
    uint32_t depth;
    DENIZEN_HD void run(auto& ctx) const
    {
        const ArenaRef arena = ctx.arena();
        fetch_add<Scope::gpu>(&count[0], uint64_t{1});
        for (uint32_t i = 0; i < words(depth); ++i) {
            if (block[i] != seed + i) {
                fetch_add<Scope::gpu>(&count[2], uint64_t{1});
            }
        }
        arena.deallocate(block);
        for (uint32_t child = 0; depth != 0 && child < 8; ++child) {
            const uint32_t s = seed * 8 + child;
            uint32_t* const mine = fresh(arena, s, depth - 1);
            if (mine == nullptr || ctx.spawn(Heir{mine, count, s, depth - 1}) != Errc::ok) {
                arena.deallocate(mine);
                fetch_add<Scope::gpu>(&count[1], uint64_t{1});
            }
        }
    }
    DENIZEN_HD static uint32_t words(uint32_t depth) { return 4u << 2 * depth; }
    DENIZEN_HD static uint32_t* fresh(ArenaRef arena, uint32_t seed, uint32_t depth)
    {
        auto* const block = static_cast<uint32_t*>(arena.allocate(words(depth) * 4));
        for (uint32_t i = 0; block != nullptr && i < words(depth); ++i) {
            block[i] = seed + i;
        }
        return block;
    }
};
struct Ancestor {
    uint64_t* count;
    uint32_t depth;
    DENIZEN_HD void run(auto& ctx) const
    {
        ctx.spawn(Heir{Heir::fresh(ctx.arena(), 1, depth), count, 1, depth});
    }
};

// Takes all of the arena, so that what it spawns finds room in the deque alone.
struct Hoard {
    uint64_t* first; // of the blocks, each of which begins with the address of the next
    uint64_t* count;
    uint64_t* taken; // tasks
    uint64_t* refused;
    DENIZEN_HD void run(auto& ctx) const
    {
        uint64_t all = 0;
        for (uint32_t bytes = 32768; bytes >= 16; bytes /= 2) {
            for (;;) { // ends when the arena is full
                auto* const block = static_cast<uint64_t*>(ctx.arena().allocate(bytes));
                if (block == nullptr) {
                    break;
                }
                *block = all;
                all = reinterpret_cast<uint64_t>(block);
            }
        }
        *first = all;
        for (uint32_t i = 0; i < 200; ++i) {
            const Errc e = ctx.spawn(Leaf{count});
            fetch_add<Scope::gpu>(e == Errc::ok ? taken : refused, uint64_t{1});
        }
    }
};
struct Release {
    uint64_t* first;
    DENIZEN_HD void run(auto& ctx) const
    {
        for (uint64_t at = *first; at != 0;) { // ends: 0 is the last
            auto* const block = reinterpret_cast<uint64_t*>(at);
            at = *block;
            ctx.arena().deallocate(block);
        }
    }
};

using Grains = task::Program<Leaf, Wide<Grain::warp>, Wide<Grain::block>, Flood, Strand, Heir,
                             Ancestor, Hoard, Release>;

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
    EXPECT_EQ(rt.arena().stats().live_blocks, 0u) << "of crates that are empty";
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
    o.arena_bytes = 512 << 10; // 256 crates
    task::Runtime<Grains> rt(device(), o);
    for (uint32_t i = 0; i < 10; ++i) {
        const uint64_t before = count[0];
        count[1] = count[2] = 0;
        rt.spawn(Flood{&count[0], &count[1], &count[2], 9'000});
        rt.wait();
        EXPECT_EQ(count[1] + count[2], 9'000u);
        EXPECT_EQ(count[0] - before, count[1]) << "of those that were taken";
        EXPECT_GE(count[1], 32u);
        if (rt.workers() == 1) {
            EXPECT_EQ(count[2], 9'000u - 32 - 256 * 32);
        }
    }
    EXPECT_TRUE(rt.workers() != 1 || rt.stats().refused != 0);
    EXPECT_EQ(rt.arena().stats().live_blocks, 0u);
}

TEST_P(TaskGrains, ContinuationsAreNotLost)
{
    Array<uint64_t> count(on_gpu(), 2);
    task::Options o = options();
    o.queue_slots = 64;
    o.arena_bytes = 512 << 10;
    task::Runtime<Grains> rt(device(), o);
    for (uint32_t i = 0; i < 10; ++i) {
        const uint64_t before = count[0];
        count[1] = 0;
        rt.spawn(Strand{&count[0], &count[1], 9'000});
        rt.wait();
        ASSERT_EQ(count[0] - before, count[1] + 8) << i;
    }
}

TEST_P(TaskGrains, AllocateFromTheArena)
{
    Array<uint64_t> count(on_gpu(), 3);
    task::Options o = options();
    o.queue_slots = 64; // so that crates and the tasks' blocks share pages
    task::Runtime<Grains> rt(device(), o);
    rt.spawn(Ancestor{count.data(), 4});
    rt.wait();
    EXPECT_EQ(count[0], 1u + 8 + 64 + 512 + 4096);
    EXPECT_EQ(count[1], 0u);
    EXPECT_EQ(count[2], 0u);
    EXPECT_EQ(rt.arena().stats().live_blocks, 0u);
    EXPECT_EQ(rt.arena().stats().refused, 0u);
}

// The host's tasks come in although the tasks' own blocks have all of the arena.
TEST_P(TaskGrains, AnArenaFullOfBlocksIsNoDeadEnd)
{
    Array<uint64_t> count(on_gpu(), 4);
    task::Options o = options();
    o.queue_slots = 64;
    o.arena_bytes = 512 << 10;
    task::Runtime<Grains> rt(device(), o);
    for (uint32_t i = 0; i < 3; ++i) {
        const uint64_t before = count[0];
        count[1] = count[2] = 0;
        rt.spawn(Hoard{&count[3], &count[0], &count[1], &count[2]});
        rt.wait();
        EXPECT_EQ(count[1] + count[2], 200u);
        EXPECT_EQ(count[1], 32u) << "the deque's room";
        EXPECT_EQ(rt.arena().stats().live_bytes, rt.arena().stats().bytes);
        const std::vector<Leaf> many(1000, Leaf{count.data()});
        rt.spawn_many(many.data(), many.size());
        rt.wait();
        EXPECT_EQ(count[0] - before, count[1] + 1000);
        rt.spawn(Release{&count[3]});
        rt.wait();
        EXPECT_EQ(rt.arena().stats().live_blocks, 0u);
    }
}

} // namespace
