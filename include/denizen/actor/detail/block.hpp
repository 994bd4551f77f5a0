// SPDX-License-Identifier: Apache-2.0
// The threads of a block that run one handler or task together: their barrier, and the shared
// memory by which they hand values to each other. A block has one worker, its first warp; the
// others are the worker's crew (crew.hpp). Called by Context, and by what runs handlers.
//
// Only the worker's warp touches its rings, its outbox and its box. What a handler of a block asks
// of the runtime, that warp does for all (context_block.hpp). On the CPU a block is one thread, and
// there is nothing here.
//
// Hazard: every thread of the block makes each of these calls, in the same order, or the others
// wait for ever. The monitor's warp takes no part, so __syncthreads() does not do instead.
#pragma once

#include <denizen/actor/detail/pool.hpp>
#include <denizen/base/lanes.hpp>

#if DENIZEN_ON_DEVICE

namespace denizen::detail::block {

enum Kind : uint32_t { handler = 0, task, leave };

// What all warps are to run, and what came of it.
struct Job {
    uint32_t kind;             // a Kind
    uint32_t self;             // of a task: the actor that asked for it
    uint32_t sender;           // of the message
    uint32_t actor;            // the actor's type
    uint32_t type;             // the message's, or the task's
    uint32_t ran;              // whether there was a handler
    uint32_t failed[32];       // of each warp: what its first lane that has failed says; else 0
    void* state;               //
    const void* payload;       // shared or global memory
    uint32_t word[task_words]; // of a task, or of a message without more
};
static_assert(sizeof(Job::word) >= first_payload);

// What a thread sends in Context::send_each().
struct Row {
    uint32_t to;
    uint32_t mine; // 0: nothing
    uint32_t word[first_payload / 4];
    uint32_t sent; // the answer
};

struct Place {
    Job job;
    uint32_t answer; // of what is done once
    Row row[lanes::size];
};

__device__ inline Place& place()
{
    __shared__ Place memory;
    return memory;
}

__device__ inline uint32_t warp() { return threadIdx.x / lanes::size; }

// Of `threads`: the worker's and its crew's. Afterwards each sees what the others wrote before it.
__device__ inline void barrier(uint32_t threads)
{
    lanes::rejoin(); // lanes that come to it apart may wait there for ever
    asm volatile("barrier.cta.sync 2, %0;" ::"r"(threads) : "memory");
}

// The same, and whether any thread says so.
__device__ inline bool barrier_any(uint32_t threads, bool says)
{
    lanes::rejoin();
    uint32_t any = 0;
    asm volatile("{\n\t"
                 ".reg .pred says, any;\n\t"
                 "setp.ne.u32 says, %1, 0;\n\t"
                 "barrier.cta.red.or.pred any, 2, %2, says;\n\t"
                 "selp.u32 %0, 1, 0, any;\n\t"
                 "}"
                 : "=r"(any)
                 : "r"(says ? 1u : 0u), "r"(threads)
                 : "memory");
    return any != 0;
}

} // namespace denizen::detail::block

#endif
