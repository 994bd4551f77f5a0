// SPDX-License-Identifier: Apache-2.0
// Tickets: the places of a message's slots in the ring that it takes, drawn by its sender.
#pragma once

#include <denizen/actor/detail/path.hpp>
#include <denizen/actor/detail/target.hpp>

namespace denizen::detail {

// The tickets of a message, and how many of its slots there is room for now.
struct Drawn {
    uint32_t ticket;
    uint32_t free;
};

// How many of the n slots from a ticket there is room for.
DENIZEN_HD inline uint32_t free_slots(const Target& t, uint32_t ticket, uint32_t credit, uint32_t n)
{
    const uint32_t used = ticket - credit;
    const uint32_t free = used > t.mask + 1 ? 0 : t.mask + 1 - used;
    return free < n ? free : n;
}

// Whether a message that finds no room by the credit as last read is parked without another reading
// across the bus, which takes a lane longer than all else that it does: one of its worker's was
// parked just before. Now and then one reads it, for all that are sent behind.
DENIZEN_HD inline bool waits_behind(const Shared& s, uint32_t id, uint32_t ticket)
{
    return lanes::size > 1 && ticket % 32 != 0 && cluster::load(box::parked(own_box(s, id))) != 0;
}

// Draws the tickets of n slots.
DENIZEN_HD inline Drawn draw(const Shared& s, uint32_t id, const Path& path, const Target& t,
                             uint32_t n)
{
    // The credit may be older than the ticket: it is only a lower bound.
    uint32_t credit = 0;
    uint32_t ticket = 0;
    if (path.kind == RingKind::near) {
        const cluster::Address b = own_box(s, id);
        credit = cluster::load(box::credit(b, path.index));
        ticket = cluster::add(box::tail(b, path.index), n); // only this worker's lanes draw from it
    } else if (t.credit_seen != nullptr) {
        ticket = fetch_add<Scope::gpu>(t.tail, n);
        // Acquire and release on the host: partners of each other, and of the reader's release. On
        // a GPU see tests/model/ptx/credit_seen.litmus.
        credit = load<Scope::gpu, host_acquire>(t.credit_seen);
        if (ticket + n - credit > t.mask + 1 && !waits_behind(s, id, ticket)) {
            credit = load<Scope::system, host_acquire>(t.credit);
            store<Scope::gpu, host_release>(t.credit_seen, credit);
        }
    } else {
        // Acquire on the host: partner of the owner's release in give_credit().
        credit = load<Scope::system, host_acquire>(t.credit);
        ticket = fetch_add<Scope::gpu>(t.tail, n);
    }
    return {ticket, free_slots(t, ticket, credit, n)};
}

} // namespace denizen::detail
