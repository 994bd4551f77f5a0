// SPDX-License-Identifier: Apache-2.0
// Several producers, one consumer. Producers draw consecutive tickets from a shared
// word; the slots' sequences put their messages in ticket order.
//
// Hazard: a producer that stops between drawing a ticket and writing its slot holds up everything
// behind it. try_send draws only what has room, so on a full ring nobody holds a ticket.
#pragma once

#include <denizen/wire/spsc.hpp>

namespace denizen {

template <Scope S>
using MpscReceiver = SpscReceiver<S, true>;

template <Scope S>
class MpscSender {
public:
    MpscSender() = default;
    DENIZEN_HD explicit MpscSender(const RingView& ring) : ring_(ring) {}

    // As SpscSender::try_send; any number of threads may call it on copies of one sender.
    DENIZEN_HD Errc try_send(const Header& h, const void* payload)
    {
        const Errc refusal = detail::refuse_send(ring_, h);
        if (refusal != Errc::ok) {
            return refusal;
        }
        const uint32_t n = slots_for(h.length);
        const auto room = [&](uint32_t first) {
            // Acquire: partner of the consumer's release; its reads of the slots come before our
            // writes.
            const uint32_t credit = load<S, Order::acquire>(&ring_.words->credit);
            return has_room(first, n, credit, ring_.capacity());
        };
        uint32_t ticket = 0;
        if (!draw_tickets<S>(&ring_.words->tail, n, ticket, room)) {
            return Errc::full;
        }
        store_message<S>(ring_.slots, ring_.mask, ticket, h, payload);
        return Errc::ok;
    }

    // Sends messages of one type and length, `stride` bytes apart; returns how many found room. One
    // ring operation: they get consecutive tickets.
    DENIZEN_HD uint32_t try_send_batch(const Header& h, const void* payloads, uint32_t stride,
                                       uint32_t count)
    {
        if (count == 0 || detail::refuse_send(ring_, h) != Errc::ok) {
            return 0;
        }
        const uint32_t n = slots_for(h.length);
        const auto free = [&](uint32_t first) {
            // Acquire: as in try_send.
            const uint32_t used = first - load<S, Order::acquire>(&ring_.words->credit);
            // A ticket that is older than the credit makes the difference wrap.
            const uint32_t fit = used > ring_.capacity() ? 0 : (ring_.capacity() - used) / n;
            return (fit < count ? fit : count) * n;
        };
        uint32_t ticket = 0;
        const uint32_t sent = draw_free<S>(&ring_.words->tail, ticket, free) / n;
        const auto* bytes = static_cast<const unsigned char*>(payloads);
        for (uint32_t i = 0; i < sent; ++i) {
            store_message<S>(ring_.slots, ring_.mask, ticket + i * n, h,
                             bytes + static_cast<size_t>(stride) * i);
        }
        return sent;
    }

    DENIZEN_HD const RingView& ring() const { return ring_; }

private:
    RingView ring_;
};

} // namespace denizen
