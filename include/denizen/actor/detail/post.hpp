// SPDX-License-Identifier: Apache-2.0
// Sending from a worker, by the path from one address to the other (path.hpp): the ring of a worker
// to itself, a near ring within the cluster, the inbox of a worker of this node, the one that a
// peer keeps for this node, the host's egress ring, or a reply cell.
//
// A send never waits for room, so rings that are full both ways do not deadlock: it draws its
// ticket and, if the slot of that ticket is not free yet, the message is parked in the worker's
// outbox (outbox.hpp) and written later.
//
// What is rare is kept out of line: the path of a message stays short enough for the instruction
// cache. Everything here belongs to worker `id` and is called by its lanes.
#pragma once

#include <denizen/actor/address.hpp>
#include <denizen/actor/detail/dead_letters.hpp>
#include <denizen/actor/detail/handover.hpp>
#include <denizen/actor/detail/outgoing.hpp>
#include <denizen/actor/detail/post_to_host.hpp>
#include <denizen/actor/detail/traced.hpp>
#include <denizen/actor/life.hpp>
#include <denizen/base/lanes.hpp>

namespace denizen {

namespace detail {

// A reply of at most 8 bytes, all in one packet: the host's core polls the cell's line, and each
// further store to it would cost that core one more miss.
DENIZEN_HD inline void store_compact(Slot* cell, Address to, uint32_t type, uint32_t flags,
                                     const uint32_t* words, uint32_t length)
{
    store_packet<Scope::system>(
        &cell->packet[0],
        encode({words[0], words[1], type, flags | flag_compact, length}, to.value));
}

DENIZEN_HD inline void count_route(const Shared& s, uint32_t id, Route route)
{
    cluster::add(box::sent(own_box(s, id), route), 1);
}

// For a message that finds no room: what its actor wants, told to it if that is to drop its oldest.
// A peer's table and actor records lie in its own memory, hence the scope.
DENIZEN_COLD inline Overflow overflow_of(const Shared& s, Address to, Overflow policy)
{
    if (policy == Overflow::wait || policy == Overflow::fail) {
        return policy;
    }
    if (to.is_host() || to.local() >= s.actors_per_worker) {
        return Overflow::wait; // there is none
    }
    const bool here = to.node() == s.node;
    const PeerLink& peer = s.peer[to.node()];
    const uint64_t place = static_cast<uint64_t>(to.worker()) * s.actors_per_worker + to.local();
    if (policy == Overflow::of_peer) {
        const uint32_t type = (load<Scope::system>(&peer.actors[place].kind) & 0xff) - 1;
        if (type >= s.actor_types) { // it has stopped, or is a supervisor
            return Overflow::wait;
        }
        policy = static_cast<Overflow>(s.overflow[type / 32] >> type % 32 * 2 & 3);
    }
    if (policy == Overflow::drop_oldest) {
        fetch_add<Scope::system>(&(here ? s.actor_records : peer.actor_records)[place].drop, 1u);
    }
    return policy;
}

// Fills the tickets of a message that was not sent after all.
DENIZEN_COLD inline void send_nothing(const Shared& s, uint32_t id, const Path& path,
                                      const Target& t, const Drawn& drawn, Header h, uint32_t n)
{
    h.type = static_cast<uint32_t>(SystemOp::none);
    h.flags = flag_system;
    h.length = 0;
    const Outgoing nothing{h, nullptr, 0, 0, 0};
    DENIZEN_ROLLED
    for (uint32_t i = 0; i < drawn.free; ++i) {
        write_parts(t, {drawn.ticket + i, 1}, drawn.ticket + i + 1, nothing, 0, 1);
    }
    park_parts(s, id, path, drawn, nothing, n, true);
}

// Draws n tickets and writes the slots; what has no room is parked. False: the actor's policy is to
// refuse what has no room, and the message was not sent.
DENIZEN_HD inline bool send_slots(const Shared& s, uint32_t id, const Path& path, const Outgoing& m,
                                  uint32_t n, Overflow policy)
{
    const Target t = target(s, id, path.kind, path.index);
    Drawn drawn = draw(s, id, path, t, n);
#if !DENIZEN_ON_DEVICE && DENIZEN_HOSTED
    if (drawn.free != n && path.kind == RingKind::peer && path.index / max_workers == s.node &&
        parked(s, id) == 0) {
        // The first that finds no room to another host: its link's thread may wait for this core,
        // and to park costs as much as to send. What is sent behind it is parked at once.
        if (s.links == nullptr || !s.links->see(*s.links, s.node, id, Duty::no_room)) {
            offer_core(s.status[id].withheld);
        }
        drawn.free = free_slots(t, drawn.ticket, load<Scope::system, host_acquire>(t.credit), n);
    }
#endif
    const bool room = drawn.free == n;
    const bool refused =
        !room && overflow_of(s, Address{m.h.destination}, policy) == Overflow::fail;
    if (refused) {
        send_nothing(s, id, path, t, drawn, m.h, n);
    } else {
        write_parts(t, drawn, drawn.ticket + 1, m, 0, 1);
        if (!room) {
            park_parts(s, id, path, drawn, m, n, false);
        }
    }
    wake(t);
    return !refused;
}

// Into the cell of an `ask`. The sequence of a reply is its address: nobody else was given it.
DENIZEN_HD inline void reply_to_cell(const Shared& s, const Outgoing& m, uint32_t n)
{
    const Address to{m.h.destination};
    Target t;
    t.slots = s.cells + static_cast<uint64_t>(to.cell()) * s.cell_slots;
    t.mask = s.cell_slots - 1;
    if (m.h.length == m.length && m.length <= compact_payload) {
        store_compact(t.slots, to, m.h.type, m.h.flags, reinterpret_cast<const uint32_t*>(m.bytes),
                      m.h.length);
    } else {
        write_parts(t, {0, n}, to.value, m, 0, 1);
    }
}

// Any message by any way; see post_bytes(). `payload`: as outgoing() takes it. A traced message
// gets its stamp before it can be seen: whoever has received it draws greater ones.
DENIZEN_COLD inline bool post_any(const Shared& s, uint32_t id, const Header& given,
                                  const void* payload, Priority priority, Overflow policy)
{
    Header h = given;
    const Address to = s.far.to_short({h.destination});
    if (to.value != h.destination) { // the far address of an actor of this host
        h.destination = to.value;
        policy = Overflow::of_peer;
    }
    if (!reachable(s, to)) {
        bury(s, id, Reason::no_actor, 0, h, payload);
        return true;
    }
    Outgoing m = outgoing(h, payload);
    const bool plain = (h.flags & (flag_system | flag_traced)) == 0;
    const cluster::Address b = own_box(s, id);
    const Stamps stamps = stamps_wanted(b);
    const bool traced = plain && stamps == Stamps::all;
    const bool sampled =
        stamps == Stamps::next && take_sample(s, b) && plain && to.node() == s.node;
    uint64_t now = 0;
    if (traced || sampled) {
        now = now_ns();
        m.stamp = traced ? draw_stamp(s, now) : sample_stamp(s, now);
        m.words = h.length <= first_payload ? 0 : m.words;
        m.h.flags |= flag_traced;
        m.h.length += stamp_bytes;
    }
    const uint32_t n = slots_for(m.h.length);
    Route route = Route::to_host;
    if (to.is_reply_cell()) {
        reply_to_cell(s, m, n);
    } else {
        // An order to another host stays behind what its sender has sent there.
        const bool order = to.is_far() && (h.flags & flag_system) != 0;
        const Path path = path_to(s, id, to, order ? Priority::data : priority);
        route = path.route;
        if (!send_slots(s, id, path, m, n, policy)) {
            return false;
        }
    }
    count_route(s, id, route);
    if (traced) {
        trace_send(s, id, h, m.stamp, now);
    }
    return true;
}

// What post_bytes() leaves to do.
struct Unsent {
    enum Kind : uint32_t { all, nothing, park_near, park_inbox };
    Kind kind = all;
    uint32_t index = 0; // of the ring, whose ticket is drawn and has no room yet
    uint32_t ticket = 0;
};

// `words`: nine.
DENIZEN_COLD inline bool post_unsent(const Shared& s, uint32_t id, const Header& h,
                                     const uint32_t* words, Priority priority, Overflow policy,
                                     const Unsent& unsent)
{
    if (unsent.kind == Unsent::all) {
#if DENIZEN_ON_DEVICE
        if (priority == Priority::data && policy == Overflow::wait &&
            post_to_host(s, id, h, words)) {
            return true;
        }
#endif
        return post_any(s, id, h, words, priority, policy);
    }
    const Slot content = slot_of_words(unsent.ticket + 1, h, words);
    park(s, id, content, unsent.kind == Unsent::park_near ? RingKind::near : RingKind::inbox,
         unsent.index, unsent.ticket, h);
    return true;
}

// A reply of at most 8 bytes into its cell, while sends have no stamp; called by one lane, whose
// worker's box is `b`. False if the destination is no cell.
template <uint32_t L>
DENIZEN_HD inline bool answer(const Shared& s, cluster::Address b, const Header& h,
                              const void* payload)
{
    const Address to{h.destination};
    if (!to.is_reply_cell() || to.cell() >= s.cell_count) {
        return false;
    }
    uint32_t words[2] = {0, 0};
    copy_bytes(words, payload, L);
    store_compact(s.cells + static_cast<uint64_t>(to.cell()) * s.cell_slots, to, h.type, h.flags,
                  words, L);
    cluster::add(box::sent(b, Route::to_host), 1);
    return true;
}

} // namespace detail

// Sends a message of worker `id`; called by one lane. L: its payload bytes if they are known at
// compile time (and then h.length is L), else more than first_payload. `policy`: of the actor.
// `next`: no other lane of the worker sends meanwhile, and what goes to the worker itself may be
// left there. False if it was refused.
//
// The common ways of a short message are here, in as few instructions as they need: a lone warp
// runs as fast as its instructions are fetched. All others are detail::post_unsent()'s, in one call
// at the end.
template <uint32_t L>
DENIZEN_HD inline bool post_bytes(const Shared& s, uint32_t id, const Header& h,
                                  const void* payload, Priority priority, Overflow policy,
                                  [[maybe_unused]] detail::Handover* next = nullptr)
{
    if constexpr (L <= first_payload) {
        const auto* bytes = static_cast<const unsigned char*>(payload);
        const uint32_t there = h.destination >> 18; // node and worker
        if (priority == Priority::data && next != nullptr && there == next->here &&
            next->take<L>(s, h, payload)) {
            return true;
        }
        detail::Unsent unsent;
        if (priority == Priority::data && policy == Overflow::wait) {
            const cluster::Address b = detail::own_box(s, id);
            const detail::box::Ways ways = next != nullptr ? next->ways : detail::box::ways(b);
            const uint32_t near = there - ways.first;
            const uint32_t w = there - s.node * max_workers;
            const uint32_t workers = ways.workers;
            if (near < ways.count) {
                const bool self = near == ways.own;
                const uint32_t credit = cluster::load(detail::box::credit(b, near));
                const cluster::Address ring = detail::ring_to(s, id, b, near);
                const uint32_t sm = cluster::load(detail::box::sm(b));
                const uint32_t window = cluster::window();
                const cluster::Address tail = detail::box::tail(b, near);
                const uint32_t ticket =
                    next != nullptr ? cluster::load(tail) : cluster::add(tail, 1);
                if (next != nullptr) { // no other lane sends meanwhile
                    cluster::store_own(tail, ticket + 1);
                }
                const Slot content = detail::make_slot<L>(ticket + 1, h, bytes);
                const uint32_t used = ticket - credit;
                unsent = {detail::Unsent::park_near, near, ticket};
                if (self) {
                    if (used <= s.local_mask) {
                        const cluster::Address slot = ring + (ticket & s.local_mask) * sizeof(Slot);
                        for (uint32_t k = 0; k < 4; ++k) {
                            cluster::store_own_packet(slot + k * sizeof(Packet), content.packet[k]);
                        }
                        unsent.kind = detail::Unsent::nothing;
                    }
                    cluster::add(detail::box::sent(b, Route::worker), 1);
                } else {
                    if (used <= s.near_mask) {
                        const cluster::Address slot = ring + (ticket & s.near_mask) * sizeof(Slot);
                        for (uint32_t k = 0; k < 4; ++k) {
                            cluster::store_packet(window, slot + k * sizeof(Packet),
                                                  content.packet[k]);
                        }
                        unsent.kind = detail::Unsent::nothing;
                    }
                    const bool same_sm = near - sm < s.per_sm;
                    cluster::add(detail::box::sent(b, same_sm ? Route::sm : Route::cluster), 1);
                }
#if !DENIZEN_ON_DEVICE
                detail::wake(detail::target(s, id, RingKind::near, near));
#endif
            } else if (w < workers) {
                // Acquire on the host: partner of the owner's release in give_credit().
                const uint32_t credit =
                    load<Scope::system, detail::host_acquire>(&s.inbox[w].credit);
                const uint32_t ticket = fetch_add<Scope::gpu>(&s.inbox[w].tail, 1u);
                if (ticket - credit <= s.inbox_mask) {
                    const Slot content = detail::make_slot<L>(ticket + 1, h, bytes);
                    Slot* slot = s.inboxes + static_cast<uint64_t>(w) * (s.inbox_mask + 1) +
                                 (ticket & s.inbox_mask);
                    for (uint32_t k = 0; k < 4; ++k) {
                        store_packet<Scope::system>(&slot->packet[k], content.packet[k]);
                    }
                    unsent.kind = detail::Unsent::nothing;
                } else {
                    unsent = {detail::Unsent::park_inbox, w, ticket};
                }
                cluster::add(detail::box::sent(b, Route::gpu), 1);
#if !DENIZEN_ON_DEVICE
                detail::wake(detail::target(s, id, RingKind::inbox, w));
            } else if (workers != 0 && detail::post_to_host<L>(s, b, h, bytes)) {
                unsent.kind = detail::Unsent::nothing;
#endif
            } else if constexpr (L <= compact_payload) {
                if (workers != 0 && detail::answer<L>(s, b, h, payload)) {
                    unsent.kind = detail::Unsent::nothing;
                }
            }
        }
        if (unsent.kind != detail::Unsent::nothing) {
            uint32_t words[first_payload / 4] = {}; // copies: what a call gets by reference lies in
            copy_bytes(words, payload, L);          // local memory
            const Header header = h;
            const detail::Unsent what = unsent;
            return detail::post_unsent(s, id, header, words, priority, policy, what);
        }
        return true;
    } else {
        return detail::post_any(s, id, h, payload, priority, policy);
    }
}

// The same for a message whose type is known at run time only, or where code is to be short.
DENIZEN_COLD inline bool post_raw(const Shared& s, uint32_t id, const Header& h,
                                  const void* payload, Priority priority,
                                  Overflow policy = Overflow::wait)
{
    if (h.length > first_payload) {
        return detail::post_any(s, id, h, payload, priority, policy);
    }
    uint32_t words[first_payload / 4] = {};
    copy_rolled(words, payload, h.length);
    return detail::post_any(s, id, h, words, priority, policy);
}

} // namespace denizen
