// SPDX-License-Identifier: Apache-2.0
// Messages that a handler sends later, once or again and again. Each worker keeps the timers of its
// actors, `timer_slots` of them, in device memory, where they outlast a breath and the program's
// absence from the GPU. One word says when the first timer is due. The worker's rare look compares
// it with the clock (Worker::look()) and goes through all timers only when that time has come.
//
// Called by lanes of the timers' worker: arm() and disarm() during handlers, by several at once;
// fire() between handlers, by all.
#pragma once

#include <denizen/actor/detail/post.hpp>
#include <denizen/actor/detail/stash.hpp>
#include <denizen/actor/detail/telemetry.hpp>
#include <denizen/base/clock.hpp>

namespace denizen {

inline constexpr uint32_t max_timer_slots = 1u << 16;

// A message that is to be sent.
struct alignas(64) TimerEntry {
    uint64_t every_ns = 0; // 0: once
    uint32_t to = 0;
    uint32_t owner = 0; // whose it is, and who the message is from
    uint32_t type = 0;
    uint16_t length = 0;
    uint16_t priority = 0;
    uint32_t number = 0; // which of this slot's timers, 16 bits, not 0
    uint32_t word[first_payload / 4] = {};
};

static_assert(sizeof(TimerEntry) == 64);

namespace detail {

// layout::TimersAndTopics::timer_due of a slot, and WorkerState::due.
inline constexpr uint64_t timer_free = 0;
inline constexpr uint64_t timer_filling = 1; // any time is later
inline constexpr uint64_t never = ~uint64_t{0};

DENIZEN_HD inline uint64_t* due_of(const Shared& s, uint32_t id)
{
    return s.timer_due + static_cast<uint64_t>(id) * s.timer_slots;
}

DENIZEN_HD inline TimerEntry& timer_of(const Shared& s, uint32_t id, uint32_t slot)
{
    return s.timers[static_cast<uint64_t>(id) * s.timer_slots + slot];
}

// A time from now on: 2^63 ns or more are a difference below 0, of a time that has passed.
DENIZEN_HD inline uint64_t after(uint64_t now, uint64_t ns)
{
    return static_cast<int64_t>(ns) < 0 ? now : now + ns; // no clock comes near 2^63
}

// Keeps a message until it is due. Returns the timer's name, slot | number << 16, or 0: all slots
// are taken.
DENIZEN_COLD inline uint32_t arm(const Shared& s, uint32_t id, uint64_t in_ns,
                                 const TimerEntry& wanted)
{
    WorkerState& worker_state = s.worker_states[id];
    uint64_t* dues = due_of(s, id);
    const uint32_t begin = load<Scope::block>(&worker_state.next_timer);
    for (uint32_t i = 0; i < s.timer_slots; ++i) {
        const uint32_t at = begin + i;
        const uint32_t slot = at < s.timer_slots ? at : at - s.timer_slots;
        uint64_t found = timer_free;
        // Looked at first: to exchange takes ten times as long.
        if (load<Scope::block>(&dues[slot]) != timer_free ||
            !compare_exchange<Scope::block>(&dues[slot], found, timer_filling)) {
            continue;
        }
        TimerEntry& entry = timer_of(s, id, slot);
        const uint32_t number = (entry.number & 0xffff) == 0xffff ? 1 : entry.number + 1;
        entry = wanted;
        entry.number = number;
        const uint64_t due = after(now_ns(), in_ns);
        fetch_add<Scope::gpu>(&worker_state.armed, 1u); // the monitor reads it
        store<Scope::block>(&dues[slot], due);
        store<Scope::block>(&worker_state.next_timer, slot + 1 < s.timer_slots ? slot + 1 : 0u);
        fetch_min<Scope::block>(&worker_state.due, due);
        return slot | number << 16;
    }
    bump(&s.counters[id].not_armed, 1);
    return 0;
}

DENIZEN_HD inline void free_timer(const Shared& s, uint32_t id, uint32_t slot)
{
    fetch_add<Scope::gpu>(&s.worker_states[id].armed, ~0u);
    store<Scope::block>(&due_of(s, id)[slot], timer_free);
}

// False if this actor has no such timer any more.
DENIZEN_COLD inline bool disarm(const Shared& s, uint32_t id, uint32_t owner, uint32_t timer)
{
    const uint32_t slot = timer & 0xffff;
    if (timer == 0 || slot >= s.timer_slots) {
        return false;
    }
    const TimerEntry& entry = timer_of(s, id, slot);
    const uint64_t due = load<Scope::block>(&due_of(s, id)[slot]);
    if (due <= timer_filling || entry.number != timer >> 16 || entry.owner != owner) {
        return false;
    }
    free_timer(s, id, slot); // only the owner's handler, which runs here, does that now
    return true;
}

DENIZEN_COLD inline uint32_t timers_of(const Shared& s, uint32_t id, uint32_t owner, bool free)
{
    uint32_t n = 0;
    for (uint32_t slot = 0; slot < s.timer_slots; ++slot) {
        if (load<Scope::block>(&due_of(s, id)[slot]) > timer_filling &&
            timer_of(s, id, slot).owner == owner) {
            ++n;
            if (free) {
                free_timer(s, id, slot);
            }
        }
    }
    return n;
}

// How many timers the actor has.
DENIZEN_HD inline uint32_t has_timers(const Shared& s, uint32_t id, uint32_t owner)
{
    return load<Scope::gpu>(&s.worker_states[id].armed) == 0 ? 0 : timers_of(s, id, owner, false);
}

// The actor has stopped, or begins anew.
DENIZEN_HD inline void cancel_timers(const Shared& s, uint32_t id, uint32_t owner)
{
    if (load<Scope::gpu>(&s.worker_states[id].armed) != 0) {
        timers_of(s, id, owner, true);
    }
}

// All lanes, in a worker's first look: if it has come back in another program, whose clock is
// another, what was to come in a second when it left comes in a second.
DENIZEN_COLD inline void adjust_timers(const Shared& s, uint32_t id)
{
    WorkerState& worker_state = s.worker_states[id];
    if (lanes::shuffle(load<Scope::block>(&worker_state.restored), 0) == 0) {
        return;
    }
    const uint64_t now = lanes::shuffle(now_ns(), 0);
    const uint64_t left = worker_state.left_ns;
    for (uint32_t slot = lanes::id(); slot < s.timer_slots; slot += lanes::size) {
        uint64_t& due = due_of(s, id)[slot];
        if (due > timer_filling) {
            due = after(now, due > left ? due - left : 0);
        }
    }
    lanes::sync();
    if (lanes::id() == 0) {
        worker_state.restored = 0;
    }
    lanes::sync();
}

// Sends what is due; the answer is when it is due again, timer_free if it is not.
template <class P>
DENIZEN_COLD uint64_t fire_one(const Shared& s, uint32_t id, uint32_t slot, uint64_t due,
                               uint64_t now)
{
    const TimerEntry entry = timer_of(s, id, slot);
    uint64_t next = timer_free;
    if (entry.every_ns == 0) {
        free_timer(s, id, slot);
    } else { // what was missed is not made up for
        const uint64_t late = (now - due) % entry.every_ns;
        next = after(now, entry.every_ns - late);
        store<Scope::block>(&due_of(s, id)[slot], next);
    }
    bump(&s.counters[id].fired, 1);
    const Header h{entry.to, entry.owner, entry.type, 0, entry.length};
    if (!post_raw(s, id, h, entry.word, static_cast<Priority>(entry.priority),
                  P::policy_of(s, Address{entry.to}))) {
        bury(s, id, Reason::dropped, 0, h, entry.word);
    }
    return next;
}

// All lanes, when something is due: sends it, if the program runs. Some of it later, if messages
// that are parked take up half of the outbox: as with handlers, the other half is kept for what is
// under way. While messages are parked (`jammed`) timers add to them only where the host's may.
template <class P>
DENIZEN_COLD void fire(const Shared& s, uint32_t id, bool runs, bool jammed)
{
    WorkerState& worker_state = s.worker_states[id];
    adjust_timers(s, id);
    lanes::rejoin();
    bool room = true;
    if (jammed) {
        room = jams_itself(s);
        lanes::rejoin();
    }
    if (!runs || !room) {
        return;
    }
    const uint64_t now = lanes::shuffle(now_ns(), 0);
    if (lanes::id() == 0) {
        store<Scope::block>(&worker_state.due, never);
    }
    lanes::sync();
    for (uint32_t base = 0; base < s.timer_slots; base += lanes::size) {
        const uint32_t slot = base + lanes::id();
        uint64_t due = slot < s.timer_slots ? load<Scope::block>(&due_of(s, id)[slot]) : timer_free;
        const bool now_due = due > timer_filling && due <= now;
        const uint32_t before = lanes::popcount(lanes::ballot(now_due) & lanes::below());
        const uint32_t waiting = parked(s, id);
        // Each takes at most two slots: a long one has a stamp while messages are traced.
        if (now_due && waiting + 2 * before <= s.outbox_capacity / 2) {
            due = fire_one<P>(s, id, slot, due, now);
        }
        if (due > timer_filling) {
            fetch_min<Scope::block>(&worker_state.due, due);
        }
        lanes::rejoin();
    }
}

} // namespace detail

} // namespace denizen
