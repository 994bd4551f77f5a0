// SPDX-License-Identifier: Apache-2.0
// Handling one message: by one actor, by all of a type, or by the runtime itself. The worker's loop
// (worker.hpp) decides whose turn it is; what becomes of the message is decided here.
#pragma once

#include <denizen/actor/context.hpp>
#include <denizen/actor/detail/arrival.hpp>
#include <denizen/actor/detail/crew.hpp>
#include <denizen/actor/detail/serve_system.hpp>
#include <denizen/actor/detail/telemetry.hpp>
#include <denizen/actor/program.hpp>

namespace denizen {

namespace detail {

// A message to an actor that is not simply running: true if it is to be handled now.
DENIZEN_COLD inline bool runs_now(const Shared& s, uint32_t id, uint32_t local)
{
    const ActorRecord& record = record_of(s, id, local);
    return life_of(record) == Life::draining && record.stashed == 0 && record.ending == 0;
}

// A message that has to wait: behind the others of its actor. If the actor has stopped meanwhile,
// or has failed and nobody will restart it, the message is a dead letter.
template <class P>
DENIZEN_COLD void hold_or_bury(const Shared& s, uint32_t id, uint32_t local, const Header& h,
                               const void* payload)
{
    ActorRecord& record = record_of(s, id, local);
    const Life life = life_of(record);
    Header sent = h; // as its sender knows it
    sent.destination = entry_of(s, id, local).self;
    if (life == Life::moved) {
        P::keep_buffers(s, h.type, payload); // what goes on refers to them for itself
        forward(s, id, record, h, payload);
    } else if (life == Life::failed && record.supervisor == nobody) {
        bury(s, id, Reason::failed, record.failure, sent, payload);
    } else if (life == Life::stopped || record.ending != 0) {
        bury(s, id, Reason::stopped, 0, sent, payload);
    } else if (stash_room(s, id) < slots_for(h.length)) {
        bury(s, id, Reason::dropped, 0, sent, payload); // make_room() has found no way for so many
    } else {
        stash(s, id, record, h, payload);
        P::keep_buffers(s, h.type, payload); // until it is taken out again
    }
}

// Before a message is delivered: whether there is room for it if it has to wait. A message to all
// actors of a type may take it many times; if not even the empty store has room for that many, it
// is delivered all the same, and those for whom there is none lose it (Reason::dropped).
template <class P>
DENIZEN_COLD bool make_room(const Shared& s, uint32_t id, bool all, uint32_t local, const Header& h)
{
    const WorkerState& worker_state = s.worker_states[id];
    const uint32_t n = slots_for(h.length);
    if (all) {
        return n * static_cast<uint64_t>(worker_state.away) <= stash_room(s, id) ||
               worker_state.stash_used == 0;
    }
    if (local >= s.actors_per_worker || entry_of(s, id, local).kind <= 0xff) {
        return true;
    }
    ActorRecord& record = record_of(s, id, local);
    const bool moving = life_of(record) == Life::moving;
    // Of an actor that moves, the host's messages leave half of the stash to the others: a worker's
    // echo may be behind those.
    const uint32_t kept = moving && Address{h.sender}.is_host() ? s.stash_slots / 2 : 0;
    if (stash_room(s, id) >= n + kept) {
        return true;
    }
    if (moving) {
        return false;
    }
    if (runs_now(s, id, local) || record.ending != 0 || life_of(record) == Life::moved ||
        (life_of(record) == Life::failed && record.supervisor == nobody)) {
        return true;
    }
    if (!P::drops_oldest || P::overflow(entry_of(s, id, local).type()) != Overflow::drop_oldest) {
        return false;
    }
    if (lanes::id() == 0) {
        const StashSlot* slots = stash_of(s, id);
        while (stash_room(s, id) < n && record.stashed != 0) { // ends: each turn takes one
            const uint32_t first = record.first_stashed - 1;
            bury(s, id, Reason::dropped, 0, stashed_header(slots[first]), slots[first].word + 3);
            drop_stashed<P>(s, id, first);
            release_stashed(s, id, record);
        }
    }
    lanes::rejoin();
    return stash_room(s, id) >= n;
}

// Whether this message is one of those that senders have asked to drop, the oldest of a mailbox
// that was full. Called by one lane, or by all for a whole-warp actor.
DENIZEN_HD inline bool drop_this(const Shared& s, uint32_t id, bool drops, uint32_t local,
                                 bool whole)
{
    if (!drops) {
        return false;
    }
    uint32_t* drop = &record_of(s, id, local).drop;
    bool yes = false;
    if (!whole || lanes::id() == 0) {
        yes = load<Scope::system>(drop) != 0; // peers add to it too
        if (yes) {
            fetch_add<Scope::system>(drop, ~0u); // only the owner takes off: it stays at 0 or more
        }
    }
    return whole ? lanes::ballot(yes) != 0 : yes;
}

// What a handler's run came to, for the lane that speaks.
struct Outcome {
    bool ran = false;       // there was a handler, and it came to its end
    uint32_t wrong = 0;     // 1 + Reason: the message becomes a dead letter
    uint32_t code = 0;      // of a failure
    uint64_t ran_ticks = 0; // how long it ran, while observed
};

// Where a lane marks what it runs, and what it has run.
struct Marks {
    uint64_t* running; // of Status, this lane's
    uint64_t* handled; // of Counters, by actor type
};

DENIZEN_HD inline Marks marks(const Shared& s, uint32_t id, uint32_t lane)
{
    return {&s.status[id].running[lane], s.counters[id].handled};
}

// Runs the handler of one message; called by one lane, or by all for an actor of a warp or of a
// block. The message carries no stamp. Whatever is out of the ordinary is left to conclude(): a
// call in the middle of divergent code costs a lone warp some 50 cycles a level even where it is
// not made. `calls`: its sends are calls, see Context. `next`: where it may leave what it sends to
// its own worker.
template <class P, bool calls = false>
DENIZEN_HD inline Outcome run_handler(const Shared& s, uint32_t id, const Marks& marks,
                                      const ActorEntry& entry, const Header& h, const void* payload,
                                      bool whole, bool observed, Handover* next = nullptr)
{
    Outcome out;
    const uint32_t local = Address{h.destination}.local();
    if (entry.kind == 0) {
        out.wrong = 1 + static_cast<uint32_t>(Reason::no_actor);
        return out;
    }
    if constexpr (P::drops_oldest) {
        if (drop_this(s, id, P::overflow(entry.type()) == Overflow::drop_oldest, local, whole)) {
            out.wrong = 1 + static_cast<uint32_t>(Reason::dropped);
            return out;
        }
    }
    // The monitor looks on, and names this handler if it never returns.
    store<Scope::gpu>(marks.running, entry.self | static_cast<uint64_t>(h.type + 1) << 32);
    Context<P> context(s, id, entry.self, h.sender, whole, entry.type(), entry.state, calls, next);
    const uint64_t begin = observed ? ticks() : 0;
    const uint64_t begin_ns = P::has_deadlines ? now_ns() : 0;
    [[maybe_unused]] uint32_t of_block = 0; // a thread has failed with it
    bool by_block = false;
#if DENIZEN_ON_DEVICE
    if constexpr (P::has_blocks) {
        by_block = whole && P::grain(entry.type()) == Grain::block;
        if (by_block) {
            out.ran = handle_by_block<P>(s, id, entry, h, payload, of_block);
        }
    }
#endif
    if (!by_block) {
        out.ran = P::dispatch(entry.type(), h.type, entry.state, payload, context);
    }
    out.ran_ticks = observed ? ticks() - begin : 0;
    out.wrong = out.ran ? 0 : 1 + static_cast<uint32_t>(Reason::wrong_type);
    if constexpr (P::can_fail) {
        uint32_t code = context.failure();
        if constexpr (P::has_blocks) {
            code = code != 0 ? code : of_block;
        }
        if (code == 0) {
            const uint64_t taken = P::has_deadlines ? now_ns() - begin_ns : 0;
            code = P::failure(entry.type(), entry.state, taken);
        }
        if (whole) { // the first lane's that has one
            const uint32_t first = lanes::first(lanes::ballot(code != 0));
            code = lanes::shuffle(code, first & (lanes::size - 1));
        }
        if (code != 0) {
            out.wrong = 1 + static_cast<uint32_t>(Reason::failed);
            out.code = code;
        }
    }
    store<Scope::gpu>(marks.running, uint64_t{0});
    if (out.ran && (!whole || lanes::id() == 0)) {
        bump(&marks.handled[entry.type()], 1);
    }
    return out;
}

// What follows from an outcome that is not plainly "handled", or is observed; called by one lane.
// There are at least 36 bytes at `payload`.
template <class P>
DENIZEN_COLD void conclude(const Shared& s, uint32_t id, const ActorEntry& entry, const Header& h,
                           const void* payload, const Outcome& out, bool observed)
{
    const uint32_t local = Address{h.destination}.local();
    if (observed && out.ran) {
        observe(s, id, entry.type(), entry.self, h.type, out.ran_ticks);
    }
    if (out.wrong == 0) {
        return;
    }
    auto reason = static_cast<Reason>(out.wrong - 1);
    Header header = h;
    const bool was = local < s.actors_per_worker && record_of(s, id, local).incarnation != 0;
    if (was) {
        header.destination = entry.self; // as its sender knows it: a guest has another address
        reason = reason == Reason::no_actor ? Reason::stopped : reason;
    }
    bury(s, id, reason, out.code, header, payload);
    if constexpr (P::can_fail) {
        if (reason == Reason::failed && !restart_at_once<P>(s, id, local, entry, out.code)) {
            fail(s, id, local, out.code);
        }
    }
}

// One message, which may carry a stamp, by one lane or by all: the one copy of the handlers besides
// those of messages that are handled side by side.
template <class P>
DENIZEN_COLD void handle_any(const Shared& s, uint32_t id, const ActorEntry& entry, const Header& h,
                             const void* payload, bool whole, bool observed)
{
    const bool speaks = !whole || lanes::id() == 0; // for the warp
    const bool traced = (h.flags & flag_traced) != 0 && speaks;
    const Receipt receipt = traced ? take_stamp(s, h, payload) : Receipt{};
    const Header plain = without_stamp(h);
    const Outcome out = run_handler<P, !P::has_warp_actors>(
        s, id, marks(s, id, whole ? 0 : lanes::id()), entry, plain, payload, whole, observed);
    if (speaks && (observed || out.wrong != 0)) {
        conclude<P>(s, id, entry, plain, payload, out, observed);
    }
    if (traced && out.ran) {
        trace_handled(s, id, entry, h, receipt);
    }
}

// Sets aside the messages of the lanes that say so, in their order. There is room for them.
template <class P>
DENIZEN_COLD void set_aside(const Shared& s, uint32_t id, bool mine, const Header& h,
                            const void* payload)
{
    for (uint32_t todo = lanes::ballot(mine); todo != 0; todo &= todo - 1) {
        if (lanes::id() == lanes::first(todo)) {
            const uint32_t local = Address{h.destination}.local();
            hold_or_bury<P>(s, id, local, h, payload);
        }
        lanes::rejoin();
    }
}

// To one actor, or to all of a type: on a warp one actor per lane, or all lanes on one actor. False
// if the message has to wait and there is no room for it.
template <class P>
DENIZEN_HD inline bool deliver(const Shared& s, uint32_t id, Header h, const void* payload,
                               bool observed)
{
    const ActorEntry* actors = s.actors + static_cast<uint64_t>(id) * s.actors_per_worker;
    const bool all = (h.flags & flag_broadcast) != 0;
    const uint32_t named = Address{h.destination}.local();
    const uint32_t begin = all ? 0 : named;
    const uint32_t end = all ? load<Scope::gpu>(&s.status[id].actors) : named + 1;
    h.flags &= ~flag_broadcast;
    if (load<Scope::block>(&s.worker_states[id].away) != 0 && !make_room<P>(s, id, all, named, h)) {
        return false;
    }
    for (uint32_t base = begin; base < end;) {
        ActorEntry entry;
        if (base < s.actors_per_worker) {
            entry = actors[base];
        }
        const bool whole = P::has_whole_actors && entry.kind != 0 &&
                           P::grain(all ? named : entry.type()) != Grain::thread;
        const uint32_t local = whole ? base : base + lanes::id();
        if (!whole && local < end && local != base) {
            entry = actors[local];
        }
        bool waits = false;
        const uint32_t place = Address::actor(id, local, s.node).value;
        // A guest gets what goes to all of its type by way of its home.
        if (local < end && (!all || (entry.type() == named && entry.self == place))) {
            h.destination = place;
            waits = entry.kind > 0xff && !runs_now(s, id, local);
            if (!waits) {
                handle_any<P>(s, id, entry, h, payload, whole, observed);
            }
        }
        lanes::rejoin();
        bool aside = waits && (!whole || lanes::id() == 0);
        if constexpr (P::drops_oldest) { // what an actor that has moved drops does not go on
            if (aside && life_of(record_of(s, id, local)) == Life::moved &&
                drop_this(s, id, P::overflow(entry.type()) == Overflow::drop_oldest, local,
                          false)) {
                bury(s, id, Reason::dropped, 0, h, payload);
                aside = false;
            }
        }
        set_aside<P>(s, id, aside, h, payload);
        base += whole ? 1 : lanes::size;
    }
    return true;
}

// A publication of the host's, with all lanes. It is told how many got it.
template <class P>
DENIZEN_COLD void publish_for_host(const Shared& s, uint32_t id, const Header& h,
                                   const void* payload)
{
    const uint32_t priority = Address{h.destination}.local() & 1;
    const TopicKey topic = s.topics->aim[priority];
    const uint32_t sent =
        publish<P>(s, id, topic, s.topics->aim_text[priority], {0, host.value, h.type, 0, h.length},
                   payload, static_cast<Priority>(priority), true);
    if (lanes::id() == 0) {
        acknowledge(s, h.sender, SystemOp::aim, sent);
    }
}

// Takes the message at the head, which each lane holds, with all of them. Returns the slots
// consumed; 0 if a long message is not complete yet, or has to wait where it is.
template <class P>
DENIZEN_COLD uint32_t serve_alone(const Shared& s, uint32_t id, const Source& source,
                                  const Words& words, bool observed)
{
    const Header h = words.header();
    const void* payload = words.word + 3;
    if (h.length > first_payload) {
        if (h.length > s.scratch_bytes) { // the host refuses such a message before it is sent
            if (lanes::id() == 0) {
                bury(s, id, Reason::oversize, 0, h, nullptr);
            }
            lanes::sync();
            return slots_for(h.length);
        }
        unsigned char* scratch = s.scratch + static_cast<uint64_t>(id) * s.scratch_bytes;
        if (!gather(source, h.length, scratch)) {
            return 0;
        }
        payload = scratch;
    }
    if ((h.flags & flag_system) != 0) {
        if (!run_system<P>(s, id, h, words.word + 3)) {
            return 0;
        }
    } else {
        if ((h.flags & flag_publish) != 0) {
            publish_for_host<P>(s, id, h, payload);
        } else if (!deliver<P>(s, id, h, payload, observed)) {
            return 0;
        }
        if (lanes::id() == 0) {
            P::drop_buffers(s, h.type, payload);
        }
    }
    return slots_for(h.length);
}

} // namespace detail

} // namespace denizen
