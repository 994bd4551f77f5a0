// SPDX-License-Identifier: Apache-2.0
// The worker's service: what it has taken from a ring is handled, side by side or by all lanes at
// once. Messages to one actor are handled in ring order; one whose actor has failed waits.
#pragma once

#include <denizen/actor/detail/whole.hpp>
#include <denizen/actor/detail/worker.hpp>

namespace denizen {

template <class P>
DENIZEN_HD inline void Worker<P>::with_all(uint32_t from, uint32_t leader, const Batch& batch)
{
    const Source ring = from == near    ? near_.ring_of(leader)
                        : from == local ? batch.ring
                                        : sources_.source(from);
    begin_turn();
    const uint32_t n = detail::serve_whole<P>( // slots consumed
        s_, id_, ring.slots, ring.near, ring.mask, ring.head, observer_.on(), actors_,
        s_.actors_per_worker, marks_.running, marks_.handled, detail::stage_offset(s_, id_),
        s_.stage_bytes);
    lanes::rejoin();
    blocked_ = n == 0;
    handled_ += blocked_ ? 0 : 1;
    if (from == near) {
        waiting_near_ |= n != 0 ? 0 : 1u << near_.number_of(leader);
        near_.advance_near(lanes::id() == leader ? n : 0);
    } else if (from == local) {
        near_.advance_local(n);
    } else {
        sources_.advance(from, n);
    }
}

template <class P>
DENIZEN_HD inline bool Worker<P>::alone(const Header& h, ActorEntry& entry) const
{
    const uint32_t place = Address{h.destination}.local();
    const bool here = place < s_.actors_per_worker;
    entry = load_entry(&actors_[here ? place : 0]);
    entry.kind = here ? entry.kind : 0;
    bool whole = false;
    if constexpr (P::has_whole_actors) {
        whole = entry.kind != 0 && P::grain(entry.type()) != Grain::thread;
    }
    // More than 0xff: it does not run, or others wait for it.
    return h.flags != 0 || h.length > first_payload || entry.kind > 0xff || whole;
}

template <class P>
DENIZEN_HD inline auto Worker<P>::row(uint32_t looks, uint32_t& left, Arrivals& arrivals,
                                      uint32_t& from, Batch& batch) -> Taken
{
    for (;;) { // ends: `left` counts down
        arrivals = look_around(looks);
        const uint32_t all = arrivals.near != 0 ? arrivals.near : arrivals.far;
        if (P::has_urgent || left == 0 || all == 0 || (all & (all - 1)) != 0 || arrivals.parked) {
            return Taken::nothing;
        }
        const uint32_t g = lanes::first(all);
        from = arrivals.near != 0 ? near : g;
        // Near ones go first so many times, as in pick().
        if (P::all_whole_actors && from == near && far_waited_ < max_wait && has_come(g)) {
            with_all(near, g, batch);
            if (blocked_) {
                ++far_waited_;
                return Taken::stuck;
            }
            --left;
            worked_ = true;
            continue;
        }
        ActorEntry entry;
        detail::Outcome out;
        detail::Handover next;
        uint32_t handed = 0; // messages that were handed over, and handled
        bool simple = false;
        bool plain = false;
        batch.n = 1;
        batch.mine = false;
        if (lanes::size == 1 || (all >> lanes::id() & 1) != 0) { // ring i is lane i's
            batch.mine = take_one(arrivals, left, batch, next);
            simple = batch.mine && !alone(batch.words.header(), entry);
            if (simple) {
                if ((turn_ & 1) == 0) { // begins; in all lanes below
                    store<Scope::gpu>(&status_.turn, turn_ + 1);
                }
                out = run(batch.words, entry, next, left, handed);
                plain = out.wrong == 0 && (next.taken | handed) == 0 && !observer_.on();
            }
        }
        if (lanes::ballot(plain) == 0) {
            if (lanes::ballot(simple) == 0) {
                if (takes_whole && lanes::ballot(batch.mine) != 0 &&
                    (from != near || far_waited_ < max_wait)) {
                    far_waited_ += from == near ? 1 : 0;
                    return Taken::for_all;
                }
                return Taken::nothing;
            }
            settle(batch, entry, out, next, handed, left);
        }
        if (P::has_buffers && batch.mine) {
            P::drop_buffers(s_, batch.words.header().type, batch.words.word + 3);
        }
        lanes::sync();
        turn_ |= 1;
        ++handled_;
        --left;
        worked_ = true;
        if (from == near) {
            near_.advance_near(batch.mine ? 1 : 0);
        } else {
            sources_.advance(from, 1);
        }
    }
}

template <class P>
DENIZEN_HD inline bool Worker<P>::has_come([[maybe_unused]] uint32_t g) const
{
#if DENIZEN_ON_DEVICE
    const cluster::Address slot = lanes::shuffle(near_.first_slot(), g);
    const uint32_t awaited = lanes::shuffle(near_.awaited(), g);
    const Packet p = cluster::load_packet(slot + lanes::id() % 4 * sizeof(Packet));
    return lanes::ballot(p.sequence != awaited) == 0;
#else
    return false; // a thread that looked would have read the message
#endif
}

template <class P>
DENIZEN_HD inline void Worker<P>::settle(const Batch& batch, const ActorEntry& of,
                                         const detail::Outcome& out, const detail::Handover& next,
                                         uint32_t handed, uint32_t& left)
{
    // An observed handler counts also if its time is 0.
    const bool rest = batch.mine && (out.wrong != 0 || observer_.on());
    if (lanes::ballot(rest) != 0) {
        conclude(rest, batch.words, of, out);
    }
    if (next.taken != 0) {
        const Words late = next.words; // a copy, as in conclude()
        detail::write_late(s_, id_, next.end - 1, late);
    }
    lanes::rejoin();
    const uint32_t sent = lanes::sum(handed + next.taken);
    handed = lanes::sum(handed);
    near_.advance_handed(sent, handed);
    handled_ += handed;
    left -= handed;
}

template <class P>
DENIZEN_HD inline void Worker<P>::conclude(bool rest, const Words& words, const ActorEntry& of,
                                           const detail::Outcome& out)
{
    const Words its_words = words; // copies: what a call gets by reference lies in local memory
    const Header header = words.header();
    const ActorEntry its_entry = of;
    const detail::Outcome its = out;
    if (rest) {
        detail::conclude<P>(s_, id_, its_entry, header, its_words.word + 3, its, observer_.on());
    }
    lanes::rejoin();
}

template <class P>
DENIZEN_HD inline void Worker<P>::side_by_side(Batch& batch, const ActorEntry& of)
{
    begin_turn();
    Words& words = batch.words;
    bool turn = batch.mine;
    bool todo = false;
    uint32_t rank = 0;
    if (batch.n > 1) { // lanes whose messages go to the same actor take turns, in ring order
        const uint32_t same = lanes::match(turn ? Address{words.word[0]}.local() : ~lanes::id());
        rank = lanes::popcount(same & lanes::below());
        todo = turn && rank != 0;
        turn = turn && rank == 0;
    }
    uint32_t r = 0;
    bool waits = false;
    for (;;) { // ends: r reaches every rank
        detail::Outcome out;
        if (turn) {
            // It may have failed since: then the message has to wait.
            waits = P::can_fail && r > 0 && actors_[Address{words.word[0]}.local()].kind != of.kind;
            if (!waits) {
                Words mine = words;
                stay_here(mine);
                out = detail::run_handler<P>(s_, id_, marks_, of, mine.header(), mine.word + 3,
                                             false, observer_.on());
            }
        }
        const bool rest = out.wrong != 0 || (observer_.on() && out.ran);
        if (lanes::ballot(rest) != 0) {
            conclude(rest, words, of, out);
        }
        if (P::has_buffers && turn && !waits) {
            P::drop_buffers(s_, words.header().type, words.word + 3);
        }
        if (batch.n == 1 || lanes::ballot(todo) == 0) {
            break;
        }
        ++r;
        turn = todo && rank == r;
        todo = todo && rank != r;
    }
    lanes::sync();
    if (P::can_fail && lanes::ballot(waits) != 0) {
        const Words its_words = words; // copies, as in conclude()
        const Header header = words.header();
        detail::set_aside<P>(s_, id_, waits, header, its_words.word + 3);
        lanes::rejoin();
        if (waits) { // what was set aside has references of its own
            P::drop_buffers(s_, header.type, its_words.word + 3);
        }
    }
}

template <class P>
DENIZEN_HD inline detail::Outcome Worker<P>::run(Words& words, ActorEntry& of,
                                                 detail::Handover& next, uint32_t left,
                                                 uint32_t& handed)
{
    const uint32_t here = next.here;
    for (;;) { // ends: `handed` reaches `left` - 1
        Words mine = words;
        stay_here(mine);
        const detail::Outcome out = detail::run_handler<P>(
            s_, id_, marks_, of, mine.header(), mine.word + 3, false, observer_.on(), &next);
        if (next.taken == 0 || out.wrong != 0 ||
            (P::has_whole_actors && P::grain(next.entry.type()) != Grain::thread) ||
            !next.entry.running()) {
            return out;
        }
        if constexpr (P::has_buffers) {
            P::drop_buffers(s_, words.header().type, words.word + 3);
        }
        words = next.words;
        of = next.entry;
        next.taken = 0;
        ++handed;
        next.here = handed + 1 < left ? here : detail::Handover::closed;
    }
}

template <class P>
DENIZEN_HD inline void Worker<P>::keep_room(Batch& batch) const
{
    const uint32_t room = detail::stash_room(s_, id_);
    const uint32_t most = room > 1 ? room : 1; // behind a single one there is none
    if (batch.n > most) {
        const uint32_t all = lanes::ballot(batch.mine);
        batch.mine = batch.mine && lanes::popcount(all & lanes::below()) < most;
        batch.n = most;
    }
}

} // namespace denizen
