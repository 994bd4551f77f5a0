// SPDX-License-Identifier: Apache-2.0
// What a worker does between messages while the lives of its actors change. It tells supervisors of
// failures, gives supervisors' orders to children, and hands stashed messages to actors that run
// again. All lanes do one step at a time; WorkerState::chores counts the chores that are left.
#pragma once

#include <denizen/actor/detail/handle.hpp>
#include <denizen/actor/detail/outbox.hpp>

namespace denizen {

namespace detail {

inline constexpr uint32_t orders_per_step = 32;

// Release: partner of the monitor's acquire in check_quiet(). What the chore has sent has drawn its
// tickets before the program can be taken for quiet.
DENIZEN_HD inline void chore_done(WorkerState& worker_state)
{
    fetch_add<Scope::gpu, Order::release>(&worker_state.chores, ~0u);
}

template <class P>
DENIZEN_COLD void tell_failure(const Shared& s, uint32_t id, uint32_t local)
{
    ActorRecord& record = record_of(s, id, local);
    tell_watchers<P>(s, id, local);
    const Address above{record.supervisor};
    if (record.supervisor == nobody) {
        bury_stashed<P>(s, id, record, Reason::failed);
    } else if (above.node() == s.node && above.worker() == id) {
        child_failed<P>(s, id, above.local(), record.rank, record.failure, record.epoch);
    } else {
        send_system(s, id, SystemOp::failure, above, entry_of(s, id, local).self,
                    {above.local(), record.failure, record.rank, record.epoch});
    }
}

// The failures that nobody has been told of. One lane.
template <class P>
DENIZEN_COLD void tell_failures(const Shared& s, uint32_t id)
{
    WorkerState& worker_state = s.worker_states[id];
    while (worker_state.failed !=
           0) { // ends: each turn takes one, and only handlers and supervisors fail
        const uint32_t local = worker_state.failed - 1;
        ActorRecord& record = record_of(s, id, local);
        worker_state.failed = record.next_failed != last_failed ? record.next_failed : 0;
        record.next_failed = 0;
        if (life_of(record) == Life::failed) { // nobody has stopped or restarted it since
            tell_failure<P>(s, id, local);
        } else {
            vacate_place(s, id, local);
        }
        chore_done(worker_state);
    }
}

// The orders of the first supervisor that has any. One lane.
template <class P>
DENIZEN_COLD void give_orders(const Shared& s, uint32_t id)
{
    WorkerState& worker_state = s.worker_states[id];
    if (worker_state.sweeping == 0) {
        return;
    }
    const uint32_t local = worker_state.sweeping - 1;
    auto& sup = *static_cast<Supervisor*>(entry_of(s, id, local).state);
    for (uint32_t i = 0; i < orders_per_step && sup.next < sup.end; ++i) {
        order_child<P>(s, id, local, sup.next++, static_cast<SystemOp>(sup.order));
    }
    if (sup.next >= sup.end) {
        // A child that is a supervisor itself is now first in the list, if it is on this worker.
        for (uint32_t* at = &worker_state.sweeping; *at != 0;) { // ends at this supervisor
            auto& other = *static_cast<Supervisor*>(entry_of(s, id, *at - 1).state);
            if (*at == local + 1) {
                *at = other.link;
                break;
            }
            at = &other.link;
        }
        sup.listed = 0;
        chore_done(worker_state);
    }
}

// One message that waited for each of up to 32 actors that run again, side by side; an actor whose
// message needs the whole warp when it is the first in the list.
template <class P>
DENIZEN_COLD void catch_up(const Shared& s, uint32_t id, bool observed)
{
    WorkerState& worker_state = s.worker_states[id];
    if (worker_state.ready_first == 0) {
        return;
    }
    StashSlot* slots = stash_of(s, id);
    uint32_t next = worker_state.ready_first; // 1 + local of this lane's actor
    DENIZEN_ROLLED
    for (uint32_t k = 0; k < lanes::id() && next != 0; ++k) {
        next = record_of(s, id, next - 1).next_ready;
    }
    const uint32_t local = next - 1;
    bool todo = false;
    bool alone = false;
    ActorEntry entry;
    Header h;
    if (next != 0) {
        const ActorRecord& record = record_of(s, id, local);
        entry = entry_of(s, id, local);
        todo = record.stashed != 0 &&
               (life_of(record) == Life::catching_up || life_of(record) == Life::draining);
        if (todo) {
            h = stashed_header(slots[record.first_stashed - 1]);
            alone = h.length > first_payload || P::grain(entry.type()) != Grain::thread;
        }
    }
    // As far as the first that needs the warp: that one is next then.
    const uint32_t before = lanes::first(lanes::ballot(alone));
    const uint32_t listed = lanes::popcount(lanes::ballot(next != 0));
    // No more than may park a message each.
    const uint32_t most = s.outbox_capacity < 4 ? 1 : s.outbox_capacity / 4;
    const uint32_t few = listed < most ? listed : most;
    const uint32_t n = before == 0 ? 1 : before < few ? before : few;
    todo = todo && lanes::id() < n;
    bool whole = false;
    const void* payload = nullptr;
    if (before == 0) {
        const uint32_t only = lanes::shuffle(local, 0);
        entry = entry_of(s, id, only);
        const uint32_t first = record_of(s, id, only).first_stashed - 1;
        h = stashed_header(slots[first]);
        whole = P::grain(entry.type()) != Grain::thread;
        payload = slots[first].word + 3;
        if (h.length > first_payload) {
            unsigned char* scratch = s.scratch + static_cast<uint64_t>(id) * s.scratch_bytes;
            if (lanes::id() == 0) {
                stashed_payload(slots, first, scratch);
            }
            payload = scratch;
            lanes::sync();
        }
    } else if (todo) {
        payload = slots[record_of(s, id, local).first_stashed - 1].word + 3;
    }
    if (whole || todo) {
        handle_any<P>(s, id, entry, h, payload, whole, observed);
    }
    lanes::rejoin();
    // One lane after the other: frees the message, and puts the actor at the list's end if there
    // are more of them. Lane l's actor is the first of the list when its turn comes.
    DENIZEN_ROLLED
    for (uint32_t l = 0; l < n; ++l) {
        if (lanes::id() == l) {
            ActorRecord& record = record_of(s, id, local);
            if (todo) {
                drop_stashed<P>(s, id, record.first_stashed - 1);
                release_stashed(s, id, record);
            }
            worker_state.ready_first = record.next_ready;
            worker_state.ready_last = worker_state.ready_first == 0 ? 0 : worker_state.ready_last;
            record.next_ready = 0;
            const bool runs =
                life_of(record) == Life::catching_up || life_of(record) == Life::draining;
            if (runs && record.stashed != 0) {
                (worker_state.ready_last == 0
                     ? worker_state.ready_first
                     : record_of(s, id, worker_state.ready_last - 1).next_ready) = next;
                worker_state.ready_last = next;
            } else {
                record.listed = 0;
                if (life_of(record) == Life::catching_up) {
                    set_life(s, id, local, Life::running);
                } else if (runs && record.ending != 0) {
                    end_life<P>(s, id, local);
                } else {
                    vacate_place(s, id, local); // if it has stopped meanwhile
                }
                chore_done(worker_state);
            }
        }
        lanes::rejoin();
    }
}

} // namespace detail

// A step of what there is to do. Called when WorkerState::chores is not 0.
template <class P>
DENIZEN_COLD void do_chores(const Shared& s, uint32_t id, bool observed)
{
    if (lanes::id() == 0) {
        detail::tell_failures<P>(s, id);
        detail::give_orders<P>(s, id);
    }
    lanes::rejoin();
    detail::catch_up<P>(s, id, observed);
}

namespace detail {

DENIZEN_HD inline bool has_chores(const Shared& s, uint32_t id)
{
    return lanes::shuffle(load<Scope::block>(&s.worker_states[id].chores), 0) != 0;
}

// At the end of a round with chores or parked messages. `turn`: as told, and even. One call, with
// what it needs in registers: nothing of the worker's lives across more than this.
template <class P>
DENIZEN_COLD uint32_t do_what_is_rare(const Shared& s, uint32_t id, uint32_t turn, bool worked,
                                      uint32_t unflushed, bool observed)
{
    uint32_t done = 0;
    bool chores = has_chores(s, id);
    // Messages that waited send like all others: they keep half of the outbox free, unless nothing
    // else moves.
    if (chores && !(worked && parked(s, id) > s.outbox_capacity / 2)) {
        if (lanes::id() == 0) {
            store<Scope::gpu>(&s.status[id].turn, turn + 1);
        }
        lanes::sync();
        do_chores<P>(s, id, observed);
        lanes::rejoin();
        if (lanes::id() == 0) {
            // Release on the host: partner of the acquire in Backend::read().
            store<Scope::gpu, host_release>(&s.status[id].turn, turn + 2);
        }
        worked = true;
        done = rare_turn;
        chores = has_chores(s, id);
    }
    const uint32_t seen = see_to_outbox(s, id, worked, unflushed);
    lanes::rejoin();
    return done | (worked ? rare_worked : 0) | (chores ? rare_chores : 0) | seen;
}

} // namespace detail

} // namespace denizen
