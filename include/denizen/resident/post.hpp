// SPDX-License-Identifier: Apache-2.0
// Sending from a worker. A message takes the nearest way there is, chosen from the two addresses:
// the ring of a worker to itself, a near ring within the cluster, the inbox of a worker of this
// node, the one that a peer keeps for this node, the host's egress ring, or a reply cell. All
// messages of one pair of actors take the same way, hence arrive in order; urgent ones have rings
// of their own.
//
// A send never waits for room, so rings that are full both ways do not deadlock: it draws its
// ticket and, if the slot of that ticket is not free yet, the message is parked in the worker's
// outbox (outbox.hpp) and written later.
//
// What is rare is kept out of line: the path of a message stays short enough for the instruction
// cache. Everything here belongs to worker `id` and is called by its lanes.
#pragma once

#include <denizen/actor/address.hpp>
#include <denizen/actor/life.hpp>
#include <denizen/base/lanes.hpp>
#include <denizen/resident/dead_letters.hpp>
#include <denizen/resident/layout.hpp>
#include <denizen/resident/near.hpp>
#include <denizen/resident/outbox.hpp>
#include <denizen/resident/traced.hpp>

namespace denizen {

namespace detail {

// Slot i of a message, as it goes on the wire. L: its payload bytes if known at compile time.
template <uint32_t L>
DENIZEN_HD inline Slot make_slot(uint32_t i, uint32_t sequence, const Header& h,
                                 const unsigned char* bytes)
{
    Slot slot;
    for (uint32_t k = 0; k < 4; ++k) {
        const uint32_t place = 4 * i + k;
        if (place == 0) {
            slot.packet[0] = encode(h, sequence);
        } else if constexpr (L <= first_payload) {
            slot.packet[k] = pack<L>(bytes, (place - 1) * packet_payload, sequence);
        } else {
            slot.packet[k] = pack(bytes, h.length, (place - 1) * packet_payload, sequence);
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

DENIZEN_HD inline void count_route(const Shared& s, uint32_t id, Route route)
{
    cluster::add(box::sent(own_box(s, id), route), 1);
}

// Where a message goes, found from its destination.
struct Way {
    RingKind kind;
    uint32_t index; // of target()
    Route route;
};

DENIZEN_HD inline Route near_route(const Shared& s, uint32_t id, cluster::Address b,
                                   uint32_t worker, uint32_t near)
{
    return worker == id                                  ? Route::worker
           : near - cluster::load(box::sm(b)) < s.per_sm ? Route::sm
                                                         : Route::cluster;
}

DENIZEN_HD inline Way way_to(const Shared& s, uint32_t id, Address to, Priority priority)
{
    if (to.is_host()) {
        return {RingKind::egress, 0, Route::to_host};
    }
    const uint32_t w = to.worker();
    if (to.node() != s.node) {
        return {RingKind::peer, to.node() * max_workers + w, Route::peer};
    }
    if (priority == Priority::urgent) {
        return {RingKind::urgent, w, Route::gpu};
    }
    const cluster::Address b = own_box(s, id);
    const uint32_t near = (to.value >> 18) - cluster::load(box::first(b));
    if (near < cluster::load(box::rings(b))) {
        return {RingKind::near, near, near_route(s, id, b, w, near)};
    }
    return {RingKind::inbox, w, Route::gpu};
}

DENIZEN_HD inline bool exists(const Shared& s, Address to)
{
    return to.is_host() || (to.node() < s.nodes && to.worker() < s.workers);
}

// Whether a message there is sent, and no dead letter at once.
DENIZEN_HD inline bool reachable(const Shared& s, Address to)
{
    return to.is_reply_cell() ? to.cell() < s.cell_count : exists(s, to);
}

// The tickets of a message, and how many of its slots there is room for now.
struct Drawn {
    uint32_t ticket;
    uint32_t free;
};

DENIZEN_HD inline Drawn draw(const Shared& s, uint32_t id, const Way& way, const Target& t,
                             uint32_t n)
{
    // The credit may be older than the ticket: it is only a lower bound.
    uint32_t credit = 0;
    uint32_t ticket = 0;
    if (way.kind == RingKind::near) {
        const cluster::Address b = own_box(s, id);
        credit = cluster::load(box::credit(b, way.index));
        ticket = cluster::add(box::tail(b, way.index), n); // only this worker's lanes draw from it
    } else if (way.kind == RingKind::egress) {
        ticket = fetch_add<Scope::gpu>(t.tail, n);
        // The host's credit lies across the bus: the last reading serves until it runs out.
        credit = load<Scope::block>(&s.status[id].egress_credit);
        if (ticket + n - credit > t.mask + 1) {
            credit = load<Scope::system, host_acquire>(t.credit);
            store<Scope::block>(&s.status[id].egress_credit, credit);
        }
    } else {
        // Acquire on the host: partner of the owner's release in give_credit().
        credit = load<Scope::system, host_acquire>(t.credit);
        ticket = fetch_add<Scope::gpu>(t.tail, n);
    }
    const uint32_t used = ticket - credit;
    const uint32_t free = used > t.mask + 1 ? 0 : t.mask + 1 - used;
    return {ticket, free < n ? free : n};
}

// Packet `place` of a message.
template <uint32_t L>
DENIZEN_HD inline Packet part(uint32_t place, uint32_t sequence, const Header& h,
                              const unsigned char* bytes)
{
    if (place == 0) {
        return encode(h, sequence);
    }
    const uint32_t at = (place - 1) * packet_payload;
    if (L > first_payload && (reinterpret_cast<uintptr_t>(bytes) & 3) == 0 &&
        at + packet_payload <= h.length) {
        const auto* words = reinterpret_cast<const uint32_t*>(bytes + at);
        return {{words[0], words[1], words[2]}, sequence};
    }
    return pack(bytes, h.length, at, sequence);
}

// Writes the slots that there is room for, `lane` of `lanes` every so-many-th packet: packet
// `place` of the message is part(place, sequence).
template <class Part>
DENIZEN_HD inline void write_parts(const Target& t, const Drawn& drawn, uint32_t lane,
                                   uint32_t lanes, const Part& part)
{
#if DENIZEN_ON_DEVICE
#pragma unroll 4 // what a lane reads is far away: let it wait for several at once
#endif
    for (uint32_t place = lane; place < 4 * drawn.free; place += lanes) {
        const uint32_t ticket = drawn.ticket + place / 4;
        write_packet(t, ticket, place % 4, part(place, ticket + 1));
    }
}

// Draws n tickets and writes the slots; what has no room is parked. `part`: as in write_parts().
// False: the actor's policy is to refuse what has no room, and the message was not sent. If it is
// to drop the oldest, the actor is told to drop one more (it is one of this node's).
template <class Part>
DENIZEN_HD inline bool send_slots(const Shared& s, uint32_t id, const Way& way, Header h,
                                  uint32_t n, Overflow policy, const Part& part)
{
    const Target t = target(s, id, way.kind, way.index);
    const Drawn drawn = draw(s, id, way, t, n);
    const bool refused = policy == Overflow::fail && drawn.free < n;
    if (policy == Overflow::drop_oldest && drawn.free < n) {
        const Address to{h.destination};
        ActorBook* book =
            s.books + static_cast<uint64_t>(to.worker()) * s.actors_per_worker + to.local();
        fetch_add<Scope::gpu>(&book->drop, 1u);
    }
    if (!refused) {
        write_parts(t, drawn, 0, 1, part);
    } else { // the tickets are drawn: they carry nothing
        h.type = static_cast<uint32_t>(SystemOp::none);
        h.flags = flag_system;
        h.length = 0;
        for (uint32_t i = 0; i < drawn.free; ++i) {
            write_slot(t, drawn.ticket + i, make_slot<0>(0, drawn.ticket + i + 1, h, nullptr));
        }
    }
    for (uint32_t i = drawn.free; i < n; ++i) {
        const uint32_t sequence = drawn.ticket + i + 1;
        Slot kept;
        for (uint32_t k = 0; k < 4; ++k) {
            kept.packet[k] = part(4 * i + k, sequence);
        }
        if (refused) {
            kept = make_slot<0>(0, sequence, h, nullptr);
        }
        park(s, id, kept, way.kind, way.index, drawn.ticket + i, h);
    }
    ring_worker(t);
    return !refused;
}

// Into the cell of an `ask`. The sequence of a reply is its address: nobody else was given it.
template <uint32_t L>
DENIZEN_HD inline void reply_to_cell(const Shared& s, Address to, const Header& h,
                                     const void* payload)
{
    Slot* cell = s.cells + static_cast<uint64_t>(to.cell()) * s.cell_slots;
    if constexpr (L <= compact_payload) {
        store_compact(cell, to, h.type, h.flags, payload, L);
    } else {
        const uint32_t n = L <= first_payload ? 1 : slots_for(h.length);
        Target t;
        t.slots = cell;
        t.mask = s.cell_slots - 1;
        for (uint32_t i = 0; i < n; ++i) {
            write_slot(
                t, i, make_slot<L>(i, to.value + i, h, static_cast<const unsigned char*>(payload)));
        }
    }
}

// Any message by any way, with a stamp behind its payload. The stamp is drawn before the message
// can be seen: whoever has received it draws greater ones.
DENIZEN_COLD inline bool post_traced(const Shared& s, uint32_t id, const Header& h,
                                     const void* payload, Priority priority, Overflow policy)
{
    const uint64_t now = now_ns();
    const uint64_t stamp = draw_stamp(s, now);
    const auto* bytes = static_cast<const unsigned char*>(payload);
    Header stamped = h;
    stamped.flags |= flag_traced;
    stamped.length += stamp_bytes;
    const auto part_of = [&](uint32_t place, uint32_t sequence) {
        return place == 0
                   ? encode(stamped, sequence)
                   : pack_stamped(bytes, h.length, stamp, (place - 1) * packet_payload, sequence);
    };
    const Address to{h.destination};
    const uint32_t n = slots_for(stamped.length);
    Route route = Route::to_host;
    if (to.is_reply_cell()) {
        Target t;
        t.slots = s.cells + static_cast<uint64_t>(to.cell()) * s.cell_slots;
        t.mask = s.cell_slots - 1;
        for (uint32_t place = 0; place < 4 * n; ++place) {
            write_packet(t, place / 4, place % 4, part_of(place, to.value + place / 4));
        }
    } else {
        const Way way = way_to(s, id, to, priority);
        route = way.route;
        if (!send_slots(s, id, way, stamped, n, policy, part_of)) {
            return false;
        }
    }
    count_route(s, id, route);
    trace_send(s, id, h, stamp, now);
    return true;
}

// Any message by any way; see post_bytes().
template <uint32_t L>
DENIZEN_COLD bool post_any(const Shared& s, uint32_t id, const Header& h, const void* payload,
                           Priority priority, Overflow policy)
{
    const Address to{h.destination};
    if (!reachable(s, to)) {
        bury(s, id, Reason::no_actor, 0, h, payload);
        return true;
    }
    if (tracing(s, id) && (h.flags & (flag_system | flag_traced)) == 0) {
        return post_traced(s, id, h, payload, priority, policy);
    }
    if (to.is_reply_cell()) {
        reply_to_cell<L>(s, to, h, payload);
        count_route(s, id, Route::to_host);
        return true;
    }
    const Way way = way_to(s, id, to, priority);
    const auto* bytes = static_cast<const unsigned char*>(payload);
    const auto part_of = [&](uint32_t place, uint32_t sequence) {
        return part<L>(place, sequence, h, bytes);
    };
    const uint32_t n = L <= first_payload ? 1 : slots_for(h.length);
    const bool sent = send_slots(s, id, way, h, n, policy, part_of);
    if (sent) {
        count_route(s, id, way.route);
    }
    return sent;
}

// A message of several slots, written by all lanes of a warp; each makes the call. False: not by
// this way, and nothing was done.
template <uint32_t L>
DENIZEN_HD inline bool post_by_all(const Shared& s, uint32_t id, const Header& h,
                                   const void* payload, Priority priority)
{
    static_assert(L > first_payload);
    const Address to{h.destination};
    if (to.is_reply_cell() || !exists(s, to) || tracing(s, id)) {
        return false;
    }
    const Way way = way_to(s, id, to, priority);
    const Target t = target(s, id, way.kind, way.index);
    const auto* bytes = static_cast<const unsigned char*>(payload);
    const uint32_t n = slots_for(h.length);
    Drawn drawn{};
    if (lanes::id() == 0) {
        drawn = draw(s, id, way, t, n);
    }
    drawn.ticket = lanes::shuffle(drawn.ticket, 0);
    drawn.free = lanes::shuffle(drawn.free, 0);
    write_parts(t, drawn, lanes::id(), lanes::size, [&](uint32_t place, uint32_t sequence) {
        return part<L>(place, sequence, h, bytes);
    });
    if (lanes::id() == 0) {
        for (uint32_t i = drawn.free; i < n; ++i) {
            const Slot kept = make_slot<L>(i, drawn.ticket + i + 1, h, bytes);
            park(s, id, kept, way.kind, way.index, drawn.ticket + i, h);
        }
        count_route(s, id, way.route);
        ring_worker(t);
    }
    lanes::sync();
    return true;
}

} // namespace detail

// Sends a message of worker `id`; called by one lane. L: its payload bytes if they are known at
// compile time (and then h.length is L), else more than first_payload. `policy`: of the actor.
// False if it was refused.
//
// The common ways of a short message are here, in as few instructions as they need: a lone warp
// runs as fast as its instructions are fetched. All others are detail::post_any()'s.
template <uint32_t L>
DENIZEN_HD inline bool post_bytes(const Shared& s, uint32_t id, const Header& h,
                                  const void* payload, Priority priority, Overflow policy)
{
    if constexpr (L <= first_payload) {
        const auto* bytes = static_cast<const unsigned char*>(payload);
        if (priority == Priority::data && policy == Overflow::wait) {
            const cluster::Address b = detail::own_box(s, id);
            const uint32_t there = h.destination >> 18; // node and worker
            const uint32_t near = there - cluster::load(detail::box::first(b));
            if (near < cluster::load(detail::box::count(b))) {
                const bool self = there == s.node * max_workers + id;
                const uint32_t mask = self ? s.local_mask : s.near_mask;
                const uint32_t credit = cluster::load(detail::box::credit(b, near));
                const uint32_t ticket = cluster::add(detail::box::tail(b, near), 1);
                const Slot content = detail::make_slot<L>(0, ticket + 1, h, bytes);
                if (ticket - credit <= mask) {
                    const cluster::Address slot =
                        detail::ring_to(s, id, b, near) + (ticket & mask) * sizeof(Slot);
                    for (uint32_t k = 0; k < 4; ++k) {
                        self ? cluster::store_own_packet(slot + k * sizeof(Packet),
                                                         content.packet[k])
                             : cluster::store_packet(slot + k * sizeof(Packet), content.packet[k]);
                    }
                } else {
                    const Slot kept = content; // copies: what a call gets by reference lies in
                    const Header header = h;   // local memory
                    park(s, id, kept, RingKind::near, near, ticket, header);
                }
                cluster::add(
                    detail::box::sent(b, detail::near_route(s, id, b, there % max_workers, near)),
                    1);
#if !DENIZEN_ON_DEVICE
                detail::ring_worker(detail::target(s, id, RingKind::near, near));
#endif
                return true;
            }
            const uint32_t w = there - s.node * max_workers;
            const uint32_t workers = cluster::load(detail::box::workers(b)); // 0 while tracing
            if (w < workers) {
                // Acquire on the host: partner of the owner's release in give_credit().
                const uint32_t credit =
                    load<Scope::system, detail::host_acquire>(&s.inbox[w].credit);
                const uint32_t ticket = fetch_add<Scope::gpu>(&s.inbox[w].tail, 1u);
                const Slot content = detail::make_slot<L>(0, ticket + 1, h, bytes);
                if (ticket - credit <= s.inbox_mask) {
                    Slot* slot = s.inboxes + static_cast<uint64_t>(w) * (s.inbox_mask + 1) +
                                 (ticket & s.inbox_mask);
                    for (uint32_t k = 0; k < 4; ++k) {
                        store_packet<Scope::system>(&slot->packet[k], content.packet[k]);
                    }
                } else {
                    const Slot kept = content;
                    const Header header = h;
                    park(s, id, kept, RingKind::inbox, w, ticket, header);
                }
                cluster::add(detail::box::sent(b, Route::gpu), 1);
#if !DENIZEN_ON_DEVICE
                detail::ring_worker(detail::target(s, id, RingKind::inbox, w));
#endif
                return true;
            }
            const Address to{h.destination};
            if (L <= compact_payload && workers != 0 && to.is_reply_cell() &&
                to.cell() < s.cell_count) {
                detail::reply_to_cell<L>(s, to, h, payload);
                cluster::add(detail::box::sent(b, Route::to_host), 1);
                return true;
            }
        }
        unsigned char copy[L == 0 ? 1 : L]; // see above
        copy_bytes(copy, payload, L);
        const Header header = h;
        return detail::post_any<L>(s, id, header, copy, priority, policy);
    } else {
        return detail::post_any<L>(s, id, h, payload, priority, policy);
    }
}

// The same for a message whose type is known at run time only.
DENIZEN_HD inline bool post_raw(const Shared& s, uint32_t id, const Header& h, const void* payload,
                                Priority priority)
{
    return detail::post_any<first_payload + 1>(s, id, h, payload, priority, Overflow::wait);
}

} // namespace denizen
