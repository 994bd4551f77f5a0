// SPDX-License-Identifier: Apache-2.0
// The worker's choice: it looks at all of its rings, picks the one that a round serves, and takes
// from it one message, or as many as its lanes can handle side by side. Near rings go first, but
// not for ever; the host comes last, and never waits without end.
#pragma once

#include <denizen/actor/detail/worker.hpp>

namespace denizen {

template <class P>
DENIZEN_HD inline auto Worker<P>::look_around(uint32_t looks) -> Arrivals
{
    Arrivals arrivals;
    arrivals.parked = near_.parked();
    DENIZEN_ROLLED
    for (uint32_t n = looks; n != 0; --n) { // on a GPU two looks at what is near for one further
        arrivals.near = near_.poll();
        if (P::has_urgent || arrivals.near != 0) { // what is urgent pick() looks for
            break;
        }
#if DENIZEN_ON_DEVICE
        const uint32_t last = sources_.look();
        arrivals.near = near_.poll();
        if (arrivals.near != 0) {
            break;
        }
#else
        const uint32_t last = 0;
#endif
        arrivals.looked_far = true;
        arrivals.far = sources_.ready(last, n != looks);
        if (arrivals.far != 0) {
            break;
        }
    }
    return arrivals;
}

template <class P>
DENIZEN_HD inline bool Worker<P>::take_one(const Arrivals& arrivals, uint32_t left, Batch& batch,
                                           detail::Handover& next)
{
    const bool is_near = arrivals.near != 0;
    // The host's waits while there is other work; what has queued up is taken at once.
    const bool busy = (jammed_ | (worked_ ? 1u : 0u)) != 0;
    next.ways = near_.ways();
    next.tail = near_.own_tail();
    next.credit = near_.own_credit();
    next.end = cluster::load(next.tail);
    next.actors = actors_;
#if DENIZEN_ON_DEVICE
    const cluster::Address slot = is_near ? near_.first_slot() : sources_.first_slot();
    const uint32_t expected = is_near ? near_.awaited() : sources_.awaited();
    const bool whole = detail::read_slot(slot, expected, batch.words);
    const bool alone = is_near
                           ? near_.first_is_alone(next.end)
                           : !sources_.mine_was_ready() && !(lanes::id() == source_host && busy);
    const bool taken = whole && alone;
    const bool empty = true; // it came alone: no other ring has any, nor this one a second
#else
    const uint32_t g = lanes::first(arrivals.far);
    bool taken = false;
    if (is_near) {
        near_.take_near(arrivals.near, batch);
        taken = batch.mine;
    } else if (!sources_.was_ready(g) && !(g == source_host && busy)) {
        sources_.take_first(g, arrivals.far, batch);
        taken = true;
    }
    const bool empty = near_.nothing_else(batch, next.end);
#endif
    const bool open = empty && next.ways.count != 0 && left > 1 && !observer_.on();
    next.here = open ? next.ways.first + next.ways.own : detail::Handover::closed;
    return taken;
}

template <class P>
DENIZEN_HD inline uint32_t Worker<P>::pick(uint32_t& ready, Arrivals arrivals)
{
#if DENIZEN_ON_DEVICE
    // Each round: what it finds is what was there at the one before.
    if (!P::has_urgent && !arrivals.looked_far) {
        arrivals.looked_far = true;
        arrivals.far = sources_.ready(sources_.look(), false);
    }
#endif
    if (arrivals.looked_far && (arrivals.near | arrivals.far) == 0) {
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
    if constexpr (P::has_urgent) { // what is urgent goes before what is near
        far = sources_.ready(sources_.look(), false);
        if ((far & s_.urgent_sources) != 0) {
            ready = far;
            return lanes::first(far & s_.urgent_sources);
        }
        ready = ready != 0 ? ready : near_.poll(); // the look took a while
    }
    const uint32_t at_hand = (ready & ~own) != 0 ? near : ready != 0 ? local : nowhere;
    if (at_hand != nowhere && far_waited_ < max_wait) {
        ++far_waited_;
        local_rounds_ = 0;
        ready &= ~own;
        return at_hand;
    }
    if (!P::has_urgent && !arrivals.looked_far) {
        far = sources_.ready(sources_.look(), false);
    }
    far_waited_ = 0;
    local_rounds_ = 0;
    if (far == 0) {
        sources_.nothing_ready();
        ready &= ~own;
        return at_hand;
    }
    // Only while there is work: all idle workers reading one word would slow everybody's reads.
    if (worked_ && (far & 1u << source_host) != 0) {
        jammed_ = lanes::shuffle(load<Scope::gpu>(&s_.board->jammed), 0);
    }
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
