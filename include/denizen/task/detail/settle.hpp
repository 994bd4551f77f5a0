// SPDX-License-Identifier: Apache-2.0
// What a worker does after a batch, and with tasks that it cannot run now. Spawned tasks get their
// tokens, and then become visible to thieves. All lanes make these calls.
#pragma once

#include <denizen/task/context.hpp>
#include <denizen/task/detail/joins.hpp>
#include <denizen/task/detail/tokens.hpp>

namespace denizen::task {

namespace detail {

// Lets thieves take what the batch has written past the bottoms of the worker's deques.
template <class P>
DENIZEN_HD inline void publish(const Station<P>& at)
{
    Local<P>& local = at.local;
    for (uint32_t c = denizen::lanes::id(); c < P::classes; c += denizen::lanes::size) {
        uint64_t seen = local.seen[c];
        const uint32_t early = local.early[c];
        const uint32_t n = Context<P>::written_past(at.s, local, c) - early;
        if (n != 0) {
            deque::publish(&at.s.deques[at.id].word[c], seen, n);
        }
        local.seen[c] = seen + (static_cast<uint64_t>(early) << 32);
        local.fresh[c] = local.early[c] = 0;
    }
    if (denizen::lanes::id() == 0) {
        local.reported = 0;
    }
    denizen::lanes::sync();
    at.wake();
}

} // namespace detail

// Counts and publishes what the batch has spawned: `mine` has had a task, of which `ended` have
// ended on this lane.
template <class P>
DENIZEN_HD inline void settle(Station<P>& at, Context<P>& ctx, bool mine, uint32_t ended)
{
    const bool busy = denizen::lanes::ballot(ctx.busy()) != 0;
    if (busy) {
        ctx.close_crate();
        denizen::lanes::rejoin();
    }
    tokens::account_all(at, mine || ctx.spawned() != 0, ctx.group(), ended + ctx.tokens(),
                        busy ? ctx.spawned() : 0);
    at.done.add(Count::run, denizen::lanes::popcount(denizen::lanes::ballot(ended != 0)));
    at.done.add(Count::batches, 1);
    if (busy) {
        detail::publish(at);
        joins::recycle(at);
    }
}

// A task that has its token already, to where it can be found: settle() publishes it.
template <class P>
DENIZEN_HD inline void keep(Context<P>& ctx, const typename P::Words& words)
{
    while (ctx.keep(words) != Errc::ok) {
        // Ends: others empty crates. Only a program whose deques are all full gets here.
        relax();
    }
}

} // namespace denizen::task
