// SPDX-License-Identifier: Apache-2.0
// The free joins that a worker keeps in its Local. A counter that is made and fired on one worker
// then touches no memory of other workers. A worker that has too many or too few evens that out
// with the queue of all free joins, 32 at a time on a GPU. All lanes make these calls.
#pragma once

#include <denizen/task/detail/index_queue.hpp>
#include <denizen/task/detail/station.hpp>

namespace denizen::task::joins {

// After a batch. Joins that became free in the batch are the next to be used.
template <class P>
DENIZEN_HD inline void recycle(const Station<P>& at)
{
    const Shared& s = at.s;
    Local<P>& local = at.local;
    const auto signed_count = static_cast<int32_t>(local.cached);
    uint32_t cached = signed_count < 0 ? 0 : local.cached;
    const uint32_t freed = local.freed < join_batch ? local.freed : join_batch;
    const bool used = local.uses_joins != 0 || signed_count < 0 || freed != 0;
    if (freed == 0 && (!used || signed_count >= static_cast<int32_t>(join_batch))) {
        return;
    }
    const uint32_t lane = denizen::lanes::id();
    denizen::lanes::sync();
    for (uint32_t i = 0; i < freed; i += denizen::lanes::size) {
        const uint32_t n = freed - i < denizen::lanes::size ? freed - i : denizen::lanes::size;
        const uint32_t index = lane < n ? local.free_join[i + lane] : 0;
        if (cached + n > s.join_cache) {
            index_queue::push_many(s.free_joins, n, index);
        } else {
            if (lane < n) {
                local.cache[cached + lane] = index;
            }
            cached += n;
        }
    }
    if (cached < join_batch && s.join_cache >= join_batch + denizen::lanes::size) {
        uint32_t index = 0;
        const uint32_t n = index_queue::pop_many(s.free_joins, denizen::lanes::size, index);
        if (lane < n) {
            local.cache[cached + lane] = index;
        }
        cached += n;
    }
    denizen::lanes::sync();
    if (lane == 0) {
        local.cached = cached;
        local.freed = 0;
        local.uses_joins = 1;
    }
    denizen::lanes::sync();
}

// Before the worker leaves.
template <class P>
DENIZEN_HD inline void give_back(const Station<P>& at)
{
    const auto cached = static_cast<int32_t>(at.local.cached);
    for (int32_t i = 0; i < cached; i += static_cast<int32_t>(denizen::lanes::size)) {
        const auto left = static_cast<uint32_t>(cached - i);
        const uint32_t n = left < denizen::lanes::size ? left : denizen::lanes::size;
        const uint32_t lane = denizen::lanes::id();
        index_queue::push_many(at.s.free_joins, n,
                               lane < n ? at.local.cache[static_cast<uint32_t>(i) + lane] : 0);
    }
}

} // namespace denizen::task::joins
