// SPDX-License-Identifier: Apache-2.0
// The worker's choice: it looks at all of its rings, picks the one that a round serves, and takes
// from it one message, or as many as its lanes can handle side by side. Near rings go first, but
// not for ever; the host comes last, and never waits without end.
#pragma once

#include <denizen/actor/detail/worker.hpp>

namespace denizen {

template <class P>
DENIZEN_HD inline auto Worker<P>::look_around() -> Arrivals
{
    Arrivals arrivals;
    arrivals.parked = near_.parked();
    arrivals.near = near_.poll();
    if (!P::has_urgent && arrivals.near == 0) {
        arrivals.probed = true;
        sources_.probe();
#if DENIZEN_ON_DEVICE
        for (uint32_t i = 0; i < 6 && arrivals.near == 0; ++i) { // the probe takes as long
            arrivals.near = near_.poll();
        }
#endif
        arrivals.far = arrivals.near == 0 ? sources_.ready() : 0;
    }
    return arrivals;
}

template <class P>
DENIZEN_HD inline auto Worker<P>::take_one(const Arrivals& arrivals, uint32_t& from, Batch& batch,
                                           ActorEntry& entry) -> Taken
{
    const uint32_t all = arrivals.near | arrivals.far; // one of them is 0
    if (all == 0 || (all & (all - 1)) != 0 || arrivals.parked) {
        return Taken::nothing;
    }
    if (arrivals.near != 0) {
        from = near;
        near_.take_one(arrivals.near, batch);
    } else {
        from = lanes::first(arrivals.far);
        const uint32_t busy = jammed_ | (worked_ ? 1u : 0u);
        const uint32_t waits = from == source_host ? busy : 0;
        const uint32_t queued = sources_.was_ready(from) ? 1 : 0;
        if ((waits | queued) != 0) { // one branch
            return Taken::nothing;
        }
        sources_.take_first(from, arrivals.far, batch);
    }
    const bool needs_all = alone(batch.words.header(), entry);
    if (lanes::ballot(batch.mine && !needs_all) != 0) {
        return Taken::side_by_side;
    }
    if constexpr (takes_whole) {
        // Near ones go first so many times, as in pick().
        if (lanes::ballot(batch.mine) != 0 && (from != near || far_waited_ < max_wait)) {
            far_waited_ += from == near ? 1 : 0;
            return Taken::for_all;
        }
    }
    if (from != near) {
        sources_.nothing_ready(); // nothing has been taken there
    }
    return Taken::nothing;
}

template <class P>
DENIZEN_HD inline uint32_t Worker<P>::pick(uint32_t& ready, const Arrivals& arrivals)
{
    if (arrivals.probed && (arrivals.near | arrivals.far) == 0) {
        sources_.nothing_ready();
        far_waited_ = local_rounds_ = 0;
        return nowhere;
    }
    const uint32_t own = 1u << near_.own();
    // What the worker sends itself is served without a look at global memory, but not for ever.
    if (!P::has_urgent && (ready & own) != 0 && local_rounds_ < max_local_rounds) {
        ++local_rounds_;
        return local;
    }
    uint32_t far = arrivals.far;
    if (!arrivals.probed) {
        sources_.probe();
    }
    if constexpr (P::has_urgent) { // what is urgent goes before what is near
        far = sources_.ready();
        if ((far & s_.urgent_sources) != 0) {
            ready = far;
            return lanes::first(far & s_.urgent_sources);
        }
        ready = ready != 0 ? ready : near_.poll(); // the probe took a while
    }
    const uint32_t at_hand = (ready & ~own) != 0 ? near : ready != 0 ? local : nowhere;
    if (at_hand != nowhere && far_waited_ < max_wait) {
        ++far_waited_;
        local_rounds_ = 0;
        ready &= ~own;
        return at_hand;
    }
    // Only while there is work: all idle workers reading one word would slow everybody's reads.
    const uint32_t jammed = worked_ ? load<Scope::gpu>(&s_.board->jammed) : jammed_;
    if (!P::has_urgent && (!arrivals.probed || ready != 0)) {
        far = sources_.ready();
    }
    far_waited_ = 0;
    local_rounds_ = 0;
    if (far == 0) {
        sources_.nothing_ready();
        ready &= ~own;
        return at_hand;
    }
    jammed_ = lanes::shuffle(jammed, 0);
    const uint32_t g = choose(far);
    if (g == nowhere) {
        ready &= ~own;
        return at_hand;
    }
    ready = far;
    return g;
}

template <class P>
DENIZEN_HD inline uint32_t Worker<P>::choose(uint32_t ready)
{
    constexpr uint32_t lane = 1u << source_host;
    if ((ready & s_.urgent_sources) != 0) {
        return lanes::first(ready & s_.urgent_sources);
    }
    const uint32_t inside = ready & ~lane;
    if ((ready & lane) != 0 && (inside == 0 || host_waited_ >= max_wait) &&
        (jammed_ == 0 || let_in())) {
        host_waited_ = 0;
        return source_host;
    }
    ++host_waited_;
    if (inside == 0) {
        return nowhere;
    }
    // The node's ring and the peers' in turn.
    const uint32_t later = inside & ~((2u << last_inside_) - 1);
    last_inside_ = lanes::first(later != 0 ? later : inside);
    return last_inside_;
}

template <class P>
DENIZEN_HD inline bool Worker<P>::let_in()
{
    looked_at_jam_ = detail::look_at_jam(s_, looked_at_jam_);
    lanes::rejoin();
    if ((looked_at_jam_ & 1) == 0) {
        return false;
    }
    sources_.nothing_ready(); // one message, and not all that have queued up
    return true;
}

template <class P>
DENIZEN_HD inline auto Worker<P>::take(uint32_t from, uint32_t ready, Batch& batch,
                                       ActorEntry& entry) -> Taken
{
    if (from == near) {
        // A ring whose first message has to wait where it is lets the others go first.
        const uint32_t others = ready & ~waiting_near_;
        waiting_near_ = others == 0 ? 0 : waiting_near_;
        near_.take_near(others != 0 ? others : ready, batch);
    } else if (from == local) {
        near_.take_local(batch);
    } else {
        sources_.take(from, ready, batch);
    }
    if (batch.n == 0) {
        blocked_ = true;
        return Taken::nothing;
    }
    const bool needs_all = alone(batch.words.header(), entry);
    const uint32_t alones = lanes::ballot(needs_all && batch.mine);
    const uint32_t leader = lanes::first(alones);
    if (alones != 0 && (leader == 0 || batch.n == 1 || from == near)) {
        batch.mine = lanes::id() == leader;
        return Taken::for_all;
    }
    if (alones != 0) { // in ring order, up to the one that needs all lanes
        batch.n = leader;
        batch.mine = lanes::id() < leader;
    }
    if (P::can_fail && batch.n > 1) {
        keep_room(batch);
    }
    return Taken::side_by_side;
}

} // namespace denizen
