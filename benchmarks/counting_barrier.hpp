// SPDX-License-Identifier: Apache-2.0
// The barrier that anybody would write: one word counts arrivals, for ever. Members are the blocks
// of a grid (one thread each) or threads of the host; all must be running at the same time, or
// those that run wait for ever. bench_sync compares the ready-made ones with it.
#pragma once

#include <denizen/base/atomic.hpp>
#include <denizen/wire/wait.hpp>

#include <sched.h>

namespace denizen::bench {

// Returns when `members` have called it with this `round`, which counts from 1 and may wrap.
DENIZEN_HD inline void arrive_and_wait(uint32_t* arrived, uint32_t members, uint32_t round)
{
    // Release: partner of the acquire below, in every other member.
    fetch_add<Scope::gpu, Order::acq_rel>(arrived, 1u);
    // Ends with the last member's arrival.
    [[maybe_unused]] uint32_t looks = 0;
    while (static_cast<int32_t>(load<Scope::gpu>(arrived) - round * members) < 0) {
#if !DENIZEN_ON_DEVICE
        // Gives the core away now and then: there may be fewer cores than members.
        ++looks % 64 == 0 ? void(sched_yield()) : relax();
#endif
    }
    (void)load<Scope::gpu, Order::acquire>(arrived);
}

// A member at its barrier `round` says so in its place before it and looks at the others' places
// behind it: all must have come as far, and none can be further than the next one.
DENIZEN_HD inline bool in_step(const uint32_t* place, uint32_t round)
{
    return load<Scope::gpu>(place) - round <= 1;
}

} // namespace denizen::bench
