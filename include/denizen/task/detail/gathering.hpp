// SPDX-License-Identifier: Apache-2.0
// How the warps of a block come together for a task of the block. One warp announces the task, and
// the others come when they next look. GPU only: a worker on the CPU runs such a task by itself.
//
// Hazard: the task runs only when all warps of the block have come. So each warp looks at the state
// in every turn of its loop, and no warp leaves while a task is announced. A warp that found its
// gate shut may come back after another warp has left for good; it must not open the block again.
// (tests/model/gathering.pml)
#pragma once

#include <denizen/task/detail/layout.hpp>

#if DENIZEN_ON_DEVICE

#include <denizen/base/atomic.hpp>
#include <denizen/base/lanes.hpp>

namespace denizen::task::gathering {

inline constexpr uint32_t announced = 1;
inline constexpr uint32_t leaving = 2;
inline constexpr uint32_t handing_over = 3; // leaving, unless the gate is shut

// A block's task, as its warps see it.
struct Place {
    uint32_t state; // 0, or one of these
    uint32_t announcer;
    uint32_t word[12];
    uint32_t drop; // 1: its group was cancelled
};

__device__ inline Place& here()
{
    __shared__ Place place;
    return place;
}

// Called by all lanes of a warp. True: the task is announced, and the caller goes to meet. False:
// another warp was first, or the block leaves.
template <uint32_t Most>
__device__ inline bool announce(uint32_t worker, const uint32_t (&word)[Most])
{
    Place& place = here();
    uint32_t state = 0;
    if (denizen::lanes::id() == 0) {
        compare_exchange<Scope::block>(&place.state, state, announced);
        if (state == 0) {
            place.announcer = worker;
            for (uint32_t i = 0; i < Most; ++i) {
                place.word[i] = word[i];
            }
        }
    }
    return denizen::lanes::shuffle(state, 0) == 0;
}

__device__ inline bool is_announced()
{
    const uint32_t state = load<Scope::block>(&here().state);
    return denizen::lanes::shuffle(state, 0) == announced;
}

// Keeps further tasks from being announced. False: one is announced already, and has to run first.
// `as`: leaving, which stays so, or handing_over, which go_on() takes back.
__device__ inline bool end(uint32_t as)
{
    uint32_t state = 0;
    if (denizen::lanes::id() == 0) {
        // Ends: by a success, or by what another warp of the block has put there.
        while (!compare_exchange<Scope::block>(&here().state, state, as) &&
               (state == 0 || (state == handing_over && as == leaving))) {
        }
    }
    return denizen::lanes::shuffle(state, 0) != announced;
}

// Takes end(handing_over) back, if the warps stay. The first warp that calls opens the block for
// all.
__device__ inline void go_on()
{
    uint32_t state = handing_over;
    if (denizen::lanes::id() == 0) {
        compare_exchange<Scope::block>(&here().state, state, 0u);
    }
    denizen::lanes::sync();
}

// A barrier of all worker warps of the block; the monitor's warp takes no part.
__device__ inline void barrier(const Shared& s)
{
    denizen::lanes::rejoin(); // lanes that come to it apart may wait there for ever
    asm volatile("barrier.cta.sync 1, %0;" ::"r"(32 * s.per_block) : "memory");
}

} // namespace denizen::task::gathering

#endif
