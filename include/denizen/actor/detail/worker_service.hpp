// SPDX-License-Identifier: Apache-2.0
// The worker's service: what it has taken from a ring is handled, side by side or by all lanes at
// once. Messages to one actor are handled in ring order; one whose actor has failed waits.
#pragma once

#include <denizen/actor/detail/whole.hpp>
#include <denizen/actor/detail/worker.hpp>

namespace denizen {

template <class P>
DENIZEN_HD inline void Worker<P>::with_all(uint32_t from, const Batch& batch)
{
    const uint32_t leader = lanes::first(lanes::ballot(batch.mine));
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
    entry = actors_[here ? place : 0];
    entry.kind = here ? entry.kind : 0;
    bool whole = false;
    if constexpr (P::has_warp_actors) {
        whole = entry.kind != 0 && P::grain(entry.type()) == Grain::warp;
    }
    // More than 0xff: it does not run, or others wait for it.
    return h.flags != 0 || h.length > first_payload || entry.kind > 0xff || whole;
}

template <class P>
DENIZEN_HD inline void Worker<P>::side_by_side(Batch& batch, ActorEntry& of, uint32_t& left)
{
    begin_turn();
    Words& words = batch.words; // of the message that is handled now, and `of` its actor
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
    detail::Handover next;
    uint32_t handed = 0; // messages that were handed over, and handled
    for (;;) {           // ends: r reaches every rank
        detail::Outcome out;
        if (turn) {
            // It may have failed since: then the message has to wait.
            waits = P::can_fail && r > 0 && actors_[Address{words.word[0]}.local()].kind != of.kind;
            if (!waits) {
                out = run(batch, words, of, next, left, handed);
            }
        }
        // An observed handler counts also if its time is 0.
        const bool rest = out.wrong != 0 || (observer_.on() && out.ran);
        if (lanes::ballot(rest || next.taken != 0 || handed != 0) != 0) {
            if (lanes::ballot(rest) != 0) {
                const Words its_words = words; // copies: what a call gets by reference lies in
                const Header header = words.header(); // local memory
                const ActorEntry its_entry = of;
                const detail::Outcome its = out;
                if (rest) {
                    detail::conclude<P>(s_, id_, its_entry, header, its_words.word + 3, its,
                                        observer_.on());
                }
                lanes::rejoin();
            }
            if constexpr (hands_over) {
                if (next.taken != 0) {
                    const Words late = next.words; // a copy, as above
                    detail::write_late(s_, id_, next.end - 1, late);
                }
                lanes::rejoin();
                const uint32_t sent = lanes::sum(handed + next.taken);
                handed = lanes::sum(handed);
                near_.advance_handed(sent, handed);
                handled_ += handed;
                left -= handed;
            }
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
        const Words its_words = words;        // copies: what a call gets by reference lies in local
        const Header header = words.header(); // memory
        detail::set_aside<P>(s_, id_, waits, header, its_words.word + 3);
        lanes::rejoin();
        if (waits) { // what was set aside has references of its own
            P::drop_buffers(s_, header.type, its_words.word + 3);
        }
    }
}

template <class P>
DENIZEN_HD inline detail::Outcome Worker<P>::run(const Batch& batch, Words& words, ActorEntry& of,
                                                 detail::Handover& next, uint32_t left,
                                                 uint32_t& handed)
{
    uint32_t here = detail::Handover::closed;
    if constexpr (hands_over) {
        if (left > 1 && !observer_.on()) {
            next.tail = near_.own_tail();
            next.end = cluster::load(next.tail);
            next.actors = actors_;
            here = near_.hands_over(batch, next.end, here);
            next.here = here;
        }
    }
    for (;;) { // ends: `handed` reaches `left` - 1
        Words mine = words;
        stay_here(mine);
        const detail::Outcome out =
            detail::run_handler<P>(s_, id_, marks_, of, mine.header(), mine.word + 3, false,
                                   observer_.on(), hands_over ? &next : nullptr);
        if (!hands_over || next.taken == 0 || out.wrong != 0 ||
            (P::has_warp_actors && P::grain(next.entry.type()) == Grain::warp) ||
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
