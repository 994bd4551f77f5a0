// SPDX-License-Identifier: Apache-2.0
// What a worker keeps for itself while it runs: in shared memory on the GPU, where all its lanes
// reach it, in a local variable on the CPU. No other worker reads it. What the next incarnation
// needs is written back to memory before the worker leaves.
#pragma once

#include <denizen/task/program.hpp>

namespace denizen::task {

inline constexpr uint32_t join_cache = 128;
inline constexpr uint32_t join_batch = 32;

template <class P>
struct Local {
    uint64_t seen[P::classes];  // the deques' words as last seen; their bottoms are exact
    uint32_t fresh[P::classes]; // tasks written past the bottom, or meant to be, in this batch
    uint32_t early[P::classes]; // of these, published before the batch has ended
    uint32_t reported;          // and those of which a lane has said that they are written
    uint32_t sharing;           // 1: a lane publishes
    uint32_t arrived;           // lanes that wait for the longest task of the batch
    uint32_t pool;              // tokens
    uint32_t pool_group;        // and of which group they are
    uint32_t cached;            // free joins; as int, less than 0 if more were wanted
    uint32_t uses_joins;        // 1: tasks have made counters here
    uint32_t freed;             // joins that became free in this batch
    uint32_t spilled;           // tasks put on the shelves, not told yet
    uint32_t joined;            // continuations that became runnable, not told yet
    uint32_t cache[join_cache];
    uint32_t free_join[join_batch];
};

namespace detail {

DENIZEN_HD inline unsigned char* slot_of(const Shared& s, uint32_t worker, uint32_t c,
                                         uint32_t position, uint32_t bytes)
{
    const uint64_t deque = static_cast<uint64_t>(worker) * s.classes + c;
    return s.slots + (deque * (s.deque_mask + 1) + (position & s.deque_mask)) * bytes;
}

} // namespace detail

} // namespace denizen::task
