// SPDX-License-Identifier: Apache-2.0
// Sending from a worker: to an actor's inbox, to the host's egress ring, into a reply cell.
//
// A send never waits for room, so rings that are full both ways do not deadlock: it draws its
// ticket and, if the slot of that ticket is not free yet, the message is parked in the worker's
// outbox and written later. While any worker has something parked, none takes messages from the
// host: that is the back-pressure, and it is what keeps outboxes from filling
// (tests/model/outbox.pml).
//
// What is rare is kept out of line: the path of a message stays short enough for the instruction
// cache. Everything here belongs to worker `id` and is called by its lanes.
#pragma once

#include <denizen/actor/address.hpp>
#include <denizen/base/clock.hpp>
#include <denizen/base/lanes.hpp>
#include <denizen/memory/access.hpp>
#include <denizen/resident/layout.hpp>
#include <denizen/wire/wait.hpp>

namespace denizen {

namespace detail {

// Device: relaxed is enough, packets carry their own arrival and a credit is only a lower bound.
// Host: ordering costs nothing on x86 and tells ThreadSanitizer about the slots' reuse.
inline constexpr Order host_acquire = DENIZEN_ON_DEVICE ? Order::relaxed : Order::acquire;
inline constexpr Order host_release = DENIZEN_ON_DEVICE ? Order::relaxed : Order::release;

} // namespace detail

// Keeps the first error of a kind, for the host.
DENIZEN_HD inline void keep_first(FirstError& first, const ErrorRecord& record)
{
    uint32_t none = 0;
    if (compare_exchange<Scope::gpu>(&first.set, none, 1u)) {
        first.record = record;
        // Release: partner of the monitor's acquire in scan().
        store<Scope::gpu, Order::release>(&first.set, 2u);
    }
}

DENIZEN_HD inline void report_error(const Shared& s, const ErrorRecord& record)
{
    fetch_add<Scope::gpu>(&s.board->errors, uint64_t{1});
    keep_first(s.board->first, record);
}

// A message without a live actor, or without a handler.
DENIZEN_COLD inline void dead_letter(const Shared& s, uint32_t id, Errc code, uint32_t to,
                                     uint32_t type, uint32_t sender)
{
    fetch_add<Scope::block>(&s.status[id].dead_letters, uint64_t{1});
    report_error(s, {static_cast<uint32_t>(code), id, to, type, sender});
}

// Wakes the CPU worker that may sleep on the other side of an inbox.
DENIZEN_HD inline void ring_worker([[maybe_unused]] const Shared& s,
                                   [[maybe_unused]] uint32_t worker)
{
#if !DENIZEN_ON_DEVICE && DENIZEN_HOSTED
    ring_bell(&s.bells[worker].bell, &s.bells[worker].sleeping);
#endif
}

DENIZEN_HD inline uint32_t parked(const Shared& s, uint32_t id)
{
    return lanes::shuffle(load<Scope::block>(&s.status[id].outbox), 0);
}

namespace detail {

DENIZEN_HD inline bool has_room(const Parked& p)
{
    // Acquire on the host: partner of the consumer's release of its credit.
    return p.ticket - load<Scope::system, host_acquire>(p.credit) < p.capacity;
}

DENIZEN_HD inline void write_parked(const Shared& s, const Parked& p)
{
    for (int k = 0; k < 4; ++k) {
        store_packet<Scope::system>(&reinterpret_cast<Slot*>(p.target)->packet[k],
                                    p.slot.packet[k]);
    }
    if (p.owner != no_worker) {
        ring_worker(s, p.owner);
    }
}

// Entry of an outbox: free, being filled, or the address of the slot it is bound for.
inline constexpr uintptr_t entry_free = 0;
inline constexpr uintptr_t entry_filling = 1;

enum class Outlook { moving, only_to_self };

// One lane, in the middle of a handler, writes the parked messages that have room and frees their
// entries. The list keeps its length: other lanes may be adding to it.
DENIZEN_COLD inline Outlook flush_during_handler(const Shared& s, uint32_t id)
{
    Status& status = s.status[id];
    Parked* outbox = s.outboxes + static_cast<uint64_t>(id) * s.outbox_capacity;
    uint32_t open = 0;
    // Acquire: partner of the release below.
    if (!compare_exchange<Scope::block, Order::acquire>(&status.outbox_lock, open, 1u)) {
        return Outlook::moving; // another lane is at it
    }
    Outlook outlook = Outlook::only_to_self;
    for (uint32_t i = 0; i < s.outbox_capacity; ++i) {
        Parked& p = outbox[i];
        // Acquire: partner of the release in fill(); the rest of the entry is complete.
        const uintptr_t target = load<Scope::block, Order::acquire>(&p.target);
        if (target > entry_filling && has_room(p)) {
            write_parked(s, p);
            store<Scope::block, Order::release>(&p.target, entry_free); // partner: claim()
            outlook = Outlook::moving;
        } else if (target <= entry_filling || p.owner != id) {
            outlook = Outlook::moving;
        }
    }
    store<Scope::block, Order::release>(&status.outbox_lock, 0u);
    return outlook;
}

DENIZEN_HD inline bool claim(Parked& p)
{
    uintptr_t found = entry_free;
    return compare_exchange<Scope::block, Order::acquire>(&p.target, found, entry_filling);
}

// An entry for one more message: the next one, or any that is free by now. Null if there is none.
DENIZEN_HD inline Parked* find_entry(const Shared& s, uint32_t id)
{
    Status& status = s.status[id];
    Parked* outbox = s.outboxes + static_cast<uint64_t>(id) * s.outbox_capacity;
    const uint32_t place = fetch_add<Scope::block>(&status.outbox, 1u);
    if (place == 0) {
        fetch_add<Scope::gpu>(&s.board->jammed, 1u);
    }
    if (place < s.outbox_capacity && claim(outbox[place])) {
        return &outbox[place];
    }
    if (place >= s.outbox_capacity) {
        fetch_add<Scope::block>(&status.outbox, ~0u);
    }
    for (uint32_t i = 0; i < s.outbox_capacity; ++i) {
        if (claim(outbox[i])) {
            return &outbox[i];
        }
    }
    return nullptr;
}

} // namespace detail

// Keeps one slot of a message whose ticket has no room yet. `owner`: the worker that consumes the
// ring, or no_worker.
DENIZEN_COLD inline void park(const Shared& s, uint32_t id, const Slot& content, Slot* target,
                              const uint32_t* credit, uint32_t capacity, uint32_t ticket,
                              uint32_t owner, const Header& h)
{
    const uint64_t begin = now_ns();
    Parked* p = detail::find_entry(s, id);
    while (p == nullptr) {
        // The outbox is full too. Ends: when something parked has left, by the stop command, or
        // with an error: at once if all of it waits for this very worker, which cannot make room
        // before this handler ends, and after two seconds if nobody else makes room either. The
        // program then stops, instead of hanging or losing the message silently.
        const detail::Outlook outlook = detail::flush_during_handler(s, id);
        if (load<Scope::gpu>(&s.board->command) == static_cast<uint32_t>(Command::stop)) {
            return;
        }
        if (outlook == detail::Outlook::only_to_self || now_ns() - begin > 2'000'000'000) {
            const ErrorRecord record{static_cast<uint32_t>(Errc::exhausted), id, h.sender, h.type,
                                     h.destination};
            report_error(s, record);
            keep_first(s.board->fatal, record);
            store<Scope::gpu>(&s.board->command, static_cast<uint32_t>(Command::stop));
            return;
        }
        relax();
        p = detail::find_entry(s, id);
    }
    p->slot = content;
    p->credit = credit;
    p->ticket = ticket;
    p->capacity = capacity;
    p->owner = owner;
    // Release: partner of the acquire in flush_during_handler().
    store<Scope::block, Order::release>(&p->target, reinterpret_cast<uintptr_t>(target));
}

// Between handlers, all lanes: writes the parked messages that have room; keeps the rest in order.
DENIZEN_COLD inline bool flush(const Shared& s, uint32_t id)
{
    Status& status = s.status[id];
    Parked* outbox = s.outboxes + static_cast<uint64_t>(id) * s.outbox_capacity;
    const uint32_t n = parked(s, id);
    uint32_t kept = 0;
    for (uint32_t base = 0; base < n; base += lanes::size) {
        const uint32_t i = base + lanes::id();
        bool keep = false;
        Parked p{};
        if (i < n) {
            p = outbox[i];
            const bool filled = p.target != detail::entry_free;
            keep = filled && !detail::has_room(p);
            if (filled && !keep) {
                detail::write_parked(s, p);
            }
        }
        lanes::sync(); // every entry of this group has been read before one is overwritten
        const uint32_t staying = lanes::ballot(keep);
        if (i < n) {
            outbox[i].target = detail::entry_free;
        }
        lanes::sync();
        if (keep) {
            outbox[kept + lanes::popcount(staying & lanes::below())] = p;
        }
        kept += lanes::popcount(staying);
        lanes::sync();
    }
    if (lanes::id() == 0) {
        store<Scope::block>(&status.outbox, kept);
        if (kept == 0) {
            fetch_add<Scope::gpu>(&s.board->jammed, ~0u);
        }
    }
    lanes::sync();
    return kept != n;
}

namespace detail {

// Slot i of a message, as it goes on the wire.
template <class M>
DENIZEN_HD inline Slot make_slot(uint32_t i, uint32_t sequence, const Header& h, const M& message)
{
    const auto* bytes = reinterpret_cast<const unsigned char*>(&message);
    Slot slot;
    for (uint32_t k = 0; k < 4; ++k) {
        const uint32_t place = 4 * i + k;
        if (place == 0) {
            slot.packet[0] = encode(h, sequence);
        } else if constexpr (sizeof(M) <= first_payload) {
            slot.packet[k] = pack<sizeof(M)>(bytes, (place - 1) * packet_payload, sequence);
        } else {
            slot.packet[k] = pack(bytes, sizeof(M), (place - 1) * packet_payload, sequence);
        }
    }
    return slot;
}

// A reply of at most 8 bytes, all in one packet: the host's core polls the cell's line, and each
// further store to it would cost that core one more miss.
DENIZEN_HD inline void store_compact(Slot* cell, Address to, uint32_t type, uint32_t flags,
                                     const void* payload, uint32_t length)
{
    uint32_t words[2] = {0, 0};
    copy_bytes(words, payload, length);
    store_packet<Scope::system>(
        &cell->packet[0],
        encode({words[0], words[1], type, flags | flag_compact, length}, to.value));
}

} // namespace detail

// Sends one message of worker `id`'s actor `self`; called by one lane, in a handler.
template <class M>
DENIZEN_HD inline void post(const Shared& s, uint32_t id, Address to, uint32_t self, uint32_t type,
                            const M& message)
{
    constexpr uint32_t n = slots_for(sizeof(M));
    // Where the slots lie, the first one's number, and how many from there on are free.
    Slot* slots = nullptr;
    uint32_t mask = 0;
    uint32_t ticket = 0;
    uint32_t sequence = 0;
    uint32_t free = n;
    const uint32_t* credit_word = nullptr;
    uint32_t owner = no_worker;
    if (to.is_reply_cell() && to.cell() < s.cell_count) {
        // The sequence of a reply is its address: nobody else was given it.
        slots = s.cells + static_cast<uint64_t>(to.cell()) * s.cell_slots;
        if constexpr (sizeof(M) <= compact_payload) {
            detail::store_compact(slots, to, type, 0, &message, sizeof(M));
            return;
        }
        mask = s.cell_slots - 1;
        sequence = to.value;
    } else {
        uint32_t credit = 0;
        if (to.is_host() && !to.is_reply_cell()) {
            ticket = fetch_add<Scope::gpu>(&s.board->egress_tail, n);
            slots = s.egress;
            mask = s.egress_mask;
            // The host's credit lies across the bus: the last reading serves until it runs out.
            credit_word = s.egress_credit;
            credit = load<Scope::block>(&s.status[id].egress_credit);
            if (ticket + n - credit > mask + 1) {
                credit = load<Scope::system, detail::host_acquire>(credit_word);
                store<Scope::block>(&s.status[id].egress_credit, credit);
            }
        } else if (to.node() == 0 && to.worker() < s.workers) {
            owner = to.worker();
            slots = s.inboxes + static_cast<uint64_t>(owner) * (s.inbox_mask + 1);
            mask = s.inbox_mask;
            credit_word = &s.inbox[owner].credit;
            // Acquire on the host: partner of the owner's release in give_credit().
            credit = load<Scope::gpu, detail::host_acquire>(credit_word);
            ticket = fetch_add<Scope::gpu>(&s.inbox[owner].tail, n);
        } else {
            dead_letter(s, id, Errc::no_actor, to.value, type, self);
            detail::drop_references(s, message);
            return;
        }
        sequence = ticket + 1;
        const uint32_t used = ticket - credit;
        free = used > mask + 1 ? 0 : mask + 1 - used;
    }
    const Header h{to.value, self, type, 0, sizeof(M)};
    for (uint32_t i = 0; i < n; ++i) {
        const Slot content = detail::make_slot(i, sequence + i, h, message);
        Slot* slot = &slots[(ticket + i) & mask];
        if (i < free) {
            for (int k = 0; k < 4; ++k) {
                store_packet<Scope::system>(&slot->packet[k], content.packet[k]);
            }
        } else {
            park(s, id, content, slot, credit_word, mask + 1, ticket + i, owner, h);
        }
    }
    if (owner != no_worker) {
        ring_worker(s, owner);
    }
}

} // namespace denizen
