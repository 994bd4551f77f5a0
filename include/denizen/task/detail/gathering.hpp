// SPDX-License-Identifier: Apache-2.0
// How the warps of a block come together for a task of the block: one announces it, and the others
// come when they next look. GPU only; a worker of the CPU runs such tasks by itself.
//
// Hazard: all warps of the block meet. Each looks at the state in every turn of its loop, and none
// leaves while a task is announced. A warp may come late from a gate that was shut, when another
// has left for good: it must not open the block again. (tests/model/gathering.pml)
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

// All lanes of a warp. True if the task is announced and it is on the caller to meet; false if
// another warp was first, or they leave.
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

// From now on no task is announced; false if one is, which has to be run first. `as`: leaving,
// which stands, or handing_over.
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

// After end(handing_over), if they stay. The first warp of the block to come opens it for all.
__device__ inline void go_on()
{
    uint32_t state = handing_over;
    if (denizen::lanes::id() == 0) {
        compare_exchange<Scope::block>(&here().state, state, 0u);
    }
    denizen::lanes::sync();
}

// Of all worker warps of the block.
__device__ inline void barrier(const Shared& s)
{
    denizen::lanes::rejoin(); // lanes that come to it apart may wait there for ever
    asm volatile("barrier.cta.sync 1, %0;" ::"r"(32 * s.per_block) : "memory");
}

} // namespace denizen::task::gathering

#endif
