// SPDX-License-Identifier: Apache-2.0
// The lives of a worker's actors: what stop, pause, restart and their like do, what becomes of an
// actor that fails, and what its supervisor decides. Called by one lane of the actor's worker, not
// while a handler of that actor runs (fail() excepted, at its end).
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
DENIZEN_COLD void send_down(const Shared& s, uint32_t id, uint32_t to, uint32_t self,
                            const Down& down)
{
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

// Whether a restart changes an actor's state and the number of its life, and nothing else: it runs,
// is no supervisor, and nobody is to be told. (Who watches a guest is known at its home.)
DENIZEN_HD inline bool restarts_quietly(const Shared& s, uint32_t id, uint32_t local,
                                        const ActorEntry& entry, const ActorRecord& record)
{
    return entry.running() & (entry.type() != supervisor_type) & (record.watchers == 0) &
           (entry.self == Address::actor(id, local, s.node).value);
}

// A supervisor's order to a child that has stopped, whose place another has that was spawned by a
// handler: it is none of that one's.
DENIZEN_HD inline bool for_predecessor(const Shared& s, uint32_t id, const LifeRequest& r,
                                       uint32_t sender)
{
    return r.epoch != 0 && r.local < s.spawn_room && record_of(s, id, r.local).supervisor != sender;
}

// The order to do that; false, and nothing is done, if it is not as simple.
template <class P>
DENIZEN_HD bool restart_quietly(const Shared& s, uint32_t id, uint32_t sender, const LifeRequest& r)
{
    if (r.local >= s.actors_per_worker || for_predecessor(s, id, r, sender)) {
        return false;
    }
    const ActorEntry entry = entry_of(s, id, r.local);
    ActorRecord& record = record_of(s, id, r.local);
    const ActorRecord was = record;
    if (!restarts_quietly(s, id, r.local, entry, was)) {
        return false;
    }
    record.epoch = r.epoch != 0 ? r.epoch : was.epoch;
    record.incarnation = was.incarnation + 1;
    renew<P>(s, id, entry);
    return true;
}

// What would come of the failure of an actor that runs, without the chores in between, where its
// supervisor is on this worker and does no more than restart it, and nobody is told: the lanes
// whose actors have failed do this side by side. A budget is their supervisor's, and not a lane's
// to spend: only an unlimited one will do. False, and nothing is done, if it is not as simple as
// that. What lies together is read side by side and judged once, by &: the rest of the batch would
// wait for one word after the other.
template <class P>
DENIZEN_COLD bool restart_at_once(const Shared& s, uint32_t id, uint32_t local,
                                  const ActorEntry& entry, uint32_t code)
{
    ActorRecord& record = record_of(s, id, local);
    const ActorRecord was = record;
    const Address above{was.supervisor};
    const bool beside = (above.node() == s.node) & (above.worker() == id);
    if (!((was.supervisor != nobody) & beside & (life_of(was) == Life::running) &
          restarts_quietly(s, id, local, entry, was))) {
        return false;
    }
    const ActorEntry of_supervisor = entry_of(s, id, above.local());
    if (!((of_supervisor.type() == supervisor_type) & of_supervisor.running())) {
        return false;
    }
    auto& sup = *static_cast<Supervisor*>(of_supervisor.state);
    if (!((sup.strategy == static_cast<uint32_t>(Strategy::one_for_one)) &
          (sup.max_restarts == unlimited_restarts) & (sup.listed == 0) &
          (was.rank < sup.children))) {
        return false;
    }
    Child& child = sup.child()[was.rank]; // no other lane's
    const uint32_t epoch = child.epoch + 1;
    if (was.epoch + 1 != epoch) {
        return false;
    }
    child.epoch = record.epoch = epoch;
    record.failure = code;
    record.incarnation = was.incarnation + 1;
    renew<P>(s, id, entry);
    return true;
}

// A drain asks each worker in turn for an echo, which comes the way of that worker's messages to
// this actor and behind them: when the last one is here, all that was sent before has been handled.
// (What the host had sent came before the request itself.) `worker`: of all nodes'.
DENIZEN_COLD inline void drain_further(const Shared& s, uint32_t id, uint32_t self, uint32_t sender,
                                       uint32_t worker)
{
    const Address to = Address::actor(worker % s.workers, 0, worker / s.workers);
    send_system(s, id, SystemOp::bounce, to, sender, {Address{self}.local(), worker, self, 0});
}

DENIZEN_COLD inline LifeReport report_of(const ActorRecord& record, Errc error)
{
    return {static_cast<uint32_t>(error),
            life_told(record),
            record.incarnation,
            record.failure,
            record.stashed,
            record.supervisor};
}

// Does what `op` says; Errc::ok if that could be done in the state the actor is in. `no_answer`
// becomes true if the answer comes later.
template <class P>
DENIZEN_COLD Errc apply(const Shared& s, uint32_t id, SystemOp op, uint32_t sender,
                        const LifeRequest& r, bool& no_answer)
{
    if (r.local >= s.actors_per_worker || record_of(s, id, r.local).incarnation == 0) {
        return Errc::no_actor;
    }
    const ActorEntry entry = entry_of(s, id, r.local);
    ActorRecord& record = record_of(s, id, r.local);
    const bool supervisor = entry.type() == supervisor_type;
    const Life life = life_of(record);
    if (for_predecessor(s, id, r, sender)) {
        return Errc::no_actor;
    }
    if (r.epoch != 0) {
        record.epoch = r.epoch;
    }
    switch (op) { // what goes for actors that have stopped
    case SystemOp::look: return Errc::ok;
    case SystemOp::watch:
        if (life == Life::stopped) {
            if constexpr (P::template message_id<Down> != no_type) {
                send_down<P>(s, id, r.value, entry.self,
                             {entry.self, record.life, record.failure, record.incarnation});
            }
            return Errc::ok;
        }
        if (!add_watcher(s, id, record, r.value)) {
            report_error(s, {static_cast<uint32_t>(Errc::exhausted), id, entry.self,
                             watch_table_full, r.value});
            return Errc::exhausted;
        }
        return Errc::ok;
    case SystemOp::unwatch: remove_watchers(s, id, record, r.value, false); return Errc::ok;
    default: break;
    }
    if (life == Life::stopped) {
        return Errc::no_actor;
    }
    switch (op) {
    case SystemOp::stop: end_life<P>(s, id, r.local); return Errc::ok;
    case SystemOp::pause:
    case SystemOp::resume:
        if (supervisor) {
            begin_orders(s, id, r.local, op, 0);
        }
        if (op == SystemOp::pause) {
            if (life == Life::failed) {
                return Errc::failed;
            }
            if (life == Life::draining) {
                return Errc::bad_argument;
            }
            if (!supervisor) {
                set_life(s, id, r.local, Life::paused);
            }
        } else if (supervisor) {
            set_life(s, id, r.local, Life::running);
        } else if (life == Life::paused || life == Life::created || life == Life::failed) {
            run(s, id, r.local);
        }
        return Errc::ok;
    case SystemOp::restart: restart<P>(s, id, r.local); return Errc::ok;
    case SystemOp::suspend:
        if (supervisor) {
            begin_orders(s, id, r.local, op, 0);
        }
        record.failure = failed_above;
        set_life(s, id, r.local, Life::failed);
        return Errc::ok;
    case SystemOp::drain:
        if (supervisor || (life != Life::running && life != Life::catching_up)) {
            return life == Life::failed ? Errc::failed : Errc::bad_argument;
        }
        set_life(s, id, r.local, Life::draining);
        drain_further(s, id, entry.self, sender, 0);
        no_answer = true;
        return Errc::ok;
    case SystemOp::drained:
        if (r.value + 1 < s.workers * s.nodes) {
            drain_further(s, id, entry.self, sender, r.value + 1);
            no_answer = true;
            return Errc::ok;
        }
        record.ending = Address{sender}.is_reply_cell() ? sender : 1; // 1: nobody waits for it
        if (record.stashed == 0 || life == Life::failed) {
            end_life<P>(s, id, r.local);
        } else {
            set_life(s, id, r.local, Life::draining); // ends when the last of them is handled
        }
        no_answer = true;
        return Errc::ok;
    case SystemOp::checkpoint:
        return P::checkpoint(entry.type(), entry.state) ? Errc::ok : Errc::bad_argument;
    case SystemOp::attach:
        if (r.value != nobody && record.supervisor != nobody) {
            return Errc::bad_argument;
        }
        record.supervisor = r.value;
        record.rank = r.rank;
        record.epoch = 0;
        if (life == Life::failed && r.value != nobody) { // it comes too late to be told by chores
            send_system(s, id, SystemOp::failure, Address{r.value}, entry.self,
                        {Address{r.value}.local(), record.failure, r.rank, 0});
        }
        return Errc::ok;
    default: return Errc::bad_argument;
    }
}

// One order of a supervisor to one of its children.
template <class P>
DENIZEN_COLD void order_child(const Shared& s, uint32_t id, uint32_t local, uint32_t rank,
                              SystemOp op)
{
    const ActorEntry& entry = entry_of(s, id, local);
    Child& child = static_cast<Supervisor*>(entry.state)->child()[rank];
    const Address to{child.address};
    const LifeRequest request{to.local(), 0, rank, ++child.epoch};
    if (to.node() == s.node && to.worker() == id) {
        bool later = false;
        apply<P>(s, id, op, entry.self, request, later);
    } else {
        send_system(s, id, op, to, entry.self, request);
    }
}

// A supervisor that cannot go on: its own supervisor decides, or else its children stop.
template <class P>
DENIZEN_COLD void escalate(const Shared& s, uint32_t id, uint32_t local, uint32_t child,
                           uint32_t code)
{
    const ActorRecord& record = record_of(s, id, local);
    const bool above = record.supervisor != nobody;
    begin_orders(s, id, local, above ? SystemOp::suspend : SystemOp::stop, 0);
    if (!above) {
        report_error(s, {static_cast<uint32_t>(Errc::failed), id, child, supervisor_gave_up, code});
    }
    fail(s, id, local, code);
}

// A child of supervisor `local` has failed.
template <class P>
DENIZEN_COLD void child_failed(const Shared& s, uint32_t id, uint32_t local, uint32_t rank,
                               uint32_t code, uint32_t epoch)
{
    const ActorEntry& entry = entry_of(s, id, local);
    if (entry.type() != supervisor_type || life_of(record_of(s, id, local)) != Life::running) {
        return; // it stops, or is suspended, and its children with it
    }
    auto& sup = *static_cast<Supervisor*>(entry.state);
    if (rank >= sup.children || sup.child()[rank].epoch != epoch) {
        return; // late: it has had an order since
    }
    if (sup.listed != 0 && sup.order == static_cast<uint32_t>(SystemOp::restart) &&
        sup.next <= rank && rank < sup.end) {
        return; // it is about to have one
    }
    const auto strategy = static_cast<Strategy>(sup.strategy);
    switch (strategy) {
    case Strategy::resume: order_child<P>(s, id, local, rank, SystemOp::resume); return;
    case Strategy::stop: order_child<P>(s, id, local, rank, SystemOp::stop); return;
    case Strategy::one_for_one:
    case Strategy::one_for_all:
    case Strategy::rest_for_one:
        if (!spend(sup, now_ns())) {
            break;
        }
        if (strategy == Strategy::one_for_one) {
            order_child<P>(s, id, local, rank, SystemOp::restart);
        } else {
            begin_orders(s, id, local, SystemOp::restart,
                         strategy == Strategy::one_for_all ? 0 : rank);
        }
        return;
    case Strategy::escalate: break;
    }
    escalate<P>(s, id, local, sup.child()[rank].address, code);
}

} // namespace detail

} // namespace denizen
