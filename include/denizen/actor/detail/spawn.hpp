// SPDX-License-Identifier: Apache-2.0
// Actors that handlers spawn. The first `spawn_room` places of each worker are for them, each with
// room for a state. A spawn takes one of these places, and the actor's stop puts it back; the host
// has no part in it. A queue of `spawn_room` numbers says which places are free. The place that has
// been vacant for longest is taken first, so that an address is given out again as late as
// possible.
//
// Called by lanes of the places' worker: take_place() during handlers, by several at once;
// vacate_place() between handlers, by one.
#pragma once

#include <denizen/actor/detail/stash.hpp>
#include <denizen/actor/detail/telemetry.hpp>

namespace denizen::detail {

// What begins with a new actor's life.
DENIZEN_HD inline void open_book(const Shared& s, uint32_t id, uint32_t local, uint32_t type,
                                 void* state, Life life)
{
    ActorRecord record;
    record.life = static_cast<uint32_t>(life);
    record.incarnation = 1;
    record_of(s, id, local) = record;
    if (life != Life::running) {
        fetch_add<Scope::block>(&s.worker_states[id].away, 1u);
    }
    ActorEntry& entry = entry_of(s, id, local);
    // The host reads them at any time: AnyRuntime::actors().
    store<Scope::gpu>(&entry.self, Address::actor(id, local, s.node).value);
    store<Scope::gpu>(reinterpret_cast<uint64_t*>(&entry.state), reinterpret_cast<uint64_t>(state));
    store<Scope::gpu>(&entry.kind, (type + 1) | record.life << 8);
}

inline constexpr uint32_t no_place = ~0u;

// A place's number, or no_place: all are taken.
DENIZEN_COLD inline uint32_t take_place(const Shared& s, uint32_t id)
{
    WorkerState& worker_state = s.worker_states[id];
    uint32_t ticket = load<Scope::block>(&worker_state.spawned);
    do { // ends: another lane's success is the only reason to go round again
        if (ticket - load<Scope::block>(&worker_state.vacated) >= s.spawn_room) {
            bump(&s.counters[id].not_spawned, 1);
            return no_place;
        }
    } while (!compare_exchange<Scope::block>(&worker_state.spawned, ticket, ticket + 1));
    const uint32_t at = ticket & (s.spawn_room - 1);
    const uint32_t found = s.vacant[static_cast<uint64_t>(id) * s.spawn_room + at];
    bump(&s.counters[id].spawned, 1);
    return found == 0 ? at : found - 1; // 0: in the first lap each is vacant as it lies
}

// Where the state of place `local` lies.
DENIZEN_HD inline unsigned char* state_of_place(const Shared& s, uint32_t id, uint32_t local)
{
    return s.heap + (static_cast<uint64_t>(id) * s.spawn_room + local) * s.spawn_stride;
}

DENIZEN_HD inline uint8_t& type_of_place(const Shared& s, uint32_t id, uint32_t local)
{
    const uint64_t worker = static_cast<uint64_t>(s.node) * s.workers + id;
    return s.types[worker * s.actors_per_worker + local];
}

// The actor at a place has its state: it lives. Whoever gets its address from a message that is
// sent after this finds it, the host too.
DENIZEN_COLD inline void open_place(const Shared& s, uint32_t id, uint32_t local, uint32_t type)
{
    open_book(s, id, local, type, state_of_place(s, id, local), Life::running);
    uint32_t* actors = &s.status[id].actors; // what is sent to all of a type looks at so many
    if (load<Scope::gpu>(actors) < s.spawn_room) {
        store<Scope::gpu>(actors, s.spawn_room);
    }
    store<Scope::system>(&type_of_place(s, id, local), static_cast<uint8_t>(type + 1));
#if DENIZEN_ON_DEVICE
    __threadfence_system(); // partner: a message with the address; on the host each is a release
#endif
}

// An actor has stopped: if it was spawned by a handler, its place is free, unless the worker has it
// in a list still. Then this is called again by who takes it out.
DENIZEN_HD inline void vacate_place(const Shared& s, uint32_t id, uint32_t local)
{
    const ActorRecord& record = record_of(s, id, local);
    if (local >= s.spawn_room || record.life != static_cast<uint32_t>(Life::stopped) ||
        record.next_failed != 0 || record.listed != 0) {
        return;
    }
    WorkerState& worker_state = s.worker_states[id];
    const uint32_t ticket = worker_state.vacated;
    s.vacant[static_cast<uint64_t>(id) * s.spawn_room + (ticket & (s.spawn_room - 1))] = local + 1;
    store<Scope::system>(&type_of_place(s, id, local), uint8_t{0});
    store<Scope::block>(&worker_state.vacated, ticket + 1);
}

} // namespace denizen::detail
