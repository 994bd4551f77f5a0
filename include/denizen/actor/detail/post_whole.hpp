// SPDX-License-Identifier: Apache-2.0
// Sending a message of several slots with all lanes of a worker: each lane writes one packet in a
// row. Called by whole-warp handlers (Context::send), by all lanes with the same arguments.
//
// The short ways, to a near worker and to an inbox of this node, are here; where there is no room,
// and on all other ways, post_by_all() parks, refuses and goes on as post_any() does.
#pragma once

#include <denizen/actor/detail/post.hpp>

namespace denizen::detail {

// What post_by_all() has come to.
enum class Posted : uint32_t { not_at_all, yes, refused };

// Not at all: the message has to go by post_any(). `drawn`: its tickets, in every lane, if some are
// drawn already: then the way is that to an inbox of this node.
DENIZEN_COLD inline Posted post_by_all(const Shared& s, uint32_t id, const Header& h,
                                       const void* payload, Priority priority, Overflow policy,
                                       const Drawn* tickets = nullptr)
{
    const Address to{h.destination};
    if (tickets == nullptr &&
        (to.is_reply_cell() || to.is_far() || !exists(s, to) || tracing(s, id))) {
        return Posted::not_at_all;
    }
    const Path path = tickets != nullptr ? Path{RingKind::inbox, to.worker(), Route::gpu}
                                         : path_to(s, id, to, priority);
    const Target t = target(s, id, path.kind, path.index);
    const Outgoing m = outgoing(h, payload);
    const uint32_t n = slots_for(h.length);
    Drawn drawn{};
    bool refused = false;
    if (lanes::id() == 0) {
        drawn = tickets != nullptr ? *tickets : draw(s, id, path, t, n);
        refused = drawn.free < n && overflow_of(s, to, policy) == Overflow::fail;
    }
    lanes::rejoin();
    drawn.ticket = lanes::shuffle(drawn.ticket, 0);
    drawn.free = lanes::shuffle(drawn.free, 0);
    const bool sent = lanes::ballot(refused) == 0;
    if (sent) {
        write_parts(t, drawn, drawn.ticket + 1, m, lanes::id(), lanes::size);
    }
    if (lanes::id() == 0) {
        if (!sent) {
            send_nothing(s, id, path, t, drawn, h, n);
        } else {
            if (drawn.free < n) {
                park_parts(s, id, path, drawn, m, n, false);
            }
            count_route(s, id, path.route);
        }
        wake(t);
    }
    lanes::sync();
    return sent ? Posted::yes : Posted::refused;
}

// A message whose payload is whole words, as the short ways write it.
struct WholeWords {
    Packet header; // without its sequence
    const uint32_t* payload;
    uint32_t words;

    // Packet `place` of the message.
    DENIZEN_HD Packet packet(uint32_t place, uint32_t sequence) const
    {
        Packet p{{header.word[0], header.word[1], header.word[2]}, sequence};
        if (place != 0) {
            const uint32_t at = 3 * (place - 1);
            for (uint32_t w = 0; w < 3; ++w) {
                p.word[w] = 0;
                if (at + w < words) {
                    p.word[w] = payload[at + w];
                }
            }
        }
        return p;
    }
};

// Calls put(slot, place in it, packet) for every packet of the slots, each in one lane. `first`:
// the lane's of the first there are. All that a lane reads is asked for before one is written: it
// may be far away.
template <class Put>
DENIZEN_HD inline void write_whole(const WholeWords& m, Packet first, uint32_t ticket,
                                   uint32_t packets, const Put& put)
{
    const uint32_t lane = lanes::id();
    if (lane < packets) {
        first.sequence = ticket + lane / 4 + 1;
        put(ticket + lane / 4, lane % 4, first);
    }
    DENIZEN_ROLLED
    for (uint32_t base = lanes::size + lane; base < packets; base += 4 * lanes::size) {
        Packet p[4];
        DENIZEN_UNROLL
        for (uint32_t k = 0; k < 4; ++k) {
            const uint32_t place = base + k * lanes::size;
            p[k] = m.packet(place, ticket + place / 4 + 1);
        }
        DENIZEN_UNROLL
        for (uint32_t k = 0; k < 4; ++k) {
            const uint32_t place = base + k * lanes::size;
            if (place < packets) {
                put(ticket + place / 4, place % 4, p[k]);
            }
        }
    }
}

// Sends a message of `length` bytes, whole words, more than first_payload. Everything comes in
// registers. As post_by_all().
DENIZEN_COLD inline Posted post_whole(const Shared& s, uint32_t id, uint32_t destination,
                                      uint32_t sender, uint32_t type, uint32_t length,
                                      const uint32_t* payload, Priority priority, Overflow policy)
{
    const Header h{destination, sender, type, 0, length};
    const WholeWords m{encode(h, 0), payload, length / 4};
    const uint32_t n = slots_for(length);
    const Packet first = m.packet(lanes::id(), 0); // on its way while a ticket is drawn
    const cluster::Address b = own_box(s, id);
    const box::Ways ways = box::ways(b);
    const uint32_t there = destination >> 18; // node and worker
    const uint32_t near = there - ways.first;
    const uint32_t w = there - s.node * max_workers;
    if (near < ways.count && priority == Priority::data) {
        const uint32_t mask = near == ways.own ? s.local_mask : s.near_mask;
        const uint32_t credit = cluster::load(box::credit(b, near));
        const uint32_t ticket = cluster::load(box::tail(b, near));
        const cluster::Address ring = ring_to(s, id, b, near);
        if (ticket + n - credit <= mask + 1) {
            lanes::sync(); // every lane has read the tail: only this worker's lanes move it
            if (lanes::id() == 0) {
                cluster::store_own(box::tail(b, near), ticket + n);
            }
            write_whole(m, first, ticket, 4 * n, [&](uint32_t t, uint32_t k, const Packet& p) {
                cluster::store_packet(ring + ((t & mask) * 4 + k) * sizeof(Packet), p);
            });
            if (lanes::id() == 0) {
                count_route(s, id, near_route(s, id, b, Address{destination}.worker(), near));
#if !DENIZEN_ON_DEVICE
                wake(target(s, id, RingKind::near, near));
#endif
            }
            lanes::sync();
            return Posted::yes;
        }
    } else if (w < ways.workers && priority == Priority::data) {
        const uint32_t mask = s.inbox_mask;
        Slot* slots = s.inboxes + static_cast<uint64_t>(w) * (mask + 1);
        uint32_t credit = 0;
        uint32_t ticket = 0;
        if (lanes::id() == 0) {
            // Acquire on the host: partner of the owner's release in give_credit().
            credit = load<Scope::system, host_acquire>(&s.inbox[w].credit);
            ticket = fetch_add<Scope::gpu>(&s.inbox[w].tail, n);
        }
        lanes::sync();
        credit = lanes::shuffle(credit, 0);
        ticket = lanes::shuffle(ticket, 0);
        const uint32_t used = ticket - credit;
        if (used + n <= mask + 1) {
            write_whole(m, first, ticket, 4 * n, [&](uint32_t t, uint32_t k, const Packet& p) {
                store_packet<Scope::system>(&slots[t & mask].packet[k], p);
            });
            if (lanes::id() == 0) {
                cluster::add(box::sent(b, Route::gpu), 1);
#if !DENIZEN_ON_DEVICE
                wake(target(s, id, RingKind::inbox, w));
#endif
            }
            lanes::sync();
            return Posted::yes;
        }
        const Drawn drawn{ticket, used > mask + 1 ? 0 : mask + 1 - used};
        return post_by_all(s, id, h, payload, priority, policy, &drawn);
    }
    return post_by_all(s, id, h, payload, priority, policy);
}

} // namespace denizen::detail
