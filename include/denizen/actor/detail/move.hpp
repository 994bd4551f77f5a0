// SPDX-License-Identifier: Apache-2.0
// Actors that move to another worker, of this node or another. An actor keeps its address, which is
// the place where it was born, its home. The home forwards what is sent to that address, in order.
// Called by one lane of a worker.
//
// The host leads the move (src/actor/migrate.cpp), of one actor at a time:
//   1. move_out  The host tells the home, which stashes the actor's messages from now on.
//   2. depart    The home tells the worker where the actor is, behind what it has forwarded there.
//                That worker copies the state to the new place.
//   3. pass      It asks each worker for an echo, behind what the actor has sent there.
//   4. passed    The echo. When all are there, all that the actor has sent has arrived, and the
//                host is answered.
//   5. move_in   The host tells the home, which opens the new place by
//   6. settle    and forwards what it has stashed, behind that.
//   7. vacate    The host tells the old place, if that is not the home.
// A move that fails before step 5 loses nothing: the host says move_in for the old place.
#pragma once

#include <denizen/actor/detail/orders.hpp>

namespace denizen {

// On the wire.
struct MoveRequest {
    uint32_t local;  // of the actor at the worker that this goes to
    uint32_t to;     // address of the new place
    uint64_t offset; // of the state there, in the heap; to its home: filled in by that
    uint32_t bytes;  // of the state; settle: the actor's type
    uint32_t self;   // settle: the actor's address
    uint32_t number; // of the attempt, 16 bits
};

static_assert(sizeof(MoveRequest) <= first_payload);

namespace detail {

// ActorRecord::forward of a place that is being left: number of the attempt << 16 | echoes to come.
inline constexpr uint32_t echo_bits = 16;
static_assert(2 * max_workers * max_nodes < 1u << echo_bits);

// Device: what was written before is seen by whoever has heard of it by packets. Host: packets
// order all that was written before them.
DENIZEN_HD inline void fence()
{
#if DENIZEN_ON_DEVICE
    fence_if<Scope::system>(true);
#endif
}

// A message to an actor that has moved goes on. The way of data, whatever it is: what the home
// sends arrives in one order.
DENIZEN_COLD inline void forward(const Shared& s, uint32_t id, const ActorRecord& record, Header h,
                                 const void* payload)
{
    h.destination = record.forward;
    if ((h.flags & flag_system) != 0) {
        auto r = from_words<LifeRequest>(static_cast<const uint32_t*>(payload));
        r.local = Address{record.forward}.local();
        post_raw(s, id, h, &r, Priority::data);
    } else {
        post_raw(s, id, h, payload, Priority::data);
    }
}

DENIZEN_COLD inline void post_move(const Shared& s, uint32_t id, SystemOp op, Address to,
                                   uint32_t sender, const MoveRequest& r)
{
    post_raw(s, id, {to.value, sender, static_cast<uint32_t>(op), flag_system, sizeof r}, &r,
             Priority::data);
}

// Copies the state of an actor that is held at home to its new place and asks for the echoes.
DENIZEN_COLD inline void leave_place(const Shared& s, uint32_t id, uint32_t sender,
                                     const MoveRequest& r, bool urgent)
{
    const ActorEntry& entry = entry_of(s, id, r.local);
    ActorRecord& record = record_of(s, id, r.local);
    const Address to{r.to};
    const bool here = to.node() == s.node;
    unsigned char* heap = here ? s.heap : s.peer[to.node()].heap;
    ActorRecord* actor_records = here ? s.actor_records : s.peer[to.node()].actor_records;
    // States are aligned to 16 bytes, and so are the places they lie in.
    auto* words = reinterpret_cast<uint64_t*>(heap + r.offset);
    for (uint32_t i = 0; i < r.bytes / 8; ++i) {
        words[i] = static_cast<const uint64_t*>(entry.state)[i];
    }
    ActorRecord& there =
        actor_records[static_cast<uint64_t>(to.worker()) * s.actors_per_worker + to.local()];
    if (to.value != entry.self) { // at home, what it holds and who watches is kept
        there = ActorRecord{};
    }
    there.incarnation = record.incarnation;
    there.failure = record.failure;
    there.supervisor = record.supervisor;
    there.rank = record.rank;
    there.epoch = record.epoch;
    // Release, by way of the echoes, the host and the home: partner of the fence in settle().
    fence();
    const uint32_t rings = urgent && !here ? 2 : 1; // a node's urgent messages share one ring
    record.forward = r.number << echo_bits | s.workers * s.nodes * rings;
    const uint32_t place = Address::actor(id, r.local, s.node).value;
    for (uint32_t i = 0; i < s.workers * s.nodes; ++i) {
        const Address each = Address::actor(i % s.workers, 0, i / s.workers);
        const LifeRequest request{0, r.number, place, 0};
        const Header h{each.value, sender, static_cast<uint32_t>(SystemOp::pass), flag_system,
                       sizeof request};
        post_raw(s, id, h, &request, Priority::data);
        if (rings == 2) {
            post_raw(s, id, h, &request, Priority::urgent);
        }
    }
}

// `later`: the answer comes with the last echo.
template <class P>
DENIZEN_COLD Errc move_out(const Shared& s, uint32_t id, uint32_t sender, MoveRequest r,
                           bool& later)
{
    const ActorEntry& entry = entry_of(s, id, r.local);
    ActorRecord& record = record_of(s, id, r.local);
    const Life life = life_of(record);
    if (life != Life::running && life != Life::catching_up && life != Life::moved) {
        return life == Life::stopped ? Errc::no_actor : Errc::bad_argument;
    }
    if (life != Life::moved && has_timers(s, id, entry.self) != 0) {
        return Errc::full; // they are this worker's
    }
    set_life(s, id, r.local, Life::moving);
    // The program is not quiet while messages are stashed here.
    fetch_add<Scope::gpu>(&s.worker_states[id].moving, 1u);
    later = true;
    if (life != Life::moved) {
        leave_place(s, id, sender, r, P::has_urgent);
        return Errc::ok;
    }
    const Address present{record.forward};
    r.local = present.local();
    if (r.to == entry.self) {
        r.offset = static_cast<uint64_t>(static_cast<unsigned char*>(entry.state) - s.heap);
    }
    post_move(s, id, SystemOp::depart, present, sender, r);
    return Errc::ok;
}

template <class P>
DENIZEN_COLD Errc depart(const Shared& s, uint32_t id, uint32_t sender, const MoveRequest& r,
                         bool& later)
{
    ActorRecord& record = record_of(s, id, r.local);
    const Life life = life_of(record);
    if (life == Life::catching_up) { // behind the messages that waited
        post_move(s, id, SystemOp::depart, Address::actor(id, r.local, s.node), sender, r);
        later = true;
        return Errc::ok;
    }
    if (life != Life::running) {
        return life == Life::stopped ? Errc::no_actor : Errc::bad_argument;
    }
    if (has_timers(s, id, entry_of(s, id, r.local).self) != 0) {
        return Errc::full; // they are this worker's
    }
    set_life(s, id, r.local, Life::moving);
    leave_place(s, id, sender, r, P::has_urgent);
    later = true;
    return Errc::ok;
}

// An echo; true if it is the last one.
DENIZEN_HD inline bool passed(const Shared& s, uint32_t id, const LifeRequest& r)
{
    ActorRecord& record = record_of(s, id, Address{r.rank}.local());
    if (record.forward >> echo_bits != r.value || (record.forward & 0xffff) == 0) {
        return false; // of an attempt that was given up
    }
    return (--record.forward & 0xffff) == 0;
}

DENIZEN_COLD inline void settle(const Shared& s, uint32_t id, const MoveRequest& r)
{
    // Acquire: partner of the fence in leave_place(); the state was written by another worker.
    fence();
    ActorEntry& entry = entry_of(s, id, r.local);
    if (entry.self == r.self && entry.state != nullptr) { // it stays after all
        if (life_of(record_of(s, id, r.local)) == Life::moving) {
            set_life(s, id, r.local, Life::running);
        }
        return;
    }
    store<Scope::gpu>(&entry.self, r.self); // the host reads them: AnyRuntime::actors()
    store<Scope::gpu>(reinterpret_cast<uint64_t*>(&entry.state),
                      reinterpret_cast<uint64_t>(s.heap + r.offset));
    store<Scope::gpu>(&entry.kind, r.bytes + 1); // senders read it
    uint32_t* actors = &s.status[id].actors;
    const uint32_t used = load<Scope::gpu>(actors);
    store<Scope::gpu>(actors, used > r.local ? used : r.local + 1);
}

// The runtime's own messages among those that are stashed, in their order; the others stay, in
// theirs. (A data message that was sent before one of these is overtaken, as by all that is
// urgent.)
template <class P>
DENIZEN_COLD void obey_stashed(const Shared& s, uint32_t id, uint32_t local)
{
    ActorRecord& record = record_of(s, id, local);
    StashSlot* slots = stash_of(s, id);
    for (uint32_t left = record.stashed; left != 0 && record.stashed != 0; --left) {
        const uint32_t first = record.first_stashed;
        const Header h = stashed_header(slots[first - 1]);
        if ((h.flags & flag_system) == 0) { // to the end of the list
            if (record.stashed > 1) {
                record.first_stashed = slots[first - 1].link;
                slots[record.last_stashed - 1].link = first;
                slots[first - 1].link = 0;
                record.last_stashed = first;
            }
            continue;
        }
        const auto r = from_words<LifeRequest>(slots[first - 1].word + 3);
        release_stashed(s, id, record);
        bool later = false;
        LifeReport report = report_of(record, Errc::ok);
        report.error = static_cast<uint32_t>(
            apply<P>(s, id, static_cast<SystemOp>(h.type), h.sender, r, later));
        if (!later) {
            answer(s, h.sender, static_cast<SystemOp>(h.type), report);
        }
    }
}

// `later`: the new place answers.
template <class P>
DENIZEN_COLD void move_in(const Shared& s, uint32_t id, uint32_t sender, const MoveRequest& r,
                          bool& later)
{
    const ActorEntry& entry = entry_of(s, id, r.local);
    ActorRecord& record = record_of(s, id, r.local);
    if (life_of(record) != Life::moving) {
        return; // it has stopped, or never left
    }
    if (r.to == entry.self) {
        fence(); // as in settle()
        run(s, id, r.local);
        obey_stashed<P>(s, id, r.local);
        if (life_of(record) == Life::catching_up && record.stashed == 0) {
            set_life(s, id, r.local, Life::running);
        }
    } else {
        later = true;
        MoveRequest on = r;
        on.local = Address{r.to}.local();
        on.bytes = entry.type();
        on.self = entry.self;
        // Before the new place can answer: then AnyRuntime::actors() finds the actor once.
        record.forward = r.to;
        set_life(s, id, r.local, Life::moved);
        post_move(s, id, SystemOp::settle, Address{r.to}, sender, on);
        const StashSlot* slots = stash_of(s, id);
        unsigned char* scratch = s.scratch + static_cast<uint64_t>(id) * s.scratch_bytes;
        while (record.stashed != 0) { // ends: each turn takes one
            const uint32_t first = record.first_stashed - 1;
            forward(s, id, record, stashed_header(slots[first]),
                    stashed_payload(slots, first, scratch));
            release_stashed(s, id, record);
        }
    }
    // Release: partner of the monitor's acquire in check_quiet(): the tickets of these have been
    // drawn.
    fetch_add<Scope::gpu, Order::release>(&s.worker_states[id].moving, ~0u);
}

// The place of an actor that has moved on is free.
DENIZEN_COLD inline void vacate(const Shared& s, uint32_t id, uint32_t local)
{
    set_life(s, id, local, Life::stopped);
    ActorEntry& entry = entry_of(s, id, local);
    store<Scope::gpu>(&entry.self, 0u); // the host reads them
    store<Scope::gpu>(reinterpret_cast<uint64_t*>(&entry.state), uint64_t{0});
    record_of(s, id, local) = ActorRecord{};
}

// A guest tells its home, which its watchers know, how it fares.
template <class P>
DENIZEN_COLD void told(const Shared& s, uint32_t id, const LifeRequest& r)
{
    ActorRecord& record = record_of(s, id, r.local);
    const bool was_moving = life_of(record) == Life::moving;
    const uint32_t life = record.life;
    record.failure = r.rank;
    record.incarnation = r.epoch;
    record.life = r.value; // as the watchers are told
    tell_watchers<P>(s, id, r.local);
    record.life = life;
    if (r.value == static_cast<uint32_t>(Life::stopped)) {
        set_life(s, id, r.local, Life::stopped);
        bury_stashed<P>(s, id, record, Reason::stopped);
        remove_watchers(s, id, record, 0, true);
        if (was_moving) {
            fetch_add<Scope::gpu, Order::release>(&s.worker_states[id].moving, ~0u);
        }
    }
}

// What the worker of an actor's home does with an order to an actor that is not there: true if that
// was all. `waits`: it is stashed, or, if there is no room, has to wait where it is.
DENIZEN_COLD inline bool pass_on(const Shared& s, uint32_t id, const Header& h,
                                 const LifeRequest& r, bool& waits)
{
    const auto op = static_cast<SystemOp>(h.type);
    if (r.local >= s.actors_per_worker || op == SystemOp::watch || op == SystemOp::unwatch) {
        return false;
    }
    ActorRecord& record = record_of(s, id, r.local);
    const bool at_home = entry_of(s, id, r.local).self == Address::actor(id, r.local, s.node).value;
    if (life_of(record) == Life::moved) {
        forward(s, id, record, h, &r);
        return true;
    }
    if (life_of(record) == Life::moving && at_home) {
        waits = stash_room(s, id) == 0;
        if (!waits) {
            stash(s, id, record, h, &r);
        }
        return true;
    }
    return false;
}

} // namespace detail

} // namespace denizen
