// SPDX-License-Identifier: Apache-2.0
// How an actor's life changes: it runs, fails, ends or begins again, and those who watch it are
// told. Called by one lane of the actor's worker, not while a handler of that actor runs (fail()
// excepted, at its end).
#pragma once

#include <denizen/actor/detail/spawn.hpp>
#include <denizen/actor/detail/stash.hpp>
#include <denizen/actor/detail/system.hpp>
#include <denizen/actor/detail/timers.hpp>
#include <denizen/actor/detail/topics.hpp>
#include <denizen/actor/program.hpp>
#include <denizen/actor/supervisor.hpp>

namespace denizen {

namespace detail {

DENIZEN_HD inline bool is_away(uint32_t life)
{
    return life != static_cast<uint32_t>(Life::running) &&
           life != static_cast<uint32_t>(Life::stopped) &&
           life != static_cast<uint32_t>(Life::moved); // its messages go on at once
}

DENIZEN_HD inline Life life_of(const ActorRecord& record) { return static_cast<Life>(record.life); }

// As others are told: that messages which waited go first is between an actor and its worker.
DENIZEN_HD inline uint32_t life_told(const ActorRecord& record)
{
    const Life life = life_of(record);
    return static_cast<uint32_t>(life == Life::catching_up ? Life::running : life);
}

DENIZEN_COLD inline void set_life(const Shared& s, uint32_t id, uint32_t local, Life life)
{
    ActorEntry& entry = entry_of(s, id, local);
    ActorRecord& record = record_of(s, id, local);
    const auto number = static_cast<uint32_t>(life);
    const uint32_t away = is_away(number) - static_cast<uint32_t>(is_away(record.life));
    if (away != 0) {
        fetch_add<Scope::block>(&s.worker_states[id].away,
                                away); // other lanes' actors may be failing too
    }
    record.life = number;
    // Senders look at it too: Context::policy_of().
    store<Scope::gpu>(&entry.kind, life == Life::stopped ? 0 : (entry.kind & 0xff) | number << 8);
}

// Gives back the buffers that a message which waited refers to.
template <class P>
DENIZEN_COLD void drop_stashed(const Shared& s, uint32_t id, uint32_t first)
{
    if constexpr (P::has_buffers) {
        const StashSlot* slots = stash_of(s, id);
        const Header h = stashed_header(slots[first]);
        // The second scratch: the first may hold the message that is being delivered.
        unsigned char* scratch =
            s.scratch + (static_cast<uint64_t>(s.workers) + id) * s.scratch_bytes;
        if ((h.flags & flag_system) == 0) {
            P::drop_buffers(s, h.type, stashed_payload(slots, first, scratch));
        }
    }
}

// Whatever waits for the actor becomes dead letters.
template <class P>
DENIZEN_COLD void bury_stashed(const Shared& s, uint32_t id, ActorRecord& record, Reason reason)
{
    const StashSlot* slots = stash_of(s, id);
    while (record.stashed != 0) { // ends: each turn takes one
        const uint32_t first = record.first_stashed - 1;
        const Header h = stashed_header(slots[first]);
        if ((h.flags & flag_system) == 0) { // an order to an actor that moved: there is nobody
            bury(s, id, reason, record.failure, h, slots[first].word + 3);
        }
        drop_stashed<P>(s, id, first);
        release_stashed(s, id, record);
    }
}

// One more chore; the worker's loop is told, by the flag that it looks at anyway.
DENIZEN_HD inline void begin_chore(const Shared& s, uint32_t id)
{
    fetch_add<Scope::block>(&s.worker_states[id].chores, 1u);
    cluster::store_own(box::parked(own_box(s, id)), 1);
}

// The actor runs; what waits for it goes first.
DENIZEN_COLD inline void run(const Shared& s, uint32_t id, uint32_t local)
{
    ActorRecord& record = record_of(s, id, local);
    WorkerState& worker_state = s.worker_states[id];
    if (record.stashed == 0) {
        set_life(s, id, local, Life::running);
        return;
    }
    set_life(s, id, local, Life::catching_up);
    if (record.listed == 0) {
        record.listed = 1;
        record.next_ready = 0;
        (worker_state.ready_last == 0 ? worker_state.ready_first
                                      : record_of(s, id, worker_state.ready_last - 1).next_ready) =
            local + 1;
        worker_state.ready_last = local + 1;
        begin_chore(s, id);
    }
}

// The actor has failed. Nobody is told yet: this may be one of many lanes, in the middle of a
// batch.
DENIZEN_COLD inline void fail(const Shared& s, uint32_t id, uint32_t local, uint32_t code)
{
    ActorRecord& record = record_of(s, id, local);
    WorkerState& worker_state = s.worker_states[id];
    record.failure = code;
    set_life(s, id, local, Life::failed);
    if (record.next_failed != 0) {
        return; // an order restarted it before anybody was told of the last time
    }
    uint32_t first = load<Scope::block>(&worker_state.failed);
    do { // ends: another lane's success is the only reason to go round again
        record.next_failed = first != 0 ? first : last_failed;
    } while (!compare_exchange<Scope::block>(&worker_state.failed, first, local + 1));
    begin_chore(s, id);
}

template <class P>
DENIZEN_COLD void send_down(const Shared& s, uint32_t id, uint32_t to, uint32_t self, Down down)
{
    if (s.far.hosts != 0) {
        down.actor = far_form(s.far, down.actor);
    }
    post_raw(s, id, {to, self, P::template message_id<Down>, 0, sizeof down}, &down,
             Priority::data);
}

template <class P>
DENIZEN_COLD void tell_watchers(const Shared& s, uint32_t id, uint32_t local)
{
    if constexpr (P::template message_id<Down> != no_type) {
        const ActorRecord& record = record_of(s, id, local);
        const uint32_t self = entry_of(s, id, local).self;
        const WatchEntry* table = s.watchers + static_cast<uint64_t>(id) * s.watch_slots;
        const Down down{self, life_told(record), record.failure, record.incarnation};
        if (self != Address::actor(id, local, s.node).value) { // they are known where it was born
            send_system(
                s, id, SystemOp::tell, Address{self}, self,
                {Address{self}.local(), life_told(record), record.failure, record.incarnation});
            return;
        }
        for (uint32_t i = record.watchers; i != 0; i = table[i - 1].next) {
            send_down<P>(s, id, table[i - 1].address, self, down);
        }
    }
}

// A supervisor begins to give an order to the children from `first` on. The newest order stands: a
// child that has had an older one gets this one too.
DENIZEN_COLD inline void begin_orders(const Shared& s, uint32_t id, uint32_t local, SystemOp order,
                                      uint32_t first)
{
    auto& sup = *static_cast<Supervisor*>(entry_of(s, id, local).state);
    WorkerState& worker_state = s.worker_states[id];
    const bool same = sup.next < sup.end && sup.order == static_cast<uint32_t>(order);
    sup.order = static_cast<uint32_t>(order);
    sup.next = same && sup.next < first ? sup.next : first;
    sup.end = sup.children;
    if (sup.listed == 0) {
        sup.listed = 1;
        sup.link = worker_state.sweeping;
        worker_state.sweeping = local + 1;
        begin_chore(s, id);
    }
}

template <class P>
DENIZEN_COLD void end_life(const Shared& s, uint32_t id, uint32_t local)
{
    ActorRecord& record = record_of(s, id, local);
    const bool supervisor = entry_of(s, id, local).type() == supervisor_type;
    set_life(s, id, local, Life::stopped);
    bury_stashed<P>(s, id, record, Reason::stopped);
    tell_watchers<P>(s, id, local);
    remove_watchers(s, id, record, 0, true);
    forget_subscriber(s, id, entry_of(s, id, local).self);
    cancel_timers(s, id, entry_of(s, id, local).self);
    if (supervisor) {
        begin_orders(s, id, local, SystemOp::stop, 0);
    }
    if (record.ending != 0) {
        acknowledge(s, record.ending, SystemOp::drain);
        record.ending = 0;
    }
    vacate_place(s, id, local);
}

// The actor's state begins again. What it wanted to send later was the old one's.
template <class P>
DENIZEN_HD void renew(const Shared& s, uint32_t id, const ActorEntry& entry)
{
    cancel_timers(s, id, entry.self);
    if (!P::restore(entry.type(), entry.state)) {
        P::construct(entry.type(), entry.state);
    }
}

template <class P>
DENIZEN_COLD void restart(const Shared& s, uint32_t id, uint32_t local)
{
    const ActorEntry entry = entry_of(s, id, local);
    ActorRecord& record = record_of(s, id, local);
    ++record.incarnation;
    if (entry.type() == supervisor_type) {
        static_cast<Supervisor*>(entry.state)->restarts = 0;
        set_life(s, id, local, Life::running);
        begin_orders(s, id, local, SystemOp::restart, 0);
    } else {
        renew<P>(s, id, entry);
        run(s, id, local);
    }
    tell_watchers<P>(s, id, local);
}

} // namespace detail

} // namespace denizen
