// SPDX-License-Identifier: Apache-2.0
// Messages that wait for actors that do not run, in order, in the stash of each worker; and the
// worker's table of who watches whom. Used by handle.hpp, one lane at a time.
//
// A worker whose stash is full takes no more from a ring whose first message would have to wait:
// nothing is lost, but what lies behind that message waits too, for whichever actor it is. Urgent
// messages have rings of their own, so that a resume or a restart gets through.
#pragma once

#include <denizen/actor/address.hpp>
#include <denizen/actor/detail/arrival.hpp>
#include <denizen/actor/detail/layout.hpp>
#include <denizen/actor/life.hpp>

namespace denizen {

// What a worker remembers of its actors' lives.
struct alignas(line) WorkerState {
    uint32_t moving = 0; // actors at home here whose messages are stashed while they move
    uint32_t chores = 0; // actors whose life is about to change: what the worker's loop looks at
    uint32_t failed = 0; // 1 + local of the last to fail of those nobody has been told of
    uint32_t ready_first = 0; // 1 + local: those catching up, first to last
    uint32_t ready_last = 0;
    uint32_t sweeping = 0;    // 1 + local of the first supervisor with orders to give
    uint32_t away = 0;        // actors for which a message may have to wait
    uint32_t stash_used = 0;  // slots in use
    uint32_t stash_fresh = 0; // slots that have ever been in use
    uint32_t stash_free = 0;  // 1 + slot: the others of these
    uint32_t watch_fresh = 0;
    uint32_t watch_free = 0;
    uint32_t spawned = 0;        // places given to actors that handlers spawn, ever: spawn.hpp
    uint32_t vacated = 0;        // and given back
    uint32_t armed = 0;          // timers: timers.hpp
    uint32_t next_timer = 0;     // where to look first for a free one
    uint64_t due = ~uint64_t{0}; // when the first of them is, or earlier
    uint64_t left_ns = 0;        // now_ns() when the worker left its processor the last time,
    uint64_t restored = 0;       // 1: and it comes back in another program, by another clock
};

// A message that waits: its words as they were on the wire, in one slot or several.
struct alignas(64) StashSlot {
    uint32_t word[12] = {};
    uint32_t next = 0; // 1 + slot: the rest of this message, or the next free one
    uint32_t link = 0; // 1 + slot: the actor's next message
    uint32_t spare[2] = {};
};

static_assert(sizeof(StashSlot) == 64);

struct WatchEntry {
    uint32_t address = 0;
    uint32_t next = 0; // 1 + index: the next watcher of the same actor, or the next free entry
};

namespace detail {

DENIZEN_HD inline ActorEntry& entry_of(const Shared& s, uint32_t id, uint32_t local)
{
    return s.actors[static_cast<uint64_t>(id) * s.actors_per_worker + local];
}

DENIZEN_HD inline ActorRecord& record_of(const Shared& s, uint32_t id, uint32_t local)
{
    return s.actor_records[static_cast<uint64_t>(id) * s.actors_per_worker + local];
}

DENIZEN_HD inline StashSlot* stash_of(const Shared& s, uint32_t id)
{
    return s.stash + static_cast<uint64_t>(id) * s.stash_slots;
}

DENIZEN_HD inline uint32_t stash_room(const Shared& s, uint32_t id)
{
    return s.stash_slots - s.worker_states[id].stash_used;
}

DENIZEN_HD inline uint32_t take_stash_slot(WorkerState& worker_state, StashSlot* slots)
{
    ++worker_state.stash_used;
    if (worker_state.stash_free == 0) {
        return worker_state.stash_fresh++;
    }
    const uint32_t slot = worker_state.stash_free - 1;
    worker_state.stash_free = slots[slot].next;
    return slot;
}

DENIZEN_HD inline void count_stashed(const Shared& s, uint32_t id, uint32_t change)
{
    uint32_t* count = &s.status[id].stashed;
    store<Scope::gpu>(count, load<Scope::gpu>(count) + change);
}

// Puts a message behind the others of its actor. The caller has seen that there is room.
DENIZEN_COLD inline void stash(const Shared& s, uint32_t id, ActorRecord& record, const Header& h,
                               const void* payload)
{
    WorkerState& worker_state = s.worker_states[id];
    StashSlot* slots = stash_of(s, id);
    const auto* bytes = static_cast<const unsigned char*>(payload);
    const uint32_t first = take_stash_slot(worker_state, slots);
    const Packet head = encode(h, 0);
    uint32_t slot = first;
    uint32_t at = 0;                           // payload bytes kept
    for (uint32_t n = slots_for(h.length);;) { // ends: n counts the message's slots
        StashSlot& to = slots[slot];
        const uint32_t begin = slot == first ? 3 : 0;
        const uint32_t most = (12 - begin) * 4;
        const uint32_t part = h.length - at < most ? h.length - at : most;
        for (uint32_t i = 0; i < 12; ++i) {
            to.word[i] = i < begin ? head.word[i] : 0;
        }
        copy_rolled(to.word + begin, bytes + at, part);
        at += part;
        to.link = to.next = 0;
        if (--n == 0) {
            break;
        }
        slot = take_stash_slot(worker_state, slots);
        to.next = slot + 1;
    }
    (record.stashed == 0 ? record.first_stashed : slots[record.last_stashed - 1].link) = first + 1;
    record.last_stashed = first + 1;
    ++record.stashed;
    count_stashed(s, id, 1);
}

DENIZEN_HD inline Header stashed_header(const StashSlot& slot)
{
    return decode({{slot.word[0], slot.word[1], slot.word[2]}, 0});
}

// The payload of a message that waits: where it lies, or, if it is long, put together in `scratch`.
DENIZEN_COLD inline const void* stashed_payload(const StashSlot* slots, uint32_t first,
                                                unsigned char* scratch)
{
    if (slots[first].next == 0) {
        return slots[first].word + 3;
    }
    copy_rolled(scratch, slots[first].word + 3, first_payload);
    uint32_t at = first_payload;
    for (uint32_t next = slots[first].next; next != 0; next = slots[next - 1].next) {
        copy_rolled(scratch + at, slots[next - 1].word, next_payload);
        at += next_payload;
    }
    return scratch;
}

// Frees the actor's first message.
DENIZEN_COLD inline void release_stashed(const Shared& s, uint32_t id, ActorRecord& record)
{
    WorkerState& worker_state = s.worker_states[id];
    StashSlot* slots = stash_of(s, id);
    uint32_t slot = record.first_stashed;
    record.first_stashed = slots[slot - 1].link;
    --record.stashed;
    count_stashed(s, id, ~0u);
    while (slot != 0) { // ends with the message's last slot
        const uint32_t next = slots[slot - 1].next;
        slots[slot - 1].next = worker_state.stash_free;
        worker_state.stash_free = slot;
        --worker_state.stash_used;
        slot = next;
    }
}

// False if the table is full.
DENIZEN_COLD inline bool add_watcher(const Shared& s, uint32_t id, ActorRecord& record,
                                     uint32_t watcher)
{
    WorkerState& worker_state = s.worker_states[id];
    WatchEntry* table = s.watchers + static_cast<uint64_t>(id) * s.watch_slots;
    for (uint32_t i = record.watchers; i != 0; i = table[i - 1].next) {
        if (table[i - 1].address == watcher) {
            return true;
        }
    }
    uint32_t entry = worker_state.watch_free;
    if (entry != 0) {
        worker_state.watch_free = table[entry - 1].next;
    } else if (worker_state.watch_fresh < s.watch_slots) {
        entry = ++worker_state.watch_fresh;
    } else {
        return false;
    }
    table[entry - 1] = {watcher, record.watchers};
    record.watchers = entry;
    return true;
}

// Removes one watcher, or all.
DENIZEN_COLD inline void remove_watchers(const Shared& s, uint32_t id, ActorRecord& record,
                                         uint32_t watcher, bool all)
{
    WorkerState& worker_state = s.worker_states[id];
    WatchEntry* table = s.watchers + static_cast<uint64_t>(id) * s.watch_slots;
    for (uint32_t* at = &record.watchers; *at != 0;) { // ends: each step goes on in the list
        const uint32_t entry = *at;
        if (!all && table[entry - 1].address != watcher) {
            at = &table[entry - 1].next;
            continue;
        }
        *at = table[entry - 1].next;
        table[entry - 1].next = worker_state.watch_free;
        worker_state.watch_free = entry;
    }
}

} // namespace detail

} // namespace denizen
