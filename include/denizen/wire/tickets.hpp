// SPDX-License-Identifier: Apache-2.0
// How a producer comes to a ticket, which is the number of a slot that is its own to write. Ticket
// t is free once the consumer has come so far that t - credit < capacity. There are three ways:
//   PlaceOfOne     a lone producer counts by itself, and reads the credit when its last reading has
//                  run out: SpscSender, the host's rings (src/actor/port.hpp)
//   draw_tickets   one of several takes a ticket only if there is room for it, so that nobody ever
//                  holds one without: MpscSender, MpmcSender, ActorsRef; draw_free takes as many as
//                  there is room for, for a batch
//   fetch_add      one of several takes a ticket in any case, and waits with it in an outbox until
//                  its slot is free: what actors send each other (actor/detail/post.hpp)
#pragma once

#include <denizen/base/atomic.hpp>

namespace denizen {

// Whether n slots from `ticket` on are free. A ticket that is older than the credit makes the
// difference wrap and look full.
DENIZEN_HD constexpr bool has_room(uint32_t ticket, uint32_t n, uint32_t credit, uint32_t capacity)
{
    return ticket + n - credit <= capacity;
}

// Trivially copyable; a loop that sends keeps it in registers.
struct PlaceOfOne {
    uint32_t tail = 0; // the next ticket
    uint32_t seen = 0; // the credit as last read

    // Whether n slots from `tail` on are free.
    template <Scope S>
    DENIZEN_HD bool room(uint32_t n, uint32_t capacity, const uint32_t* credit)
    {
        if (has_room(tail, n, seen, capacity)) {
            return true;
        }
        // Acquire: partner of the consumer's release; its reads of the slots come before our
        // writes.
        seen = load<S, Order::acquire>(credit);
        return has_room(tail, n, seen, capacity);
    }
};

// Draws tickets in one step from the word that all producers share: as many as `free(first)` says
// of those from `first` on. Returns how many; 0, and nothing is drawn, if that says 0.
template <Scope S, class Free>
DENIZEN_HD inline uint32_t draw_free(uint32_t* tail, uint32_t& ticket, Free&& free)
{
    ticket = load<S>(tail);
    for (;;) { // ends: each failure means that another producer has got its ticket
        const uint32_t n = free(ticket);
        if (n == 0) {
            const uint32_t latest = load<S>(tail);
            if (latest == ticket) {
                return 0;
            }
            ticket = latest;
        } else if (compare_exchange<S>(tail, ticket, ticket + n)) {
            return n;
        }
    }
}

// Draws n tickets if `room(first)` says that those from `first` on are free. False, and nothing is
// drawn, if they are not.
template <Scope S, class Room>
DENIZEN_HD inline bool draw_tickets(uint32_t* tail, uint32_t n, uint32_t& ticket, Room&& room)
{
    return draw_free<S>(tail, ticket, [&](uint32_t first) { return room(first) ? n : 0; }) != 0;
}

} // namespace denizen
