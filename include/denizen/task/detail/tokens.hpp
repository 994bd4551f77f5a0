// SPDX-License-Identifier: Apache-2.0
// Tokens tell when a group of tasks has ended. A task that runs or may run has one token. A worker
// also keeps tokens for tasks that it may yet spawn (Local::pool). The group's word counts all of
// them.
//
// A token is added before its task becomes visible to others; the release that publishes the task
// orders the two. A token is taken off after its task's end. So the word is never too small, and 0
// means that no task of the group runs or can run at that moment.
//
// A worker reuses the tokens of finished tasks for its next spawns, and gives them back when it
// finds nothing to do. While it works, spawning and ending a task costs no atomic access.
#pragma once

#include <denizen/task/detail/station.hpp>

namespace denizen::task::tokens {

// One lane.
template <class P>
DENIZEN_HD inline void give_back_pool(const Station<P>& at)
{
    Local<P>& local = at.local;
    if (local.pool != 0) {
        // Release: what the tasks have done comes before; partner: the monitor's acquire. Never
        // below 0: these tokens have been added before.
        Group& group = at.s.groups[local.pool_group];
        add_global<Order::release>(&group.word, ~uint64_t{local.pool} + 1);
        at.wake_monitor_of(group);
        local.pool = 0;
    }
}

// All lanes.
template <class P>
DENIZEN_HD inline void give_back(const Station<P>& at)
{
    if (denizen::lanes::id() == 0) {
        give_back_pool(at);
    }
    denizen::lanes::sync();
}

// Called by one lane, for one group: `got` tokens have become free, and `needed` are needed.
template <class P>
DENIZEN_HD inline void account(const Station<P>& at, uint32_t group, uint32_t got, uint32_t needed)
{
    Local<P>& local = at.local;
    if (local.pool_group != group) {
        give_back_pool(at);
        local.pool_group = group;
    }
    uint32_t have = local.pool + got;
    if (have < needed) {
        // Fetches `needed` more than are missing, since the next batch will need about as many. The
        // addition comes before the tasks are published.
        const uint32_t more = 2 * needed - have;
        add_global(&at.s.groups[group].word, uint64_t{more});
        have += more;
    }
    local.pool = have - needed;
}

// Called by all lanes. Each lane with `mine` gives the numbers for the group of its own task.
template <class P>
DENIZEN_HD inline void account_all(const Station<P>& at, bool mine, uint32_t group, uint32_t got,
                                   uint32_t needed)
{
    uint32_t left = denizen::lanes::ballot(mine);
    while (left != 0) { // ends: each turn settles one group; nearly always there is one
        const uint32_t g = denizen::lanes::shuffle(group, denizen::lanes::first(left));
        const bool same = mine && group == g;
        left &= ~denizen::lanes::ballot(same);
        const uint32_t all_got = denizen::lanes::sum(same ? got : 0);
        const uint32_t all_needed = denizen::lanes::sum(same ? needed : 0);
        if (denizen::lanes::id() == 0) {
            account(at, g, all_got, all_needed);
        }
    }
    denizen::lanes::sync();
}

} // namespace denizen::task::tokens
