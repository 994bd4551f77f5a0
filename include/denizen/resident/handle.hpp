// SPDX-License-Identifier: Apache-2.0
// Handling one message: by one actor, by all of a type, or by the runtime itself. The worker's loop
// (worker.hpp) decides whose turn it is; what becomes of the message is decided here.
#pragma once

#include <denizen/actor/context.hpp>
#include <denizen/resident/arrival.hpp>
#include <denizen/resident/post.hpp>
#include <denizen/resident/program.hpp>

namespace denizen {

namespace detail {

// Runs the handler of one message; called by one lane, or by all for a whole-warp actor.
template <class P>
DENIZEN_HD inline void handle(const Shared& s, uint32_t id, const ActorEntry& entry,
                              const Header& h, const void* payload, bool whole)
{
    if (entry.kind == 0) {
        dead_letter(s, id, Errc::no_actor, h.destination, h.type, h.sender);
        return;
    }
    // The monitor looks on, and names this handler if it never returns.
    uint64_t* running = &s.status[id].running[whole ? 0 : lanes::id()];
    store<Scope::gpu>(running, h.destination | static_cast<uint64_t>(h.type + 1) << 32);
    Context<P> context(s, id, h.destination, h.sender, whole);
    if (!P::dispatch(entry.type(), h.type, entry.state, payload, context) &&
        (!whole || lanes::id() == 0)) {
        dead_letter(s, id, Errc::wrong_type, h.destination, h.type, h.sender);
    }
    store<Scope::gpu>(running, uint64_t{0});
}

// To one actor, or to all of a type: on a warp one actor per lane, or all lanes on one actor.
template <class P>
DENIZEN_HD inline void deliver(const Shared& s, uint32_t id, Header h, const void* payload)
{
    const ActorEntry* actors = s.actors + static_cast<uint64_t>(id) * s.actors_per_worker;
    const bool all = (h.flags & flag_broadcast) != 0;
    const uint32_t named = Address{h.destination}.local();
    const uint32_t begin = all ? 0 : named;
    const uint32_t end = all ? load<Scope::gpu>(&s.status[id].actors) : named + 1;
    for (uint32_t base = begin; base < end;) {
        ActorEntry entry;
        if (base < s.actors_per_worker) {
            entry = actors[base];
        }
        const bool whole = P::has_warp_actors && entry.kind != 0 &&
                           P::grain(all ? named : entry.type()) == Grain::warp;
        const uint32_t local = whole ? base : base + lanes::id();
        if (!whole && local < end && local != base) {
            entry = actors[local];
        }
        if (local < end && (!all || entry.type() == named)) {
            h.destination = Address::actor(id, local, s.node).value;
            handle<P>(s, id, entry, h, payload, whole);
        }
        lanes::sync();
        base += whole ? 1 : lanes::size;
    }
}

// The runtime's own messages. Answers into the reply cell that the host waits on.
template <class P>
DENIZEN_HD inline void run_system(const Shared& s, uint32_t id, const Header& h,
                                  const uint32_t* words)
{
    ActorEntry* actors = s.actors + static_cast<uint64_t>(id) * s.actors_per_worker;
    if (h.type == static_cast<uint32_t>(SystemOp::spawn)) {
        SpawnRequest r;
        copy_bytes(&r, words, sizeof r);
        for (uint32_t i = lanes::id(); i < r.count; i += lanes::size) {
            void* state = s.heap + r.offset + static_cast<uint64_t>(i) * r.stride;
            P::construct(r.type, state);
            actors[r.first + i] = {r.type + 1, Address::actor(id, r.first + i, s.node).value,
                                   state};
        }
        if (lanes::id() == 0) {
            store<Scope::gpu>(&s.status[id].actors, r.first + r.count);
        }
    } else if (h.type == static_cast<uint32_t>(SystemOp::stop)) {
        StopRequest r;
        copy_bytes(&r, words, sizeof r);
        if (lanes::id() == 0) {
            actors[r.local].kind = 0;
        }
    }
    lanes::sync();
    if (lanes::id() == 0 && Address{h.sender}.is_reply_cell()) {
        Slot* cell = s.cells + static_cast<uint64_t>(Address{h.sender}.cell()) * s.cell_slots;
        store_compact(cell, Address{h.sender}, h.type, flag_system, words, 0);
    }
}

// Takes the message at the head, which lane 0 holds, with all lanes. Returns the slots consumed; 0
// if a long message is not complete yet.
template <class P>
DENIZEN_COLD uint32_t serve_alone(const Shared& s, uint32_t id, const Source& source,
                                  const Words& of_lane)
{
    Words words;
    for (uint32_t i = 0; i < 12; ++i) {
        words.word[i] = lanes::shuffle(of_lane.word[i], 0);
    }
    const Header h = words.header();
    const void* payload = words.word + 3;
    if (h.length > first_payload) {
        if (h.length > s.scratch_bytes) { // the host refuses such a message before it is sent
            if (lanes::id() == 0) {
                dead_letter(s, id, Errc::oversize, h.destination, h.type, h.sender);
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
        run_system<P>(s, id, h, words.word + 3);
    } else {
        deliver<P>(s, id, h, payload);
    }
    return slots_for(h.length);
}

} // namespace detail

} // namespace denizen
