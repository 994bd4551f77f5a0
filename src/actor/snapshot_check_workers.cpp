// SPDX-License-Identifier: Apache-2.0
// Whether what a snapshot says of a worker can be: its lists of actors, the messages that wait, who
// watches whom, the places for actors that handlers spawn, and timers.
#include "snapshot_check.hpp"

#include <denizen/actor/detail/lives.hpp>
#include <denizen/actor/detail/timers.hpp>
#include <denizen/actor/supervisor.hpp>

#include <set>

namespace denizen {

using detail::Supervisor;

// The failures that nobody has been told of: how many.
uint32_t SnapshotCheck::check_failed(const NodeImage& image, uint32_t w) const
{
    const std::vector<ActorRecord>& actor_records = image.actor_records[w];
    uint32_t n = 0;
    for (uint32_t at = image.worker_states[w].failed; at != 0; ++n) { // ends: n counts them
        require(at <= actor_records.size() && n < actor_records.size(), worker_of(image, w),
                "has a list of failures that leads astray");
        const uint32_t next = actor_records[at - 1].next_failed;
        require(next != 0, worker_of(image, w), "has a list of failures that breaks off");
        at = next == last_failed ? 0 : next;
    }
    return n;
}

// Those catching up: how many.
uint32_t SnapshotCheck::check_ready(const NodeImage& image, uint32_t w) const
{
    const std::vector<ActorRecord>& actor_records = image.actor_records[w];
    uint32_t n = 0;
    uint32_t last = 0;
    for (uint32_t at = image.worker_states[w].ready_first; at != 0; ++n) { // ends: n counts them
        require(at <= actor_records.size() && n < actor_records.size() &&
                    actor_records[at - 1].listed == 1,
                worker_of(image, w), "has a list of actors catching up that leads astray");
        last = at;
        at = actor_records[at - 1].next_ready;
    }
    require(last == image.worker_states[w].ready_last, worker_of(image, w),
            "has a list of actors catching up whose end is another");
    return n;
}

// The supervisors with orders to give, which may have stopped: how many.
uint32_t SnapshotCheck::check_sweeping(const NodeImage& image, uint32_t w)
{
    const std::vector<ActorEntry>& actors = image.actors[w];
    const Node& node = *image.node;
    uint32_t n = 0;
    std::set<uint32_t> found;
    for (uint32_t at = image.worker_states[w].sweeping; at != 0; ++n) { // ends: none is found twice
        require(at <= actors.size() && found.insert(at).second, worker_of(image, w),
                "has a list of supervisors that leads astray");
        const ActorEntry& entry = actors[at - 1];
        const Address place = Address::actor(w, at - 1, node.shared.node);
        require(entry.kind == 0 || entry.type() == supervisor_type, place,
                "has an actor in its list of supervisors");
        const uint64_t bytes = state_bytes(image, place, entry);
        const Extent state = state_of(image, place, entry, bytes, alignof(Supervisor));
        if (entry.kind == 0) {
            extents_[place.node()].push_back(state);
        }
        const auto sup = image.memory->read(static_cast<const Supervisor*>(entry.state));
        require(sup.listed != 0, place, "has a supervisor in its list that says it is in none");
        at = sup.link;
    }
    for (uint32_t local = 0; local < actors.size(); ++local) {
        const ActorEntry& entry = actors[local];
        if (entry.kind != 0 && entry.type() == supervisor_type && found.count(local + 1) == 0) {
            const auto sup = image.memory->read(static_cast<const Supervisor*>(entry.state));
            require(sup.listed == 0, worker_of(image, w),
                    "has a supervisor that says it is in a list and is not");
        }
    }
    return n;
}

// The messages that wait, in a store of slots: each slot is in one list, and no more are given out
// than there are. What the messages say: snapshot_check_messages.cpp.
void SnapshotCheck::check_stash(const NodeImage& image, uint32_t w) const
{
    const Shared& s = image.node->shared;
    const WorkerState& worker_state = image.worker_states[w];
    const Address worker = worker_of(image, w);
    const char* const astray = "has a list of stashed messages that leads astray";
    require(worker_state.stash_fresh <= s.stash_slots &&
                worker_state.stash_used <= worker_state.stash_fresh,
            worker, "holds more messages than there is room for");
    const std::vector<StashSlot> slots = image.memory->read_all(
        s.stash + w * static_cast<size_t>(s.stash_slots), worker_state.stash_fresh);
    std::vector<bool> taken(slots.size());
    const auto take = [&](uint32_t at) {
        require(at != 0 && at <= slots.size() && !taken[at - 1], worker, astray);
        taken[at - 1] = true;
    };
    uint32_t free = 0;
    for (uint32_t at = worker_state.stash_free; at != 0;
         at = slots[at - 1].next) { // ends: none twice
        take(at);
        ++free;
    }
    require(worker_state.stash_fresh - free == worker_state.stash_used, worker,
            "counts other stash slots than there are");
    for (const ActorRecord& record : image.actor_records[w]) {
        uint32_t message = record.first_stashed;
        for (uint32_t k = 0; k < record.stashed; ++k) { // ends: no slot is taken twice
            take(message);
            const Header h = detail::stashed_header(slots[message - 1]);
            uint32_t n = 1;
            for (uint32_t at = slots[message - 1].next; at != 0; at = slots[at - 1].next, ++n) {
                take(at);
            }
            require(n == slots_for(h.length), worker,
                    "holds a message of another length than its slots");
            require((h.flags & ~(flag_system | flag_traced)) == 0, worker,
                    "holds a message that cannot wait");
            if ((h.flags & flag_system) != 0) {
                check_life_order(worker, h, slots[message - 1].word + 3);
            } else {
                check_payload(worker, h, flag_traced);
            }
            require(k + 1 != record.stashed || record.last_stashed == message, worker, astray);
            message = slots[message - 1].link;
        }
    }
}

void SnapshotCheck::check_watchers(const NodeImage& image, uint32_t w) const
{
    const Shared& s = image.node->shared;
    const WorkerState& worker_state = image.worker_states[w];
    const Address worker = worker_of(image, w);
    require(worker_state.watch_fresh <= s.watch_slots, worker,
            "has more watchers than there is room for");
    const std::vector<WatchEntry> table = image.memory->read_all(
        s.watchers + w * static_cast<size_t>(s.watch_slots), worker_state.watch_fresh);
    std::vector<bool> taken(table.size());
    const auto follow = [&](uint32_t at) {
        for (; at != 0; at = table[at - 1].next) { // ends: no entry is taken twice
            require(at <= table.size() && !taken[at - 1], worker,
                    "has a list of watchers that leads astray");
            taken[at - 1] = true;
        }
    };
    follow(worker_state.watch_free);
    for (const ActorRecord& record : image.actor_records[w]) {
        follow(record.watchers);
    }
}

// Places for actors that handlers spawn: those that will be given out are each one and empty, and
// no more are taken than there are.
void SnapshotCheck::check_places(const NodeImage& image, uint32_t w) const
{
    const Shared& s = image.node->shared;
    const WorkerState& worker_state = image.worker_states[w];
    const Address worker = worker_of(image, w);
    const uint32_t room = s.spawn_room;
    require(worker_state.spawned - worker_state.vacated <= room, worker,
            "has more actors that handlers have spawned than there is room for");
    const std::vector<uint32_t> vacant =
        image.memory->read_all(s.vacant + w * static_cast<size_t>(room), room);
    std::vector<bool> taken(room);
    for (uint32_t t = worker_state.spawned; t != worker_state.vacated + room; ++t) {
        const uint32_t at = t & (room - 1);
        const uint32_t place = vacant[at] == 0 ? at : vacant[at] - 1;
        require(place < room && !taken[place], worker,
                "has a queue of vacant places that leads astray");
        taken[place] = true;
        const ActorRecord& record = image.actor_records[w][place];
        require(image.actors[w][place].kind == 0 && record.next_failed == 0 && record.listed == 0,
                worker, "has somebody in a place that is vacant");
    }
}

// What is to be sent later.
void SnapshotCheck::check_timers(const NodeImage& image, uint32_t w) const
{
    const Shared& s = image.node->shared;
    const Address worker = worker_of(image, w);
    const size_t first = w * static_cast<size_t>(s.timer_slots);
    // Most workers have never armed one.
    const bool none = image.memory->zero(s.timer_due + first, sizeof(uint64_t) * s.timer_slots) &&
                      image.memory->zero(s.timers + first, sizeof(TimerEntry) * s.timer_slots);
    const size_t slots = none ? 0 : s.timer_slots;
    const std::vector<uint64_t> due = image.memory->read_all(s.timer_due + first, slots);
    const std::vector<TimerEntry> timers = image.memory->read_all(s.timers + first, slots);
    uint32_t armed = 0;
    for (uint32_t i = 0; i < timers.size(); ++i) {
        require(timers[i].number <= 0xffff, worker, "has a timer of no known number");
        if (due[i] == detail::timer_free) {
            continue;
        }
        ++armed;
        const TimerEntry& t = timers[i];
        require(due[i] != detail::timer_filling && due[i] != detail::never, worker,
                "is about to arm a timer");
        require(t.type < c_.image.table.messages && t.length <= first_payload &&
                    c_.image.buffers[t.type].empty() &&
                    t.priority == c_.image.table.message[t.type].priority,
                worker, "has a timer with a message that cannot be sent later");
        check_payload(worker, {t.to, t.owner, t.type, 0, t.length}, 0);
    }
    require(armed == image.worker_states[w].armed, worker, "counts other timers than there are");
    require(image.worker_states[w].next_timer < s.timer_slots, worker,
            "looks for timers where there are none");
}

void SnapshotCheck::check_worker(const NodeImage& image, uint32_t w)
{
    const Shared& s = image.node->shared;
    const Status& status = image.status[w];
    const WorkerState& worker_state = image.worker_states[w];
    const Address worker = worker_of(image, w);
    require(status.actors <= s.actors_per_worker, worker, "has more actors than there is room for");
    require(status.outbox <= s.outbox_capacity, worker,
            "has parked more messages than there is room for");
    require(status.for_host <= 1 && (status.for_host == 0 || status.outbox != 0), worker,
            "counts messages for the host among none");
    require(status.outbox_lock == 0 && status.turn % 2 == 0, worker, "is in the middle of a turn");
    for (const uint64_t running : status.running) {
        require(running == 0, worker, "is in the middle of a handler");
    }
    uint32_t away = 0;
    uint32_t moving = 0;
    for (uint32_t local = 0; local < image.actors[w].size(); ++local) {
        const Address place = Address::actor(w, local, s.node);
        const ActorEntry& entry = image.actors[w][local];
        const ActorRecord& record = image.actor_records[w][local];
        check_entry(image, place, entry, record);
        away += detail::is_away(record.life) ? 1 : 0;
        moving += record.life == static_cast<uint32_t>(Life::moving) && entry.self == place.value;
    }
    require(worker_state.away >= away, worker,
            "counts fewer actors that do not run than there are");
    require(worker_state.moving >= moving, worker, "counts fewer actors that move than there are");
    const uint32_t chores =
        check_failed(image, w) + check_ready(image, w) + check_sweeping(image, w);
    require(worker_state.chores == chores, worker, "counts other chores than there are");
    check_stash(image, w);
    check_watchers(image, w);
    check_places(image, w);
    check_timers(image, w);
}

} // namespace denizen
