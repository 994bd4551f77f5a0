// SPDX-License-Identifier: Apache-2.0
// Several producers, several consumers. Consumers finish out of order, so there is no credit word:
// the header packet's sequence tells the state of its slot, as in D. Vyukov's bounded MPMC queue:
//   t             free for ticket t
//   t + 1         full, with the message of ticket t
//   t + capacity  freed: ready for the next lap
// A message over several slots draws its tickets in one step and needs all its slots free.
#pragma once

#include <denizen/wire/ring.hpp>
#include <denizen/wire/tickets.hpp>

namespace denizen {

// Slots of an MPMC ring before their first use.
inline void clear_mpmc_slots(Slot* slots, uint32_t capacity, uint32_t start)
{
    clear_slots(slots, capacity, start);
    for (uint32_t i = 0; i < capacity; ++i) {
        slots[(start + i) & (capacity - 1)].packet[0].sequence = start + i;
    }
}

namespace detail {

// Between what was read of slots, or of their being free, and the next stores to them, which are
// another's (tests/model/ptx/credit_of_many.litmus). On the host the packets' own orders do.
template <Scope S>
DENIZEN_HD inline void lap_fence()
{
#if DENIZEN_ON_DEVICE
    fence_if<S>(true);
#endif
}

} // namespace detail

template <Scope S>
class MpmcSender {
public:
    MpmcSender() = default;
    DENIZEN_HD explicit MpmcSender(const RingView& ring) : ring_(ring) {}

    // ok, full, closed, oversize, wrong_type or peer_dead. Anything but ok: nothing was written.
    DENIZEN_HD Errc try_send(const Header& h, const void* payload)
    {
        const Errc refusal = detail::refuse_send(ring_, h);
        if (refusal != Errc::ok) {
            return refusal;
        }
        const uint32_t n = slots_for(h.length);
        uint32_t ticket = 0;
        if (!draw_tickets<S>(&ring_.words->tail, n, ticket,
                             [&](uint32_t first) { return free(first, n); })) {
            return Errc::full;
        }
        detail::lap_fence<S>();
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
        uint32_t ticket = 0;
        const uint32_t drawn = draw_free<S>(&ring_.words->tail, ticket, [&](uint32_t first) {
            uint32_t fit = 0;
            while (fit < count && free(first + fit * n, n)) { // ends: of a lap all are taken
                ++fit;
            }
            return fit * n;
        });
        detail::lap_fence<S>();
        const auto* bytes = static_cast<const unsigned char*>(payloads);
        for (uint32_t i = 0; i < drawn / n; ++i) {
            store_message<S>(ring_.slots, ring_.mask, ticket + i * n, h,
                             bytes + static_cast<size_t>(stride) * i);
        }
        return drawn / n;
    }

    DENIZEN_HD const RingView& ring() const { return ring_; }

private:
    DENIZEN_HD bool free(uint32_t ticket, uint32_t n) const
    {
        for (uint32_t i = 0; i < n; ++i) {
            // On the host an acquire, partner of the consumer's release in try_receive.
            const Packet p = load_packet<S>(&ring_.slots[(ticket + i) & ring_.mask].packet[0]);
            if (p.sequence != ticket + i) {
                return false;
            }
        }
        return true;
    }

    RingView ring_;
};

template <Scope S>
class MpmcReceiver {
public:
    MpmcReceiver() = default;
    DENIZEN_HD explicit MpmcReceiver(const RingView& ring) : ring_(ring) {}

    // ok, empty, closed, peer_dead, or oversize if the next message is longer than `room` bytes (it
    // stays in the ring and `h` tells its length).
    DENIZEN_HD Errc try_receive(Header& h, void* payload, uint32_t room)
    {
        const RingState state = ring_.state();
        uint32_t ticket = load<S>(&ring_.words->head);
        do {
            const Packet first = load_packet<S>(&ring_.slots[ticket & ring_.mask].packet[0]);
            if (first.sequence != ticket + 1) {
                const uint32_t latest = load<S>(&ring_.words->head);
                if (latest == ticket) {
                    return detail::nothing_left(
                        state, [&] { return load<S>(&ring_.words->tail) != ticket; });
                }
                ticket = latest;
                continue;
            }
            h = decode(first);
            if (h.length > room) {
                // Another consumer may have taken it meanwhile: then the header is not ours to
                // judge.
                if (load<S>(&ring_.words->head) == ticket) {
                    return Errc::oversize;
                }
                ticket = load<S>(&ring_.words->head);
                continue;
            }
            if (compare_exchange<S>(&ring_.words->head, ticket, ticket + slots_for(h.length))) {
                break;
            }
        } while (true); // ends: each failure means that another consumer got a message
        finish(ticket, h.length, payload);
        return Errc::ok;
    }

    // Receives messages of at most 36 bytes and hands them to `use(header, payload)`, at most
    // `count`; returns how many. Stops in front of a longer message. One ring operation takes all.
    template <class Use>
    DENIZEN_HD uint32_t receive_batch(uint32_t count, Use&& use)
    {
        uint32_t ticket = load<S>(&ring_.words->head);
        uint32_t taken = 0;
        do {
            taken = 0;
            while (taken < count && is_short(ticket + taken)) { // ends after a lap at the latest
                ++taken;
            }
            if (taken == 0) {
                const uint32_t latest = load<S>(&ring_.words->head);
                if (latest == ticket || count == 0) {
                    return 0;
                }
                ticket = latest; // another consumer has got what was here
            } else if (compare_exchange<S>(&ring_.words->head, ticket, ticket + taken)) {
                break;
            }
        } while (true); // ends: each failure means that another consumer got a message
        unsigned char payload[first_payload] = {};
        for (uint32_t i = 0; i < taken; ++i) {
            const Header h =
                decode(load_packet<S>(&ring_.slots[(ticket + i) & ring_.mask].packet[0]));
            finish(ticket + i, h.length, payload);
            use(h, static_cast<const unsigned char*>(payload));
        }
        return taken;
    }

    DENIZEN_HD const RingView& ring() const { return ring_; }

private:
    // Whether the message of this ticket has come and fits into one slot.
    DENIZEN_HD bool is_short(uint32_t ticket) const
    {
        const Packet first = load_packet<S>(&ring_.slots[ticket & ring_.mask].packet[0]);
        return first.sequence == ticket + 1 && decode(first).length <= first_payload;
    }

    // The payload of a message that is this consumer's; then its slots are free.
    DENIZEN_HD void finish(uint32_t ticket, uint32_t length, void* payload)
    {
        while (!load_payload<S>(ring_.slots, ring_.mask, ticket, length, payload)) {
            // Ends: the producer drew its tickets and is writing the rest of this message.
        }
        detail::lap_fence<S>();
        for (uint32_t i = 0; i < slots_for(length); ++i) {
            // On the host a release, partner of the acquire in MpmcSender::free.
            store_packet<S>(&ring_.slots[(ticket + i) & ring_.mask].packet[0],
                            {{0, 0, 0}, ticket + i + ring_.capacity()});
        }
    }

    RingView ring_;
};

} // namespace denizen
