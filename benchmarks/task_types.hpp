// SPDX-License-Identifier: Apache-2.0
// The tasks that bench_tasks runs, each with the check of what they have done.
#pragma once

#include <denizen/task/context.hpp>
#include <denizen/task/program.hpp>

namespace denizen::bench {

using task::Counter;
using task::Grain;

// An address in two words: with a third word a task fits into the smallest slots.
struct Far {
    uint32_t low = 0;
    uint32_t high = 0;

    Far() = default;
    explicit Far(uint32_t* p)
        : low(static_cast<uint32_t>(reinterpret_cast<uint64_t>(p))),
          high(static_cast<uint32_t>(reinterpret_cast<uint64_t>(p) >> 32))
    {
    }
    DENIZEN_HD uint32_t* get() const
    {
        return reinterpret_cast<uint32_t*>(low | static_cast<uint64_t>(high) << 32);
    }
};

// Independent tasks: out[i] = 2 i, one task for each i, on a thread or on a warp.
struct ThreadItem {
    Far out;
    uint32_t i;
    static constexpr bool self_contained = true;
    DENIZEN_HD void run(auto&) const { out.get()[i] = 2 * i; }
};

struct WarpItem {
    Far out;
    uint32_t i;
    static constexpr auto grain = Grain::warp;
    static constexpr bool self_contained = true;
    DENIZEN_HD void run(auto& ctx) const
    {
        if (ctx.lane() == 0) out.get()[i] = 2 * i;
    }
};

// Spawns the items of [first, first + 2^level), a multiple of 2^level: by way of smaller ranges.
// A worker runs the threads' tasks that it has before it makes more.
template <class Item>
struct Range {
    Far out;
    uint32_t first_and_level; // first is a multiple of 32
    static constexpr auto grain = Grain::warp;
    static constexpr bool self_contained = true;

    static constexpr uint32_t items_level = 8;

    DENIZEN_HD void run(auto& ctx) const
    {
        const uint32_t level = first_and_level & 31;
        const uint32_t first = first_and_level & ~31u;
        if (level <= items_level) {
            for (uint32_t i = ctx.lane(); i < 1u << level; i += ctx.lanes())
                ctx.spawn_by_lane(Item{out, first + i});
            return;
        }
        const uint32_t parts =
            level - items_level < 4 ? level - items_level : 4; // of two, as powers
        for (uint32_t p = ctx.lane(); p < 1u << parts; p += ctx.lanes())
            ctx.spawn_by_lane(Range{out, (first + (p << (level - parts))) | (level - parts)});
    }
};

// A binary tree of tasks: leaves tell their values to their parents' continuations. The root's
// continuation sets the sum.
inline constexpr uint32_t leaf_value(uint32_t place) { return place % 7 + 1; }

struct TreeSum {
    uint32_t sum;
    Counter parent;
    static constexpr bool self_contained = true;
    DENIZEN_HD void run(auto& ctx) const { ctx.arrive(parent, sum); }
};

struct TreeNode {
    uint32_t place; // at its depth
    uint32_t depth; // below it
    Counter parent;
    static constexpr bool self_contained = true;
    DENIZEN_HD void run(auto& ctx) const
    {
        if (depth == 0) {
            ctx.arrive(parent, place % 7 + 1);
            return;
        }
        const Counter both = ctx.when(2, TreeSum{0, parent});
        ctx.spawn(TreeNode{2 * place, depth - 1, both});
        ctx.spawn(TreeNode{2 * place + 1, depth - 1, both});
    }
};

// A chain from worker to worker, each on another SM than the one before.
struct Hop {
    uint32_t left;
    Counter done;
    static constexpr bool self_contained = true;
    DENIZEN_HD void run(auto& ctx) const
    {
        if (left == 0) {
            ctx.arrive(done, 1);
        } else {
            ctx.spawn_on(ctx.worker() + 17, Hop{left - 1, done});
        }
    }
};

// Sets a promise when what it has begun has ended.
struct Finish {
    uint64_t sum;
    task::Promise<uint64_t> promise;
    DENIZEN_HD void run(auto& ctx) const { ctx.set(promise, sum); }
};
struct BeginTree {
    uint32_t depth;
    task::Promise<uint64_t> promise;
    DENIZEN_HD void run(auto& ctx) const
    {
        ctx.spawn(TreeNode{0, depth, ctx.when(1, Finish{0, promise})});
    }
};
struct BeginChain {
    uint32_t hops;
    task::Promise<uint64_t> promise;
    DENIZEN_HD void run(auto& ctx) const { ctx.spawn(Hop{hops, ctx.when(1, Finish{0, promise})}); }
};

using ThreadItems = task::Program<ThreadItem, Range<ThreadItem>>;
using WarpItems = task::Program<WarpItem, Range<WarpItem>>;
using Trees = task::Program<BeginTree, TreeNode, TreeSum, Finish>;
using Chains = task::Program<BeginChain, Hop, Finish>;

} // namespace denizen::bench
