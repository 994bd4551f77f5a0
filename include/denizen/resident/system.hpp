// SPDX-License-Identifier: Apache-2.0
// The runtime's own messages from worker to worker, and the answers to those of the host.
#pragma once

#include <denizen/resident/post.hpp>

namespace denizen {

namespace detail {

// One slot to a worker's inbox, whatever its header says.
DENIZEN_COLD inline void post_raw(const Shared& s, uint32_t id, const Header& h,
                                  const void* payload)
{
    const Address to{h.destination};
    if (to.node() != 0 || to.worker() >= s.workers) {
        bury(s, id, Reason::no_actor, 0, h, payload);
        return;
    }
    const uint32_t owner = to.worker();
    Slot* slots = s.inboxes + static_cast<uint64_t>(owner) * (s.inbox_mask + 1);
    const uint32_t* credit = &s.inbox[owner].credit;
    const uint32_t room = load<Scope::gpu, detail::host_acquire>(credit) + s.inbox_mask + 1;
    const uint32_t ticket = fetch_add<Scope::gpu>(&s.inbox[owner].tail, 1u);
    Slot content;
    content.packet[0] = encode(h, ticket + 1);
    for (uint32_t k = 1; k < 4; ++k) {
        content.packet[k] = pack(static_cast<const unsigned char*>(payload), h.length,
                                 (k - 1) * packet_payload, ticket + 1);
    }
    Slot* slot = &slots[ticket & s.inbox_mask];
    if (static_cast<int32_t>(room - ticket) > 0) {
        for (int k = 0; k < 4; ++k) {
            store_packet<Scope::system>(&slot->packet[k], content.packet[k]);
        }
    } else {
        park(s, id, content, slot, credit, s.inbox_mask + 1, ticket, owner, h);
    }
    ring_worker(s, owner);
}

} // namespace detail

// Tells the worker of `actor` to do something with it; called by one lane.
DENIZEN_COLD inline void send_system(const Shared& s, uint32_t id, SystemOp op, Address actor,
                                     uint32_t sender, const LifeRequest& request)
{
    const Header h{actor.value, sender, static_cast<uint32_t>(op), flag_system, sizeof request};
    detail::post_raw(s, id, h, &request);
}

// Answers into the reply cell that the host waits on; nothing if an actor has sent the request.
DENIZEN_COLD inline void answer(const Shared& s, uint32_t sender, SystemOp op,
                                const void* payload, uint32_t length)
{
    const Address to{sender};
    if (!to.is_reply_cell() || to.cell() >= s.cell_count) {
        return;
    }
    Slot* cell = s.cells + static_cast<uint64_t>(to.cell()) * s.cell_slots;
    const auto type = static_cast<uint32_t>(op);
    if (length <= compact_payload) {
        detail::store_compact(cell, to, type, flag_system, payload, length);
        return;
    }
    const auto* bytes = static_cast<const unsigned char*>(payload);
    store_packet<Scope::system>(&cell->packet[0],
                                encode({0, 0, type, flag_system, length}, sender));
    for (uint32_t k = 1; k < 4; ++k) {
        store_packet<Scope::system>(
            &cell->packet[k], detail::pack(bytes, length, (k - 1) * packet_payload, sender));
    }
}

} // namespace denizen
