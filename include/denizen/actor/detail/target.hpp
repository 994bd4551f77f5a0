// SPDX-License-Identifier: Apache-2.0
// The rings that a worker writes, each as a sender sees it, whatever memory it lies in. Called by
// lanes of worker `id`.
#pragma once

#include <denizen/actor/detail/layout.hpp>
#include <denizen/actor/detail/near.hpp>
#include <denizen/base/cluster.hpp>
#include <denizen/wire/wait.hpp>

namespace denizen::detail {

// A ring.
struct Target {
    Slot* slots = nullptr;      // in global memory; null for a near ring,
    cluster::Address near = {}; // whose slots lie here
    bool own = false;           // in this worker's box
    uint32_t mask = 0;
    uint32_t* tail = nullptr; // null for a near ring
    const uint32_t* credit = nullptr;
    uint32_t* credit_seen = nullptr;       // as last read, where it lies across the bus
    [[maybe_unused]] Bell* bell = nullptr; // of the worker that reads it, which may sleep (CPU)
};

// How many rings for data a PeerLink has, before those for urgent messages.
DENIZEN_HD inline uint32_t data_rings_to(const Shared& s, uint32_t node)
{
    return node == s.node ? s.far.hosts : s.workers;
}

// `index`: the worker, or for near rings the near worker, or for peers node << 11 | worker, and of
// the own node, node << 11 | host.
DENIZEN_HD inline Target target(const Shared& s, uint32_t id, RingKind kind, uint32_t index)
{
    Target t;
    switch (kind) {
    case RingKind::near: {
        const cluster::Address b = own_box(s, id);
        const uint32_t worker = cluster::load(box::first(b)) % max_workers + index;
        t.own = worker == id;
        t.near = ring_to(s, id, b, index);
        t.mask = t.own ? s.local_mask : s.near_mask;
        t.bell = s.bells + worker;
        break;
    }
    case RingKind::inbox:
        t.slots = s.inboxes + static_cast<uint64_t>(index) * (s.inbox_mask + 1);
        t.mask = s.inbox_mask;
        t.tail = &s.inbox[index].tail;
        t.credit = &s.inbox[index].credit;
        t.bell = s.bells + index;
        break;
    case RingKind::urgent:
        t.slots = s.urgent_inboxes + static_cast<uint64_t>(index) * (s.urgent_mask + 1);
        t.mask = s.urgent_mask;
        t.tail = &s.urgent_inbox[index].tail;
        t.credit = &s.urgent_inbox[index].credit;
        t.bell = s.bells + index;
        break;
    case RingKind::peer: {
        const PeerLink& peer = s.peer[index / max_workers];
        const uint32_t w = index % max_workers;
        t.slots = peer.inboxes + static_cast<uint64_t>(w) * (s.inbox_mask + 1);
        t.mask = s.inbox_mask;
        t.tail = peer.tails + w * credit_stride;
        t.credit = peer.credits + w * credit_stride;
        t.credit_seen = index / max_workers == s.node ? t.tail + 1 : nullptr;
        t.bell = peer.bells + w;
        break;
    }
    case RingKind::peer_urgent: { // behind the others: PeerLink
        const PeerLink& peer = s.peer[index / max_workers];
        const uint32_t w = index % max_workers;
        const uint32_t data = data_rings_to(s, index / max_workers);
        t.slots = peer.inboxes + static_cast<uint64_t>(data) * (s.inbox_mask + 1) +
                  static_cast<uint64_t>(w) * (s.urgent_mask + 1);
        t.mask = s.urgent_mask;
        t.tail = peer.tails + (data + w) * credit_stride;
        t.credit = peer.credits + (data + w) * credit_stride;
        t.credit_seen = index / max_workers == s.node ? t.tail + 1 : nullptr;
        t.bell = peer.bells + w;
        break;
    }
    case RingKind::egress:
        t.slots = s.egress;
        t.mask = s.egress_mask;
        t.tail = &s.board->egress_tail;
        t.credit = s.egress_credit;
        t.credit_seen = &s.board->egress_credit;
        break;
    }
    return t;
}

// Wakes the CPU worker that may sleep on the other side.
DENIZEN_HD inline void wake([[maybe_unused]] const Target& t)
{
#if !DENIZEN_ON_DEVICE && DENIZEN_HOSTED
    if (t.bell != nullptr) {
        ring_bell(&t.bell->bell, &t.bell->sleeping);
    }
#endif
}

DENIZEN_HD inline void write_slot(const Target& t, uint32_t ticket, const Slot& content)
{
    const uint32_t place = ticket & t.mask;
    const auto near = t.near + static_cast<uint32_t>(place * sizeof(Slot));
    if (t.slots != nullptr) {
        for (uint32_t k = 0; k < 4; ++k) {
            store_packet<Scope::system>(&t.slots[place].packet[k], content.packet[k]);
        }
    } else if (t.own) {
        for (uint32_t k = 0; k < 4; ++k) {
            cluster::store_own_packet(near + k * sizeof(Packet), content.packet[k]);
        }
    } else {
        for (uint32_t k = 0; k < 4; ++k) {
            cluster::store_packet(near + k * sizeof(Packet), content.packet[k]);
        }
    }
}

} // namespace denizen::detail
