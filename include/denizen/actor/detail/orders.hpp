// SPDX-License-Identifier: Apache-2.0
// What an order to an actor does: stop, pause, resume, restart, drain, watch and their like,
// whoever gives it: the host, an actor or a supervisor. Called by one lane of the actor's worker,
// not while a handler of that actor runs.
#pragma once

#include <denizen/actor/detail/lives.hpp>

namespace denizen {

namespace detail {

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

// Watches the actor; one who has stopped tells at once.
template <class P>
DENIZEN_HD inline Errc watch_actor(const Shared& s, uint32_t id, const ActorEntry& entry,
                                   ActorRecord& record, uint32_t watcher)
{
    if (life_of(record) == Life::stopped) {
        if constexpr (P::template message_id<Down> != no_type) {
            send_down<P>(s, id, watcher, entry.self,
                         {entry.self, record.life, record.failure, record.incarnation});
        }
        return Errc::ok;
    }
    if (!add_watcher(s, id, record, watcher)) {
        report_error(
            s, {static_cast<uint32_t>(Errc::exhausted), id, entry.self, watch_table_full, watcher});
        return Errc::exhausted;
    }
    return Errc::ok;
}

// A supervisor's children have had the order, and it goes on deciding.
DENIZEN_HD inline Errc pause_actor(const Shared& s, uint32_t id, uint32_t local, bool supervisor,
                                   Life life)
{
    if (life == Life::failed) {
        return Errc::failed;
    }
    if (life == Life::draining) {
        return Errc::bad_argument;
    }
    if (!supervisor) {
        set_life(s, id, local, Life::paused);
    }
    return Errc::ok;
}

DENIZEN_HD inline Errc resume_actor(const Shared& s, uint32_t id, uint32_t local, bool supervisor,
                                    Life life)
{
    if (supervisor) {
        set_life(s, id, local, Life::running);
    } else if (life == Life::paused || life == Life::created || life == Life::failed) {
        run(s, id, local);
    }
    return Errc::ok;
}

DENIZEN_HD inline Errc suspend_actor(const Shared& s, uint32_t id, uint32_t local,
                                     ActorRecord& record)
{
    record.failure = failed_above;
    set_life(s, id, local, Life::failed);
    return Errc::ok;
}

// The actor stops when all that was sent to it before has been handled; the answer comes then.
DENIZEN_HD inline Errc drain_actor(const Shared& s, uint32_t id, uint32_t local,
                                   const ActorEntry& entry, bool supervisor, Life life,
                                   uint32_t sender, bool& no_answer)
{
    if (supervisor || (life != Life::running && life != Life::catching_up)) {
        return life == Life::failed ? Errc::failed : Errc::bad_argument;
    }
    set_life(s, id, local, Life::draining);
    drain_further(s, id, entry.self, sender, 0);
    no_answer = true;
    return Errc::ok;
}

// A worker's echo is here: the next worker's turn, or the end.
template <class P>
DENIZEN_HD inline Errc go_on_draining(const Shared& s, uint32_t id, const LifeRequest& r,
                                      const ActorEntry& entry, ActorRecord& record, uint32_t sender)
{
    if (r.value + 1 < s.workers * s.nodes) {
        drain_further(s, id, entry.self, sender, r.value + 1);
        return Errc::ok;
    }
    record.ending = Address{sender}.is_reply_cell() ? sender : 1; // 1: nobody waits for it
    if (record.stashed == 0 || life_of(record) == Life::failed) {
        end_life<P>(s, id, r.local);
    } else {
        set_life(s, id, r.local, Life::draining); // ends when the last of them is handled
    }
    return Errc::ok;
}

// The actor gets a supervisor, or has none any more.
DENIZEN_HD inline Errc attach_actor(const Shared& s, uint32_t id, const LifeRequest& r,
                                    const ActorEntry& entry, ActorRecord& record)
{
    if (r.value != nobody && record.supervisor != nobody) {
        return Errc::bad_argument;
    }
    record.supervisor = r.value;
    record.rank = r.rank;
    record.epoch = 0;
    if (life_of(record) == Life::failed &&
        r.value != nobody) { // it comes too late to be told by chores
        send_system(s, id, SystemOp::failure, Address{r.value}, entry.self,
                    {Address{r.value}.local(), record.failure, r.rank, 0});
    }
    return Errc::ok;
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
    case SystemOp::watch: return watch_actor<P>(s, id, entry, record, r.value);
    case SystemOp::unwatch: remove_watchers(s, id, record, r.value, false); return Errc::ok;
    default: break;
    }
    if (life == Life::stopped) {
        return Errc::no_actor;
    }
    if (supervisor &&
        (op == SystemOp::pause || op == SystemOp::resume || op == SystemOp::suspend)) {
        begin_orders(s, id, r.local, op, 0); // the same for its children
    }
    switch (op) {
    case SystemOp::stop: end_life<P>(s, id, r.local); return Errc::ok;
    case SystemOp::pause: return pause_actor(s, id, r.local, supervisor, life);
    case SystemOp::resume: return resume_actor(s, id, r.local, supervisor, life);
    case SystemOp::restart: restart<P>(s, id, r.local); return Errc::ok;
    case SystemOp::suspend: return suspend_actor(s, id, r.local, record);
    case SystemOp::drain:
        return drain_actor(s, id, r.local, entry, supervisor, life, sender, no_answer);
    case SystemOp::drained:
        no_answer = true;
        return go_on_draining<P>(s, id, r, entry, record, sender);
    case SystemOp::checkpoint:
        return P::checkpoint(entry.type(), entry.state) ? Errc::ok : Errc::bad_argument;
    case SystemOp::attach: return attach_actor(s, id, r, entry, record);
    default: return Errc::bad_argument;
    }
}

} // namespace detail

} // namespace denizen
