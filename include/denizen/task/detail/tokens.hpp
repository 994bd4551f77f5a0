// SPDX-License-Identifier: Apache-2.0
// How it is known that a group of tasks has ended. Every task that may run or runs has a token, and
// so has what a worker may spawn without asking: a group's word counts all its tokens. They are
// added before the task becomes visible to others, by the release that publishes it, and taken off
// after its end: the word is never too small, and 0 means that nothing runs nor can run, at that
// very moment. A worker keeps the tokens of finished tasks for its next spawns (Local::pool) and
// gives them back when it finds nothing to do: while it works, neither costs an atomic access.
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

// One lane: the group has got so many and needs so many.
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
        // With some to spare: the next batch will need as many. Before the tasks are published.
        const uint32_t more = 2 * needed - have;
        add_global(&at.s.groups[group].word, uint64_t{more});
        have += more;
    }
    local.pool = have - needed;
}

// Lanes say for their groups how many tokens they have got and how many they need.
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
